"""How large the report of a run is, how long it takes to write and to open, and how much memory that takes:

    python scripts/bench/report.py --photos 1000 --out /tmp/bench-report

Plants a run: versions of the sample's photos that are tinted inside a mask, and labels with known slopes, so that no
network is needed. The time to open is that of a browser, from going to the file until the viewer's image is drawn.
"""

import shutil
import time
from pathlib import Path
from typing import Annotated, Literal

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import typer
from measure import measured
from numpy.random import Generator

from pipeline.config.attributes import RACE
from pipeline.config.sources import load_settings
from pipeline.photos import SAMPLE
from pipeline.report.album import FILMS
from pipeline.run.folder import Run
from pipeline.run.tables import ANSWERS, COUNTERFACTUALS, FACES, LABELS, PHOTOS, schema, write_table
from pipeline.stages.audit import estimate_run

Format = Literal["png", "jpeg"]

STEPS = 7
MISSED_EVERY = 40  # photos of which one misses a check and one has an unanswered version


def main(
    out: Annotated[Path, typer.Option(help="A folder of its own; emptied first.")],
    photos: int = 1000,
    labels: int = 50,
    adapters: int = 1,
    placebos: int = 0,
    side: Annotated[int, typer.Option(help="Pixels of a photo.")] = 640,
    format: Annotated[Format, typer.Option()] = "png",
) -> None:
    """Print what the report costs."""
    shutil.rmtree(out, ignore_errors=True)
    arms = ("edit", *(f"placebo{number}" for number in range(1, placebos + 1)))
    sizes = {"photos": photos, "labels": labels, "adapters": adapters, "side": side}
    print(f"planted    {measured(plant, out, arms=arms, image_format=format, **sizes)}")
    print(f"tables     {measured(estimate, out)}, and the report")
    report = out / "report.html"
    shutil.rmtree(out / FILMS)
    print(f"report     {measured(estimate, out)}  {report.stat().st_size / 1e6:.1f} MB")
    print(f"again      {measured(estimate, out)}, with films that are there")
    print(f"opened in  {opening_seconds(report):8.2f} s")


def estimate(folder: Path) -> None:
    """Write what a run lacks of tables and report, and the report in any case."""
    estimate_run(folder, changes={})


