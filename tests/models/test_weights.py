from hashlib import sha256

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from models import weights
from models.fader import Fader
from models.judge import Estimator, GreyJudge, Judge
from models.parser import CLASSES, SmallParser
from models.residual import Prototypes
from models.weights import RECORDS, WeightsError, WeightsRecord, load_fader, load_judge, load_parser, load_residual

LOADERS = {
    "fader": (Fader, load_fader),
    "parser": (SmallParser, load_parser),
    "estimator": (Estimator, lambda: load_judge("estimator")),
    "judge": (Judge, lambda: load_judge("judge")),
    "grey-judge": (GreyJudge, lambda: load_judge("grey-judge")),
    "residual": (Prototypes, load_residual),
}


def half(network):
    return {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in network.state_dict().items()
    }


@pytest.fixture(params=LOADERS)
def shipped(request, tmp_path, monkeypatch):
    """A network, its loader and its file in half precision, shipped as the package ships its own."""
    kind, load = LOADERS[request.param]
    torch.manual_seed(4)
    network = kind()
    file = tmp_path / f"{request.param}.safetensors"
    save_file(half(network), file)
    record = WeightsRecord(file.name, sha256(file.read_bytes()).hexdigest(), "none", "none")
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    monkeypatch.setitem(RECORDS, request.param, record)
    return network, load, file


def test_half_precision_loads_as_float32_frozen_and_in_evaluation_mode(shipped):
    network, load, _ = shipped
    loaded = load()
    for name, tensor in loaded.state_dict().items():
        expected = network.state_dict()[name]
        assert tensor.dtype == expected.dtype
        np.testing.assert_allclose(tensor, expected, rtol=1e-3, atol=1e-6)
    assert not any(module.training for module in loaded.modules())
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_a_damaged_file_is_refused_by_its_sha256(shipped):
    _, load, file = shipped
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(WeightsError, match=f"{file.name} are damaged: sha256 .*expected"):
        load()


def test_a_missing_file_is_named(shipped):
    _, load, file = shipped
    file.unlink()
    with pytest.raises(WeightsError, match=f"{file.name} are missing: install"):
        load()


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_says_what_its_file_is(name):
    record = RECORDS[name]
    assert record.path.stem == name
    assert "non-commercial" in record.licence
    assert record.preprocessing


@pytest.mark.parametrize("name", RECORDS)
def test_the_embedded_file_is_the_recorded_one(name):
    assert sha256(RECORDS[name].path.read_bytes()).hexdigest() == RECORDS[name].sha256


@pytest.mark.parametrize("name", LOADERS)
def test_the_embedded_network_is_whole(name):
    kind, load = LOADERS[name]
    loaded = load()
    assert isinstance(loaded, kind)
    assert all(tensor.isfinite().all() for tensor in loaded.state_dict().values())


def test_names_of_classes_agree_everywhere():
    assert RECORDS["parser"].classes == CLASSES
