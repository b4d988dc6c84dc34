"""Edits of skin tone, age, smile and intersections, on drawn faces and on the embedded sample."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from drawn_subjects import RedSkinParser, face_photo, faceless_subject, make, own_values, residual_editor, subject
from PIL import Image
from version_rows import card_of, masculine, versions, white_share

from models.attributes import MONK, MONK_LIGHTNESS
from models.judge import perceive_crops
from models.parser import class_indices
from models.tone import load_tone_table
from models.weights import load_judge, load_parser, load_residual
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, attribute_of
from pipeline.config.options import FaceOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.residual import ToneAndFields
from pipeline.counterfactuals.make import subject_of
from pipeline.counterfactuals.mask import chances_of
from pipeline.counterfactuals.skin import skin_colour, skin_lightness
from pipeline.counterfactuals.validity import validity_card
from pipeline.photos import SAMPLE
from pipeline.photos.faces import face_rows

TONE = ATTRIBUTES["skin-tone"]
SWEPT = SweepOptions(attributes=("skin-tone", "gender*race"), steps={"gender": 5}, region=("skin",))
STEPS = (-2.0, -1.0, 0.0, 1.0, 2.0)


def lab_of(pixels):
    return cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Rows and images of a masculine face, perceived as Black, with the lightness of a = 0."""
    folder, middle = tmp_path_factory.mktemp("sweep"), TONE.scale[0]
    own = own_values(gender=1.0, race_Black=1.0, race_White=0.0, skin_l=middle)
    face, hidden = subject("a.jpg", own=own), faceless_subject()
    hidden.own["skin_l"] = float("nan")
    rows = make([face, hidden], folder, SWEPT, editor=residual_editor(SWEPT))
    images = {
        (row["attribute"], row["arm"], row["value"]): np.array(Image.open(folder / row["file"]))
        for row in rows
        if row["status"] == "ok"
    }
    return face, rows, images, folder


def test_skin_tone_scale_is_the_lightness_of_the_monk_colours():
    codes = np.array([[int(code[at : at + 2], 16) for at in (1, 3, 5)] for code in MONK], dtype=np.uint8)
    np.testing.assert_allclose(lab_of(codes[None])[0, :, 0], MONK_LIGHTNESS, atol=0.2)
    middle, unit = TONE.scale
    at = {number: (MONK_LIGHTNESS[number - 1] - middle) / unit for number in (5, 6, 7, 8)}
    assert (at[8], at[5]) == pytest.approx((-2, 2))
    assert at[7] == pytest.approx(-1, abs=0.02)
    assert at[6] == pytest.approx(0, abs=0.08)


def test_skin_tone_edit_takes_the_steps_of_the_scale_inside_the_mask(sweep):
    face, rows, images, folder = sweep
    np.testing.assert_array_equal(images["skin-tone", EDIT_ARM, 0.0], face.pixels)
    _, _, disc = face_photo()
    # The lightest step of this red face would be clipped.
    skin = np.array([np.median(lab_of(images["skin-tone", EDIT_ARM, a])[disc], axis=0) for a in STEPS[:4]])
    np.testing.assert_allclose(np.diff(skin[:, 0]), TONE.scale[1], atol=2.0)
    chroma = np.hypot(skin[:, 1], skin[:, 2]) / skin[:, 0]
    assert (np.diff(chroma) < 0).all(), "darker skin has more chroma relative to its lightness"
    for row in rows:
        if row["status"] == "ok":
            mask = np.array(Image.open(folder / row["mask"]))
            changed = (images[row["attribute"], row["arm"], row["value"]] != face.pixels).any(axis=2)
            assert not (changed & (mask == 0)).any()


def test_face_without_skin_is_excluded_from_skin_tone(sweep):
    _, rows, _, _ = sweep
    hidden = [row for row in rows if row["photo"] == faceless_subject().photo]
    assert {row["status"] for row in hidden} == {"excluded"}
    assert skin_lightness(RedSkinParser(), faceless_subject()) is None
    lightness = skin_lightness(RedSkinParser(), subject())
    assert lightness == pytest.approx(float(np.median(lab_of(face_photo()[0])[face_photo()[2]], axis=0)[0]), abs=1)


def test_intersection_composes_both_edits(sweep):
    face, _, images, _ = sweep
    for value in STEPS:  # the face is perceived as Black already; the region is larger, which moves some edge pixels
        plain, both = (images[name, EDIT_ARM, value].astype(int) for name in ("gender", "gender@Black"))
        assert (np.abs(plain - both).max(axis=2) > 0).mean() < 0.002
    own_gender = face.own["gender"]
    race = residual_editor(SWEPT).read([face]).edit(ATTRIBUTES["race"], (1.0,)).make(0).versions[0].pixels
    np.testing.assert_array_equal(images["gender@White", EDIT_ARM, own_gender], race)
    assert (images["gender@White", EDIT_ARM, -2.0] != race).any()


def test_placebos_of_an_intersection_start_from_the_other_edit(sweep):
    _, _, images, _ = sweep
    white = images["gender@White", EDIT_ARM, 1.0].astype(float)

    def size(arm, value):
        return np.sqrt(((images["gender@White", arm, value] - white) ** 2).mean())

    for value in (-2.0, 0.0):
        assert size("random", value) == pytest.approx(size(EDIT_ARM, value), rel=0.3)
    assert size("random", 0.0) < 0.6 * size("random", -2.0)


