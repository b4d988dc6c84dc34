"""What networks compute with: pixels in -1..1, on which device, in bfloat16 where it is fast, else in float32."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.errors import DeviceError

# Of torch.cpu.get_capabilities: x86's two ways of multiplying bfloat16, and ARM's.
_NATIVE = ("amx_bf16", "avx512_bf16", "bf16")
# Faces per batch: on a processor, the activations of more do not fit into its caches; a GPU needs more to be busy.
CPU_BATCH, GPU_BATCH = 16, 128


def to_unit(pixels: Tensor) -> Tensor:
    """Pixel levels 0..255 of any shape as float32 in -1..1."""
    return pixels.to(torch.float32, copy=True).div_(127.5).sub_(1)


def unit_batch(images: Sequence[NDArray[np.uint8]]) -> Tensor:
    """``(H, W, 3)`` uint8 images of one size as a batch ``(B, 3, H, W)`` in -1..1."""
    return to_unit(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2))


def choose_device(name: str) -> str:
    """The device that an option names: "cpu", "cuda", "mps", or "auto" for the fastest one there is.

    Raises:
        DeviceError: there is no such device.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name != "auto" and not there.get(name, False):
        raise DeviceError(f"there is no device {name!r} here, only {', '.join(one for one in there if there[one])}")
    return next(one for one in there if there[one]) if name == "auto" else name


def device_of(network: nn.Module) -> torch.device:
    """Where a network's weights are; the processor for one without any."""
    return next((weights.device for weights in network.parameters()), torch.device("cpu"))


def batch_size(device: torch.device) -> int:
    """How many faces a network computes at once on ``device``."""
    return CPU_BATCH if device.type == "cpu" else GPU_BATCH


def compute(call: Callable[..., Tensor], *inputs: Tensor, network: nn.Module, half: bool = True) -> Tensor:
    """What a network, or a method of it, gives for some inputs: on its device, in `network_dtype`; float32 on the CPU.

    Args:
        call: the network or its method.
        inputs: its arguments, anywhere.
        network: says which device.
        half: in float32 where this is off.
    """
    device = device_of(network)
    size = batch_size(device)
    results = []
    with autocast(device.type, half=half):
        for some in zip(*(one.split(size) for one in inputs), strict=True):
            results.append(call(*(one.to(device, memory_format=_format_of(one)) for one in some)).float().cpu())
    return torch.cat(results)


def _format_of(tensor: Tensor) -> torch.memory_format:
    """Pictures are computed with channels last: several times as fast on processors."""
    return torch.channels_last if tensor.dim() == 4 else torch.preserve_format


def autocast(device: str = "cpu", *, half: bool = True) -> torch.autocast:
    """A context in which networks run on ``device`` in `network_dtype`, or in float32 without ``half``."""
    enabled = half and network_dtype(device) != torch.float32
    return torch.autocast(device.partition(":")[0], dtype=torch.bfloat16, enabled=enabled)


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
