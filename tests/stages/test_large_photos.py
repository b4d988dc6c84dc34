"""Batches of large photos, and their reduction for checks."""

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

from pipeline.config.options import PhotoOptions
from pipeline.config.sources import load_settings
from pipeline.counterfactuals.editors.base import Subject
from pipeline.counterfactuals.picture_measures import reduced
from pipeline.photos import SAMPLE
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame
from pipeline.stages import base
from pipeline.stages.checks import checks_stage
from pipeline.stages.counterfactuals import counterfactuals_stage
from pipeline.stages.faces import faces_stage
from pipeline.stages.photos import photos_stage

PHOTOS = sorted(SAMPLE.glob("*.jpg"))[:3]
ROWS = [{"photo": path.name, "path": str(path), "sha256": None} for path in PHOTOS]


def tables(out: Path) -> Mapping[str, pd.DataFrame]:
    given = {"sweep": {"steps": {"gender": 3}, "placebos": ()}, "validity": {"identity_photos": 0}}
    work = base.Audit(Run(out), load_settings(given=given, environment={}), tuple(PHOTOS))
    with work.run.locked():
        versions = counterfactuals_stage(work, faces_stage(work, photos_stage(work)))
        checks_stage(work, versions)
    return {name: read_frame(out / f"{name}.parquet") for name in ("faces", "counterfactuals", "checks")}


def test_photos_are_read_in_batches_of_limited_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PIXELS_AT_ONCE", 1)
    lost = {**ROWS[0], "path": str(SAMPLE / "gone.jpg")}
    found = list(base.read_photos([*ROWS[:2], lost], options=PhotoOptions()))
    assert [[row["photo"] for row, _ in read] for read, _ in found] == [[PHOTOS[0].name], [PHOTOS[1].name], []]
    assert [reason for _, missing in found for _, reason in missing] != []


def test_batch_size_does_not_change_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = tables(tmp_path / "together")
    monkeypatch.setattr(base, "PIXELS_AT_ONCE", 1)
    alone = tables(tmp_path / "alone")
    pd.testing.assert_frame_equal(alone["faces"], together["faces"])
    assert list(alone["counterfactuals"]["sha256"]) == list(together["counterfactuals"]["sha256"])
    pd.testing.assert_frame_equal(alone["checks"], together["checks"], atol=0.02)


def test_large_faces_are_reduced_for_checks() -> None:
    photo = cv2.resize(cv2.imread(str(PHOTOS[0])), None, fx=4, fy=4)[..., ::-1]
    landmarks = 4 * np.array([[60, 70], [90, 70], [75, 90], [62, 105], [88, 105]]) + 1.5
    large = Subject("a.jpg", np.ascontiguousarray(photo), landmarks, {})
    small = reduced(large)
    assert small.pixels.shape[0] < large.pixels.shape[0]
    np.testing.assert_allclose(np.hypot(*small.to_crop[:, 0]), 0.5, atol=1e-6)
    again = reduced(small)
    assert again.pixels.shape == small.pixels.shape
