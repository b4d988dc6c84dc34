"""Which classifiers there are, and how one is made from its name and options. Loads none before it is asked for.

A classifier's options are the keyword-only parameters of its class; their annotations say what fits. A class that takes
a positional parameter ``target`` is named with it: ``python:module:function``; one with a default may be left out.
Other packages add classifiers by an entry point of the group ``counterslope.adapters`` that names such a class; a name
that is built in stays built in.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from adapters.base import Adapter, AdapterError, Service

GROUP = "counterslope.adapters"
BUILT_IN = {
    "azure": "adapters.azure:Azure",
    "clarifai": "adapters.clarifai:Clarifai",
    "clip": "adapters.clip:Clip",
    "command": "adapters.command:Command",
    "face-attributes": "adapters.face_attributes:FaceAttributes",
    "google": "adapters.google:Google",
    "http": "adapters.http:Http",
    "huggingface": "adapters.huggingface:HuggingFace",
    "imagga": "adapters.imagga:Imagga",
    "onnx": "adapters.onnx_model:OnnxModel",
    "openai": "adapters.openai:OpenAI",
    "opencv": "adapters.opencv:OpenCV",
    "planted": "adapters.planted:Planted",
    "python": "adapters.python_function:PythonFunction",
    "rekognition": "adapters.rekognition:Rekognition",
    "replay": "adapters.replay:Replay",
    "torchvision": "adapters.torchvision_model:TorchvisionModel",
    "watson": "adapters.watson:Watson",
}

Factory = Callable[..., Adapter]


@dataclass(frozen=True)
class Description:
    """A classifier as it is listed.

    Attributes:
        name: as it is asked for.
        summary: what it is, in one line.
        remote: images leave this machine; None where that is not known.
        labels: how many labels it can return; None where they are not known beforehand.
        options: their names.
        lifecycle: "live", "ends 2028-09-25" or "ended 2021-12-01" for a service; None for a local classifier.
        usd_per_1000: US$ for a thousand images and one feature; None where nothing is charged or nothing is known.
        problem: why it cannot be used here, e.g. a package that is not installed.
    """

    name: str
    summary: str
    remote: bool | None
    labels: int | None
    options: tuple[str, ...]
    lifecycle: str | None = None
    usd_per_1000: float | None = None
    problem: str | None = None


def names() -> list[str]:
    """Every registered classifier, built in or added by an installed package, in alphabetical order."""
    return sorted({*BUILT_IN, *_added()})


def create(spec: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """The classifier that ``spec`` names: ``name``, or ``name:target`` where it takes a target.

    Raises:
        AdapterError: an unknown name or option, a value that does not fit, or a package that is missing.
    """
    name, colon, target = spec.partition(":")
    factory = load(name)
    wanted = inspect.signature(factory).parameters.get("target")
    takes_target = wanted is not None
    if wanted is not None and wanted.default is wanted.empty and not target:
        raise AdapterError(f"the adapter {name!r} needs to know which one: write {name}:... ({_summary(factory)})")
    if colon and not takes_target:
        raise AdapterError(f"the adapter {name!r} takes nothing after the colon of {spec!r}")
    arguments = _checked_options(spec, factory, options or {})
    with _import_errors(spec):
        return factory(target, **arguments) if takes_target else factory(**arguments)


def option_names(spec: str) -> tuple[str, ...]:
    """The options of a classifier.

    Raises:
        AdapterError: an unknown name, or a package that is missing.
    """
    return tuple(parameter.name for parameter in options_of(load(spec.partition(":")[0])))


def describe() -> list[Description]:
    """Every registered classifier; one that cannot be loaded is listed with its problem."""
    rows = []
    for name in names():
        try:
            factory = load(name)
        except AdapterError as error:
            rows.append(Description(name, summary="", remote=None, labels=None, options=(), problem=str(error)))
            continue
        declared = getattr(factory, "capabilities", None)
        labels, service = getattr(declared, "labels", None), getattr(declared, "service", None)
        rows.append(
            Description(
                name,
                summary=_summary(factory),
                remote=getattr(declared, "remote", None),
                labels=None if labels is None else len(labels),
                options=tuple(parameter.name for parameter in options_of(factory)),
                lifecycle=None if service is None else lifecycle(service),
                usd_per_1000=None if service is None or service.price is None else service.price.usd_per_1000,
            )
        )
    return rows


def lifecycle(service: Service) -> str:
    """Whether a service is there, in two words."""
    if service.lifecycle == "live":
        return "live"
    return f"{'ends' if service.lifecycle == 'ends' else 'ended'} {service.ends or ''}".strip()


def _added() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load(name: str) -> Factory:
    """The class that makes a classifier, without its target.

    Raises:
        AdapterError: an unknown name, or a package that is missing.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        with _import_errors(name):
            loaded: Factory = getattr(import_module(module), attribute)
        return loaded
    entry = _added().get(name)
    if entry is None:
        nearest = get_close_matches(name, names(), n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise AdapterError(f"there is no adapter {name!r}.{hint} Known: {', '.join(names())}")
    with _import_errors(name):
        try:
            added: Factory = entry.load()
        except AttributeError as error:
            raise AdapterError(f"the entry point {name} = {entry.value} names nothing: {error}") from error
    return added


@contextmanager
def _import_errors(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise AdapterError(
            f"the adapter {name!r} needs the package {package!r}, which is not installed: pip install {package}"
        ) from error
    except ImportError as error:
        raise AdapterError(f"the adapter {name!r} cannot be loaded: {error}") from error


def _summary(factory: Factory) -> str:
    return (inspect.getdoc(factory) or "").partition("\n")[0].replace("``", "")


def options_of(factory: Factory) -> list[inspect.Parameter]:
    """Its options, as they stand in its signature."""
    parameters = inspect.signature(factory, eval_str=True).parameters.values()
    return [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]


def _checked_options(spec: str, factory: Factory, options: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, converted to what the factory's annotations say."""
    from pydantic import ConfigDict, ValidationError, create_model

    known = {parameter.name: parameter for parameter in options_of(factory)}
    unknown = [name for name in options if name not in known]
    if unknown:
        listed = ", ".join(known) if known else "none"
        raise AdapterError(f"the adapter {spec!r} has no option {unknown[0]!r}. Its options: {listed}")
    fields: dict[str, Any] = {
        name: (
            Any if parameter.annotation is parameter.empty else parameter.annotation,
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for name, parameter in known.items()
    }
    model = create_model("Options", __config__=ConfigDict(arbitrary_types_allowed=True), **fields)
    try:
        values = model.model_validate(dict(options))
    except ValidationError as error:
        problems = (
            f"option {'.'.join(str(part) for part in problem['loc'])!r}: {problem['msg']}" for problem in error.errors()
        )
        raise AdapterError(f"the adapter {spec!r}: {'; '.join(problems)}") from error
    return {name: getattr(values, name) for name in options}
