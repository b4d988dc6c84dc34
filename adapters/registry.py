"""The adapters there are, and how one is made from its name and options. Loads none before it is needed.

Other packages add adapters by an entry point of the group ``counterslope.adapters`` that names a class; a name that is
built in stays built in.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from adapters.base import Adapter, AdapterError, Capabilities, Service
from adapters.options import TARGET, AdapterOptions, Option, did_you_mean, option_rows, read_options
from adapters.packages import needed

GROUP = "counterslope.adapters"
BUILT_IN = {
    "azure": "adapters.cloud.azure:Azure",
    "clarifai": "adapters.cloud.clarifai:Clarifai",
    "clip": "adapters.local.clip:Clip",
    "command": "adapters.command:Command",
    "face-attributes": "adapters.local.face_attributes:FaceAttributes",
    "google": "adapters.cloud.google:Google",
    "http": "adapters.http:Http",
    "huggingface": "adapters.local.huggingface:HuggingFace",
    "imagga": "adapters.cloud.imagga:Imagga",
    "onnx": "adapters.local.onnx:OnnxModel",
    "openai": "adapters.cloud.openai:OpenAI",
    "opencv": "adapters.local.opencv:OpenCV",
    "planted": "adapters.local.planted:Planted",
    "python": "adapters.python:PythonFunction",
    "rekognition": "adapters.cloud.rekognition:Rekognition",
    "replay": "adapters.replay:Replay",
    "torchvision": "adapters.local.torchvision_model:TorchvisionModel",
}
_ENDED = {"watson": "IBM Watson Visual Recognition ended on 1 December 2021; replay:watson reads recorded answers"}

AdapterClass = type[Any]


@dataclass(frozen=True)
class Description:
    """What an adapter's class declares: needs no credentials, no network and no package that it would load."""

    name: str  # by which it is registered
    usage: str  # how it is named: ``opencv``, ``onnx:TARGET``, or ``google[:TARGET]`` where it can do without one
    about: str = ""  # what it is; the first line is a summary
    target: str = ""  # what the target is
    capabilities: Capabilities | None = None  # its options may change some of it
    options: tuple[Option, ...] = ()
    problem: str | None = None  # why it cannot be used here, e.g. a package that is not installed

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return self.about.partition("\n")[0]


def names() -> list[str]:
    """Every registered adapter, built in or added by an installed package, in alphabetical order."""
    return sorted({*BUILT_IN, *_added()})


def create(spec: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """The adapter that ``spec`` names: ``name``, or ``name:target`` where it takes a target.

    Raises:
        AdapterError: an unknown name or option, a value that does not fit, or a package that is missing.
    """
    name, colon, target = spec.partition(":")
    adapter_class, given = load(name), dict(options or {})
    model = _options_model(adapter_class)
    wanted = model.model_fields.get(TARGET)
    if TARGET in given:
        raise AdapterError(f"the adapter {spec!r}: the target is no option: write {name}:{given[TARGET]}")
    if wanted is None and colon:
        raise AdapterError(f"the adapter {name!r} takes nothing after the colon of {spec!r}")
    if wanted is not None:
        if wanted.is_required() and not target:
            raise AdapterError(f"the adapter {name!r} needs a target: write {name}:... ({describe(name).summary})")
        given[TARGET] = target
    with needed(spec):
        read = read_options(spec, model, given)
        made: Adapter = adapter_class() if model is AdapterOptions else adapter_class(read)
        return made


def option_names(spec: str) -> tuple[str, ...]:
    """The names of an adapter's options; AdapterError where there is no such adapter."""
    return tuple(row.name for row in option_rows(_options_model(load(spec.partition(":")[0]))))


def describe(name: str) -> Description:
    """What an adapter's class declares; a target behind the colon is passed over. AdapterError as `load`."""
    name = name.partition(":")[0]
    adapter_class = load(name)
    model = _options_model(adapter_class)
    target = model.model_fields.get(TARGET)
    written = (inspect.getdoc(adapter_class) or "").partition("\nRaises:\n")[0].replace("``", "").strip()
    about = "\n\n".join(" ".join(paragraph.split()) for paragraph in written.split("\n\n"))
    declared = getattr(adapter_class, "capabilities", None)
    return Description(
        name=name,
        usage=name if target is None else f"{name}:TARGET" if target.is_required() else f"{name}[:TARGET]",
        about=about,
        target=(target.description or "") if target else "",
        capabilities=declared if isinstance(declared, Capabilities) else None,
        options=option_rows(model),
    )


def describe_all() -> list[Description]:
    """Every registered adapter; one that cannot be loaded is there with its problem."""
    rows = []
    for name in names():
        try:
            rows.append(describe(name))
        except AdapterError as error:
            rows.append(Description(name, usage=name, problem=str(error)))
    return rows


def lifecycle(service: Service) -> str:
    """Whether a service is there, in two words."""
    if service.lifecycle == "live":
        return "live"
    return f"{'ends' if service.lifecycle == 'ends' else 'ended'} {service.ends or ''}".strip()


def load(name: str) -> AdapterClass:
    """The class of an adapter; AdapterError for an unknown name, or where a package is missing."""
    added = {} if name in BUILT_IN else _added()
    if name in BUILT_IN:
        place = EntryPoint(name, BUILT_IN[name], GROUP)
    elif name in added:
        place = added[name]
    elif name in _ENDED:
        raise AdapterError(f"there is no adapter {name!r}: {_ENDED[name]}")
    else:
        raise AdapterError(
            f"there is no adapter {name!r}{did_you_mean(name, names()) or '.'} Known: {', '.join(names())}"
        )
    with needed(name):
        try:
            found: AdapterClass = place.load()
        except AttributeError as error:
            raise AdapterError(f"the entry point {name} = {place.value} names nothing: {error}") from error
    return found


def _added() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _options_model(adapter_class: AdapterClass) -> type[AdapterOptions]:
    model: type[AdapterOptions] = getattr(adapter_class, "Options", AdapterOptions)
    return model
