import json
from pathlib import Path

import numpy as np
import pytest
from adapter_calls import answer_to, make_adapter
from drawn_faces import drawn_face, png
from fakes.tiny_networks import tiny_onnx

from adapters.base import AdapterError
from adapters.local.onnx import OnnxModel

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")


FLAT = {"labels": ("a", "b", "c"), "size": 8, "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
COLOUR = (40, 120, 200)
PLAIN = png(np.full((20, 30, 3), COLOUR, np.uint8))


def scores(adapter: OnnxModel, image: bytes = PLAIN) -> list[float]:
    answer = answer_to(adapter, image)
    return [label.score for label in adapter.parse(answer)]


def expected(path: Path, *, rgb: tuple[float, ...]) -> list[float]:
    weights, bias = (onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer[:2])
    powers = np.exp(np.array(rgb, np.float64) @ weights + bias)
    return list(powers / powers.sum())


def test_scores_follow_the_declared_preprocessing(tmp_path):
    path = tiny_onnx(tmp_path / "tiny.onnx")
    unit = [value / 255 for value in COLOUR]
    assert scores(make_adapter("onnx", str(path), **FLAT)) == pytest.approx(expected(path, rgb=tuple(unit)), abs=1e-5)
    bgr = make_adapter("onnx", str(path), **FLAT | {"channels": "bgr", "std": (0.5, 0.5, 0.5)})
    assert scores(bgr) == pytest.approx(expected(path, rgb=tuple(2 * v for v in reversed(unit))), abs=1e-5)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ({"layout": "nhwc"}, {"layout": "nhwc"}),
        ({"size": None}, {"size": (12, 10)}),
        ({"batch": 4}, {}),
        ({"kind": "uint8", "size": None}, {"values": "0-255", "size": 8}),
        ({"softmax": True}, {"activation": "none"}),
    ],
)
def test_input_formats(tmp_path, model, options):
    adapter = make_adapter("onnx", str(tiny_onnx(tmp_path / "tiny.onnx", **model)), **FLAT | options)
    assert sum(scores(adapter, png(drawn_face()))) == pytest.approx(1, abs=1e-4)
    assert adapter.capabilities.batch == model.get("batch", 16)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ({"size": 16}, {}, r"shape \['images', 3, 16, 16\].*size and layout give \[images, 3, 8, 8\]"),
        ({"layout": "nhwc"}, {}, "layout to nhwc"),
        ({"labels": 4}, {}, "has 4 numbers per image, but there are 3 labels"),
        ({"kind": "int64"}, {}, r"is a tensor\(int64\)"),
        ({"batch": 4}, {"batch": 2}, "a fixed batch of 4 images"),
        ({}, {"input": "pixels"}, "has no input 'pixels': set the option input to one of image"),
        ({}, {"output": "logits"}, "has no output 'logits'"),
        ({}, {"std": (0.0, 1.0, 1.0)}, "std must not be 0"),
        ({}, {"labels": "nowhere.txt"}, "cannot be read"),
    ],
)
def test_mismatched_options_are_refused_on_creation(tmp_path, model, options, message):
    path = tiny_onnx(tmp_path / "tiny.onnx", **model)
    with pytest.raises(AdapterError, match=message):
        make_adapter("onnx", str(path), **FLAT | options)


def test_second_softmax_is_refused(tmp_path):
    adapter = make_adapter("onnx", str(tiny_onnx(tmp_path / "tiny.onnx", softmax=True)), **FLAT)
    with pytest.raises(AdapterError, match="probabilities already: set the option activation to none"):
        adapter.send([PLAIN])


def test_version_changes_with_model_and_data_files(tmp_path):
    path = tiny_onnx(tmp_path / "tiny.onnx")
    first = make_adapter("onnx", str(path), **FLAT).model
    (tmp_path / "tiny.onnx.data").write_bytes(b"weights that lie next to it")
    second = make_adapter("onnx", str(path), **FLAT).model
    tiny_onnx(path, seed=1)
    assert len({first, second, make_adapter("onnx", str(path), **FLAT).model}) == 3
    record = json.loads(json.dumps(dict(make_adapter("onnx", str(path), **FLAT).parameters), allow_nan=False))
    assert record["threads"] == 1
    assert record["preprocessing"]["mean"] == [0, 0, 0]


def test_invalid_model_file_is_explained(tmp_path):
    with pytest.raises(AdapterError, match="there is no file"):
        make_adapter("onnx", str(tmp_path / "nothing.onnx"), **FLAT)
    (tmp_path / "text.onnx").write_text("weights")
    with pytest.raises(AdapterError, match="onnxruntime cannot run"):
        make_adapter("onnx", str(tmp_path / "text.onnx"), **FLAT)
