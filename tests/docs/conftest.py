"""The folder that examples of the documentation run in: portraits, a classifier, predictions, and a run."""

import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from script_modules import load_script

from pipeline import audit
from pipeline.photos import SAMPLE

CLASSIFIER = """
import io

import numpy as np
from PIL import Image


def classify(image):
    pixels = np.asarray(Image.open(io.BytesIO(image)).convert("RGB"), dtype=float) / 255
    return {"bright": float(pixels.mean() > 0.4), "warm": float(pixels[..., 0].mean() > pixels[..., 2].mean())}
"""
ROWS = 120


@pytest.fixture(scope="session")
def reference():
    return load_script("docs")


@pytest.fixture(scope="session")
def epilog_examples(reference):
    """The arguments of every example in the help of commands."""
    epilogs = [command.epilog or "" for _, command in reference.commands()]
    return [shlex.split(example)[1:] for epilog in epilogs for example, _ in reference.examples_of(epilog)]


@pytest.fixture(scope="session")
def template_home(tmp_path_factory) -> Path:
    """The folder; tests use copies of it (``home``)."""
    home = tmp_path_factory.mktemp("template")
    (home / "portraits").mkdir()
    photos = sorted(SAMPLE.glob("*.jpg"))[::4][:16]
    for photo in photos:
        shutil.copy(photo, home / "portraits")
    manifest = pd.DataFrame({"photo": [f"portraits/{photo.name}" for photo in photos]})
    manifest = manifest.assign(person=range(len(photos)), keyword=["ceo", "nurse"] * (len(photos) // 2))
    manifest["modifier"] = ["woman", "woman", "man", "man"] * (len(photos) // 4)
    manifest.to_csv(home / "list.csv", index=False)
    manifest.to_csv(home / "results.csv", index=False)
    (home / "mine.py").write_text(CLASSIFIER)
    _predictions(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        audit(
            "list.csv",
            out="runs/portraits",
            adapters=["opencv", "face-attributes", "python:mine:classify"],
            attributes=["gender"],
            options={
                "sweep": {"steps": {"gender": 3}, "placebos": ["random"]},
                "statistics": {"min_count": 1, "resamples": 100},
            },
        )
    for name in ("may", "june", "pilot"):
        shutil.copytree(home / "runs/portraits", home / "runs" / name, ignore=shutil.ignore_patterns("images", "masks"))
    return home


@pytest.fixture
def home(template_home, tmp_path_factory, monkeypatch) -> Path:
    """A copy of the folder, as working directory."""
    home = Path(shutil.copytree(template_home, tmp_path_factory.mktemp("copy") / "home"))
    monkeypatch.chdir(home)
    return home


def _predictions(home: Path) -> None:
    random = np.random.default_rng(0)
    gender = random.choice(["woman", "man"], ROWS)
    cooking = random.integers(0, 2, ROWS)
    score = np.clip(0.6 * cooking + 0.4 * random.random(ROWS), 0, 1)
    frame = pd.DataFrame({"gender": gender, "cooking": cooking, "cooking_score": score, "guess": cooking})
    frame.to_csv(home / "predictions.csv", index=False)
    group, toxic = random.choice(["a", "b"], ROWS), random.integers(0, 2, ROWS)
    texts = [f"word{number % 7} text" for number in range(ROWS)]
    comments = pd.DataFrame({"group": group, "guess": toxic, "toxic": toxic, "text": texts})
    comments.to_csv(home / "toxic.csv", index=False)
    np.save(home / "bert.npy", random.normal(size=(ROWS, 4)))
    jobs = pd.DataFrame({"occupation": ["ceo", "nurse"], "bls_pct_female": [26.5, 89.4]})
    jobs.to_csv(home / "occupations-stats.tsv", sep="\t", index=False)
    shares = pd.DataFrame({"occupation": ["bright", "warm", "face"], "bls_pct_female": [0.6, 0.5, 0.2]})
    shares.to_csv(home / "occupations.tsv", sep="\t", index=False)
