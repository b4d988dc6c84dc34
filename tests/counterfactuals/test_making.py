from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import numpy as np
import pytest
from drawn import networks, own_values, subject

from pipeline.config import SweepOptions
from pipeline.counterfactuals.making import NO_REGION, make_versions, unmade
from pipeline.counterfactuals.sweep import Subject
from pipeline.records import COUNTERFACTUALS, EDIT_ARM, RACES, to_table

BOTH = SweepOptions(attributes=("gender", "race"), gender_steps=5, race_steps=3, region=("skin",))
GENDER = BOTH.model_copy(update={"attributes": ("gender",)})


def faceless(photo="b/none.jpg"):
    return Subject(photo, np.zeros((160, 160, 3), np.uint8), subject().landmarks, own_values())


def make(subjects, folder, options=BOTH):
    with ThreadPoolExecutor(2) as pool:
        return make_versions(subjects, networks=networks(), options=options, run_folder=folder, pool=pool)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    subjects = [subject("a.jpg"), faceless(), subject("c/d.jpg", radius=24, seed=2)]
    return folder, make(subjects, folder)


def of(rows, photo, attribute):
    return [row for row in rows if (row["photo"], row["attribute"]) == (photo, attribute)]


@pytest.mark.parametrize("photo", ["a.jpg", "b/none.jpg", "c/d.jpg"])
@pytest.mark.parametrize("attribute", ["gender", "race"])
def test_every_photo_has_a_row_for_each_value_of_each_attribute(made, photo, attribute):
    rows = of(made[1], photo, attribute)
    assert [row["step"] for row in rows] == list(range(1, BOTH.steps(attribute) + 1))
    assert [row["value"] for row in rows] == list(BOTH.values(attribute))
    assert {row["arm"] for row in rows} == {EDIT_ARM}


def test_versions_are_on_disk_as_their_rows_say(made):
    folder, rows = made
    good = [row for row in rows if row["status"] == "ok"]
    assert len(good) == 2 * (5 + 3)
    assert len({row["file"] for row in good}) == len(good)
    for row in good:
        assert sha256((folder / row["file"]).read_bytes()).hexdigest() == row["sha256"]
    masks = {row["mask"] for row in good}
    assert len(masks) == 2
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {row["file"] for row in good} | masks


def test_the_judge_has_seen_every_version(made):
    for row in made[1]:
        if row["status"] != "ok":
            continue
        races = [row[f"judge_race_{race}"] for race in RACES]
        assert sum(races) == pytest.approx(1, abs=1e-3)
        assert 0 < row["judge_masculine"] < 1
        assert row["judge_age"] >= 0
        assert max(abs(row["judge_young"]), abs(row["judge_smiling"])) <= 1


def test_a_face_without_the_region_is_excluded_with_the_reason(made):
    rows = of(made[1], "b/none.jpg", "gender")
    assert {(row["status"], row["reason"]) for row in rows} == {("excluded", NO_REGION)}
    assert not any("file" in row for row in rows)


def test_the_rows_fit_the_table(made):
    table = to_table(made[1], COUNTERFACTUALS)
    assert table.num_rows == 3 * (5 + 3)
    assert set(table["status"].to_pylist()) == {"ok", "excluded"}


def test_gender_is_made_alike_with_and_without_race(made, tmp_path):
    alone = make([subject("a.jpg"), faceless(), subject("c/d.jpg", radius=24, seed=2)], tmp_path, GENDER)
    assert alone == [row for row in made[1] if row["attribute"] == "gender"]


def test_making_twice_gives_the_same_bytes(made, tmp_path):
    again = make([subject("a.jpg"), faceless(), subject("c/d.jpg", radius=24, seed=2)], tmp_path)
    assert [row.get("sha256") for row in again] == [row.get("sha256") for row in made[1]]


def test_reconstructions_and_jpeg_are_made_too(tmp_path):
    options = GENDER.model_copy(update={"mode": "reconstruction", "image_format": "jpeg"})
    rows = make([subject("a.jpg")], tmp_path, options)
    assert {row["status"] for row in rows} == {"ok"}
    assert all(row["file"].endswith(".jpg") for row in rows)
    assert all(row["background_kept"] == 1.0 for row in rows)


def test_only_faceless_photos_and_no_photos_are_no_trouble(tmp_path):
    assert {row["status"] for row in make([faceless()], tmp_path)} == {"excluded"}
    assert make([], tmp_path) == []


def test_a_sweep_that_failed_has_all_its_rows():
    rows = list(unmade("x.jpg", "gender", (-1.0, 0.0, 1.0), status="failed", reason="cannot be read"))
    assert [(row["step"], row["value"], row["status"]) for row in rows] == [
        (1, -1.0, "failed"), (2, 0.0, "failed"), (3, 1.0, "failed"),
    ]  # fmt: skip
    to_table(rows, COUNTERFACTUALS)