def opening_seconds(report: Path) -> float:
    """The median of three, each in a new browser."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        for _ in range(3):
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page()
            started = time.perf_counter()
            page.goto(report.resolve().as_uri())
            page.evaluate("document.getElementById('viewer-image').decode()")
            found.append(time.perf_counter() - started)
            browser.close()
    return float(np.median(found))


def plant(
    folder: Path, *, photos: int, labels: int, adapters: int, arms: tuple[str, ...], side: int, image_format: Format
) -> None:
    """Write a run of one attribute as if classifiers had answered; ``report.html`` and its tables are not made."""
    run = Run(folder)
    settings = load_settings(given={"sweep": {"steps": {"gender": STEPS}}}, environment={})
    values = settings.sweep.values("gender")
    names = [f"photo {number:05d}.jpg" for number in range(photos)]
    made = plant_images(folder, values=values, side=side, image_format=image_format)
    rng = np.random.default_rng(0)
    rows = [
        version(name, arm, step, float(value), *made[place % len(made)], missed=place % MISSED_EVERY == 0, rng=rng)
        for arm in arms
        for place, name in enumerate(names)
        for step, value in enumerate(values, start=1)
    ]
    versions = pd.DataFrame(rows)
    write(folder, "counterfactuals", versions, COUNTERFACTUALS)
    known = {"photo": names, "status": "ok"}
    write(folder, "photos", pd.DataFrame({**known, "path": names, "sha256": names}), PHOTOS)
    write(folder, "faces", pd.DataFrame({**known, "gender": 0.0, "race_White": 1.0}), FACES)
    planted = [plant_answers(versions, f"classifier {number}", labels=labels, rng=rng) for number in range(adapters)]
    write(folder, "answers", pd.concat([answers for answers, _ in planted]), ANSWERS)
    write(folder, "labels", pd.concat([scores for _, scores in planted]), LABELS)
    run.note(settings=settings, presence_thresholds={f"classifier {n}": 0.5 for n in range(adapters)})


def plant_images(
    folder: Path, *, values: tuple[float, ...], side: int, image_format: Format
) -> list[tuple[list[str], str]]:
    """Of every sample photo its versions' files and its mask's, relative to the run."""
    # It loads networks' code, which writing a report does not and their memory would be counted there.
    from pipeline.counterfactuals.files import ImageFile

    file = ImageFile(image_format)
    middle, axes = (side // 2, side // 2), (side // 4, side // 3)
    mask = cv2.ellipse(np.zeros((side, side), np.uint8), middle, axes, 0, 0, 360, 255, -1)
    (folder / "images").mkdir(parents=True)
    cv2.imwrite(str(folder / "mask.png"), mask)
    tint = np.array([1.0, 0.2, -1.0]) * (mask[..., None] / 255)
    made = []
    for photo in sorted(SAMPLE.glob("*.jpg")):
        pixels = cv2.cvtColor(cv2.resize(cv2.imread(str(photo)), (side, side)), cv2.COLOR_BGR2RGB)
        names = [f"images/{photo.stem}-{step}{file.suffix}" for step in range(1, len(values) + 1)]
        for name, value in zip(names, values, strict=True):
            (folder / name).write_bytes(file.encode((pixels + 15 * value * tint).clip(0, 255).astype(np.uint8)))
        made.append((names, "mask.png"))
    return made


def version(
    photo: str,
    arm: str,
    step: int,
    value: float,
    files: list[str],
    mask: str,
    *,
    missed: bool,
    rng: Generator,
) -> dict[str, object]:
    """A row of the counterfactuals table, as if a judge had seen it."""
    known = {"attribute": "gender", "arm": arm, "photo": photo, "step": step, "value": value, "status": "ok"}
    known |= {"file": files[step - 1], "sha256": f"{arm} {photo} {step}", "mask": mask, "mask_share": 0.2}
    figures = {"background_kept": 1.0, "clipped_share": 0.4 if missed else 0.0, "mask_line": 0.0}
    figures |= {"lightness": 60.0 + rng.normal(), "null_psnr": 40.0, "null_ssim": 0.99}
    figures |= {"judge_masculine": 0.5 + 0.2 * value + 0.01 * rng.normal(), **dict.fromkeys(RACE.columns, 0.2)}
    return known | figures | {"judge_age": 40.0, "judge_young": 0.0, "judge_smiling": 0.0}


def plant_answers(
    versions: pd.DataFrame, adapter: str, *, labels: int, rng: Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A classifier's answers and its labels; their scores lean more or less on a."""
    keys = versions[["attribute", "arm", "photo", "step", "value", "sha256"]].assign(adapter=adapter)
    numbers = keys["photo"].str.extract(r"(\d+)", expand=False).astype(int)
    failed = (numbers % MISSED_EVERY == 1) & (keys["step"] == 2)
    answers = keys.assign(status=failed.map({True: "failed", False: "ok"}), reason=failed.map({True: "HTTP 503"}))
    answered = keys[~failed].reset_index(drop=True)
    parts = []
    for number, lean in enumerate(np.linspace(-0.1, 0.1, labels)):
        real = (answered["arm"] == "edit").to_numpy()
        score = (0.5 + lean * answered["value"] * real + rng.normal(0, 0.2, len(answered))).clip(0, 1)
        returned = score > 0.2
        parts.append(answered.assign(label=f"label {number:02d}", score=score.where(returned), returned=returned))
    return answers, pd.concat(parts).sort_values(["attribute", "arm", "photo", "step", "label"])


def write(folder: Path, name: str, frame: pd.DataFrame, columns: dict[str, str]) -> None:
    """A table of the run; columns that the frame lacks are null."""
    whole = frame.reindex(columns=list(columns)).astype(object).where(lambda cells: cells.notna(), None)
    write_table(pa.Table.from_pandas(whole, schema=schema(columns), preserve_index=False), folder / f"{name}.parquet")


if __name__ == "__main__":
    typer.run(main)
