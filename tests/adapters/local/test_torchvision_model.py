import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from adapter_calls import make_adapter
from drawn_faces import drawn_face, png
from fakes.tiny_networks import tiny_resnet
from PIL import Image

from adapters.base import AdapterError
from adapters.local.files import digest_of
from adapters.local.torchvision_model import TorchvisionModel
from adapters.registry import create

LABELS = ("a", "b", "c")


@pytest.fixture
def resnet(tmp_path: Path) -> Callable[..., TorchvisionModel]:
    weights = tiny_resnet(tmp_path / "weights.pth")

    def make(**options: Any) -> TorchvisionModel:
        given = {"weights": str(weights), "labels": LABELS, "size": 32, "resize": 40, "batch": 2} | options
        return make_adapter("torchvision", "resnet18", **given)

    return make


def test_scores_equal_those_of_torchvision(resnet, tmp_path):
    from torchvision.models import resnet18
    from torchvision.transforms._presets import ImageClassification

    adapter = resnet()
    found = {label.name: label.score for label in adapter.parse(adapter.send([png(drawn_face())])[0])}
    network = resnet18(num_classes=3).eval()
    network.load_state_dict(torch.load(tmp_path / "weights.pth", weights_only=True))
    with torch.inference_mode():
        pixels = ImageClassification(crop_size=32, resize_size=40)(Image.fromarray(drawn_face()))
        expected = network(pixels[None]).softmax(1)[0].tolist()
    assert found == pytest.approx(dict(zip(LABELS, expected, strict=True)), abs=1e-5)


def test_weights_preprocessing_and_device_are_recorded(resnet, tmp_path):
    adapter = resnet(top_k=2, activation="sigmoid")
    assert digest_of([tmp_path / "weights.pth"]) in adapter.model
    record = json.loads(json.dumps(dict(adapter.parameters)))
    assert record["preprocessing"]["size"] == [32, 32]
    assert record["preprocessing"]["resize"] == 40
    assert {record["device"], record["dtype"], record["activation"]} == {"cpu", "float32", "sigmoid"}
    assert record["torch"] == torch.__version__.partition("+")[0]
    assert len(adapter.parse(adapter.send([png(drawn_face())])[0])) == adapter.capabilities.top_k == 2
    first = adapter.model
    tiny_resnet(tmp_path / "weights.pth", seed=1)
    assert resnet().model != first


def test_all_weight_formats_give_the_same_answers(resnet, tmp_path):
    from safetensors.torch import save_file

    state = torch.load(tmp_path / "weights.pth", weights_only=True)
    save_file(state, tmp_path / "weights.safetensors")
    torch.save({"state_dict": {f"module.{key}": value for key, value in state.items()}}, tmp_path / "wrapped.pt")
    image = [png(drawn_face())]
    bodies = {
        resnet(weights=str(tmp_path / name)).send(image)[0].body
        for name in ("weights.pth", "weights.safetensors", "wrapped.pt")
    }
    assert len(bodies) == 1


def test_loading_keeps_the_random_state(resnet):
    before = torch.random.get_rng_state()
    resnet().send([png(drawn_face())])
    assert torch.equal(before, torch.random.get_rng_state())


def test_published_weights_are_read_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(
        AdapterError, match=r"resnet18-.*not on this machine.*get_model\('resnet18', weights='IMAGENET1K_V1'\)"
    ):
        create("torchvision:resnet18")
    file = tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    file.parent.mkdir(parents=True)
    tiny_resnet(file, labels=1000)
    adapter = create("torchvision:resnet18")
    assert adapter.capabilities.labels[0] == "tench"
    assert len(set(adapter.capabilities.labels)) == 1000
    with pytest.raises(AdapterError, match=r"resnet18-f37072fd.pth is damaged"):
        adapter.send([png(drawn_face())])
    monkeypatch.setattr("adapters.local.torchvision_model._sha256_starts", lambda _: digest_of([file])[:8])
    labels = adapter.parse(adapter.send([png(drawn_face())])[0])
    assert len(labels) == 1000
    assert sum(label.score for label in labels) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "IMAGENET1K_V9"}, "neither a file nor published weights: choose from IMAGENET1K_V1"),
        ({"labels": None}, "your own weights need labels"),
        ({"std": (0.0, 1.0, 1.0)}, "std must not be 0"),
        ({"device": "cuda:99"}, "device=cpu"),
    ],
)
def test_invalid_options_are_refused_on_creation(resnet, options, message):
    with pytest.raises(AdapterError, match=message):
        resnet(**options)


def test_mismatched_weights_are_explained(resnet, tmp_path):
    with pytest.raises(AdapterError, match="does not fit resnet18 with 2 labels: size mismatch for fc"):
        resnet(labels=("a", "b")).send([png(drawn_face())])
    (tmp_path / "text.pth").write_text("weights")
    with pytest.raises(AdapterError, match=r"text.pth is not a state dict"):
        resnet(weights=str(tmp_path / "text.pth")).send([png(drawn_face())])
    with pytest.raises(AdapterError, match="did you mean 'resnet18'"):
        make_adapter("torchvision", "resnet_18")
