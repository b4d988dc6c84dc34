import pytest
import torch

from models import precision


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx2": True, "amx_bf16": False}, torch.float32),
        ({"avx2": True, "avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({"neon": True, "bf16": True}, torch.bfloat16),
        ({}, torch.float32),
    ],
)
def test_bfloat16_is_used_where_the_processor_computes_in_it(monkeypatch, capabilities, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    precision._native.cache_clear()
    try:
        assert precision.network_dtype() == expected
        with precision.autocast():
            assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype == expected
    finally:
        precision._native.cache_clear()


def test_accelerators_always_compute_in_it():
    assert precision.network_dtype("cuda:0") == torch.bfloat16