def test_card_of_an_intersection_has_the_effects_of_both_edits():
    shares = white_share(0.2)
    low = versions(attribute="gender@Black", judge_masculine=masculine(0.2), **{k: v(0, -1) for k, v in shares.items()})
    high = versions(attribute="gender@White", judge_masculine=masculine(0.2), **{k: v(0, 1) for k, v in shares.items()})
    table = low.merge(high, how="outer")
    swept = SweepOptions(attributes=("gender*race",)).chosen()
    card = validity_card(table, swept=swept, groups={}).set_index(["attribute", "name"])
    for name in ("gender@Black", "gender@White"):
        assert card.loc[(name, "effect"), "figure"] == pytest.approx(0.4)
        assert card.loc[(name, "effect: race"), "figure"] == pytest.approx(0.4)
        assert "stencil" not in card.loc[name].index


def test_age_effect_is_relative_to_the_photo():
    table = versions(attribute="age", judge_age=lambda photo, value: 30 + 2 * photo + 5 * value)
    card = card_of(table)
    assert card.loc["effect", "figure"] == pytest.approx(0.5)
    assert card.loc["crossing", "figure"] == 1
    assert card.loc["off-target: masculine", "figure"] == 0
    assert "off-target: young" not in card.index


def test_race_change_of_skin_tone_edits_has_no_threshold():
    middle, unit = TONE.scale
    table = versions(attribute="skin-tone", skin_l=lambda photo, value: middle + unit * value, **white_share(0.1))
    card = card_of(table)
    assert card.loc["effect", "figure"] == pytest.approx(0.5)
    assert card.loc["off-target: race", "figure"] > 0.1
    assert card.loc["off-target: race", "passed"] is None
    assert card.loc["off-target: masculine", "passed"] is True


def test_attribute_of_an_intersection_name():
    assert attribute_of("race@feminine").moves_colour
    assert attribute_of("gender@Asian").subject == "perceived gender on faces edited to perceived Asian"
    assert attribute_of("gender@White").given == (ATTRIBUTES["race"], 1)
    assert attribute_of("gender@nothing").given is None


@pytest.fixture(scope="module")
def portraits():
    """Six faces of the sample, read as in an audit."""
    from models.detector import FaceDetector

    parser = load_parser()
    names = sorted(path.name for path in SAMPLE.glob("*.jpg"))[::11][:6]
    photos = [np.array(Image.open(SAMPLE / name)) for name in names]
    rows = face_rows(names, photos, detector=FaceDetector(), estimator=load_judge("estimator"), options=FaceOptions())
    found = [subject_of(row, photo) for row, photo in zip(rows, photos, strict=True) if row["status"] == "ok"]
    for face in found:
        face.own["skin_l"] = skin_lightness(parser, face)
    options = SweepOptions()
    editor = ToneAndFields(
        load_residual(), load_tone_table(), parser, options.region, options.feather, load_judge("estimator")
    )
    return editor, editor.read(found)


def test_smile_edit_does_not_open_the_mouth(portraits):
    editor, batch = portraits
    edit = batch.edit(ATTRIBUTES["smile"], STEPS)
    inside = list(class_indices(("mouth",)))

    def mouth_area(subjects):
        """Pixels of the parser's view that are the inside of the mouth."""
        return (chances_of(editor.parser, subjects)[:, inside].sum(axis=1) > 0.5).sum(axis=(1, 2))

    versions = [edit.make(place).versions for place in range(len(batch.subjects))]
    before = mouth_area(batch.subjects)
    for step in range(len(STEPS)):
        pairs = zip(batch.subjects, versions, strict=True)
        after = mouth_area([replace(face, pixels=found[step].pixels) for face, found in pairs])
        assert (after[before == 0] <= 3).all(), "a closed mouth stays closed"
        assert (after <= 1.8 * before + 3).all()
    for face, found in zip(batch.subjects, versions, strict=True):
        np.testing.assert_array_equal(found[2].pixels, face.pixels)
        changed = [np.abs(version.pixels.astype(int) - face.pixels).mean() for version in found]
        assert changed[0] > changed[1] > 0
        assert changed[4] > changed[3] > 0


@pytest.mark.parametrize(
    ("name", "column", "least", "held"),
    [
        ("age", "age", 8.0, {"masculine": 0.15, "smiling": 0.25}),
        ("smile", "smiling", 0.25, {"masculine": 0.1, "age": 3.0}),
        ("skin-tone", "skin_l", 18.0, {"masculine": 0.15, "smiling": 0.25, "age": 5.0}),
        ("gender@White", "masculine", 0.3, {"age": 6.0, "smiling": 0.3}),
    ],
)
def test_edits_of_the_sample_move_their_attribute_and_little_else(portraits, name, column, least, held):
    editor, batch = portraits
    edit, judge = batch.edit(attribute_of(name), (-1.0, 1.0)), load_judge("judge")
    versions_of_faces = [edit.make(place) for place in range(len(batch.subjects))]
    assert len(versions_of_faces) >= 5
    assert None not in versions_of_faces
    crops = [
        [cv2.warpAffine(version.pixels, face.to_crop, (128, 128)) for version in found.versions]
        for face, found in zip(batch.subjects, versions_of_faces, strict=True)
    ]
    perceived = perceive_crops(judge, [crop for pair in crops for crop in pair]).named()
    moved = {k: float((v.reshape(-1, 2)[:, 1] - v.reshape(-1, 2)[:, 0]).mean()) for k, v in perceived.items()}
    lightness = [
        [
            skin_colour(face, chances_of(editor.parser, [face])[0])[0]
            for face in (subject_of({**face.own, "photo": face.photo}, version.pixels) for version in found.versions)
        ]
        for face, found in zip(batch.subjects, versions_of_faces, strict=True)
    ]
    moved["skin_l"] = float(np.diff(lightness).mean())
    assert moved[column] >= least
    for control, most in held.items():
        assert abs(moved[control]) <= most, (control, moved)
