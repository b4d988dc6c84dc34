"""The number format that the networks run in: bfloat16 where the processor computes in it, else float32."""

from functools import cache

import torch

# Of torch.cpu.get_capabilities: x86's two ways of multiplying bfloat16, and ARM's.
_NATIVE = ("amx_bf16", "avx512_bf16", "bf16")


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
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # an older torch cannot tell
    return any(capabilities.get(name, False) for name in _NATIVE)
