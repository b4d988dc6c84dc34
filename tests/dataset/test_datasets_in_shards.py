"""Datasets with images in shards have the images of single files, and are updated and resumed like them."""

import io
import shutil
import signal
import tarfile
import time
from collections import defaultdict
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image
from small_dataset import CHUNK, PORTRAITS, STEPS, content_of, copy_dataset, make, rows_of, verify_checksums

from pipeline.config.options import ConfigError
from pipeline.run.image_store import ImageStore

KINDS = {"shards": "tar", "parquet": "parquet"}


@pytest.fixture(scope="module", params=KINDS)
def images(request):
    return request.param


@pytest.fixture(scope="module")
def packed(portraits, images, tmp_path_factory):
    return make(portraits.manifest, tmp_path_factory.mktemp("packed") / "faces", images=images)


def image_of(packed, row):
    """The bytes of a row's image."""
    return ImageStore(packed.folder).file(f"{row['split']}/{row['file_name']}").read_bytes()


def test_metadata_refer_to_the_images_and_masks_of_single_files(dataset, packed):
    rows, singles = (
        {(row["photo_sha256"], row["step"]): row for row in rows_of(of.folder)} for of in (packed, dataset)
    )
    assert rows.keys() == singles.keys()
    files = {"file_name", "mask", "path"}
    for key, row in rows.items():
        single = singles[key]
        assert {name: row[name] for name in row.keys() - files} == {name: single[name] for name in row.keys() - files}
        assert sha256(image_of(packed, row)).hexdigest() == row["sha256"]
        assert (
            ImageStore(packed.folder).file(row["mask"]).read_bytes() == (dataset.folder / single["mask"]).read_bytes()
        )


def test_each_chunk_is_one_shard_per_folder(packed, images):
    files = content_of(packed.folder)
    shards = [Path(name) for name in files if name.endswith(KINDS[images])]
    assert len({shard.stem for shard in shards}) == PORTRAITS // CHUNK
    assert len(shards) == len({(shard.parent, shard.stem) for shard in shards})
    assert not [name for name in files if name.endswith(".png")]
    verify_checksums(packed.folder)
    listed = [line.split("  ", 1)[1] for line in files["SHA256SUMS"].decode().splitlines()]
    assert sorted([*listed, "SHA256SUMS"]) == sorted(files)


def test_shards_are_readable_without_metadata(packed, images):
    rows = rows_of(packed.folder)
    if images == "parquet":
        table = pd.concat([pq.read_table(path).to_pandas() for path in packed.folder.glob("t*/*.parquet")])
        assert [sha256(image["bytes"]).hexdigest() for image in table["image"]] == table["sha256"].tolist()
        columns = ["sha256", "attribute", "arm", "step", "value"]
        expected = sorted([row[name] for name in columns] for row in rows)
        assert sorted(table[columns].astype(str).to_numpy().tolist()) == expected
        return
    samples = defaultdict(list)
    for path in packed.folder.glob("t*/*.tar"):
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as tar:
            for member in tar:
                sample, _, part = member.name.partition(".")
                samples[sample].append(part)
    assert samples.keys() == {row["photo_sha256"][:16] for row in rows}
    versions = {f"gender-step{step}.png" for step in range(1, STEPS + 1)}
    assert all(versions | {"mask.png"} <= set(parts) for parts in samples.values())


@pytest.mark.filterwarnings("default")
def test_hugging_face_loads_shards(packed, images, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    loaded = datasets.load_dataset(str(packed.folder), cache_dir=str(tmp_path / "cache"))
    rows = {row["sha256"]: row for row in rows_of(packed.folder)}
    found = {}
    for split, examples in loaded.items():
        for example in examples:
            if images == "parquet":
                found[example["sha256"]] = (split, example["image"])
            else:
                photo = [row for row in rows.values() if row["photo_sha256"].startswith(example["__key__"])]
                found |= {row["sha256"]: (split, example[f"gender-step{row['step']}.png"]) for row in photo}
    assert found.keys() == rows.keys()
    for key, (split, image) in found.items():
        assert rows[key]["split"] == split
        with Image.open(io.BytesIO(image_of(packed, rows[key]))) as own:
            np.testing.assert_array_equal(np.array(image), np.array(own))


@pytest.mark.filterwarnings("default")
def test_croissant_of_shards_is_valid_and_lists_the_images(packed):
    mlcroissant = pytest.importorskip("mlcroissant")
    described = mlcroissant.Dataset(jsonld=str(packed.folder / "croissant.json"))
    assert not described.metadata.ctx.issues.errors
    assert not described.metadata.ctx.issues.warnings
    places = {record["versions/place"].decode() for record in described.records("versions")}
    assert places == {row["file_name"] for row in rows_of(packed.folder)}


def test_opted_out_photo_is_removed_from_its_shards(packed, images, portraits, tmp_path):
    kind, digest = KINDS[images], portraits.sha256(portraits.names[2])
    (tmp_path / "opt_out.txt").write_text(digest)
    folder = copy_dataset(packed, tmp_path)
    # A shard without a part, as a kill may leave it.
    shutil.copy(next(folder.glob(f"t*/*.{kind}")), folder / "train" / f"{'0' * 16}.{kind}")
    shortened = make(portraits.manifest, folder, images=images, opt_out=tmp_path / "opt_out.txt")
    content = content_of(shortened.folder)
    assert {name for name, bytes_ in content.items() if digest[:16].encode() in bytes_} == {"opt_out.txt"}
    verify_checksums(shortened.folder)
    pairs = [(path, folder / path.relative_to(packed.folder)) for path in packed.folder.rglob(f"*.{kind}")]
    untouched = {old.stem for old, new in pairs if new.exists() and new.stat().st_mtime_ns == old.stat().st_mtime_ns}
    assert len(untouched) == PORTRAITS // CHUNK - 1
    fresh = make(portraits.manifest, tmp_path / "fresh" / "faces", images=images, opt_out=tmp_path / "opt_out.txt")
    assert content_of(fresh.folder) == content


def test_killed_process_leaves_the_same_shards(packed, images, portraits, tmp_path, process):
    out = tmp_path / "faces"
    child = process(make, portraits.manifest, out, images=images)
    while child.is_alive() and not list(out.rglob(f"*.{KINDS[images]}")):
        time.sleep(0.002)
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert not (out / "SHA256SUMS").exists()
    last = process(make, portraits.manifest, out, images=images)
    last.join()
    assert last.exitcode == 0
    assert content_of(out) == content_of(packed.folder)


def test_single_files_replace_shards(packed, dataset, portraits, tmp_path):
    single = make(portraits.manifest, copy_dataset(packed, tmp_path))
    assert content_of(single.folder) == content_of(dataset.folder)


def test_originals_in_shards_are_refused(portraits, images, tmp_path):
    with pytest.raises(ConfigError, match="omit --originals or --images"):
        make(portraits.manifest, tmp_path / "faces", images=images, originals=True)
