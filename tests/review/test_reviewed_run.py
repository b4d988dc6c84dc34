"""The reviewers' consensus is used: excluded photos leave the slopes, and groups are as reviewers perceive them."""

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


def agree(folder, photo, answer):
    question = Question(
        item=f"face/{photo}",
        kind=FACE,
        photo=photo,
        attribute="gender",
        sample="unsure",
        text="?",
        choices=(answer,),
        pictures=(),
    )
    keep_answer(folder, question, answer, reviewer="anna")


def test_a_photo_that_reviewers_exclude_leaves_the_estimates(folder):
    before = compute("power", folder, {}).tables["power"]
    agree(folder, "p0003", EXCLUDE)
    assert set(before["photos"]) == {PHOTO_COUNT}
    assert set(compute("power", folder, {}).tables["power"]["photos"]) == {PHOTO_COUNT - 1}


def test_groups_of_photos_are_as_reviewers_perceive_them(folder):
    assert run_sweeps(folder).faces.set_index("photo").loc["p0001", "gender"] == -0.5
    agree(folder, "p0001", "masculine")
    assert run_sweeps(folder).faces.set_index("photo").loc["p0001", "gender"] == 1


def test_results_of_before_the_review_are_stale(folder):
    keep_result(folder, "power", compute("power", folder, {}))
    assert "power" in artifacts_of(Run(folder)).tables
    agree(folder, "p0003", EXCLUDE)
    assert "review.jsonl has changed" in artifacts_of(Run(folder)).stale["power"]


def test_the_results_of_a_review_are_a_table_of_the_run(folder):
    agree(folder, "p0001", "masculine")
    (row,) = compute("review-results", folder, {}).tables["review"].to_dict("records")
    assert (row["measure"], row["figure"], row["items"]) == ("estimates confirmed", 0.0, 1)
