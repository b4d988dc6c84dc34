"""Image classifiers of torchvision, with published weights or the user's."""

from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from adapters.base import AdapterError, Capabilities
from adapters.local.files import digest_of, fetch, neither_here_nor_published, not_here
from adapters.local.labels import digest, distinct, read_labels
from adapters.local.network import Activation, Reading, TorchNetwork, TorchOptions
from adapters.local.preprocessing import Preprocessing, Triple
from adapters.options import did_you_mean

if TYPE_CHECKING:
    import torch
    from torchvision.models import WeightsEnum


class TorchvisionModel(TorchNetwork):
    """An image classifier of torchvision: torchvision:resnet50, with published weights or your own.

    Published weights have their own preprocessing and labels. Your own weights need ``labels``, and use the
    preprocessing of the published weights, overridden by ``size``, ``resize``, ``mean`` and ``std``.
    """

    class Options(TorchOptions):
        target: str
        """the architecture's name in torchvision.models."""
        weights: str = "DEFAULT"
        """published weights, such as IMAGENET1K_V2, or your own file: a state dict (.pth, .pt) or .safetensors."""
        labels: str | tuple[str, ...] | None = None
        """the labels of your own weights: a file with one label per line, or a list."""
        activation: Activation = "softmax"
        """softmax for exclusive labels, sigmoid for independent labels."""
        size: int | None = Field(None, ge=1)
        """side of the network's input in pixels, for your own weights."""
        resize: int | None = Field(None, ge=1)
        """the image's shorter side before the centre is cropped, for your own weights."""
        mean: Triple | None = None
        """subtracted from the channels (RGB in 0-1), for your own weights."""
        std: Triple | None = None
        """divides the channels, for your own weights."""

        @property
        def preprocessing(self) -> dict[str, Any]:
            """The overrides of the published preprocessing."""
            size = (self.size, self.size) if self.size else None
            wanted = {"size": size, **self.model_dump(include={"resize", "mean", "std"})}
            return {name: value for name, value in wanted.items() if value is not None}

    capabilities = Capabilities(scale="softmax of the outputs", batch=16)

    def __init__(self, options: Options) -> None:
        self._architecture, name = options.target, f"torchvision:{options.target}"
        published, given = _published(options.target, name), options.preprocessing
        self._published = None if Path(options.weights).is_file() else _chosen(published, options.weights, name)
        chosen = self._published or published["DEFAULT"]
        if self._published is not None:
            if given or options.labels is not None:
                raise AdapterError(
                    f"{name}: {', '.join([*given, *(['labels'] if options.labels else [])])} cannot be given with the "
                    f"published weights {self._published.name}, which have their own"
                )
            names = distinct(chosen.meta["categories"])
            self._file = _on_disk(self._published, name, download=options.download)
        else:
            if options.labels is None:
                raise AdapterError(f"{name}: your own weights need labels: set the option labels")
            names = read_labels(options.labels)
            self._file = Path(options.weights)
        try:
            self._preprocessing = replace(_preprocessing(chosen), **given)
        except ValueError as error:
            raise AdapterError(f"{name}: {error}") from error
        super().__init__(
            name,
            options,
            reading=Reading(names, options.activation, options.top_k),
            packages=["torchvision"],
            preprocessing=asdict(self._preprocessing),
            labels_sha256=digest(names),
            activation=options.activation,
        )

    @cached_property
    def model(self) -> str:
        """The architecture, the weights' name and their file's sha256."""
        found = digest_of([self._file])
        if self._published is None:
            return f"{self._architecture}, weights sha256 {found}"
        expected = _sha256_starts(self._file.name)
        if not found.startswith(expected):
            raise AdapterError(
                f"{self.name}: {self._file} is damaged (its sha256 is {found[:8]}…, not {expected}…): "
                "delete it and download it again"
            )
        return f"{self._architecture}, weights {self._published.name} sha256 {found}"

    def _load(self) -> "torch.nn.Module":
        from torchvision.models import get_model

        assert self.model  # noqa: S101 -- checks the file's digest before it is opened
        network: torch.nn.Module
        if self._published is not None:
            network = get_model(self._architecture, weights=self._published, progress=False)
            return network
        network = get_model(self._architecture, weights=None, num_classes=len(self._reading.names))
        try:
            network.load_state_dict(_state_dict(self._file))
        except RuntimeError as error:
            problems = "; ".join(line.strip() for line in str(error).splitlines()[1:4])
            raise AdapterError(
                f"{self.name}: {self._file} does not fit {self._architecture} with {len(self._reading.names)} labels: "
                f"{problems}"
            ) from error
        return network


def _published(architecture: str, name: str) -> "type[WeightsEnum]":
    """Return the published weights of an architecture."""
    import torchvision.models
    from torchvision.models import get_model_weights, list_models

    known = list_models(module=torchvision.models)
    if architecture not in known:
        raise AdapterError(
            f"{name}: torchvision has no image classifier {architecture!r}{did_you_mean(architecture, known, most=3)}"
        )
    found: type[WeightsEnum] = get_model_weights(architecture)
    return found


def _chosen(published: "type[WeightsEnum]", weights: str, name: str) -> "WeightsEnum":
    if weights not in published.__members__:
        raise neither_here_nor_published(name, weights, [member.name for member in published])
    return published[weights]


def _on_disk(weights: "WeightsEnum", name: str, *, download: bool) -> Path:
    """Return the file of published weights in torchvision's cache, downloaded if allowed; else AdapterError."""
    from torch.hub import get_dir

    path = Path(get_dir(), "checkpoints", str(weights.url).rpartition("/")[2])
    if not path.is_file():
        architecture = name.partition(":")[2]
        if not download:
            code = f"from torchvision.models import get_model; get_model('{architecture}', weights='{weights.name}')"
            what = f"the weights {weights.name} ({path}) are"
            instead = "a file of your own with the option weights"
            raise not_here(name, what, command=f'python -c "{code}"', instead=instead)
        fetch(weights.url, path, sha256_starts=_sha256_starts(path.name))
    return path


def _sha256_starts(file_name: str) -> str:
    """Return the beginning of the digest in the name of torchvision's files: ``resnet50-11ad3fa6.pth``."""
    stem = file_name.partition(".")[0]
    return stem.rpartition("-")[2] if "-" in stem else ""


def _preprocessing(weights: "WeightsEnum") -> Preprocessing:
    """Return the preprocessing that published weights declare."""
    preset = weights.transforms()
    side = preset.crop_size[0]
    return Preprocessing(
        size=(side, side),
        resize=preset.resize_size[0],
        mean=tuple(preset.mean),
        std=tuple(preset.std),
        interpolation=preset.interpolation.value,
    )


def _state_dict(path: Path) -> "dict[str, torch.Tensor]":
    """Load weights from a user's file without executing code in it."""
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise AdapterError(
            f"{path} is not a state dict (a .pth written by torch.save(network.state_dict(), ...), or .safetensors): "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        ) from error
    state = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(state, dict):
        raise AdapterError(f"{path} is not a state dict but a {type(state).__name__}")
    # Networks wrapped for several devices are saved with this prefix.
    return {str(key).removeprefix("module."): value for key, value in state.items()}
