"""Audits with photos, images and runs in an object store equal the audit of local files."""

import io
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from fakes.object_store import BUCKET, ObjectStore, object_store
from finished_run import tables_of

from pipeline.photos import SAMPLE

PORTRAITS = 4
PROGRAM = (
    "from pipeline.stages import base, counterfactuals; base.FEW = 0; counterfactuals.CHUNK = 2; "
    "from pipeline.run import folder; folder.CHECKPOINT = {every}; folder.COPYING = 1.0; "
    "from pipeline.cli.app import main; main()"
)
ADAPTER = """
import time
from hashlib import sha256

def classify(image):
    with open("asked.txt", "a") as file:
        file.write(sha256(image).hexdigest() + "\\n")
    time.sleep({seconds})
    return {{"bright": image[-20] / 255, "long": min(1.0, len(image) / 2e5)}}
"""
TABLES_WITH_FILES = ["photos.parquet", "counterfactuals.parquet"]  # they contain file names


@pytest.fixture(scope="module")
def store():
    with object_store() as store:
        yield store


@pytest.fixture(scope="module")
def portraits(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same photos on disk and in the bucket, with a manifest and an opt-out list."""
    folder = tmp_path_factory.mktemp("portraits")
    names = [path.name for path in sorted(SAMPLE.glob("*.jpg"))[::7][: PORTRAITS + 1]]
    for name in names:
        (folder / name).write_bytes((SAMPLE / name).read_bytes())
    (folder / "list.csv").write_text("photo\n" + "\n".join(names) + "\n")
    (folder / "never.txt").write_text(f"{names[-1]}\n")
    for path in folder.iterdir():
        store.put(f"in/{path.name}", path.read_bytes())
    return folder


@pytest.fixture(scope="module")
def on_disk(store: ObjectStore, portraits: Path) -> Path:
    """The run of the local photos, with shards."""
    assert start(portraits, portraits / "out", store, "--images", "shards").wait(timeout=600) == 0
    return portraits / "out"


def start(photos: Path | str, out: Path, store: ObjectStore, *further: str) -> subprocess.Popen[bytes]:
    return start_command(*audit_of(photos, out), *further, work=out.parent, store=store)


def audit_of(photos: Path | str, out: Path | str) -> list[str]:
    return [
        "audit", f"{photos}/list.csv", "--opt-out", f"{photos}/never.txt", "--attribute",
        "gender", "--steps", "gender=3", "--editor", "fader", "--placebo", "none", "--adapter",
        "python:judging:classify", "--min-count", "1", "--quiet", "--workers", "2", "--out", str(out),
    ]  # fmt: skip


def start_command(
    *arguments: str,
    work: Path,
    store: ObjectStore,
    every: float = 300.0,
    seconds: float = 0.0,
    output: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command, with a checkpoint ``every`` seconds and a classifier that takes ``seconds``."""
    work.mkdir(exist_ok=True)
    (work / "judging.py").write_text(ADAPTER.format(seconds=seconds))
    command = [sys.executable, "-c", PROGRAM.format(every=every), *arguments]
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    environment = os.environ | store.environment | {"PYTHONPATH": path}
    return subprocess.Popen(command, cwd=work, env=environment, stdout=output or subprocess.DEVNULL)


def run_with_kills(run, *, seed: int) -> None:
    """Start a command, kill it twice at random moments, and let it end."""
    moments = random.Random(seed)
    for _ in range(2):
        process = run()
        try:
            process.wait(timeout=moments.uniform(3.0, 12.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert run().wait(timeout=600) == 0


def films(folder: Path) -> list[str]:
    return sorted(re.findall(r"data:image/webp;base64,[^\"]+", (folder / "report.html").read_text()))


def results_of(folder: Path) -> dict[str, bytes]:
    """The tables of a run, without those that contain file names."""
    return {name: content for name, content in tables_of(folder).items() if name not in TABLES_WITH_FILES}


@pytest.mark.parametrize("images", ["folder", "shards"])
def test_killed_audit_with_remote_images_resumes_without_loss_or_duplicates(store, on_disk, tmp_path, images):
    out, to = tmp_path / "run", f"runs/{images}"
    storage = ["--images", images, "--images-to", f"s3://{BUCKET}/{to}"]
    run_with_kills(lambda: start(f"s3://{BUCKET}/in", out, store, *storage), seed=len(images))

    assert results_of(out) == results_of(on_disk)
    versions = pd.read_parquet(out / "counterfactuals.parquet")
    assert versions["sha256"].tolist() == pd.read_parquet(on_disk / "counterfactuals.parquet")["sha256"].tolist()
    assert not [*out.glob("images/*"), *out.glob("masks/*")]
    there = {name.removeprefix(f"{to}/") for name in store.names(to)}
    named = {name.partition("#")[0] for column in ("file", "mask") for name in versions[column]}
    assert {name for name in there if name.startswith(("images/", "masks/"))} == named | {"images/metadata.csv"}
    for file, digest in zip(versions["file"], versions["sha256"], strict=True):
        name, _, place = file.partition("#")
        content = store.read(f"{to}/{name}")
        if images == "shards":
            first, size = map(int, place.split("+"))
            content = content[first : first + size]
        assert sha256(content).hexdigest() == digest
    assert films(out) == films(on_disk) != []

    before = {name: store.read(name) for name in store.names(f"{to}/images")}
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "run"  # another machine
    assert start(f"s3://{BUCKET}/in", other, store, *storage).wait(timeout=600) == 0
    assert results_of(other) == results_of(out)
    query, again = (json.loads((run / "run.json").read_text())["query"] for run in (out, other))
    assert again == query  # nothing was sent again
    assert {name: store.read(name) for name in store.names(f"{to}/images")} == before


def answered_images(store: ObjectStore, copy: str, work: Path) -> set[str]:
    """The sha256 of the images that have answers in the copy of a run."""
    if not store.names(f"{copy}/responses.sqlite"):
        return set()
    (work / "copy.sqlite").write_bytes(store.read(f"{copy}/responses.sqlite"))
    with closing(sqlite3.connect(work / "copy.sqlite")) as answers:
        return {image for (image,) in answers.execute("SELECT image FROM answers")}


def test_run_in_the_store_resumes_on_new_machines(store, on_disk, tmp_path):
    copy = "runs/anywhere"
    url = f"s3://{BUCKET}/{copy}"

    def machine(name: str) -> subprocess.Popen[bytes]:
        audit = [*audit_of(f"s3://{BUCKET}/in", url), "--workers", "1", "--images", "shards"]
        return start_command(*audit, work=tmp_path / name, store=store, every=0.0, seconds=0.3)

    def killed_when(name: str, reached: Callable[[], bool]) -> None:
        process = machine(name)
        while not reached():
            assert process.poll() is None, "it ended too early"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def shards() -> dict[str, datetime]:
        """Shards of the parts in the copy -> time of writing."""
        keys = {Path(name).stem for name in store.names(f"{copy}/parts/counterfactuals")}
        names = [f"{copy}/images/{key}.tar" for key in keys]
        return {name: store.client.head_object(Bucket=BUCKET, Key=name)["LastModified"] for name in names}

    killed_when("first", lambda: bool(shards()))
    first_shards = shards()
    killed_when("second", lambda: len(answered_images(store, copy, tmp_path)) >= 3)
    answered = answered_images(store, copy, tmp_path)
    assert machine("third").wait(timeout=600) == 0

    kept = tmp_path / "third" / "runs" / "s3" / BUCKET / copy
    assert results_of(kept) == results_of(on_disk)
    assert films(kept) == films(on_disk) != []
    requested = (tmp_path / "third" / "asked.txt").read_text().split()
    versions = set(pd.read_parquet(kept / "counterfactuals.parquet")["sha256"])
    assert sorted(requested) == sorted(versions - answered)
    assert {
        name: store.client.head_object(Bucket=BUCKET, Key=name)["LastModified"] for name in first_shards
    } == first_shards
    assert not store.names(f"{copy}/parts")

    def printed(*arguments: str, on: str) -> bytes:
        process = start_command(*arguments, work=tmp_path / on, store=store, output=subprocess.PIPE)
        text, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        return text

    slopes = ["slopes", "--format", "csv"]
    assert printed(*slopes, url, on="fourth") == printed(*slopes, str(on_disk), on="fourth") != b""
    assert url.encode() in printed("status", url, on="first")  # fetches the work of the others


def test_ray_engine_with_remote_photos_and_images_gives_the_same_run(store, on_disk, tmp_path):
    pytest.importorskip("ray")
    out = tmp_path / "run"
    storage = ["--images", "shards", "--images-to", f"s3://{BUCKET}/runs/ray"]
    assert start(f"s3://{BUCKET}/in", out, store, *storage, "--engine", "ray").wait(timeout=600) == 0
    assert results_of(out) == results_of(on_disk)
    assert films(out) == films(on_disk) != []
    shards = [name for name in store.names("runs/ray/images") if name.endswith(".tar")]
    assert len(shards) == PORTRAITS / 2
    assert not [*out.glob("images/*"), *out.glob("masks/*")]


def test_shards_are_webdatasets_with_a_sample_per_photo(on_disk):
    shards = sorted(on_disk.glob("images/*.tar"))
    assert len(shards) == PORTRAITS / 2
    samples = defaultdict(list)
    for shard in shards:
        with tarfile.open(fileobj=io.BytesIO(shard.read_bytes())) as tar:
            order = [member.name.partition(".")[0] for member in tar]
            assert order == sorted(order)  # files of a sample are adjacent
            for member in tar:
                sample, _, part = member.name.partition(".")
                samples[sample].append(part)
    expected = ["gender-step1.png", "gender-step2.png", "gender-step3.png", "mask.png"]
    assert list(samples.values()) == [expected] * PORTRAITS
    listed = pd.read_csv(on_disk / "images" / "metadata.csv")
    assert len(listed) == 3 * PORTRAITS
    assert set(listed["file_name"].str.partition("#")[0]) == {shard.name for shard in shards}


def test_parquet_shards_have_the_images_of_the_run(store, on_disk, portraits, tmp_path):
    assert start(portraits, tmp_path / "run", store, "--images", "parquet").wait(timeout=600) == 0
    assert results_of(tmp_path / "run") == results_of(on_disk)
    assert films(tmp_path / "run") == films(on_disk) != []
    shards = (tmp_path / "run/images").glob("*.parquet")
    rows = [row for path in shards for row in pq.read_table(path)["image"].to_pylist()]
    digests = [sha256(row["bytes"]).hexdigest() for row in rows if not row["path"].endswith(".mask.png")]
    assert sorted(digests) == sorted(pd.read_parquet(on_disk / "counterfactuals.parquet")["sha256"])


def test_remote_folder_with_foreign_files_is_not_touched(store, portraits, tmp_path, capfd):
    store.put("theirs/images/cat.jpg", b"a cat")
    process = start(portraits, tmp_path / "run", store, "--images-to", f"s3://{BUCKET}/theirs")
    assert process.wait(timeout=600) == 2
    assert "holds files but no run" in capfd.readouterr().err
    assert store.names("theirs") == ["theirs/images/cat.jpg"]


def test_unreachable_store_stops_the_run_with_advice(portraits, tmp_path, capfd):
    nowhere = ObjectStore(None, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a",
                                 "AWS_SECRET_ACCESS_KEY": "b", "AWS_MAX_ATTEMPTS": "1"})  # fmt: skip
    pytest.importorskip("s3fs")
    process = start(portraits, tmp_path / "run", nowhere, "--images-to", f"s3://{BUCKET}/runs/none")
    assert process.wait(timeout=600) == 2
    assert "check the network and the credentials" in capfd.readouterr().err
