"""A stage owns its files: what its table no longer names is removed, and a photo that was replaced is noticed."""

import os
from pathlib import Path

import pytest

from pipeline.config.sources import load_settings
from pipeline.photos import SAMPLE
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame
from pipeline.stages.base import Audit
from pipeline.stages.counterfactuals import counterfactuals_stage
from pipeline.stages.faces import faces_stage
from pipeline.stages.photos import photos_stage

NAMES = sorted(path.name for path in SAMPLE.glob("*.jpg"))


def made(folder: Path, out: Path, *, steps: int = 5, **sweep: object) -> Run:
    """The versions of a folder of photos, as an audit would make them."""
    given = {"sweep": {"steps": {"gender": steps}, "placebos": (), **sweep}, "validity": {"identity_photos": 0}}
    work = Audit(Run(out), load_settings(given=given, environment={}), (folder,))
    with work.run.locked():
        counterfactuals_stage(work, faces_stage(work, photos_stage(work)))
    return work.run


def on_disk(run: Run) -> set[str]:
    places = (run.path("images"), run.path("masks"))
    return {p.relative_to(run.folder).as_posix() for place in places for p in place.rglob("*") if p.is_file()}


def named(run: Run) -> set[str]:
    versions = read_frame(run.path("counterfactuals.parquet"))
    return {*versions["file"].dropna(), *versions["mask"].dropna(), "images/metadata.csv"}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in NAMES[:2]:
        (folder / name).write_bytes((SAMPLE / name).read_bytes())
    return folder


def test_versions_that_the_table_no_longer_names_are_removed(photos: Path, tmp_path: Path) -> None:
    run = made(photos, tmp_path / "run")
    assert on_disk(run) == named(run)
    (photos / NAMES[1]).unlink()
    fewer = made(photos, tmp_path / "run", steps=3, image_format="jpeg")
    assert on_disk(fewer) == named(fewer)
    assert len(named(fewer)) == 3 + 1 + 1
    assert not any(NAMES[1] in path.name for path in fewer.path("images").rglob("*"))


def test_a_photo_replaced_by_one_of_the_same_size_and_time_is_made_anew(photos: Path, tmp_path: Path) -> None:
    path = photos / NAMES[1]
    contents = sorted(((SAMPLE / name).read_bytes() for name in (NAMES[1], NAMES[2])), key=len)
    path.write_bytes(contents[0].ljust(len(contents[1]), b"\0"))
    os.utime(path, (1e9, 1e9))
    before = read_frame(made(photos, tmp_path / "run", steps=3).path("counterfactuals.parquet"))
    path.unlink()
    path.write_bytes(contents[1])
    os.utime(path, (1e9, 1e9))
    after = read_frame(made(photos, tmp_path / "run", steps=3).path("counterfactuals.parquet"))
    same = before["sha256"] == after["sha256"]
    assert same[before["photo"] == NAMES[0]].all()
    assert not same[before["photo"] == NAMES[1]].any()


def test_a_photo_that_was_only_touched_makes_no_work(photos: Path, tmp_path: Path) -> None:
    run = made(photos, tmp_path / "run", steps=3)
    written = {name: run.path(name).stat().st_mtime_ns for name in ("faces.parquet", "counterfactuals.parquet")}
    os.utime(photos / NAMES[0])
    made(photos, tmp_path / "run", steps=3)
    assert {name: run.path(name).stat().st_mtime_ns for name in written} == written
