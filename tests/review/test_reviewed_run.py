"""Effect of the reviewers' consensus on the analyses of a run."""

import pytest
from finished_run import PHOTO_COUNT, responses, write_run

from pipeline.analyses.artifacts import artifacts_of
from pipeline.analyses.inputs import run_sweeps
from pipeline.analyses.registry import compute
from pipeline.review.answers import keep_answer
from pipeline.review.questions import EXCLUDE, FACE, Question
from pipeline.run.folder import Run
from pipeline.stages.audit import keep_result


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "run", [("opencv", "gender", "edit", responses(effect=[0.2, 0, 0], seed=1))])


def answer_question(folder, photo, answer):
    face = {"item": f"face/{photo}", "kind": FACE, "photo": photo, "attribute": "gender", "sample": "unsure"}
    question = Question(**face, text="?", choices=(answer,), pictures=())
    keep_answer(folder, question, answer, reviewer="anna")


def test_excluded_photo_is_not_used_by_analyses(folder):
    before = compute("power", folder, {}).tables["power"]
    answer_question(folder, "p0003", EXCLUDE)
    assert set(before["photos"]) == {PHOTO_COUNT}
    assert set(compute("power", folder, {}).tables["power"]["photos"]) == {PHOTO_COUNT - 1}


def test_groups_are_those_of_the_reviewers(folder):
    assert run_sweeps(folder).faces.set_index("photo").loc["p0001", "gender"] == -0.5
    answer_question(folder, "p0001", "masculine")
    assert run_sweeps(folder).faces.set_index("photo").loc["p0001", "gender"] == 1


def test_results_before_the_review_are_stale(folder):
    keep_result(folder, "power", compute("power", folder, {}))
    assert "power" in artifacts_of(Run(folder)).tables
    answer_question(folder, "p0003", EXCLUDE)
    assert "review.jsonl has changed" in artifacts_of(Run(folder)).stale["power"]


def test_review_results_are_a_table_of_the_run(folder):
    answer_question(folder, "p0001", "masculine")
    found = compute("review-results", folder, {})
    assert not found.inputs.options
    (row,) = found.tables["review"].to_dict("records")
    assert (row["measure"], row["figure"], row["items"]) == ("estimates confirmed", 0.0, 1)
