"""Inputs, device, threads and precision of networks: pixels in -1..1; bfloat16 where it is fast, otherwise float32."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.errors import DeviceError

# Names in torch.cpu.get_capabilities of native bfloat16 multiplication on x86 (two) and ARM.
_NATIVE = ("amx_bf16", "avx512_bf16", "bf16")
# Faces per batch: on a processor, the activations of more do not fit into its caches; a GPU needs more to be busy.
CPU_BATCH, GPU_BATCH = 16, 128


def to_unit(pixels: Tensor) -> Tensor:
    """Convert pixel levels 0..255 of any shape to float32 in -1..1."""
    return pixels.to(torch.float32, copy=True).div_(127.5).sub_(1)


def unit_batch(images: Sequence[NDArray[np.uint8]]) -> Tensor:
    """Stack ``(H, W, 3)`` uint8 images of one size into a batch ``(B, 3, H, W)`` in -1..1."""
    return to_unit(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2))


def choose_device(name: str) -> str:
    """Return the device for "cpu", "cuda", "mps", or "auto" (the fastest available).

    Raises:
        DeviceError: the device is not available.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    devices = [device for device, is_available in available.items() if is_available]
    if name != "auto" and name not in devices:
        raise DeviceError(f"the device {name!r} is not available here, only {', '.join(devices)}")
    return devices[0] if name == "auto" else name


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's weights; the CPU for a network without weights."""
    return next((weights.device for weights in network.parameters()), torch.device("cpu"))


def batch_size(device: torch.device) -> int:
    """Return the number of faces per batch on ``device``."""
    return CPU_BATCH if device.type == "cpu" else GPU_BATCH


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict PyTorch and OpenCV to one thread within the context."""
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def compute(call: Callable[..., Tensor], *inputs: Tensor, network: nn.Module, half: bool = True) -> Tensor:
    """Evaluate a network or one of its methods on its device in `network_dtype`; return float32 on the CPU.

    Args:
        call: the network or its method.
        inputs: its arguments, on any device.
        network: determines the device.
        half: compute in `network_dtype`; otherwise in float32.
    """
    device = device_of(network)
    size = batch_size(device)
    results = []
    with autocast(device.type, half=half):
        for batch in zip(*(tensor.split(size) for tensor in inputs), strict=True):
            moved = (tensor.to(device, memory_format=_format_of(tensor)) for tensor in batch)
            results.append(call(*moved).float().cpu())
    return torch.cat(results)


def _format_of(tensor: Tensor) -> torch.memory_format:
    """Return channels last for images, which is several times faster on CPUs."""
    return torch.channels_last if tensor.dim() == 4 else torch.preserve_format


def autocast(device: str = "cpu", *, half: bool = True) -> torch.autocast:
    """Return a context in which networks run on ``device`` in `network_dtype`, or in float32 without ``half``."""
    enabled = half and network_dtype(device) != torch.float32
    return torch.autocast(device.partition(":")[0], dtype=torch.bfloat16, enabled=enabled)


def network_dtype(device: str = "cpu") -> torch.dtype:
    """Return the data type in which networks compute on ``device``.

    CPUs with bfloat16 instructions run a network about five times faster in bfloat16; others emulate it, several times
    slower than float32.
    """
    return torch.bfloat16 if not device.startswith("cpu") or _native() else torch.float32


@cache
def _native() -> bool:
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # an older torch lacks it
    return any(capabilities.get(name, False) for name in _NATIVE)
