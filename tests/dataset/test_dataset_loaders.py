"""A dataset is loaded by torchvision, by Hugging Face's datasets, and by its Croissant file."""

from hashlib import sha256

import numpy as np
import pytest
from small_dataset import PORTRAITS, STEPS, pixels_of, rows_of
from torchvision.datasets import ImageFolder


def test_torchvision_loads_each_split(dataset):
    for split, facts in dataset.facts.splits.items():
        images = ImageFolder(str(dataset.folder / split))
        assert images.classes == [f"gender-step{step}" for step in range(1, STEPS + 1)]
        assert len(images) == facts.images
        assert images[0][0].mode == "RGB"


@pytest.fixture
def load_dataset(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    return lambda *args, **options: datasets.load_dataset(*args, cache_dir=str(tmp_path / "cache"), **options)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("by_card", [False, True])
def test_hugging_face_loads_splits_images_and_metadata(dataset, load_dataset, by_card):
    folder = str(dataset.folder)
    loaded = load_dataset(folder) if by_card else load_dataset("imagefolder", data_dir=folder)
    expected = {name: split.images for name, split in dataset.facts.splits.items()}
    assert {name: split.num_rows for name, split in loaded.items()} == expected
    rows = {row["sha256"]: row for row in rows_of(dataset.folder)}
    for split in loaded.values():
        for example in split:
            row = rows[example["sha256"]]
            np.testing.assert_array_equal(np.array(example["image"]), pixels_of(row["path"]))
            assert example["step"] == int(row["step"])


@pytest.mark.filterwarnings("default")
def test_hugging_face_loads_images_of_an_audit(audit_run, load_dataset):
    files = {"train": str(audit_run.path("images") / "**")}
    loaded = load_dataset("imagefolder", data_files=files, split="train")
    assert loaded.num_rows == PORTRAITS * STEPS
    assert set(loaded["step"]) == set(range(1, STEPS + 1))


@pytest.mark.filterwarnings("default")
def test_croissant_is_valid_and_lists_the_images(dataset):
    mlcroissant = pytest.importorskip("mlcroissant")
    described = mlcroissant.Dataset(jsonld=str(dataset.folder / "croissant.json"))
    issues = described.metadata.ctx.issues
    assert not issues.errors
    assert not issues.warnings
    records = list(described.records("versions"))
    assert len(records) == dataset.facts.images
    for record in records:
        path = dataset.folder / record["versions/split"].decode() / record["versions/place"].decode()
        assert sha256(path.read_bytes()).hexdigest() == record["versions/sha256"].decode()
        np.testing.assert_array_equal(np.array(record["versions/image"]), pixels_of(path))
    masks = {mask["masks-of-photos/file"].decode() for mask in described.records("masks-of-photos")}
    assert masks == {record["versions/mask"].decode() for record in records}
