"""Base classes of local networks: options, batches, labels from outputs, and the set-up of PyTorch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import Field

from adapters.answers import LabelAnswers, to_answer
from adapters.base import AdapterError, Capabilities, Label, RawAnswer
from adapters.local.preprocessing import Preprocessing, map_pixels, pixels
from adapters.options import AdapterOptions, MadeFromOptions, Presence

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

Activation = Literal["softmax", "sigmoid", "none"]
DType = Literal["float32", "float16", "bfloat16"]


class NetworkOptions(AdapterOptions):
    """Options of all networks."""

    top_k: int | None = Field(None, ge=1)
    """number of highest scores to return; default: all."""
    presence: Presence = 0.5


class TorchOptions(NetworkOptions):
    """Options of all PyTorch networks."""

    device: str = "cpu"
    """cpu, cuda, cuda:1, mps."""
    dtype: DType = "float32"
    """the precision of the network."""
    batch: int = Field(16, ge=1, le=4096)
    """images per batch."""
    download: bool = False
    """download published weights that are not on this machine."""


@dataclass(frozen=True)
class Reading:
    """How a network's outputs become labels."""

    names: tuple[str, ...]  # the label of each output
    # "softmax" for exclusive labels, "sigmoid" for independent labels, "none" if the outputs are scores in 0-1 already.
    activation: Activation = "softmax"
    top_k: int | None = None  # number of highest scores to return; None: all

    def labels(self, outputs: "NDArray[np.floating[Any]]") -> list[Label]:
        """Convert the outputs ``(labels,)`` of one image; ValueError if they are not finite, or not scores."""
        import numpy as np

        values = outputs.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError("the network's outputs for this image are not finite numbers")
        if self.activation == "softmax":
            powers = np.exp(values - values.max())
            scores = powers / powers.sum()
        elif self.activation == "sigmoid":
            scores = np.exp(-np.logaddexp(0, -values))
        elif values.min() < 0 or values.max() > 1:
            raise ValueError(
                f"the network's outputs ({values.min():.3g} to {values.max():.3g}) are not scores in 0-1: "
                "set the option activation to softmax or sigmoid"
            )
        else:
            scores = values
        order = range(len(scores)) if self.top_k is None else np.argsort(-scores, kind="stable")[: self.top_k]
        return [Label(self.names[index], float(scores[index])) for index in order]


class LocalNetwork(LabelAnswers, MadeFromOptions, ABC):
    """A network on this machine.

    Batches are padded to full size, so that the last digits of an answer do not depend on the number of images.

    Args:
        name: the adapter's name within a run.
        options: the adapter's options.
        reading: how outputs become labels.
        batch: images per batch.
        processes: whether copies of it may be queried in several processes.

    Raises:
        AdapterError: ``top_k`` exceeds the number of labels.
    """

    name: str
    parameters: Mapping[str, Any]
    capabilities: Capabilities
    _preprocessing: Preprocessing

    def __init__(
        self, name: str, options: NetworkOptions, *, reading: Reading, batch: int, processes: bool = True
    ) -> None:
        if reading.top_k is not None and reading.top_k > len(reading.names):
            raise AdapterError(
                f"the adapter {name!r}: option 'top_k' must be in 1-{len(reading.names)}, as there are "
                f"{len(reading.names)} labels, not {reading.top_k}"
            )
        self.name, self._options = name, options
        self._reading = reading
        self.capabilities = Capabilities(
            labels=reading.names,
            scale="0-1" if reading.activation == "none" else f"{reading.activation} of the outputs",
            presence=options.presence,
            top_k=reading.top_k,
            batch=batch,
            processes=processes,
        )

    @property
    @abstractmethod
    def model(self) -> str:
        """The version of the network; see ``Adapter``."""

    def network_input(self, image: bytes) -> "NDArray[np.float32] | None":
        """See ``Differentiable``."""
        return self._prepare(image)

    def map_on_input(self, image: bytes, regions: "NDArray[np.uint8]") -> "NDArray[np.uint8]":
        """See ``Differentiable``."""
        return map_pixels(regions, self._preprocessing)

    def _prepare(self, image: bytes) -> "NDArray[np.float32]":
        """Convert an image to the network's input; ValueError if it is not readable."""
        return pixels(image, self._preprocessing)

    @abstractmethod
    def _outputs(self, batch: "NDArray[np.float32]") -> "NDArray[np.floating[Any]]":
        """Compute the outputs ``(B, labels)`` of a full batch of inputs."""

    def send(self, images: Sequence[bytes]) -> list[RawAnswer]:
        """Classify up to a batch of images; see ``Adapter.send``."""
        import numpy as np

        inputs = np.stack([self._prepare(image) for image in images])
        filled = np.zeros((max(self.capabilities.batch, len(images)), *inputs.shape[1:]), dtype=np.float32)
        filled[: len(images)] = inputs
        outputs = self._outputs(filled)
        wanted = (len(filled), len(self._reading.names))
        if outputs.shape != wanted:
            raise AdapterError(
                f"{self.name}: the network's outputs have shape {outputs.shape}, but {wanted[1]} labels need {wanted}: "
                "the labels do not fit the network"
            )
        return [to_answer(self._reading.labels(row)) for row in outputs[: len(images)]]


