"""Labels from free text (concepts, length, sentiment, refusals) of chat models, captions and JSON."""

import json
from hashlib import sha256

import pytest
from adapter_calls import make_adapter
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import AdapterError, RawAnswer
from adapters.texts import LENGTH, PERSON, REFUSED, SENTIMENT, labels_of_text, names_of, read_concepts

CONCEPTS = read_concepts(PERSON)
DESCRIPTION = "A warm and friendly woman smiles at the camera. She looks confident."


def scores(labels):
    return {label.name: label.score for label in labels}


def test_concepts_match_whole_words():
    found = scores(labels_of_text(DESCRIPTION, CONCEPTS))
    assert {"woman", "warmth", "smile", "competence", "(positive)"} <= set(found)
    assert "man" not in found, "man is only part of woman"
    assert found[LENGTH] == pytest.approx(0.12)
    assert found[SENTIMENT] > 0.8


def test_refusal_is_the_only_label():
    assert scores(labels_of_text("I'm sorry, but I can't describe people.", CONCEPTS)) == {REFUSED: 1.0}


@given(st.text(max_size=300))
def test_any_text_has_scores_in_0_to_1(text):
    found = labels_of_text(text, CONCEPTS)
    assert all(0 <= label.score <= 1 for label in found)
    assert {label.name for label in found} <= set(names_of(CONCEPTS))


def test_own_concepts_are_read_from_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[hair]\nwords = ["blond*", "dark hair"]\n[years]\npattern = "\\\\b\\\\d+ years? old\\\\b"\n')
    found = scores(labels_of_text("Dark  hair? No, dark hair; 30 years old.", read_concepts(path)))
    assert {"hair", "years"} <= set(found)
    assert "hair" in scores(labels_of_text("a blonde", read_concepts(path)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty"), ("[a]\n", "neither words nor"), ("[a]\nwords = 3\n", "a list of texts"),
        ("[a]\nwords = ['*']\n", "a list of texts"), ("[a]\npattern = '('\n", "not valid"),
        ("['(refused)']\nwords = ['x']\n", "reserved"), ("[a]\nwrods = ['x']\n", "nothing else"),
        ("a = [", "cannot"),
    ],
)  # fmt: skip
def test_invalid_concepts_file_is_explained(tmp_path, content, reason):
    path = tmp_path / "concepts.toml"
    path.write_text(content)
    with pytest.raises(AdapterError, match=reason):
        read_concepts(path)


def chat_reply(text):
    return RawAnswer(json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode())


def test_chat_description_is_labelled_by_concepts(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    chat = make_adapter("openai", model="gpt-4o-mini", concepts=PERSON)
    assert "Describe the person" in chat.parameters["prompt"]
    assert chat.parameters["format"] == "text"
    assert "concepts" not in chat.parameters, "other concepts are applied to the same answers"
    assert "warmth" in scores(chat.parse(chat_reply(DESCRIPTION)))
    assert scores(chat.parse(chat_reply("I cannot help with that."))) == {REFUSED: 1.0}
    assert set(scores(chat.parse(chat_reply(DESCRIPTION)))) <= set(chat.capabilities.labels)


def test_either_labels_or_concepts_are_required(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    for options in ({}, {"labels": ["a"], "concepts": PERSON}, {"concepts": PERSON, "logprobs": True}):
        with pytest.raises(AdapterError, match="concepts"):
            make_adapter("openai", model="m", **options)


def test_caption_in_json_is_labelled():
    http = make_adapter("http", url="http://127.0.0.1:9/caption", text="captionResult.text")
    reply = RawAnswer(json.dumps({"captionResult": {"text": "a man in a suit"}}).encode())
    assert "man" in scores(http.parse(reply))
    with pytest.raises(AdapterError, match="label"):
        make_adapter("http", url="http://127.0.0.1:9/caption")


def test_captions_are_read_from_csv(tmp_path):
    (tmp_path / "a.png").write_bytes(b"first")
    path = tmp_path / "captions.csv"
    path.write_text(f"image,sha256,caption\na.png,,a smiling woman\n,{sha256(b'second').hexdigest()},a man\n")
    replay = make_adapter("replay:captions", source=str(path))
    first, second, third = replay.send([b"first", b"second", b"third"])
    assert {"woman", "smile"} <= set(scores(replay.parse(first)))
    assert "man" in scores(replay.parse(second))
    assert "no answer" in third.reason
    path.write_text("image,caption\nmissing.png,a\n")
    with pytest.raises(AdapterError, match="cannot be read"):
        make_adapter("replay:captions", source=str(path))
