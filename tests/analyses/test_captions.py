"""Bias amplification of captions, and the command ``captions`` that makes the table of predictions."""

import numpy as np
import pandas as pd
import pytest

from pipeline.analyses.captions import caption_table
from pipeline.analyses.inputs import InputError
from pipeline.analyses.registry import compute

CONCEPTS = """
[man]
words = ["man", "boy", "gentleman", "male", "men"]
[woman]
words = ["woman", "girl", "lady", "female", "women"]
[dog]
words = ["dog"]
[oven]
words = ["oven"]
[tie]
words = ["tie"]
"""
TASKS = ("dog", "oven", "tie")


def random_caption(rng, groups):
    people = [str(rng.choice(words)) for words in (["man", "boy"], ["woman", "lady"]) if rng.random() < groups]
    things = [f"a {task}" for task, share in zip(TASKS, (0.5, 0.3, 0.4), strict=True) if rng.random() < share]
    return f"A {' and a '.join(people) or 'person'} with {' and '.join(things) or 'nothing'}."


@pytest.fixture(params=[4])
def files(tmp_path, request):
    rng = np.random.default_rng(request.param)
    rows = [(random_caption(rng, 0.6), random_caption(rng, 0.6)) for _ in range(600)]
    pd.DataFrame(rows, columns=["human", "model"]).to_csv(tmp_path / "captions.csv", index=False)
    (tmp_path / "words.toml").write_text(CONCEPTS)
    return tmp_path


def reference_amplification(frame, direction):
    """BiasAmp-> of captions that name one group each; ties count as 0; the mean over pairs."""
    words = {"man": {"man", "boy"}, "woman": {"woman", "lady"}}

    def read(text):
        tokens = set(text.lower().replace(".", "").split())
        named = [group for group, synonyms in words.items() if tokens & synonyms]
        return (named[0] if len(named) == 1 else None), {task for task in TASKS if task in tokens}

    rows = [(*read(human), *read(model)) for human, model in zip(frame["human"], frame["model"], strict=True)]
    rows = [row for row in rows if row[0] and row[2]]
    total, values = len(rows), []
    for group in words:
        for task in TASKS:
            with_group = sum(row[0] == group for row in rows)
            with_task = sum(task in row[1] for row in rows)
            both = sum(row[0] == group and task in row[1] for row in rows)
            if direction == "A->T":
                predicted = sum(row[0] == group and task in row[3] for row in rows) / with_group
                labelled = both / with_group
            else:
                predicted = sum(row[2] == group and task in row[1] for row in rows) / with_task
                labelled = both / with_task
            values.append(np.sign(total * both - with_group * with_task) * (predicted - labelled))
    return float(np.mean(values))


@pytest.mark.parametrize("files", [4, 11, 29], indirect=True)
@pytest.mark.parametrize("direction", ["A->T", "T->A"])
def test_amplification_of_captions_equals_the_published_rule(files, direction):
    options = {"columns": ["human", "model"], "concepts": str(files / "words.toml"), "groups": ["man", "woman"]}
    table = caption_table(files / "captions.csv", **options)
    table.rows.to_csv(files / "table.csv", index=False)
    given = {"attribute": ["human group"], "task": [f"human {task}" for task in TASKS], "resamples": 0}
    if direction == "A->T":
        given["prediction"] = [f"model {task}" for task in TASKS]
    else:
        given["predicted_attribute"] = ["model group"]
    found = compute("amplification", files / "table.csv", given).tables["summary"]
    expected = reference_amplification(pd.read_csv(files / "captions.csv"), direction)
    assert found["value"][0] == pytest.approx(expected, abs=1e-9)
    assert table.left_out > 0


def test_command_writes_the_table_and_reports_omitted_captions(run_command, files):
    done = run_command(
        "captions", files / "captions.csv", "--column", "human,model", "--concepts", files / "words.toml",
        "--groups", "man,woman", "--out", files / "table.csv",
    )  # fmt: skip
    assert "omitted" in done.stderr
    table = pd.read_csv(files / "table.csv")
    assert {"human dog", "model dog", "human group", "model group", "model (sentiment)"} <= set(table.columns)


def test_unknown_groups_and_columns_raise(files):
    with pytest.raises(InputError, match="two or more of the concepts"):
        caption_table(files / "captions.csv", columns=["human"], concepts="person", groups=["woman", "cat"])
    with pytest.raises(InputError, match="caption"):
        caption_table(files / "captions.csv", columns=["caption"], concepts="person")
