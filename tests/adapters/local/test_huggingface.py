import json

import pytest
import torch
from adapter_calls import answer_to, make_adapter, scores_of
from drawn_faces import drawn_face, png
from fakes.tiny_networks import tiny_transformer
from PIL import Image

from adapters.base import AdapterError
from adapters.local.huggingface import HuggingFace

pytest.importorskip("transformers", reason="transformers is not installed")


IMAGE = png(drawn_face())


def scores(adapter: HuggingFace) -> dict[str, float]:
    answer = answer_to(adapter, IMAGE)
    return scores_of(adapter, answer)


def test_local_folder_gives_the_scores_of_transformers(tmp_path):
    from transformers import ViTForImageClassification, ViTImageProcessor

    folder = tiny_transformer(tmp_path / "tiny")
    adapter = make_adapter("huggingface", str(folder), batch=2)
    given = ViTImageProcessor.from_pretrained(folder)(images=Image.fromarray(drawn_face()), return_tensors="pt")
    with torch.inference_mode():
        expected = ViTForImageClassification.from_pretrained(folder)(**given).logits.softmax(1)[0].tolist()
    assert scores(adapter) == pytest.approx({f"label {n}": score for n, score in enumerate(expected)}, abs=1e-5)


def test_multi_label_model_has_sigmoid_scores(tmp_path):
    adapter = make_adapter("huggingface", str(tiny_transformer(tmp_path / "several", several=True)), batch=1)
    assert adapter.parameters["activation"] == "sigmoid"
    assert sum(scores(adapter).values()) != pytest.approx(1, abs=0.01)


def test_version_changes_with_weights_and_preprocessing(tmp_path):
    folder = tiny_transformer(tmp_path / "tiny")
    first = make_adapter("huggingface", str(folder)).model
    assert make_adapter("huggingface", str(folder)).model == first
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps(settings | {"image_mean": [0.4, 0.4, 0.4]}))
    second = make_adapter("huggingface", str(folder)).model
    tiny_transformer(folder, seed=1)
    assert len({first, second, make_adapter("huggingface", str(folder)).model}) == 3
    json.dumps(dict(make_adapter("huggingface", str(folder)).parameters), allow_nan=False)


def test_code_in_a_repository_is_never_executed(tmp_path):
    folder = tiny_transformer(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    modules = {"AutoConfig": "evil.Config", "AutoModelForImageClassification": "evil.M"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "evil", "auto_map": modules}))
    with pytest.raises(AdapterError, match="never executed"):
        make_adapter("huggingface", str(folder))
    assert not (tmp_path / "executed").exists()


def test_model_without_trained_classifier_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tiny_transformer(tmp_path / "tiny")
    state = load_file(folder / "model.safetensors")
    body = {name: value for name, value in state.items() if not name.startswith("classifier")}
    save_file(body, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AdapterError, match=r"is not a trained image classifier: its weights lack classifier.bias"):
        make_adapter("huggingface", str(folder), batch=1).send([IMAGE])


def test_incomplete_folder_is_explained(tmp_path):
    folder = tiny_transformer(tmp_path / "tiny")
    (folder / "model.safetensors").unlink()
    with pytest.raises(AdapterError, match=r"lacks model.safetensors: download the complete model again"):
        make_adapter("huggingface", str(folder))
    with pytest.raises(AdapterError, match="a folder has no revisions"):
        make_adapter("huggingface", str(folder), revision="main")


def test_cached_repository_is_used_offline(tmp_path, monkeypatch):
    import huggingface_hub

    cache = tmp_path / "models--owner--tiny"
    tiny_transformer(cache / "snapshots" / "0123abc")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0123abc")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    adapter = make_adapter("huggingface", "owner/tiny", batch=1)
    assert adapter.model.startswith("owner/tiny at 0123abc, files sha256 ")
    assert len(scores(adapter)) == 3
    with pytest.raises(AdapterError, match="hf download owner/other"):
        make_adapter("huggingface", "owner/other")
