"""The embedded sample of portraits."""

import csv
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from models.detector import FaceDetector
from pipeline.photos import SAMPLE


def read(name: str) -> list[dict[str, str]]:
    with (SAMPLE / name).open(newline="") as table:
        return list(csv.DictReader(table))


@pytest.fixture(scope="module")
def manifest() -> list[dict[str, str]]:
    return read("manifest.csv")


def test_manifest_lists_at_least_64_portraits(manifest):
    portraits = {path.name for path in SAMPLE.glob("*.jpg")}
    assert len(portraits) >= 64
    assert sorted(row["photo"] for row in manifest) == sorted(portraits)


def test_portraits_are_large_and_the_sample_is_small():
    files = list(SAMPLE.glob("*.jpg"))
    for file in files:
        with Image.open(file) as portrait:
            assert min(portrait.size) >= 256, file.name
    assert sum(file.stat().st_size for file in files) <= 3_000_000


def test_gender_race_and_age_are_balanced(manifest):
    genders = Counter(row["gender"] for row in manifest)
    assert genders["female"] == genders["male"] == len(manifest) / 2
    cells = Counter((row["gender"], row["race"]) for row in manifest)
    for gender in ("female", "male"):
        assert min(cells[gender, race] for race in ("White", "Black", "Asian", "Indian")) >= 6
        assert cells[gender, "Others"] >= 2
    ages = [int(row["age"]) for row in manifest]
    assert min(ages) >= 18
    assert max(ages) <= 80
    assert min(np.histogram(ages, bins=[18, 30, 45, 60, 81])[0]) >= 8


def test_portraits_blend_at_least_five_faces_without_frequent_reuse(manifest):
    sources = read("sources.csv")
    blended = {row["photo"]: row["faces"].split() for row in sources}
    for row in manifest:
        assert int(row["sources"]) == len(set(blended[row["photo"]])) >= 5, row["photo"]
    assert min(len(set(row["heads"].split())) for row in sources) >= 6
    uses = Counter(name for row in sources for name in f"{row['faces']} {row['heads']}".split())
    assert max(uses.values()) <= 3


def test_each_portrait_has_one_clear_face(manifest):
    portraits = [np.array(Image.open(SAMPLE / row["photo"]).convert("RGB")) for row in manifest]
    for row, faces in zip(manifest, FaceDetector().detect(portraits), strict=True):
        assert len(faces) == 1, row["photo"]
        assert faces[0].score >= 0.95, row["photo"]
