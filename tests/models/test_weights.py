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


def half_precision(network):
    return {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in network.state_dict().items()
    }


@pytest.fixture(params=LOADERS)
def embedded(request, tmp_path, monkeypatch):
    """A network, its loader, and its file in half precision in place of the embedded one."""
    kind, load = LOADERS[request.param]
    torch.manual_seed(4)
    network = kind()
    file = tmp_path / f"{request.param}.safetensors"
    save_file(half_precision(network), file)
    record = WeightsRecord(file.name, sha256(file.read_bytes()).hexdigest(), "none", "none")
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    monkeypatch.setitem(RECORDS, request.param, record)
    return network, load, file


def test_half_precision_weights_load_as_frozen_float32(embedded):
    network, load, _ = embedded
    loaded = load()
    for name, tensor in loaded.state_dict().items():
        expected = network.state_dict()[name]
        assert tensor.dtype == expected.dtype
        np.testing.assert_allclose(tensor, expected, rtol=1e-3, atol=1e-6)
    assert not any(module.training for module in loaded.modules())
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_damaged_file_raises(embedded):
    _, load, file = embedded
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(WeightsError, match=f"{file.name} are damaged: sha256 .*expected"):
        load()


def test_missing_file_raises(embedded):
    _, load, file = embedded
    file.unlink()
    with pytest.raises(WeightsError, match=f"{file.name} are missing: install"):
        load()


@pytest.mark.parametrize("name", RECORDS)
def test_records_have_licence_and_preprocessing(name):
    record = RECORDS[name]
    assert record.path.stem == name
    assert "non-commercial" in record.licence
    assert record.preprocessing


@pytest.mark.parametrize("name", RECORDS)
def test_embedded_file_has_the_recorded_sha256(name):
    assert sha256(RECORDS[name].path.read_bytes()).hexdigest() == RECORDS[name].sha256


@pytest.mark.parametrize("name", LOADERS)
def test_embedded_network_loads_with_finite_weights(name):
    kind, load = LOADERS[name]
    loaded = load()
    assert isinstance(loaded, kind)
    assert all(tensor.isfinite().all() for tensor in loaded.state_dict().values())


def test_classes_of_the_parser_record():
    assert RECORDS["parser"].classes == CLASSES
