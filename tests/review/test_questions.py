"""Questions to reviewers: sampling of faces and pairs, and their order."""

import pytest
from run_to_review import tables

from pipeline.config.attributes import ATTRIBUTES
from pipeline.review.questions import (
    DIRECTION,
    ENDS,
    ORIGINAL,
    SURE,
    UNSURE,
    VISIBILITY,
    face_questions,
    in_order,
    pair_questions,
)

GENDER = {"gender": ATTRIBUTES["gender"]}


@pytest.fixture
def run(tmp_path):
    return tables(tmp_path)


def pairs_of(run, **options):
    return pair_questions(*run, **{"swept": GENDER, "pairs": 8} | options)


def test_least_certain_and_random_faces_are_sampled(run):
    found = face_questions(run[0], run[1], unsure=2, sure=3)
    assert {question.photo for question in found if question.sample == UNSURE} == {"p0.png", "p1.png"}
    assert len({question.photo for question in found if question.sample == SURE}) == 3
    assert len(found) == 5 * 2  # gender and race
    assert found == face_questions(run[0], run[1], unsure=2, sure=3)


def test_photos_without_face_are_not_sampled(run):
    photos, faces, _ = run
    faces.loc[0, "status"] = "excluded"
    assert "p0.png" not in {question.photo for question in face_questions(photos, faces, unsure=99, sure=99)}


def test_pairs_show_both_ends_or_photo_and_farther_end(run):
    found = pairs_of(run)
    for question in found:
        values = {picture.value for picture in question.pictures}
        own = float(run[1].set_index("photo").loc[question.photo, "gender"])
        assert values == ({-1.0, 1.0} if question.sample == ENDS else {None, -1.0 if own > 0 else 1.0})
    kinds = {sample: {question.kind for question in found if question.sample == sample} for sample in (ENDS, ORIGINAL)}
    assert kinds == {ENDS: {DIRECTION, VISIBILITY}, ORIGINAL: {VISIBILITY}}


def test_left_and_right_are_randomised(run):
    lefts = {pairs_of(run, seed=seed)[0].pictures[0].value for seed in range(20)}
    assert len(lefts) > 1


def test_reviewers_answer_the_same_questions_in_their_own_order(run):
    found = pairs_of(run)
    first, second = (in_order(found, reviewer=name) for name in ("anna", "bo"))
    assert first != second
    assert sorted(question.name for question in first) == sorted(question.name for question in second)
    assert first == in_order(found, reviewer="anna")
    items = [question.item for question in first]
    assert len(set(items)) == sum(one != other for one, other in zip(items, [None, *items], strict=False))
