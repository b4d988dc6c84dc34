import json

import pytest
import torch
from adapter_calls import answer_to, make_adapter, scores_of
from drawn_faces import drawn_face, png
from fakes.tiny_networks import tiny_clip
from PIL import Image

from adapters.base import AdapterError
from adapters.local.clip import Clip, find

open_clip = pytest.importorskip("open_clip", reason="open_clip_torch is not installed")


IMAGE = png(drawn_face())
LABELS = ("nurse", "pilot", "chef")


def scores(adapter: Clip) -> dict[str, float]:
    answer = answer_to(adapter, IMAGE)
    return scores_of(adapter, answer)


def test_scores_equal_those_of_open_clip(tmp_path):
    folder = tiny_clip(tmp_path / "tiny")
    adapter = make_adapter("clip", str(folder), labels=LABELS, template="a photo of a {}", batch=1)
    network, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")([f"a photo of a {label}" for label in LABELS])
    with torch.inference_mode():
        image, text, scale = network(preprocess(Image.fromarray(drawn_face()))[None], tokens)[:3]
        expected = (scale * image @ text.T).softmax(1)[0].tolist()
        cosines = (image @ text.T)[0].tolist()
    assert scores(adapter) == pytest.approx(dict(zip(LABELS, expected, strict=True)), abs=1e-5)
    similar = make_adapter("clip", str(folder), labels=LABELS, scores="cosine", batch=1)
    halved = {label: (1 + cosine) / 2 for label, cosine in zip(LABELS, cosines, strict=True)}
    assert scores(similar) == pytest.approx(halved, abs=1e-5)


def test_labels_and_template_are_recorded(tmp_path):
    folder = str(tiny_clip(tmp_path / "tiny"))
    adapter = make_adapter("clip", folder)
    assert len(adapter.parameters["labels"]) == 129
    assert adapter.parameters["template"] == ["a photo of a {}"]
    several = make_adapter("clip", folder, labels=LABELS, template=("a photo of a {}", "the face of a {}"), batch=1)
    assert scores(several) != scores(make_adapter("clip", folder, labels=LABELS, batch=1))
    json.dumps(dict(several.parameters), allow_nan=False)
    assert len(scores(make_adapter("clip", folder, top_k=1, presence=0.0, batch=1))) == 1


def test_version_changes_with_the_weights(tmp_path):
    first = make_adapter("clip", str(tiny_clip(tmp_path / "tiny"))).model
    assert make_adapter("clip", str(tiny_clip(tmp_path / "tiny"))).model == first
    assert make_adapter("clip", str(tiny_clip(tmp_path / "tiny", seed=1))).model != first


def test_sigmoid_scores_need_sigmoid_training(tmp_path):
    siglip = make_adapter(
        "clip", str(tiny_clip(tmp_path / "siglip", sigmoid=True)), labels=LABELS, scores="sigmoid", batch=1
    )
    assert 0 < sum(scores(siglip).values()) != pytest.approx(1)
    with pytest.raises(AdapterError, match="not trained for sigmoid scores"):
        scores(make_adapter("clip", str(tiny_clip(tmp_path / "clip")), labels=LABELS, scores="sigmoid", batch=1))


def test_missing_published_weights_name_the_download(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AdapterError, match=r"create_model\('ViT-B-32', pretrained='openai'\)"):
        make_adapter("clip", "ViT-B-32", weights="openai")
    cached = tmp_path / ".cache" / "clip" / "ViT-B-32.pt"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"weights")
    source = find("ViT-B-32", "openai", adapter="clip:ViT-B-32", download=False)
    assert source.weights == cached
    assert source.quick_gelu
    assert source.preprocessing.size == (224, 224)
    assert source.model.startswith("ViT-B-32, weights openai, sha256 ")
    with pytest.raises(AdapterError, match="cannot be loaded"):
        source.load()


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("ViT-B-33", {}, "no architecture 'ViT-B-33'.*did you mean 'ViT-B-32'"),
        ("ViT-B-32", {}, "option weights is required.*laion2b_s34b_b79k"),
        ("ViT-B-32", {"weights": "openbi"}, "neither a file nor published"),
        ("hf-hub:owner/nothing-of-that-name", {}, "hf download owner/nothing-of-that-name"),
    ],
)
def test_unknown_model_or_weights_are_explained(tmp_path, monkeypatch, target, options, message):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(AdapterError, match=message):
        make_adapter("clip", target, **options)


def test_invalid_folder_or_template_is_refused(tmp_path):
    folder = tiny_clip(tmp_path / "tiny")
    with pytest.raises(AdapterError, match=r"must contain \{\} once"):
        make_adapter("clip", str(folder), template="a photo")
    with pytest.raises(AdapterError, match="has its own weights"):
        make_adapter("clip", str(folder), weights="openai")
    (folder / "open_clip_model.safetensors").unlink()
    with pytest.raises(AdapterError, match="there are no weights"):
        make_adapter("clip", str(folder))
    (folder / "open_clip_config.json").write_text("{}")
    with pytest.raises(AdapterError, match=r"open_clip_config.json cannot be read: KeyError"):
        make_adapter("clip", str(folder))
