"""The album of a run: photos with films and scores for the viewer."""

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


def version_row(photo, arm, step):
    return {
        "attribute": "gender", "arm": arm, "photo": photo, "step": step, "value": VALUES[step - 1], "status": "ok",
        "file": f"images/{photo}-{arm}-{step}.png", "mask": f"masks/{photo}.png",
        "sha256": f"{photo}{arm}{step}",
    }  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Three photos with an edit and a placebo; an adapter with one failed answer, and one without labels."""
    run = Run(tmp_path)
    rng = np.random.default_rng(0)
    versions = [
        version_row(photo, arm, step) for photo in ("b", "a", "c") for arm in ("random", "edit") for step in (1, 2, 3)
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


def album_of_run(run, **changes):
    folder, versions = run
    return album_of(folder, **({"versions": versions, "slopes": slopes(), "failures": NOTHING_FAILS} | changes))


def test_photos_are_sorted_by_name_and_edits_precede_placebos(run):
    album = album_of_run(run)
    assert [photo.name for photo in album.photos] == ["a", "b", "c"]
    assert [sweep.arm for sweep in album.photos[0].sweeps] == ["edit", "random"]
    assert album.photos[0].sweeps[0].values == VALUES
    assert album.presence == {"clarity": 0.5, "mute": 0.5}


def test_diverse_selection_covers_all_groups_first():
    groups = {"a": "one", "b": "one", "c": "one", "d": "two", "e": "three"}
    assert album_module.diverse("abcde", groups, failing={"d"}, most=3) == ["a", "e", "d"]
    assert album_module.diverse("abcde", groups, failing={"d"}, most=9) == ["a", "e", "d", "b", "c"]


def test_first_photo_has_the_largest_change_and_no_failed_check(run):
    album = album_of_run(run)
    assert album.photos[album.first].name == "a"
    failures = [(name, "gender", "edit", "seam", 1.0, 0.1) for name in ("a", "b")]
    flagged = album_of_run(run, failures=pd.DataFrame(failures, columns=FAILURE_COLUMNS))
    assert flagged.photos[flagged.first].name == "c"


def test_films_are_cached_and_outdated_films_removed(run, monkeypatch):
    folder, versions = run
    first = [sweep.film for photo in album_of_run(run).photos for sweep in photo.sweeps]
    kept = set(folder.path("films").iterdir())
    assert len(kept) == len(first)

    def fail(*_, **__):
        raise AssertionError("a film was made again")

    with monkeypatch.context() as patch:
        patch.setattr(album_module, "film", fail)
        assert [sweep.film for photo in album_of_run(run).photos for sweep in photo.sweeps] == first
    of_photo_a = versions["photo"] == "a"
    changed = versions.assign(sha256=versions["sha256"].where(~of_photo_a, "new " + versions["sha256"]))
    album_of(folder, versions=changed, slopes=slopes(), failures=NOTHING_FAILS)
    now = set(folder.path("films").iterdir())
    assert len(now) == len(kept), "outdated films are deleted"
    assert len(now - kept) == 2


def test_labels_are_the_steepest_of_the_run_and_the_highest_of_the_photo(run):
    album = album_of_run(run)
    assert list(album.steepest["gender", "clarity"]) == ["l02", "l03", "l01", "l00"]
    scores = album.photos[0].sweeps[0].scores["clarity"]
    assert list(scores.labels) == ["l02", "l03", "l01", "l00", "l19", "l18", "l17", "l16", "l15", "l14"]
    np.testing.assert_allclose(scores.scores[0], [3 / 30, 4 / 30, 5 / 30])
    np.testing.assert_array_equal(np.isnan(scores.scores[1]), [True, False, True])


def test_unanswered_versions_have_a_reason_and_silent_adapters_are_listed(run):
    second = album_of_run(run).photos[1].sweeps[0].scores
    assert second["clarity"].unanswered == {2: "HTTP 503"}
    assert np.isnan(second["clarity"].scores[:, 2]).all()
    assert list(second["mute"].labels) == []
    assert second["mute"].unanswered == {}


def test_failed_checks_are_listed_with_the_photo(run):
    row = ("b", "gender", "edit", "clipping", 0.4, 0.05)
    album = album_of_run(run, failures=pd.DataFrame([row], columns=FAILURE_COLUMNS))
    assert [(missed.check, missed.figure) for missed in album.photos[1].missed] == [("clipping", 0.4)]
    assert not album.photos[0].missed


def test_progress_counts_every_photo_once(run):
    run[0].path("images/a-edit-2.png").unlink()
    counted = []
    album_of_run(run, advance=counted.append)
    assert sum(counted) == 3


def test_incomplete_sweeps_are_omitted(run):
    folder, versions = run
    failed = (versions["photo"] == "c") & (versions["arm"] == "random") & (versions["step"] == 2)
    versions.loc[failed, "status"] = "failed"
    assert [sweep.arm for sweep in album_of_run((folder, versions)).photos[2].sweeps] == ["edit"]


def test_photos_with_missing_images_are_counted(run):
    folder, _ = run
    folder.path("images/a-edit-2.png").unlink()
    album = album_of_run(run)
    assert [photo.name for photo in album.photos] == ["b", "c"]
    assert (album.total, album.lost) == (3, 1)


def test_album_of_a_run_without_versions_is_empty(run):
    folder, versions = run
    album = album_of_run((folder, versions[:0]))
    assert (list(album.photos), album.total) == ([], 0)


def test_films_are_reproducible(run):
    films = [sweep.film for photo in album_of_run(run).photos for sweep in photo.sweeps]
    shutil.rmtree(run[0].path("films"))
    assert films == [sweep.film for photo in album_of_run(run).photos for sweep in photo.sweeps]


def test_selection_gives_failing_photos_up_to_half_of_the_places():
    names = [f"{number:03d}" for number in range(100)]
    failing = set(names[90:])
    few = chosen(names, failing=failing, most=40)
    assert len(few) == 40
    assert few == sorted(few)
    assert failing <= set(few)
    assert few[0] == "000"
    assert len(failing & set(chosen(names, failing=failing, most=10))) <= 6
    assert chosen(names, failing=failing, most=100) == names
