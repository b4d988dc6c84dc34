from hashlib import sha256

import cv2
import numpy as np
import pytest
from drawn import BOTH, GENDER, Tones, faceless, make, own_values, subject

from models.attributes import RACES
from models.detector import FaceDetector
from models.image_metrics import psnr
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.base import Subject
from pipeline.counterfactuals.files import RunLayout
from pipeline.counterfactuals.make import NO_REGION, load_networks, make_versions, unmade
from pipeline.counterfactuals.validity import validity_card
from pipeline.photos import SAMPLE
from pipeline.run.tables import COUNTERFACTUALS, to_table


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
    assert [row["step"] for row in rows] == list(range(1, BOTH.steps[attribute] + 1))
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


def test_versions_are_measured_against_their_photo(made):
    for photo in ("a.jpg", "c/d.jpg"):
        rows = of(made[1], photo, "gender")
        assert all(0 <= row["concentration"] <= 1 and 0 <= row["asymmetry"] <= 2 for row in rows)
        assert all(0 < row["skin_l"] < 100 for row in rows)
        assert not any("neck_gap" in row for row in rows), "these photos show neither neck nor ears"


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


@pytest.mark.parametrize("arm", [EDIT_ARM, "random"])
def test_a_sweep_that_failed_has_all_its_rows(arm):
    rows = list(unmade("x.jpg", "race", options=BOTH, status="failed", reason="cannot be read", arm=arm))
    assert [(row["step"], row["value"], row["status"]) for row in rows] == [
        (1, -2.0, "failed"), (2, 0.0, "failed"), (3, 2.0, "failed"),
    ]  # fmt: skip
    assert {(row["photo"], row["attribute"], row["arm"], row["reason"]) for row in rows} == {
        ("x.jpg", "race", arm, "cannot be read")
    }
    to_table(rows, COUNTERFACTUALS)


# The null edit


def test_how_far_the_null_edit_is_from_the_photo_is_the_same_for_all_versions_of_a_photo(made):
    for photo in ("a.jpg", "c/d.jpg"):
        facts = {(row["null_psnr"], row["null_ssim"]) for row in made[1] if row["photo"] == photo}
        assert len(facts) == 1
        ((dB, similar),) = facts  # noqa: N806 (the unit is written so)
        assert 0 < dB < 60
        assert -1 <= similar <= 1
    # Where nothing decoded is pasted, there is nothing to repeat.
    assert not any("cycles_psnr" in row for row in made[1])


def test_reconstructions_are_repeated_ten_times(tmp_path):
    rows = make([subject("a.jpg")], tmp_path, GENDER.model_copy(update={"mode": "reconstruction"}))
    assert len({(row["cycles_psnr"], row["cycles_ssim"]) for row in rows}) == 1
    # An untrained network is no nearer to the photo the tenth time than the first.
    assert rows[0]["cycles_psnr"] <= rows[0]["null_psnr"] + 0.5
    assert -1 <= rows[0]["cycles_ssim"] <= 1


def test_in_delta_mode_the_null_edit_is_the_photo_itself(tmp_path):
    # A value of this sweep is the face's own, so that step changes nothing at all.
    face = subject("a.jpg", own=own_values(gender=1.0))
    row = make([face], tmp_path, GENDER)[3]
    assert row["value"] == 1.0
    version = cv2.imread(str(tmp_path / row["file"]))[..., ::-1]
    np.testing.assert_array_equal(version, face.pixels)
    assert psnr(version.astype(float), face.pixels.astype(float), np.ones((160, 160), np.float32)) == float("inf")
    assert row["mask_line"] == 0


# Identity


def test_only_the_chosen_photos_are_shown_to_the_recognition_network(tmp_path):
    subjects = [subject("a.jpg"), faceless(), subject("c/d.jpg", radius=24, seed=2)]
    options = BOTH.model_copy(update={"placebos": ("colour",)})
    rows = make(subjects, tmp_path, options, recogniser=Tones(), identified=["a.jpg", "b/none.jpg"])
    assert {row["photo"] for row in rows if "identity" in row} == {"a.jpg"}
    figures = [row["identity"] for row in rows if row["photo"] == "a.jpg"]
    assert len(figures) == options.versions == 5 + 3 + 2 * 3
    assert all(-1 <= figure <= 1 for figure in figures)
    assert len(set(figures)) > 5
    to_table(rows, COUNTERFACTUALS)


@pytest.mark.parametrize("mode", ["delta", "reconstruction"])
def test_the_null_edit_is_the_same_person(tmp_path, mode):
    face = subject("a.jpg", own=own_values(gender=1.0))
    options = GENDER.model_copy(update={"mode": mode})
    rows = make([face], tmp_path, options, recogniser=Tones(), identified=["a.jpg"])
    assert rows[3]["value"] == 1.0
    assert rows[3]["identity"] == pytest.approx(1, abs=2e-3)
    assert rows[0]["identity"] < rows[3]["identity"]


@pytest.mark.parametrize(("recogniser", "identified"), [(None, ["a.jpg"]), (Tones(), [])])
def test_without_a_recognition_network_identity_is_not_measured_and_no_pass(tmp_path, recogniser, identified):
    rows = make([subject("a.jpg")], tmp_path, GENDER, recogniser=recogniser, identified=identified)
    assert not any("identity" in row for row in rows)
    versions = to_table(rows, COUNTERFACTUALS).to_pandas()
    card = validity_card(versions, swept=ATTRIBUTES, groups={}).set_index("name")
    assert np.isnan(card.loc["identity", "figure"])
    assert card.loc["identity", "passed"] is None


@pytest.mark.parametrize("editor", ["fader", "residual"])
def test_half_precision_moves_pixels_by_no_more_than_a_level(tmp_path, monkeypatch, editor):
    options = SweepOptions(attributes=("race",), steps={"race": 3}, editor=editor)
    photo = cv2.cvtColor(cv2.imread(str(min(SAMPLE.glob("*.jpg")))), cv2.COLOR_BGR2RGB)
    ((face,),) = FaceDetector().detect([photo])
    own = Subject("a.jpg", photo, face.landmarks, own_values())
    pictures = []
    for native in (False, True):  # as on a processor without bfloat16, and on one with it or a GPU
        monkeypatch.setattr("models.precision._native", lambda native=native: native)
        folder = tmp_path / str(native)
        rows = make_versions([own], networks=load_networks(options), options=options, layout=RunLayout(), folder=folder)
        pictures.append(np.array([cv2.imread(str(folder / row["file"])) for row in rows], dtype=int))
    difference = np.abs(pictures[0] - pictures[1]).max(axis=-1)
    assert difference.any() == (editor == "fader")  # the other computes in float32 everywhere
    assert (difference <= 1).mean() >= 0.999
