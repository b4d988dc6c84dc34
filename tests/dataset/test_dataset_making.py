"""Whole datasets of a few portraits of the embedded sample: what is on disk, who can load it, what a kill leaves."""

import csv
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import ImageFolder

from pipeline.config.options import ConfigError
from pipeline.config.sources import load_settings
from pipeline.dataset.make import make_dataset, run_folder
from pipeline.photos import SAMPLE
from pipeline.run.folder import Run
from pipeline.run.progress import unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame
from pipeline.stages import counterfactuals, faces
from pipeline.stages.audit import make_counterfactuals, start_run

STEPS = 3
PORTRAITS = 6
CHUNK = 2  # photos, so that there are several chunks to be killed between
SWEEP = {"attributes": ["gender"], "steps": {"gender": STEPS}, "placebos": []}
DATASET = {"cluster": "person", "published": "2026-01-02", "split": {"train": 0.5, "test": 0.5}}


def settings_with(*, opt_out=None, **options):
    given = {"sweep": SWEEP, "dataset": DATASET | options, "photos": {"opt_out": opt_out}}
    return load_settings(given=given, environment={})


def make(manifest, out, *, watch=unwatched, **options):
    return make_dataset([manifest], out, settings=settings_with(**options), given={}, watch=watch)


@dataclass(frozen=True)
class Input:
    manifest: Path
    names: list[str]

    def sha256(self, name):
        return sha256((self.manifest.parent / name).read_bytes()).hexdigest()


def make_in_small_chunks(manifest, out):
    """What a process of its own does."""
    counterfactuals.CHUNK = faces.CHUNK = CHUNK
    make(manifest, out)


@pytest.fixture(scope="module", autouse=True)
def _small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        for module in (counterfactuals, faces):
            patch.setattr(module, "CHUNK", CHUNK)
        yield


@pytest.fixture(scope="module")
def portraits(tmp_path_factory) -> Input:
    folder = tmp_path_factory.mktemp("portraits-of-somebody")
    # What loaders take for a split's name, and two photos a person.
    names = [f"test_{number}_jane-doe.jpg" for number in range(PORTRAITS)]
    for name, path in zip(names, sorted(SAMPLE.glob("*.jpg"))[::7], strict=False):
        shutil.copy(path, folder / name)
    lines = [f"{name},person {number // 2}" for number, name in enumerate(names)]
    (folder / "list.csv").write_text("\n".join(["photo,person", *lines]) + "\n")
    return Input(folder / "list.csv", names)


@pytest.fixture(scope="module")
def bars():
    """Stage -> how far its bar was to go, and how far it went, when ``made`` was made."""
    return {}


@pytest.fixture(scope="module")
def made(portraits, tmp_path_factory, bars):
    @contextmanager
    def watch(stage, *, total):
        bars[stage] = [total, 0]
        yield lambda count, note="": bars[stage].__setitem__(1, bars[stage][1] + count)

    return make(portraits.manifest, tmp_path_factory.mktemp("made") / "faces", watch=watch)


@pytest.fixture(scope="module")
def bare_run(portraits, tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "bare")
    make_counterfactuals(start_run(run, [portraits.manifest], settings=settings_with(), given={}))
    return run


def content_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pixels_of(path):
    with Image.open(path) as image:
        return np.array(image)


def info_of(path):
    with Image.open(path) as image:
        image.load()
        return image.info


