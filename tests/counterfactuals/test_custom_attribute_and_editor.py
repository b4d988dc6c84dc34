"""A new attribute, which is one record, and a new editor, which is one class."""

from dataclasses import dataclass, replace

import cv2
import numpy as np
import pytest
import torch
from drawn_subjects import faceless_subject, make, own_values, subject
from PIL import Image

from models.alignment import aligned_crop
from models.precision import unit_batch
from pipeline.config import sweep_options as module
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, YOUNG, Attribute
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.base import CROP, Patch, PhotoEdit, PhotoVersions
from pipeline.counterfactuals.mask import paste
from pipeline.counterfactuals.validity import effectiveness_curve, validity_card
from pipeline.run.tables import COUNTERFACTUALS, to_table

GRIN = Attribute(
    name="grin",
    poles=("serious", "smiling"),
    directions=("with less of a smile", "with more of a smile"),
    default_steps=3,
    inputs=("smiling",),
    judged=("judge_smiling",),
    judged_as="a smile",
    must_not_move=(YOUNG,),
)


@pytest.fixture
def grin(monkeypatch):
    monkeypatch.setattr(module, "ATTRIBUTES", {**ATTRIBUTES, "grin": GRIN})
    return SweepOptions(attributes=("grin",), region=("skin",), placebos=())


def test_new_attribute_needs_only_its_record(grin, tmp_path):
    options = grin.model_copy(update={"placebos": ("random", "colour")})
    face = subject("a.jpg", own=own_values(smiling=0.0))
    rows = make([face, faceless_subject()], tmp_path, options)
    assert {(row["attribute"], row["arm"]) for row in rows} == {("grin", arm) for arm in options.arms}
    ok_rows = [row for row in rows if row["status"] == "ok"]
    assert [row["value"] for row in ok_rows if row["arm"] == EDIT_ARM] == [-2.0, 0.0, 2.0]
    assert {row["file"].split("/")[1] for row in ok_rows} == {"grin", "grin-random", "grin-colour"}
    images = {row["value"]: np.array(Image.open(tmp_path / row["file"])) for row in ok_rows if row["arm"] == EDIT_ARM}
    np.testing.assert_array_equal(images[0.0], face.pixels)  # the face's own value
    assert (images[2.0] != face.pixels).any()
    versions = to_table(rows, COUNTERFACTUALS).to_pandas()
    card = validity_card(versions, swept=options.chosen(), groups={})
    assert set(card["attribute"]) == {"grin"}
    names = set(card["name"])
    assert {"effect", "monotone", "off-target: young", "placebo: random", "placebo: colour"} <= names
    assert not {"off-target: smiling", "off-target: race"} & names
    assert card.set_index("name").loc["effect", "words"].startswith("Rise of the mean probability of a smile")
    assert len(effectiveness_curve(versions, swept=options.chosen())) == 3 * 3


@dataclass(frozen=True)
class BrightnessEditor:
    """An editor that makes the whole photo darker or lighter."""

    def read(self, subjects, near=None):
        crops = unit_batch([aligned_crop(face.pixels, face.landmarks, size=CROP) for face in subjects])
        return BrightnessBatch(tuple(subjects), crops, crops)


@dataclass(frozen=True)
class BrightnessBatch:
    subjects: tuple
    crops: torch.Tensor
    null: torch.Tensor

    def null_of(self, crops):
        return crops

    def edit(self, attribute, values):
        def make(place):
            face = self.subjects[place]
            mask = np.zeros(face.pixels.shape[:2], dtype=np.float32)
            mask[20:-20, 20:-20] = 1
            images = (cv2.convertScaleAbs(face.pixels, alpha=1 + value / 4) for value in values)
            versions = tuple(paste(face.pixels, Patch(0, 0, mask), image.astype(np.float32)) for image in images)
            return PhotoVersions(face.pixels, 0.0, Patch(0, 0, mask), versions)

        return PhotoEdit(attribute.name, EDIT_ARM, values, make)


def test_custom_editor_gets_files_checks_and_placebos(grin, tmp_path):
    options = grin.model_copy(update={"placebos": ("random",)})
    face = subject("a.jpg")
    rows = make([face], tmp_path, options, editor=BrightnessEditor())
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["arm"] for row in rows} == {EDIT_ARM, "random"}
    assert {row["background_kept"] for row in rows} == {1.0}
    assert {row["null_psnr"] for row in rows} == {float("inf")}
    lowest = next(row for row in rows if row["arm"] == EDIT_ARM)
    full = np.array(Image.open(tmp_path / lowest["mask"])) == 255
    darker = np.array(Image.open(tmp_path / lowest["file"]))
    np.testing.assert_array_equal(darker[full], cv2.convertScaleAbs(face.pixels, alpha=0.5)[full])
    assert len(rows) == options.versions


def test_new_categorical_attribute_is_swept_between_its_poles(monkeypatch, tmp_path):
    controls = ("young", "smiling")
    mood = replace(GRIN, name="mood", poles=controls, categories=controls, inputs=controls, judged=GRIN.judged * 2)
    monkeypatch.setattr(module, "ATTRIBUTES", {**ATTRIBUTES, "mood": mood})
    rows = make([subject("a.jpg")], tmp_path, SweepOptions(attributes=("mood",), region=("skin",), placebos=()))
    assert len({row["sha256"] for row in rows}) == 3
