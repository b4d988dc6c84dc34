from hashlib import sha256

import cv2
import numpy as np
import pytest
from drawn_subjects import BOTH, GENDER, ColourRecogniser, faceless_subject, make, own_values, subject

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


def three_subjects():
    return [subject("a.jpg"), faceless_subject(), subject("c/d.jpg", radius=24, seed=2)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder, make(three_subjects(), folder)


def rows_of(rows, photo, attribute):
    return [row for row in rows if (row["photo"], row["attribute"]) == (photo, attribute)]


@pytest.mark.parametrize("photo", ["a.jpg", "b/none.jpg", "c/d.jpg"])
@pytest.mark.parametrize("attribute", ["gender", "race"])
def test_every_photo_has_a_row_per_attribute_and_value(run, photo, attribute):
    rows = rows_of(run[1], photo, attribute)
    assert [row["step"] for row in rows] == list(range(1, BOTH.steps[attribute] + 1))
    assert [row["value"] for row in rows] == list(BOTH.values(attribute))
    assert {row["arm"] for row in rows} == {EDIT_ARM}


def test_files_agree_with_their_rows(run):
    folder, rows = run
    good = [row for row in rows if row["status"] == "ok"]
    assert len(good) == 2 * (5 + 3)
    assert len({row["file"] for row in good}) == len(good)
    for row in good:
        assert sha256((folder / row["file"]).read_bytes()).hexdigest() == row["sha256"]
    masks = {row["mask"] for row in good}
    assert len(masks) == 2
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {row["file"] for row in good} | masks


def test_every_version_is_judged(run):
    for row in run[1]:
        if row["status"] != "ok":
            continue
        races = [row[f"judge_race_{race}"] for race in RACES]
        assert sum(races) == pytest.approx(1, abs=1e-3)
        assert 0 < row["judge_masculine"] < 1
        assert row["judge_age"] >= 0
        assert max(abs(row["judge_young"]), abs(row["judge_smiling"])) <= 1


def test_versions_are_measured(run):
    for photo in ("a.jpg", "c/d.jpg"):
        rows = rows_of(run[1], photo, "gender")
        assert all(0 <= row["concentration"] <= 1 and 0 <= row["asymmetry"] <= 2 for row in rows)
        assert all(0 < row["skin_l"] < 100 for row in rows)
        assert not any("neck_gap" in row for row in rows), "the photos show neither neck nor ears"


def test_face_without_the_region_is_excluded(run):
    rows = rows_of(run[1], "b/none.jpg", "gender")
    assert {(row["status"], row["reason"]) for row in rows} == {("excluded", NO_REGION)}
    assert not any("file" in row for row in rows)


def test_rows_fit_the_schema(run):
    table = to_table(run[1], COUNTERFACTUALS)
    assert table.num_rows == 3 * (5 + 3)
    assert set(table["status"].to_pylist()) == {"ok", "excluded"}


def test_attributes_are_independent(run, tmp_path):
    alone = make(three_subjects(), tmp_path, GENDER)
    assert alone == [row for row in run[1] if row["attribute"] == "gender"]


def test_versions_are_reproducible(run, tmp_path):
    again = make(three_subjects(), tmp_path)
    assert [row.get("sha256") for row in again] == [row.get("sha256") for row in run[1]]


def test_reconstruction_mode_and_jpeg(tmp_path):
    options = GENDER.model_copy(update={"mode": "reconstruction", "image_format": "jpeg"})
    rows = make([subject("a.jpg")], tmp_path, options)
    assert {row["status"] for row in rows} == {"ok"}
    assert all(row["file"].endswith(".jpg") for row in rows)
    assert all(row["background_kept"] == 1.0 for row in rows)


def test_photos_without_region_and_empty_input(tmp_path):
    assert {row["status"] for row in make([faceless_subject()], tmp_path)} == {"excluded"}
    assert make([], tmp_path) == []


@pytest.mark.parametrize("arm", [EDIT_ARM, "random"])
def test_unmade_sweep_has_a_row_per_value(arm):
    rows = list(unmade("x.jpg", "race", options=BOTH, status="failed", reason="cannot be read", arm=arm))
    assert [(row["step"], row["value"]) for row in rows] == [(1, -2.0), (2, 0.0), (3, 2.0)]
    fields = ("photo", "attribute", "arm", "status", "reason")
    assert {tuple(row[name] for name in fields) for row in rows} == {("x.jpg", "race", arm, "failed", "cannot be read")}
    to_table(rows, COUNTERFACTUALS)


# The null edit


def test_null_edit_figures_are_those_of_the_photo(run):
    for photo in ("a.jpg", "c/d.jpg"):
        facts = {(row["null_psnr"], row["null_ssim"]) for row in run[1] if row["photo"] == photo}
        assert len(facts) == 1
        ((dB, similar),) = facts  # noqa: N806 (the unit is written so)
        assert 0 < dB < 60
        assert -1 <= similar <= 1
    # Delta mode pastes nothing decoded, so there are no cycles.
    assert not any("cycles_psnr" in row for row in run[1])


def test_reconstruction_mode_measures_repeated_null_edits(tmp_path):
    rows = make([subject("a.jpg")], tmp_path, GENDER.model_copy(update={"mode": "reconstruction"}))
    assert len({(row["cycles_psnr"], row["cycles_ssim"]) for row in rows}) == 1
    # An untrained network does not approach the photo.
    assert rows[0]["cycles_psnr"] <= rows[0]["null_psnr"] + 0.5
    assert -1 <= rows[0]["cycles_ssim"] <= 1


def test_null_edit_in_delta_mode_is_the_photo(tmp_path):
    # The face's own value is a step of the sweep.
    face = subject("a.jpg", own=own_values(gender=1.0))
    row = make([face], tmp_path, GENDER)[3]
    assert row["value"] == 1.0
    version = cv2.imread(str(tmp_path / row["file"]))[..., ::-1]
    np.testing.assert_array_equal(version, face.pixels)
    assert psnr(version.astype(float), face.pixels.astype(float), np.ones((160, 160), np.float32)) == float("inf")
    assert row["mask_line"] == 0


# Identity


def test_identity_is_measured_for_selected_photos_only(tmp_path):
    options = BOTH.model_copy(update={"placebos": ("colour",)})
    rows = make(three_subjects(), tmp_path, options, recogniser=ColourRecogniser(), identified=["a.jpg", "b/none.jpg"])
    assert {row["photo"] for row in rows if "identity" in row} == {"a.jpg"}
    figures = [row["identity"] for row in rows if row["photo"] == "a.jpg"]
    assert len(figures) == options.versions == 5 + 3 + 2 * 3
    assert all(-1 <= figure <= 1 for figure in figures)
    assert len(set(figures)) > 5
    to_table(rows, COUNTERFACTUALS)


@pytest.mark.parametrize("mode", ["delta", "reconstruction"])
def test_identity_of_the_null_edit_is_one(tmp_path, mode):
    face = subject("a.jpg", own=own_values(gender=1.0))
    options = GENDER.model_copy(update={"mode": mode})
    rows = make([face], tmp_path, options, recogniser=ColourRecogniser(), identified=["a.jpg"])
    assert rows[3]["value"] == 1.0
    assert rows[3]["identity"] == pytest.approx(1, abs=2e-3)
    assert rows[0]["identity"] < rows[3]["identity"]


@pytest.mark.parametrize(("recogniser", "identified"), [(None, ["a.jpg"]), (ColourRecogniser(), [])])
def test_unmeasured_identity_is_not_a_pass(tmp_path, recogniser, identified):
    rows = make([subject("a.jpg")], tmp_path, GENDER, recogniser=recogniser, identified=identified)
    assert not any("identity" in row for row in rows)
    versions = to_table(rows, COUNTERFACTUALS).to_pandas()
    card = validity_card(versions, swept=ATTRIBUTES, groups={}).set_index("name")
    assert np.isnan(card.loc["identity", "figure"])
    assert card.loc["identity", "passed"] is None


@pytest.mark.parametrize("editor", ["fader", "residual"])
def test_half_precision_changes_pixels_by_at_most_one_level(tmp_path, monkeypatch, editor):
    options = SweepOptions(attributes=("race",), steps={"race": 3}, editor=editor)
    photo = cv2.cvtColor(cv2.imread(str(min(SAMPLE.glob("*.jpg")))), cv2.COLOR_BGR2RGB)
    ((face,),) = FaceDetector().detect([photo])
    own = Subject("a.jpg", photo, face.landmarks, own_values())
    images = []
    for native in (False, True):  # without and with bfloat16
        monkeypatch.setattr("models.precision._native", lambda native=native: native)
        folder = tmp_path / str(native)
        rows = make_versions([own], networks=load_networks(options), options=options, layout=RunLayout(), folder=folder)
        images.append(np.array([cv2.imread(str(folder / row["file"])) for row in rows], dtype=int))
    difference = np.abs(images[0] - images[1]).max(axis=-1)
    assert difference.any() == (editor == "fader")  # the residual editor always uses float32
    assert (difference <= 1).mean() >= 0.999
