"""The numbers that networks compute with: pixels in -1..1, in bfloat16 where the processor has it, else in float32."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Of torch.cpu.get_capabilities: x86's two ways of multiplying bfloat16, and ARM's.
_NATIVE = ("amx_bf16", "avx512_bf16", "bf16")


def to_unit(pixels: Tensor) -> Tensor:
    """Pixel levels 0..255 of any shape as float32 in -1..1."""
    return pixels.float() / 127.5 - 1


def unit_batch(images: Sequence[NDArray[np.uint8]]) -> Tensor:
    """``(H, W, 3)`` uint8 images of one size as a batch ``(B, 3, H, W)`` in -1..1."""
    return to_unit(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2))


def autocast(device: str = "cpu") -> torch.autocast:
    """A context in which networks run on ``device`` in `network_dtype`."""
    return torch.autocast(
        device.partition(":")[0], dtype=torch.bfloat16, enabled=network_dtype(device) != torch.float32
    )


def network_dtype(device: str = "cpu") -> torch.dtype:
    """What networks compute in on ``device``.

    Processors that have instructions for bfloat16 run a network some five times as fast in it; others emulate them,
    several times slower than float32.
    """
    return torch.bfloat16 if not device.startswith("cpu") or _native() else torch.float32


@cache
def _native() -> bool:
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # an older torch lacks it
    return any(capabilities.get(name, False) for name in _NATIVE)
