"""Datasets and masked photos in an object store equal those on disk."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import cv2
import numpy as np
import pandas as pd
import pytest
from fakes.object_store import BUCKET, ObjectStore, object_store
from small_dataset import content_of

from pipeline.config.options import ConfigError
from pipeline.config.sources import load_settings
from pipeline.dataset.masked import mask_people
from pipeline.photos import SAMPLE
from pipeline.run.record import RunError
from pipeline.run.storage import location

PORTRAITS = 3
PROGRAM = (
    "from pipeline.stages import base, counterfactuals; base.FEW = 0; counterfactuals.CHUNK = 2; "
    "from pipeline.cli.app import main; main()"
)


@pytest.fixture(scope="module")
def store():
    with object_store() as store:
        yield store


@pytest.fixture(scope="module")
def portraits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, and opt-out lists of none and of one of them."""
    folder = tmp_path_factory.mktemp("portraits")
    names = [path.name for path in sorted(SAMPLE.glob("*.jpg"))[::7][:PORTRAITS]]
    for name in names:
        (folder / name).write_bytes((SAMPLE / name).read_bytes())
    (folder / "none.txt").write_text("")
    (folder / "one.txt").write_text(f"{names[0]}\n")
    return folder


def generate(
    photos: Path, out: str | Path, store: ObjectStore, *, work: Path, without: str, images: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-c", PROGRAM, "generate", str(photos), "--opt-out", str(photos / f"{without}.txt"),
        "--attribute", "gender", "--steps", "gender=3", "--editor", "fader", "--published", "2026-01-02",
        "--quiet", "--workers", "2", "--out", str(out), *(images or ["--originals"]),
    ]  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    environment = os.environ | store.environment | {"PYTHONPATH": path}
    work.mkdir(exist_ok=True)
    return subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.DEVNULL)


def test_dataset_in_a_store_survives_a_kill_and_an_opt_out(store, portraits, tmp_path):
    here, there, disk = tmp_path / "here", tmp_path / "there", tmp_path / "disk" / "faces"
    url = f"s3://{BUCKET}/sets/faces"

    def stored():
        return {name.removeprefix("sets/faces/"): store.read(name) for name in store.names("sets/faces/")}

    killed = generate(portraits, url, store, work=here, without="none")
    while killed.poll() is None and not store.names("sets/faces/"):
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert "SHA256SUMS" not in stored()
    assert generate(portraits, url, store, work=here, without="none").wait(timeout=600) == 0
    assert generate(portraits, disk, store, work=tmp_path / "disk", without="none").wait(timeout=600) == 0
    whole = stored()
    assert whole == content_of(disk)
    kept = [path.relative_to(here).as_posix() for path in here.rglob("*.p*") if path.suffix != ".partial"]
    assert "runs/s3/photos/sets/faces.run/photos.parquet" in kept
    assert not [name for name in kept if name.endswith(".png")]

    assert generate(portraits, url, store, work=there, without="one").wait(timeout=600) == 0
    assert generate(portraits, disk, store, work=tmp_path / "disk", without="one").wait(timeout=600) == 0
    assert stored() == content_of(disk)
    assert len(whole) - len(stored()) == 3 + 2  # versions, mask and original


def test_shards_in_a_store_equal_those_on_disk(store, portraits, tmp_path):
    disk, url = tmp_path / "disk" / "packed", f"s3://{BUCKET}/sets/packed"

    def stored():
        return {name.removeprefix("sets/packed/"): store.read(name) for name in store.names("sets/packed/")}

    for work, without in (("here", "none"), ("there", "one")):
        for out in (url, disk):
            images = ["--images", "parquet"]
            process = generate(portraits, out, store, work=tmp_path / work, without=without, images=images)
            assert process.wait(timeout=600) == 0
        assert stored() == content_of(disk)
    assert {Path(name).suffix for name in stored()} == {"", ".csv", ".json", ".md", ".parquet", ".txt"}


def test_folder_of_others_in_a_store_is_refused(store, portraits, tmp_path, capfd):
    store.put("set-of-others/cat.jpg", b"a cat")
    process = generate(portraits, f"s3://{BUCKET}/set-of-others", store, work=tmp_path, without="none")
    assert process.wait(timeout=600) == 2
    assert "does not: choose another --out" in " ".join(capfd.readouterr().err.split())
    assert store.names("set-of-others") == ["set-of-others/cat.jpg"]


@pytest.fixture
def photos(tmp_path) -> Path:
    """Two photos of uniform colour, whose annotations list no person."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, level in (("one", 90), ("two", 160)):
        cv2.imwrite(str(folder / f"{name}.png"), np.full((40, 60, 3), level, dtype=np.uint8))
    images = '[{"id": 7, "file_name": "one.png"}, {"id": 8, "file_name": "two.png"}]'
    (folder / "instances.json").write_text(
        f'{{"categories": [{{"id": 1, "name": "person"}}], "images": {images}, "annotations": []}}'
    )
    return folder


def masked(photos, out, *, workers=1):
    settings = load_settings(given={"engine": {"workers": workers}}, environment={})
    return mask_people([photos], out, settings=settings, annotations=photos / "instances.json")


def test_masked_photos_in_a_store_equal_those_on_disk(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url, disk = location(f"memory://{uuid4()}/masked"), tmp_path / "disk"
    masked(photos, disk)
    masked(photos, url)
    made = content_of(disk / "masked")
    assert {file.url.removeprefix(f"{url}/masked/"): file.read_bytes() for file in (url / "masked").files()} == made
    manifest = (url / "masked.csv").read_bytes()
    assert manifest == (disk / "masked.csv").read_bytes()
    assert all((url / name).is_file() for name in pd.read_csv(tmp_path / "disk/masked.csv")["photo"])
    assert not list((tmp_path / "runs").rglob("*.png"))

    marks = [file.listed().mark for file in (url / "masked").files()]
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")  # as another machine, which has the copies alone
    masked(photos, url)
    assert not list(tmp_path.glob("*/runs/**/*.png"))
    assert [file.listed().mark for file in (url / "masked").files()] == marks != []
    assert (url / "masked.csv").read_bytes() == manifest


def test_memory_store_is_refused_for_several_workers(photos):
    with pytest.raises(ConfigError, match="use it with one worker"):
        masked(photos, location("memory://masked"), workers=2)


def test_masked_photos_of_others_in_a_store_are_refused(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = location(f"memory://{uuid4()}")
    (url / "masked").put({"cat.png": photos / "one.png"})
    with pytest.raises(RunError, match="holds files but no run"):
        masked(photos, url)