def rows_of(folder):
    rows = []
    for path in sorted(folder.glob("*/metadata.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += [row | {"path": str(path.parent / row["file_name"])} for row in csv.DictReader(file)]
    return rows


def test_every_bar_ends_at_its_end(made, bars):
    assert {"faces", "counterfactuals", "dataset"} <= set(bars)
    assert {stage: total for stage, (total, _) in bars.items()} == {stage: done for stage, (_, done) in bars.items()}


def test_all_images_of_a_person_are_in_one_split(made, portraits):
    rows = rows_of(made.folder)
    assert len(rows) == PORTRAITS * STEPS == made.facts.images
    splits = {}
    for row in rows:
        splits.setdefault(row["photo_sha256"], set()).add(row["split"])
    assert {len(found) for found in splits.values()} == {1}
    for first, second in zip(portraits.names[::2], portraits.names[1::2], strict=True):
        assert splits[portraits.sha256(first)] == splits[portraits.sha256(second)]


def test_the_pixels_are_those_of_an_audit(made, bare_run, portraits):
    files = read_frame(bare_run.path("counterfactuals.parquet")).set_index(["photo", "step"])
    names = {portraits.sha256(name): name for name in portraits.names}
    for row in rows_of(made.folder):
        audited = files.loc[(names[row["photo_sha256"]], int(row["step"]))]
        np.testing.assert_array_equal(pixels_of(row["path"]), pixels_of(bare_run.path(audited["file"])))
        mask = made.folder / row["mask"]
        assert mask.read_bytes() == bare_run.path(audited["mask"]).read_bytes()


def test_every_image_tells_its_origin_and_an_audits_tells_nothing(made, bare_run):
    for row in rows_of(made.folder):
        packet = info_of(row["path"])["xmp"]
        text = packet.decode() if isinstance(packet, bytes) else packet
        assert row["photo_sha256"] in text
        assert made.run.record.weights["residual"] in text
        assert "compositeWithTrainedAlgorithmicMedia" in text
    for path in bare_run.path("images").rglob("*.png"):
        assert not info_of(path)


def test_nothing_published_names_a_file_or_folder_of_this_machine(made, portraits):
    secrets = [str(portraits.manifest.parent), "jane-doe", "portraits-of-somebody", str(made.folder.parent)]
    for name, content in content_of(made.folder).items():
        for secret in secrets:
            assert secret.encode() not in content, name
            assert secret not in name


def test_names_of_photos_are_published_on_request(portraits, made, tmp_path):
    shutil.copytree(made.folder, tmp_path / "faces")
    shutil.copytree(run_folder(made.folder), tmp_path / "faces.run")
    named = make(portraits.manifest, tmp_path / "faces", photo_names=True)
    assert {row["photo"] for row in rows_of(named.folder)} == set(portraits.names)
    assert named.run.record.stages["counterfactuals"] == made.run.record.stages["counterfactuals"]


def test_the_checksums_hold_and_are_of_every_file(made):
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=made.folder, check=True)
    listed = {line.split("  ", 1)[1] for line in (made.folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == set(content_of(made.folder)) - {"SHA256SUMS"}


def test_the_checksums_are_of_the_masks_of_every_attribute(portraits, tmp_path):
    shutil.copy(portraits.manifest.parent / portraits.names[0], tmp_path / "a.jpg")
    sweep = {"attributes": ["gender", "race"], "steps": {"gender": STEPS, "race": STEPS}}
    settings = load_settings(given={"sweep": sweep}, environment={})
    folder = make_dataset([tmp_path / "a.jpg"], tmp_path / "faces", settings=settings, given={}).folder
    named = (folder / "SHA256SUMS").read_text().split()[1::2]
    assert len(list(folder.glob("masks/*"))) > 1
    assert sorted(named) == sorted(name for name in content_of(folder) if name != "SHA256SUMS")


def test_the_card_tells_what_one_must_know(made):
    card = (made.folder / "README.md").read_text(encoding="utf-8")
    assert made.facts.validity_counts in card
    assert all(words in made.facts.validity_counts for words in ("checks: ", " hold, ", " fail, ", " not measured"))
    assert card.startswith("---\n")
    for words in (
        "not stated: state it before you publish",
        "license: other",
        "non-commercial",
        "Opting out",
        "off-target: young",
    ):
        assert words in card
    assert all(sum_ in card for sum_ in made.run.record.weights.values())


def test_every_image_has_the_value_that_was_estimated_for_its_photo(made, portraits):
    faces = read_frame(made.run.path("faces.parquet")).set_index("photo")["gender"]
    own = {portraits.sha256(name): faces[name] for name in portraits.names}
    for row in rows_of(made.folder):
        assert float(row["estimated_gender"]) == pytest.approx(own[row["photo_sha256"]], abs=1e-4)


def test_originals_and_columns_of_the_manifest_are_published_where_the_options_say_so(portraits, made, tmp_path):
    shutil.copytree(made.folder, tmp_path / "faces")
    shutil.copytree(run_folder(made.folder), tmp_path / "faces.run")
    more = make(portraits.manifest, tmp_path / "faces", originals=True, columns=["person"])
    rows = rows_of(more.folder)
    assert {row["person"] for row in rows} == {f"person {number}" for number in range(PORTRAITS // 2)}
    originals = {row["photo_sha256"]: row for row in rows if row["attribute"] == "original"}
    assert set(originals) == {portraits.sha256(name) for name in portraits.names}
    assert len(rows) == PORTRAITS * (STEPS + 1)
    assert more.facts.images == PORTRAITS * STEPS
    for row in rows:
        if row["attribute"] == "gender":
            outside = pixels_of(more.folder / row["mask"]) == 0
            original = originals[row["photo_sha256"]]
            np.testing.assert_array_equal(pixels_of(row["path"])[outside], pixels_of(original["path"])[outside])
            assert original["split"] == row["split"]
            assert not info_of(original["path"])
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=more.folder, check=True)
    without = make(portraits.manifest, tmp_path / "faces")
    assert content_of(without.folder) == content_of(made.folder)


def test_a_column_that_the_manifest_lacks_is_refused_before_any_work(portraits, tmp_path):
    with pytest.raises(ConfigError, match="no column 'name' to publish; it has person"):
        make(portraits.manifest, tmp_path / "faces", columns=["name"])


# Loaders


def test_torchvision_loads_a_split(made):
    for split, facts in made.facts.splits.items():
        images = ImageFolder(str(made.folder / split))
        assert images.classes == [f"gender-step{step}" for step in range(1, STEPS + 1)]
        assert len(images) == facts.images
        assert images[0][0].mode == "RGB"


@pytest.fixture
def load_dataset(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    return lambda *words, **options: datasets.load_dataset(*words, cache_dir=str(tmp_path / "cache"), **options)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("by_card", [False, True])
def test_hugging_face_datasets_loads_splits_images_and_facts(made, load_dataset, by_card):
    loaded = load_dataset(str(made.folder)) if by_card else load_dataset("imagefolder", data_dir=str(made.folder))
    assert {name: split.num_rows for name, split in loaded.items()} == {
        name: split.images for name, split in made.facts.splits.items()
    }
    facts = {row["sha256"]: row for row in rows_of(made.folder)}
    for split in loaded.values():
        for example in split:
            row = facts[example["sha256"]]
            np.testing.assert_array_equal(np.array(example["image"]), pixels_of(row["path"]))
            assert example["step"] == int(row["step"])


@pytest.mark.filterwarnings("default")
def test_an_audits_images_load_too(bare_run, load_dataset):
    files = {"train": str(bare_run.path("images") / "**")}
    loaded = load_dataset("imagefolder", data_files=files, split="train")
    assert loaded.num_rows == PORTRAITS * STEPS
    assert set(loaded["step"]) == set(range(1, STEPS + 1))


@pytest.mark.filterwarnings("default")
def test_croissant_is_valid_and_its_records_are_the_images(made):
    mlcroissant = pytest.importorskip("mlcroissant")
    described = mlcroissant.Dataset(jsonld=str(made.folder / "croissant.json"))
    issues = described.metadata.ctx.issues
    assert not issues.errors
    assert not issues.warnings
    records = list(described.records("versions"))
    assert len(records) == made.facts.images
    for record in records:
        place = record["versions/place"].decode()
        path = made.folder / record["versions/split"].decode() / place
        assert sha256(path.read_bytes()).hexdigest() == record["versions/sha256"].decode()
        np.testing.assert_array_equal(np.array(record["versions/image"]), pixels_of(path))
    masks = list(described.records("masks-of-photos"))
    assert {mask["masks-of-photos/file"].decode() for mask in masks} == {
        record["versions/mask"].decode() for record in records
    }


# Doing it again


def test_the_same_call_again_changes_nothing(made, portraits):
    before = content_of(made.folder)
    written = {path: path.stat().st_mtime_ns for path in made.folder.rglob("*")}
    stages = made.run.record.stages
    again = make(portraits.manifest, made.folder)
    assert content_of(made.folder) == before
    assert {path: path.stat().st_mtime_ns for path in made.folder.rglob("*")} == written
    assert again.run.record.stages == stages
    assert again.facts == made.facts


@pytest.mark.parametrize("by", ["name", "hash"])
def test_a_longer_opt_out_list_removes_a_photo_as_if_it_had_never_been(made, portraits, tmp_path, by):
    gone = portraits.names[2]
    opt_out = tmp_path / "opt_out.txt"
    opt_out.write_text(gone if by == "name" else portraits.sha256(gone))
    shutil.copytree(made.folder, tmp_path / "faces")
    shutil.copytree(run_folder(made.folder), tmp_path / "faces.run")
    shortened = make(portraits.manifest, tmp_path / "faces", opt_out=opt_out)
    assert shortened.facts.photos == PORTRAITS - 1
    assert shortened.facts.left_out == {"opted out": 1}
    assert shortened.unmatched == []
    content = content_of(shortened.folder)
    gone_id = portraits.sha256(gone)[:16]
    assert not any(gone_id in name for name in content)
    assert {name for name, bytes_ in content.items() if gone_id.encode() in bytes_} == {"opt_out.txt"}
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=shortened.folder, check=True)
    # The other chunks' images were not even written again.
    pairs = [(path, shortened.folder / path.relative_to(made.folder)) for path in made.folder.rglob("*-step1.png")]
    untouched = [new for old, new in pairs if new.exists() and new.stat().st_mtime_ns == old.stat().st_mtime_ns]
    assert len(untouched) == PORTRAITS - CHUNK
    if by == "hash":
        fresh = make(portraits.manifest, tmp_path / "fresh" / "faces", opt_out=opt_out)
        assert content_of(fresh.folder) == content


def test_other_shares_move_the_images_and_leave_nothing_behind(made, portraits, tmp_path):
    shutil.copytree(made.folder, tmp_path / "faces")
    shutil.copytree(run_folder(made.folder), tmp_path / "faces.run")
    moved = make(portraits.manifest, tmp_path / "faces", split={"validation": 1.0})
    assert {name.partition("/")[0] for name in content_of(moved.folder) if "/" in name} == {"validation", "masks"}
    assert moved.facts.splits["validation"].images == PORTRAITS * STEPS
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=moved.folder, check=True)


@pytest.fixture
def process(monkeypatch):
    """Starts a process in which a function is called; all of them come from one that has loaded the networks' code."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])

    def start(function, *given):
        child = context.Process(target=function, args=given)
        child.start()
        return child

    return start


def test_killed_again_and_again_it_ends_as_if_it_never_had_been(made, portraits, tmp_path, process):
    out, deaths = tmp_path / "faces", 0
    # In the middle of the first chunk, of a later one, and while the dataset is described.
    for files in (2, STEPS * (CHUNK + 1), STEPS * PORTRAITS + 1):
        child = process(make_in_small_chunks, portraits.manifest, out)
        while child.is_alive() and len(list(out.rglob("*-step*.png"))) + len(list(out.glob("*/*.csv"))) < files:
            time.sleep(0.002)
        child.kill()
        child.join()
        deaths += child.exitcode == -signal.SIGKILL
    assert deaths >= 2
    last = process(make_in_small_chunks, portraits.manifest, out)
    last.join()
    assert last.exitcode == 0
    assert content_of(out) == content_of(made.folder)


def test_a_folder_of_something_else_is_left_alone(portraits, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="choose another --out"):
        make(portraits.manifest, tmp_path)
    with pytest.raises(RunError, match="is inside the folder of the photos"):
        make_dataset([portraits.manifest.parent], portraits.manifest.parent / "x", settings=settings_with(), given={})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_jpeg_of_a_stated_quality(portraits, tmp_path):
    given = {"sweep": SWEEP | {"image_format": "jpeg", "jpeg_quality": 60}, "dataset": DATASET}
    settings = load_settings(given=given, environment={})
    first = portraits.manifest.parent / portraits.names[0]
    with pytest.raises(Exception, match="no column 'person'"):
        make_dataset([first], tmp_path / "set", settings=settings, given={})
    settings = load_settings(given=given | {"dataset": {}}, environment={})
    jpeg = make_dataset([first], tmp_path / "set", settings=settings, given={})
    assert "JPEG of quality 60" in (jpeg.folder / "README.md").read_text(encoding="utf-8")
    images = list(jpeg.folder.rglob("*.jpg"))
    assert len(images) == STEPS
    assert all(portraits.sha256(portraits.names[0]) in str(info_of(path)["xmp"]) for path in images)
