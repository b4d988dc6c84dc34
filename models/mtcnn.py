"""The three networks of MTCNN (Zhang et al. 2016), with the weights shipped in the package facenet-pytorch.

The package itself is not imported, because it imports torchvision, which takes as long to load as PyTorch. The cascade
is in ``detector.py``.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, conv2d, max_pool2d, prelu
from torch.nn.functional import linear

# Side of the max-pooling window (stride 2) after each convolution; 0: none.
POOLS = {"pnet": (2, 0, 0), "rnet": (3, 3, 0), "onet": (3, 3, 2, 0)}
Name = Literal["pnet", "rnet", "onet"]


class MTCNNNetwork:
    """One of the three networks: ``pnet`` proposes faces, ``rnet`` refines them, ``onet`` also gives landmarks.

    Uses functions on the weights rather than modules, whose overhead is noticeable with images this small.

    Args:
        name: the network.
        device: device of the weights.
    """

    def __init__(self, name: Name, *, device: str = "cpu") -> None:
        stored = torch.load(_folder() / f"{name}.pt", map_location=device, weights_only=True)
        weights = {key: tensor.contiguous() for key, tensor in stored.items()}
        numbers = range(1, len(POOLS[name]) + 1)
        self._convolutions = [
            (weights[f"conv{n}.weight"], weights[f"conv{n}.bias"], weights[f"prelu{n}.weight"], pool)
            for n, pool in zip(numbers, POOLS[name], strict=True)
        ]
        after = len(POOLS[name]) + 1
        self._dense = None
        if name != "pnet":
            self._dense = (
                weights[f"dense{after}.weight"],
                weights[f"dense{after}.bias"],
                weights[f"prelu{after}.weight"],
            )
        head = f"dense{after + 1}" if self._dense else f"conv{after}"
        count = 3 if name == "onet" else 2
        self._heads = [(weights[f"{head}_{n}.weight"], weights[f"{head}_{n}.bias"]) for n in range(1, count + 1)]

    def __call__(self, images: Tensor) -> list[Tensor]:
        """Evaluate images ``(N, 3, H, W)``.

        Returns:
            The score of a face in 0-1, ``(N, …)``; shifts of the four edges, ``(N, 4, …)``; for ``onet`` also five
            x and five y of the landmarks, ``(N, 10)``. For ``pnet``, … is a map of window positions.
        """
        x = images
        for weight, bias, slope, pool in self._convolutions:
            x = prelu(conv2d(x, weight, bias), slope)
            if pool:
                x = max_pool2d(x, pool, 2, ceil_mode=True)
        layer: Callable[..., Tensor] = conv2d if self._dense is None else linear
        if self._dense is not None:
            weight, bias, slope = self._dense
            x = prelu(linear(x.permute(0, 3, 2, 1).flatten(1), weight, bias), slope)
        scores, *others = (layer(x, weight, bias) for weight, bias in self._heads)
        return [scores.softmax(dim=1)[:, 1], *others]


def _folder() -> Path:
    """Return the package's folder of weights."""
    package = find_spec("facenet_pytorch")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the package facenet-pytorch is not installed: pip install facenet-pytorch==2.5.3")
    return Path(package.origin).parent / "data"
