import pytest
import torch

from models import precision
from models.errors import DeviceError


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
def test_bfloat16_is_used_if_the_processor_supports_it(monkeypatch, capabilities, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    precision._native.cache_clear()
    try:
        assert precision.network_dtype() == expected
        with precision.autocast():
            assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype == expected
    finally:
        precision._native.cache_clear()


def test_accelerators_use_bfloat16():
    assert precision.network_dtype("cuda:0") == torch.bfloat16


def test_device_is_chosen_from_available_ones(monkeypatch):
    for cuda, expected in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        assert precision.choose_device("auto") == expected
        assert precision.choose_device("cpu") == "cpu"
    with pytest.raises(DeviceError, match="only cpu"):
        precision.choose_device("mps")


def test_results_are_float32_on_the_cpu():
    network = torch.nn.Conv2d(3, 2, 1)
    output = precision.compute(network, torch.ones(2, 3, 4, 4), network=network)
    assert (output.dtype, output.device.type) == (torch.float32, "cpu")
    assert torch.allclose(output, network(torch.ones(2, 3, 4, 4)), atol=0.02)