class TorchNetwork(LocalNetwork):
    """A PyTorch network.

    Args:
        name: the adapter's name within a run.
        options: the adapter's options.
        reading: how outputs become labels.
        packages: installed packages that answers depend on.
        parameters: everything else that answers depend on, as plain JSON values.
    """

    def __init__(
        self, name: str, options: TorchOptions, *, reading: Reading, packages: Sequence[str], **parameters: Any
    ) -> None:
        # Not in several processes on a GPU, which would share its memory.
        on_cpu = options.device == "cpu"
        super().__init__(name, options, reading=reading, batch=options.batch, processes=on_cpu)
        self._device, self._dtype = torch_device(options.device, adapter=name), options.dtype
        self.parameters = {
            **parameters,
            **options.model_dump(include={"top_k", "device", "dtype", "batch"}),
            **versions("torch", *packages, "pillow"),
        }

    @abstractmethod
    def _load(self) -> "torch.nn.Module":
        """Load the network with its weights."""

    @cached_property
    def _network(self) -> Any:
        import torch

        # A new network is initialised at random, which must not advance the global generator.
        with torch.random.fork_rng(devices=[]):
            network = self._load()
        return network.eval().requires_grad_(False).to(self._device, getattr(torch, self._dtype))

    def _forward(self, images: "torch.Tensor") -> "torch.Tensor":
        """Compute the outputs ``(B, labels)`` of images ``(B, 3, height, width)``."""
        return cast("torch.Tensor", self._network(images))

    def scores(self, inputs: "torch.Tensor") -> "torch.Tensor":
        """See ``Differentiable``."""
        import torch

        outputs = self._forward(inputs.to(self._device, getattr(torch, self._dtype))).float()
        match self._reading.activation:
            case "softmax":
                return outputs.softmax(dim=1)
            case "sigmoid":
                return outputs.sigmoid()
            case _:
                return outputs

    def _outputs(self, batch: "NDArray[np.float32]") -> "NDArray[np.floating[Any]]":
        """See ``LocalNetwork``; runs without gradients and non-deterministic kernels."""
        import torch

        fixed = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), fixed:
            images = torch.from_numpy(batch).to(self._device, getattr(torch, self._dtype))
            outputs: NDArray[np.float32] = self._forward(images).float().cpu().numpy()
        return outputs


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions of packages, for an adapter's parameters."""
    return {package: version(package) for package in packages}


def torch_device(name: str, *, adapter: str) -> "torch.device":
    """Return the device of a name ("cpu", "cuda", "cuda:1", "mps"); AdapterError if it cannot be used."""
    import torch

    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise AdapterError(
            f"{adapter}: the device {name!r} cannot be used ({reason}): choose another, such as device=cpu"
        ) from error
    return device
