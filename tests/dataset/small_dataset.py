"""A dataset of six portraits of the embedded sample, and functions that read its files."""

import csv
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.config.sources import load_settings
from pipeline.dataset.make import make_dataset, run_folder
from pipeline.run.progress import unwatched
from pipeline.stages import counterfactuals, faces

STEPS = 3
PORTRAITS = 6
CHUNK = 2  # photos, so that a run has several chunks
SWEEP = {"attributes": ["gender"], "steps": {"gender": STEPS}, "placebos": []}
DATASET = {"cluster": "person", "published": "2026-01-02", "split": {"train": 0.5, "test": 0.5}}


@dataclass(frozen=True)
class Portraits:
    """The input: a manifest, and the names of its photos."""

    manifest: Path
    names: list[str]

    def sha256(self, name):
        return sha256((self.manifest.parent / name).read_bytes()).hexdigest()


def settings_with(*, opt_out=None, images="folder", **options):
    given = {
        "sweep": SWEEP,
        "dataset": DATASET | options,
        "photos": {"opt_out": opt_out},
        "storage": {"images": images},
    }
    return load_settings(given=given, environment={})


@contextmanager
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        for module in (counterfactuals, faces):
            patch.setattr(module, "CHUNK", CHUNK)
        yield


def make(manifest, out, *, watch=unwatched, **options):
    with small_chunks():
        return make_dataset([manifest], out, settings=settings_with(**options), given={}, watch=watch)


def copy_dataset(dataset, folder):
    """Copy a dataset and its run; return the folder of the copy."""
    shutil.copytree(dataset.folder, folder / "faces")
    shutil.copytree(run_folder(dataset.folder), folder / "faces.run")
    return folder / "faces"


def content_of(folder):
    """Relative path -> content, of all files."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pixels_of(path):
    with Image.open(path) as image:
        return np.array(image)


def info_of(path):
    """The metadata of an image file."""
    with Image.open(path) as image:
        image.load()
        return image.info


def rows_of(folder):
    """The rows of metadata.csv of all splits, each with the path of its image."""
    rows = []
    for path in sorted(folder.glob("*/metadata.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += [row | {"path": str(path.parent / row["file_name"])} for row in csv.DictReader(file)]
    return rows


def verify_checksums(folder):
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=folder, check=True)
