"""The files of the stage counterfactuals: stale versions and replaced photos."""

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


def make_versions(folder: Path, out: Path, *, steps: int = 5, **sweep: object) -> Run:
    """Make the versions of a folder of photos, as in an audit."""
    given = {"sweep": {"steps": {"gender": steps}, "placebos": (), **sweep}, "validity": {"identity_photos": 0}}
    work = Audit(Run(out), load_settings(given=given, environment={}), (folder,))
    with work.run.locked():
        counterfactuals_stage(work, faces_stage(work, photos_stage(work)))
    return work.run


def files_on_disk(run: Run) -> set[str]:
    places = (run.path("images"), run.path("masks"))
    return {p.relative_to(run.folder).as_posix() for place in places for p in place.rglob("*") if p.is_file()}


def files_in_table(run: Run) -> set[str]:
    versions = read_frame(run.path("counterfactuals.parquet"))
    return {*versions["file"].dropna(), *versions["mask"].dropna(), "images/metadata.csv"}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in NAMES[:2]:
        (folder / name).write_bytes((SAMPLE / name).read_bytes())
    return folder


def test_stale_versions_are_removed(photos: Path, tmp_path: Path) -> None:
    run = make_versions(photos, tmp_path / "run")
    assert files_on_disk(run) == files_in_table(run)
    (photos / NAMES[1]).unlink()
    fewer = make_versions(photos, tmp_path / "run", steps=3, image_format="jpeg")
    assert files_on_disk(fewer) == files_in_table(fewer)
    assert len(files_in_table(fewer)) == 3 + 1 + 1
    assert not any(NAMES[1] in path.name for path in fewer.path("images").rglob("*"))


def test_replaced_photo_of_equal_size_and_time_is_detected(photos: Path, tmp_path: Path) -> None:
    path = photos / NAMES[1]
    contents = sorted(((SAMPLE / name).read_bytes() for name in (NAMES[1], NAMES[2])), key=len)
    path.write_bytes(contents[0].ljust(len(contents[1]), b"\0"))
    os.utime(path, (1e9, 1e9))
    before = read_frame(make_versions(photos, tmp_path / "run", steps=3).path("counterfactuals.parquet"))
    path.unlink()
    path.write_bytes(contents[1])
    os.utime(path, (1e9, 1e9))
    after = read_frame(make_versions(photos, tmp_path / "run", steps=3).path("counterfactuals.parquet"))
    same = before["sha256"] == after["sha256"]
    assert same[before["photo"] == NAMES[0]].all()
    assert not same[before["photo"] == NAMES[1]].any()


def test_touched_photo_repeats_no_work(photos: Path, tmp_path: Path) -> None:
    run = make_versions(photos, tmp_path / "run", steps=3)
    written = {name: run.path(name).stat().st_mtime_ns for name in ("faces.parquet", "counterfactuals.parquet")}
    os.utime(photos / NAMES[0])
    make_versions(photos, tmp_path / "run", steps=3)
    assert {name: run.path(name).stat().st_mtime_ns for name in written} == written
