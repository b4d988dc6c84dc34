"""The album of a run: its photos with their films and scores, and what the page says of those that are not there."""

import shutil

import cv2
import numpy as np
import pandas as pd
import pytest
from run_tables import write_tables

from pipeline.counterfactuals.validity import FAILURE_COLUMNS
from pipeline.report import album as album_module
from pipeline.report.album import album_of, chosen
from pipeline.run.folder import Run

VALUES = (-2.0, 0.0, 2.0)
NOTHING_FAILS = pd.DataFrame(columns=FAILURE_COLUMNS)


def version(photo, arm, step):
    return {
        "attribute": "gender", "arm": arm, "photo": photo, "step": step, "value": VALUES[step - 1], "status": "ok",
        "file": f"images/{photo}-{arm}-{step}.png", "mask": f"masks/{photo}.png",
        "sha256": f"{photo}{arm}{step}",
    }  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Three photos with an edit and a placebo; a classifier without one answer, and one that returns no label."""
    run = Run(tmp_path)
    rng = np.random.default_rng(0)
    versions = [
        version(photo, arm, step) for photo in ("b", "a", "c") for arm in ("random", "edit") for step in (1, 2, 3)
    ]
    for folder in ("images", "masks"):
        run.path(folder).mkdir()
    mask = cv2.circle(np.zeros((90, 90), np.uint8), (45, 45), 30, 255, -1)
    answers, labels = [], []
    for row in versions:
        cv2.imwrite(str(run.path(row["file"])), rng.integers(0, 256, (90, 90, 3), dtype=np.uint8))
        cv2.imwrite(str(run.path(row["mask"])), mask)
        key = {name: row[name] for name in ("attribute", "arm", "photo", "step", "value")}
        unanswered = row["photo"] == "b" and row["step"] == 3
        outcome = {"status": "failed", "reason": "HTTP 503"} if unanswered else {"status": "ok"}
        answers += [{**key, "adapter": "clarity", **outcome}, {**key, "adapter": "mute", "status": "ok"}]
        for number in () if unanswered else range(20):
            returned = number != 3 or row["step"] == 2
            score = (number + row["step"]) / 30 if returned else None
            labels.append(
                {**key, "adapter": "clarity", "label": f"l{number:02d}", "score": score, "returned": returned}
            )
    faces = [{"photo": name, "status": "failed"} for name in "abc"]
    write_tables(run.folder, answers=answers, labels=labels, faces=faces)
    run.note(presence_thresholds={"clarity": 0.5, "mute": 0.5})
    return run, pd.DataFrame(versions)


def slopes():
    rows = [(f"l{number:02d}", slope, True) for number, slope in enumerate([0.0, 0.1, -0.4, 0.3])]
    frame = pd.DataFrame([*rows, ("rare", np.nan, False)], columns=["label", "slope", "estimable"])
    return frame.assign(arm="edit", attribute="gender", adapter="clarity")


def made(run, **changes):
    folder, versions = run
    return album_of(folder, **({"versions": versions, "slopes": slopes(), "failures": NOTHING_FAILS} | changes))


def test_photos_are_by_name_and_edits_before_placebos(run):
    album = made(run)
    assert [photo.name for photo in album.photos] == ["a", "b", "c"]
    assert [sweep.arm for sweep in album.photos[0].sweeps] == ["edit", "random"]
    assert album.photos[0].sweeps[0].values == VALUES
    assert album.presence == {"clarity": 0.5, "mute": 0.5}


def test_what_is_printed_has_one_photo_of_each_group_before_a_second_of_any():
    groups = {"a": "one", "b": "one", "c": "one", "d": "two", "e": "three"}
    assert album_module.diverse("abcde", groups, failing={"d"}, most=3) == ["a", "e", "d"]
    assert album_module.diverse("abcde", groups, failing={"d"}, most=9) == ["a", "e", "d", "b", "c"]


def test_the_viewer_opens_on_the_photo_whose_scores_move_most(run):
    album = made(run)
    missed = [
        {"photo": name, "attribute": "gender", "arm": "edit", "check": "seam", "figure": 1.0, "threshold": 0.1}
        for name in ("a", "b")
    ]
    assert album.photos[album.first].name == "a"
    flagged = made(run, failures=pd.DataFrame(missed))
    assert flagged.photos[flagged.first].name == "c"


def test_films_are_made_once_and_kept_only_while_they_are_shown(run, monkeypatch):
    folder, versions = run
    first = [sweep.film for photo in made(run).photos for sweep in photo.sweeps]
    kept = set(folder.path("films").iterdir())
    assert len(kept) == len(first)

    def fail(*_, **__):
        raise AssertionError("a film was made again")

    with monkeypatch.context() as patch:
        patch.setattr(album_module, "film", fail)
        assert [sweep.film for photo in made(run).photos for sweep in photo.sweeps] == first
    one = versions["photo"] == "a"
    changed = versions.assign(sha256=versions["sha256"].where(~one, "new " + versions["sha256"]))
    album_of(folder, versions=changed, slopes=slopes(), failures=NOTHING_FAILS)
    now = set(folder.path("films").iterdir())
    assert len(now) == len(kept), "films of images that are gone are gone"
    assert len(now - kept) == 2


def test_labels_kept_are_the_steepest_of_the_run_and_the_highest_of_the_photo(run):
    album = made(run)
    assert list(album.steepest["gender", "clarity"]) == ["l02", "l03", "l01", "l00"]
    scores = album.photos[0].sweeps[0].scores["clarity"]
    assert list(scores.labels) == ["l02", "l03", "l01", "l00", "l19", "l18", "l17", "l16", "l15", "l14"]
    np.testing.assert_allclose(scores.scores[0], [3 / 30, 4 / 30, 5 / 30])
    np.testing.assert_array_equal(np.isnan(scores.scores[1]), [True, False, True])


def test_a_version_without_an_answer_keeps_its_reason_and_a_mute_classifier_is_there(run):
    second = made(run).photos[1].sweeps[0].scores
    assert second["clarity"].unanswered == {2: "HTTP 503"}
    assert np.isnan(second["clarity"].scores[:, 2]).all()
    assert list(second["mute"].labels) == []
    assert second["mute"].unanswered == {}


def test_missed_checks_stand_with_the_photo(run):
    row = ("b", "gender", "edit", "clipping", 0.4, 0.05)
    album = made(run, failures=pd.DataFrame([row], columns=FAILURE_COLUMNS))
    assert [(missed.check, missed.figure) for missed in album.photos[1].missed] == [("clipping", 0.4)]
    assert not album.photos[0].missed


def test_every_photo_is_counted_once_whether_it_can_be_shown_or_not(run):
    run[0].path("images/a-edit-2.png").unlink()
    counted = []
    made(run, advance=counted.append)
    assert sum(counted) == 3


def test_an_incomplete_sweep_is_not_shown(run):
    folder, versions = run
    versions.loc[(versions["photo"] == "c") & (versions["arm"] == "random") & (versions["step"] == 2), "status"] = (
        "failed"
    )
    assert [sweep.arm for sweep in made((folder, versions)).photos[2].sweeps] == ["edit"]


def test_photos_whose_images_are_gone_are_counted(run):
    folder, _ = run
    folder.path("images/a-edit-2.png").unlink()
    album = made(run)
    assert [photo.name for photo in album.photos] == ["b", "c"]
    assert (album.total, album.lost) == (3, 1)


def test_a_run_without_versions_has_an_empty_album(run):
    folder, versions = run
    album = made((folder, versions[:0]))
    assert (list(album.photos), album.total) == ([], 0)


def test_the_same_run_gives_the_same_films(run):
    films = [sweep.film for photo in made(run).photos for sweep in photo.sweeps]
    shutil.rmtree(run[0].path("films"))
    assert films == [sweep.film for photo in made(run).photos for sweep in photo.sweeps]


def test_where_not_all_fit_failing_photos_have_up_to_half_of_the_places():
    names = [f"{number:03d}" for number in range(100)]
    failing = set(names[90:])
    few = chosen(names, failing=failing, most=40)
    assert len(few) == 40
    assert few == sorted(few)
    assert failing <= set(few)
    assert few[0] == "000"
    assert len(failing & set(chosen(names, failing=failing, most=10))) <= 6
    assert chosen(names, failing=failing, most=100) == names
