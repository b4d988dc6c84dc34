"""A chat model describes photos: its words become labels, and stored answers are parsed again for other concepts."""

from fakes.chatting import completed
from fakes.serving import Serving
from typer.testing import CliRunner

from pipeline.cli.app import app
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame


def describe(received):
    question = received.json()
    assert "response_format" not in question, "free text has no schema"
    assert question["messages"][0]["content"][0]["text"].startswith("Describe the person")
    number = len(received.body) % 3
    return completed(
        ["A warm woman with a red hat.", "A confident man, an engineer.", "I'm sorry, I can't help with that."][number]
    )


def test_words_become_labels_and_other_concepts_send_nothing(run: Run, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("pipeline.stages.audit._estimate", lambda work, **_: None)
    words = [
        "--adapter-option",
        "openai.model=seer",
        "--adapter-option",
        "openai.key_variable=",
        "--rate",
        "openai=500",
    ]
    with Serving(describe) as service:
        given = ["--adapter", "openai", *words, "--adapter-option", f"openai.endpoint={service.url}/v1"]
        done = CliRunner().invoke(
            app, ["query", str(run.folder), *given, "--adapter-option", "openai.concepts=person", "--yes", "-q"]
        )
        assert done.exit_code == 0, done.output
        labels = read_frame(run.path("labels.parquet"))
        found = set(labels.loc[labels["returned"], "label"])
        assert found & {"warmth", "competence", "(refused)"}
        assert found <= {
            "woman", "man", "warmth", "competence", "technical", "(refused)", "(positive)", "(negative)",
            "(sentiment)", "(words of 100)",
        }  # fmt: skip
        sent = len(service.received)
        hats = tmp_path / "hats.toml"
        hats.write_text('[hat]\nwords = ["hat"]\n')
        done = CliRunner().invoke(app, ["labels", str(run.folder), "--adapter-option", f"openai.concepts={hats}", "-q"])
        assert done.exit_code == 0, done.output
        assert len(service.received) == sent
    labels = read_frame(run.path("labels.parquet"))
    assert "warmth" not in set(labels["label"])
