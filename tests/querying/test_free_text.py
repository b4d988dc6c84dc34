"""A chat model describes photos, and its stored descriptions are labelled again with other concepts."""

from fakes.chat_service import completion
from fakes.http_server import FakeServer

from pipeline.run.tables import read_frame


def describe(request):
    question = request.json()
    assert "response_format" not in question, "free text has no schema"
    assert question["messages"][0]["content"][0]["text"].startswith("Describe the person")
    texts = "A warm woman with a red hat.", "A confident man, an engineer.", "I'm sorry, I can't help with that."
    return completion(texts[len(request.body) % 3])


def test_other_concepts_relabel_stored_descriptions(run, monkeypatch, tmp_path, invoke):
    monkeypatch.setattr("pipeline.stages.audit._estimate", lambda work, **_: None)
    with FakeServer(describe) as service:
        options = ("model=seer", "key_variable=", f"endpoint={service.url}/v1", "concepts=person")
        words = [word for option in options for word in ("--adapter-option", f"openai.{option}")]
        done = invoke("query", run.folder, "--adapter", "openai", *words, "--rate", "openai=500", "--yes", "-q")
        assert done.exit_code == 0, done.output
        labels = read_frame(run.path("labels.parquet"))
        found = set(labels.loc[labels["returned"], "label"])
        assert found & {"warmth", "competence", "(refused)"}
        assert found <= {
            "woman", "man", "warmth", "competence", "technical", "(refused)", "(positive)", "(negative)",
            "(sentiment)", "(words of 100)",
        }  # fmt: skip
        sent = len(service.requests)
        hats = tmp_path / "hats.toml"
        hats.write_text('[hat]\nwords = ["hat"]\n')
        done = invoke("labels", run.folder, "--adapter-option", f"openai.concepts={hats}", "-q")
        assert done.exit_code == 0, done.output
        assert len(service.requests) == sent
    labels = read_frame(run.path("labels.parquet"))
    assert "warmth" not in set(labels["label"])
