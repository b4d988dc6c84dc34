"""The registry of adapters, which are imported only when needed.

Other packages add adapters by entry points of the group ``counterslope.adapters`` that name a class. They cannot
replace built-in adapters.
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
    """An adapter class's declaration, available without credentials, network and optional packages."""

    name: str  # in the registry
    usage: str  # ``opencv``, ``onnx:TARGET``, or ``google[:TARGET]`` if the target is optional
    about: str = ""  # description; the first line is a summary
    target: str = ""  # description of the target
    capabilities: Capabilities | None = None  # may depend on options
    options: tuple[Option, ...] = ()
    problem: str | None = None  # why it cannot be used here, e.g. a package that is not installed

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.about.partition("\n")[0]


def names() -> list[str]:
    """Return the names of all adapters, built in or added by installed packages, in alphabetical order."""
    return sorted({*BUILT_IN, *_added()})


def create(spec: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """Construct an adapter from ``name`` or ``name:target`` and its options.

    Raises:
        AdapterError: an unknown name or option, an invalid value, or a missing package.
    """
    name, colon, target = spec.partition(":")
    adapter_class, given = load(name), dict(options or {})
    model = _options_model(adapter_class)
    wanted = model.model_fields.get(TARGET)
    if TARGET in given:
        raise AdapterError(f"the adapter {spec!r}: the target is not an option: write {name}:{given[TARGET]}")
    if wanted is None and colon:
        raise AdapterError(f"the adapter {name!r} takes no target: write {name}, not {spec!r}")
    if wanted is not None:
        if wanted.is_required() and not target:
            raise AdapterError(f"the adapter {name!r} needs a target: write {name}:... ({describe(name).summary})")
        given[TARGET] = target
    with needed(spec):
        read = read_options(spec, model, given)
        adapter: Adapter = adapter_class() if model is AdapterOptions else adapter_class(read)
        return adapter


def option_names(spec: str) -> tuple[str, ...]:
    """Return the names of an adapter's options; AdapterError if there is no such adapter."""
    return tuple(row.name for row in option_rows(_options_model(load(spec.partition(":")[0]))))


def describe(name: str) -> Description:
    """Describe an adapter by its name, with or without a target; AdapterError as `load`."""
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
    """Describe all adapters; one that cannot be loaded is described by its problem."""
    rows = []
    for name in names():
        try:
            rows.append(describe(name))
        except AdapterError as error:
            rows.append(Description(name, usage=name, problem=str(error)))
    return rows


def lifecycle(service: Service) -> str:
    """Return "live", or when the service ends or ended."""
    if service.lifecycle == "live":
        return "live"
    return f"{'ends' if service.lifecycle == 'ends' else 'ended'} {service.ends or ''}".strip()


def load(name: str) -> AdapterClass:
    """Import the class of an adapter; AdapterError for an unknown name or a missing package."""
    if name in BUILT_IN:
        place = EntryPoint(name, BUILT_IN[name], GROUP)
    elif name in (added := _added()):
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
            raise AdapterError(f"the entry point {name} = {place.value} cannot be resolved: {error}") from error
    return found


def _added() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _options_model(adapter_class: AdapterClass) -> type[AdapterOptions]:
    model: type[AdapterOptions] = getattr(adapter_class, "Options", AdapterOptions)
    return model
