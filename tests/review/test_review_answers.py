"""Stored answers of reviewers, their consensus, and its effect on the estimates."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_to_review import tables

from pipeline.review.answers import FILE, as_reviewed, consensus, keep_answer, read_answers
from pipeline.review.questions import CANNOT_TELL, EXCLUDE, NO_FACE, face_questions
from pipeline.run.record import RunError


@pytest.fixture
def run(tmp_path):
    return tables(tmp_path)


@pytest.fixture
def gender(run):
    """The question about the first photo's gender."""
    return face_questions(run[0], run[1], unsure=1, sure=0)[0]


def answered(folder, question, *answers):
    for number, answer in enumerate(answers):
        keep_answer(folder, question, answer, reviewer=f"r{number}")
    return consensus(read_answers(folder))


def test_last_answer_of_a_reviewer_counts(tmp_path, gender):
    keep_answer(tmp_path, gender, "feminine", reviewer="anna")
    keep_answer(tmp_path, gender, "masculine", reviewer="anna")
    assert list(read_answers(tmp_path)["answer"]) == ["masculine"]


def test_answer_outside_the_choices_is_refused(tmp_path, gender):
    with pytest.raises(ValueError, match=r"purple.*feminine"):
        keep_answer(tmp_path, gender, "purple", reviewer="anna")
    assert not (tmp_path / FILE).exists()


def test_truncated_last_line_is_ignored(tmp_path, gender):
    keep_answer(tmp_path, gender, "feminine", reviewer="anna")
    with (tmp_path / FILE).open("a") as file:
        file.write('{"reviewer": "bo", "ans')
    assert list(read_answers(tmp_path)["reviewer"]) == ["anna"]


def test_damaged_line_is_named(tmp_path, gender):
    (tmp_path / FILE).write_text("nonsense\n" + json.dumps({}) + "\n")
    with pytest.raises(RunError, match="line 1 of"):
        read_answers(tmp_path)


def test_consensus_is_the_majority_without_cannot_tell(tmp_path, gender):
    agreed = answered(tmp_path, gender, "feminine", "feminine", "masculine", CANNOT_TELL)
    assert agreed == {("p0.png", "gender"): "feminine"}


def test_tie_keeps_the_estimate(tmp_path, gender):
    assert answered(tmp_path, gender, "feminine", "masculine") == {}


def test_photo_excluded_by_majority_is_excluded(tmp_path, run, gender):
    agreed = answered(tmp_path, gender, EXCLUDE, NO_FACE, "feminine")
    faces = as_reviewed(run[1], agreed)
    assert list(faces["status"]) == ["excluded"] + ["ok"] * 7
    assert faces.loc[0, "reason"] == "excluded by reviewers"
    assert run[1].loc[0, "status"] == "ok"


def test_consensus_replaces_the_estimate(run):
    faces = as_reviewed(
        run[1], {("p1.png", "gender"): "feminine", ("p1.png", "race"): "Asian", ("gone", "race"): "Asian"}
    )
    assert faces.loc[1, "gender"] == -1
    assert faces.loc[1, [f"race_{race}" for race in ("White", "Asian")]].tolist() == [0, 1]
    assert faces.drop(index=1).equals(run[1].drop(index=1))


@given(st.lists(st.sampled_from(["feminine", "masculine", CANNOT_TELL, EXCLUDE]), min_size=1, max_size=6), st.randoms())
def test_order_of_reviewers_does_not_matter(tmp_path_factory, answers, random):
    folder = tmp_path_factory.mktemp("review")
    photos, faces, _ = tables(folder, photos=1)
    (question, _) = face_questions(photos, faces, unsure=1, sure=0)
    one = answered(folder, question, *answers)
    (folder / FILE).unlink()
    random.shuffle(answers)
    assert answered(folder, question, *answers) == one
