"""A dataset that is made again: unchanged, with other options, without a photo, or after kills."""

import signal
import time

import pytest
from small_dataset import CHUNK, PORTRAITS, STEPS, content_of, copy_dataset, make, settings_with, verify_checksums

from pipeline.dataset.make import make_dataset
from pipeline.run.record import RunError


def test_same_call_again_changes_nothing(dataset, portraits):
    before = content_of(dataset.folder)
    written = {path: path.stat().st_mtime_ns for path in dataset.folder.rglob("*")}
    stages = dataset.run.record.stages
    again = make(portraits.manifest, dataset.folder)
    assert content_of(dataset.folder) == before
    assert {path: path.stat().st_mtime_ns for path in dataset.folder.rglob("*")} == written
    assert again.run.record.stages == stages
    assert again.facts == dataset.facts


@pytest.mark.parametrize("by", ["name", "hash"])
def test_opted_out_photo_is_removed_without_trace(dataset, portraits, tmp_path, by):
    removed = portraits.names[2]
    opt_out = tmp_path / "opt_out.txt"
    opt_out.write_text(removed if by == "name" else portraits.sha256(removed))
    shortened = make(portraits.manifest, copy_dataset(dataset, tmp_path), opt_out=opt_out)
    assert shortened.facts.photos == PORTRAITS - 1
    assert shortened.facts.left_out == {"opted out": 1}
    assert shortened.unmatched == []
    content = content_of(shortened.folder)
    removed_id = portraits.sha256(removed)[:16]
    assert not any(removed_id in name for name in content)
    assert {name for name, bytes_ in content.items() if removed_id.encode() in bytes_} == {"opt_out.txt"}
    verify_checksums(shortened.folder)
    # Images of other chunks are not written again.
    pairs = [
        (path, shortened.folder / path.relative_to(dataset.folder)) for path in dataset.folder.rglob("*-step1.png")
    ]
    untouched = [new for old, new in pairs if new.exists() and new.stat().st_mtime_ns == old.stat().st_mtime_ns]
    assert len(untouched) == PORTRAITS - CHUNK
    if by == "hash":
        fresh = make(portraits.manifest, tmp_path / "fresh" / "faces", opt_out=opt_out)
        assert content_of(fresh.folder) == content


def test_other_split_moves_the_images(dataset, portraits, tmp_path):
    moved = make(portraits.manifest, copy_dataset(dataset, tmp_path), split={"validation": 1.0})
    assert {name.partition("/")[0] for name in content_of(moved.folder) if "/" in name} == {"validation", "masks"}
    assert moved.facts.splits["validation"].images == PORTRAITS * STEPS
    verify_checksums(moved.folder)


def test_killed_processes_leave_the_same_dataset(dataset, portraits, tmp_path, process):
    out, kills = tmp_path / "faces", 0
    # During the first chunk, during a later one, and while the dataset is described.
    for files in (2, STEPS * (CHUNK + 1), STEPS * PORTRAITS + 1):
        child = process(make, portraits.manifest, out)
        while child.is_alive() and len(list(out.rglob("*-step*.png"))) + len(list(out.glob("*/*.csv"))) < files:
            time.sleep(0.002)
        child.kill()
        child.join()
        kills += child.exitcode == -signal.SIGKILL
    assert kills >= 2
    last = process(make, portraits.manifest, out)
    last.join()
    assert last.exitcode == 0
    assert content_of(out) == content_of(dataset.folder)


def test_folder_with_other_files_is_refused(portraits, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="choose another --out"):
        make(portraits.manifest, tmp_path)
    photos = portraits.manifest.parent
    with pytest.raises(RunError, match="is inside the folder of the photos"):
        make_dataset([photos], photos / "x", settings=settings_with(), given={})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
