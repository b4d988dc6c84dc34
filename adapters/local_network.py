"""What the networks on this machine share: full batches, outputs read as labels, and what is declared of them.

How an image becomes the network's input, and what the network is, are each adapter's file.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from adapters.answers import from_answer, to_answer
from adapters.base import AdapterError, Capabilities, Label, RawAnswer

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

Activation = Literal["softmax", "sigmoid", "none"]
DType = Literal["float32", "float16", "bfloat16"]


@dataclass(frozen=True)
class Reading:
    """How a network's outputs are read as labels.

    Attributes:
        names: the label of each output.
        activation: what makes scores of the outputs: "softmax" where exactly one label is right, "sigmoid" where
            each is right or wrong by itself, "none" where the outputs are scores in 0-1 already.
        top_k: only that many of the highest are returned; all unless given.
    """

    names: tuple[str, ...]
    activation: Activation = "softmax"
    top_k: int | None = None

    def labels(self, outputs: "NDArray[np.floating[Any]]") -> list[Label]:
        """Labels of one image's outputs, ``(labels,)``.

        Raises:
            ValueError: outputs that are not finite, or, without activation, not in 0-1.
        """
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
                f"the network's outputs ({values.min():.3g} to {values.max():.3g}) are no scores in 0-1: "
                "set the option activation to softmax or sigmoid"
            )
        else:
            scores = values
        order = range(len(scores)) if self.top_k is None else np.argsort(-scores, kind="stable")[: self.top_k]
        return [Label(self.names[place], float(scores[place])) for place in order]


class LocalNetwork(ABC):
    """A network on this machine.

    Batches are always filled up, so that an answer's last digits do not depend on how many images came along.

    Raises:
        AdapterError: an option that cannot be.
    """

    name: str
    parameters: Mapping[str, Any]
    capabilities: Capabilities

    def __init__(self, name: str, *, reading: Reading, batch: int, presence: float) -> None:
        for option, value, low, high in (
            ("batch", batch, 1, 4096),
            ("presence", presence, 0, 1),
            ("top_k", reading.top_k or 1, 1, len(reading.names)),
        ):
            if not low <= value <= high:
                raise AdapterError(f"option {option} of the adapter {name} must be in {low}-{high}, not {value}")
        self.name = name
        self._reading = reading
        self.capabilities = Capabilities(
            labels=reading.names,
            scale="0-1" if reading.activation == "none" else f"{reading.activation} of the outputs",
            presence=presence,
            top_k=reading.top_k,
            batch=batch,
        )

    @property
    @abstractmethod
    def model(self) -> str:
        """What changes whenever the answers could; see ``Adapter``."""

    @abstractmethod
    def _prepare(self, image: bytes) -> "NDArray[np.float32]":
        """One image as the network's input; ValueError where it is no image."""

    @abstractmethod
    def _outputs(self, batch: "NDArray[np.float32]") -> "NDArray[np.floating[Any]]":
        """The network's outputs, ``(B, labels)``, for a full batch of inputs."""

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
                f"{self.name} gave outputs of shape {outputs.shape} where {wanted} was expected "
                f"({wanted[1]} labels): the labels do not fit the network"
            )
        return [to_answer(self._reading.labels(row)) for row in outputs[: len(images)]]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return from_answer(answer)


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages, for a classifier's parameters."""
    return {package: version(package) for package in packages}


def torch_device(name: str, *, adapter: str) -> "torch.device":
    """The device of that name ("cpu", "cuda", "cuda:1", "mps").

    Raises:
        AdapterError: there is no such device here.
    """
    import torch

    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise AdapterError(
            f"{adapter}: the device {name!r} cannot be used ({reason}); device=cpu always can"
        ) from error
    return device


def run_torch(
    forward: "Callable[[torch.Tensor], torch.Tensor]",
    batch: "NDArray[np.float32]",
    *,
    device: "torch.device",
    dtype: DType,
) -> "NDArray[np.float32]":
    """What a torch network makes of a batch, without gradients and without its non-deterministic kernels."""
    import torch

    fixed = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    with torch.inference_mode(), fixed:
        outputs: NDArray[np.float32] = (
            forward(torch.from_numpy(batch).to(device, getattr(torch, dtype))).float().cpu().numpy()
        )
    return outputs
