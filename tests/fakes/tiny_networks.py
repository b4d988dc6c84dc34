"""Tiny networks with random weights, one for each library that local adapters use."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

CLIP_TOKENS = 49_408  # vocabulary of open_clip's tokenizer


def tiny_onnx(
    path: Path,
    *,
    labels: int = 3,
    size: int | None = 8,
    batch: int | None = None,
    layout: str = "nchw",
    softmax: bool = False,
    kind: str = "float32",
    seed: int = 0,
) -> Path:
    """A linear classifier of the channel means, ``logits = means @ W + b``; size and batch are dynamic where None."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    weights = numpy_helper.from_array(rng.normal(size=(3, labels)).astype(np.float32) * 4, "weights")
    bias = numpy_helper.from_array(rng.normal(size=(labels,)).astype(np.float32), "bias")
    axes = numpy_helper.from_array(np.array([2, 3] if layout == "nchw" else [1, 2], np.int64), "axes")
    sides: list[object] = [size or "height", size or "width"]
    shape = [batch or "images", *([3, *sides] if layout == "nchw" else [*sides, 3])]
    nodes = [
        helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats", "axes"], ["means"], keepdims=0),
        helper.make_node("Gemm", ["means", "weights", "bias"], ["gemm" if softmax else "scores"]),
    ]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["gemm"], ["scores"], axis=-1))
    kinds = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int64": TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", kinds[kind], shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch or "images", labels])],
        [weights, bias, axes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def tiny_transformer(folder: Path, *, labels: int = 3, seed: int = 0, several: bool = False) -> Path:
    """A vision transformer with two layers and its image processor, as ``save_pretrained`` writes them."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8,
        id2label={number: f"label {number}" for number in range(labels)},
        label2id={f"label {number}": number for number in range(labels)},
        problem_type="multi_label_classification" if several else None,
    )  # fmt: skip
    torch.manual_seed(seed)
    network = transformers.ViTForImageClassification(config)
    nn.init.normal_(network.classifier.weight)
    network.save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    return folder


def tiny_clip(folder: Path, *, seed: int = 0, sigmoid: bool = False) -> Path:
    """A CLIP with one layer per tower, as a folder that open_clip loads as ``local-dir:``."""
    open_clip = pytest.importorskip("open_clip", reason="open_clip_torch is not installed")
    from safetensors.torch import save_file

    model = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 16, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8},
        "text_cfg": {"context_length": 16, "vocab_size": CLIP_TOKENS, "width": 16, "heads": 2, "layers": 1},
        **({"init_logit_bias": -1.0} if sigmoid else {}),
    }
    torch.manual_seed(seed)
    network = open_clip.CLIP(**model)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), folder / "open_clip_model.safetensors")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": model, "preprocess_cfg": {}}))
    return folder


def tiny_resnet(path: Path, *, labels: int = 3, seed: int = 0) -> Path:
    """The state dict of a resnet18 with random weights."""
    from torchvision.models import resnet18

    torch.manual_seed(seed)
    torch.save(resnet18(num_classes=labels).state_dict(), path)
    return path
