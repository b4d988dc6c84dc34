"""Size of a run's report, and the time and memory to write and open it:

    python scripts/bench/report.py --photos 1000 --out /tmp/bench-report

The run is generated without networks: versions are photos of the sample tinted inside a mask, labels have known slopes.
Opening is timed in a browser, from navigation until the viewer's image is decoded.
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
MISSED_EVERY = 40  # one in 40 photos fails a check, and one in 40 has an unanswered version


def main(
    out: Annotated[Path, typer.Option(help="Output folder; emptied first.")],
    photos: int = 1000,
    labels: int = 50,
    adapters: int = 1,
    placebos: int = 0,
    side: Annotated[int, typer.Option(help="Side of a photo in pixels.")] = 640,
    format: Annotated[Format, typer.Option()] = "png",
) -> None:
    """Print time, memory and size of the report."""
    shutil.rmtree(out, ignore_errors=True)
    arms = ("edit", *(f"placebo{number}" for number in range(1, placebos + 1)))
    sizes = {"photos": photos, "labels": labels, "adapters": adapters, "side": side}
    print(f"generated  {measured(generate_run, out, arms=arms, image_format=format, **sizes)}")
    print(f"tables     {measured(estimate, out)}, and the report")
    report = out / "report.html"
    shutil.rmtree(out / FILMS)
    print(f"report     {measured(estimate, out)}  {report.stat().st_size / 1e6:.1f} MB")
    print(f"again      {measured(estimate, out)}, with existing film strips")
    print(f"opened in  {opening_seconds(report):8.2f} s")


def estimate(folder: Path) -> None:
    """Write the report and any missing tables."""
    estimate_run(folder, changes={})


def opening_seconds(report: Path) -> float:
    """Return the median opening time of three new browsers."""
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


def generate_run(
    folder: Path, *, photos: int, labels: int, adapters: int, arms: tuple[str, ...], side: int, image_format: Format
) -> None:
    """Write a run of one attribute with answers of classifiers, without ``report.html`` and its tables."""
    run = Run(folder)
    settings = load_settings(given={"sweep": {"steps": {"gender": STEPS}}}, environment={})
    values = settings.sweep.values("gender")
    names = [f"photo {number:05d}.jpg" for number in range(photos)]
    made = generate_images(folder, values=values, side=side, image_format=image_format)
    rng = np.random.default_rng(0)
    rows = [
        version(name, arm, step, float(value), *made[place % len(made)], missed=place % MISSED_EVERY == 0, rng=rng)
        for arm in arms
        for place, name in enumerate(names)
        for step, value in enumerate(values, start=1)
    ]
    versions = pd.DataFrame(rows)
    write(folder, "counterfactuals", versions, COUNTERFACTUALS)
    common = {"photo": names, "status": "ok"}
    write(folder, "photos", pd.DataFrame({**common, "path": names, "sha256": names}), PHOTOS)
    write(folder, "faces", pd.DataFrame({**common, "gender": 0.0, "race_White": 1.0}), FACES)
    answers = [generate_answers(versions, f"classifier {n}", labels=labels, rng=rng) for n in range(adapters)]
    write(folder, "answers", pd.concat([rows for rows, _ in answers]), ANSWERS)
    write(folder, "labels", pd.concat([scores for _, scores in answers]), LABELS)
    run.note(settings=settings, presence_thresholds={f"classifier {n}": 0.5 for n in range(adapters)})


def generate_images(
    folder: Path, *, values: tuple[float, ...], side: int, image_format: Format
) -> list[tuple[list[str], str]]:
    """Write versions and a mask for each sample photo; return their paths relative to the run."""
    # Imported late: this loads the networks' code, whose memory must not count for the report.
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
    """Return a row of the counterfactuals table with simulated judge outputs."""
    known = {"attribute": "gender", "arm": arm, "photo": photo, "step": step, "value": value, "status": "ok"}
    known |= {"file": files[step - 1], "sha256": f"{arm} {photo} {step}", "mask": mask, "mask_share": 0.2}
    figures = {"background_kept": 1.0, "clipped_share": 0.4 if missed else 0.0, "mask_line": 0.0}
    figures |= {"lightness": 60.0 + rng.normal(), "null_psnr": 40.0, "null_ssim": 0.99}
    figures |= {"judge_masculine": 0.5 + 0.2 * value + 0.01 * rng.normal(), **dict.fromkeys(RACE.columns, 0.2)}
    return known | figures | {"judge_age": 40.0, "judge_young": 0.0, "judge_smiling": 0.0}


def generate_answers(
    versions: pd.DataFrame, adapter: str, *, labels: int, rng: Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate a classifier's answers and labels, whose scores depend on a to different degrees."""
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
    """Write a table of the run; missing columns are null."""
    complete = frame.reindex(columns=list(columns)).astype(object).where(lambda cells: cells.notna(), None)
    write_table(
        pa.Table.from_pandas(complete, schema=schema(columns), preserve_index=False), folder / f"{name}.parquet"
    )


if __name__ == "__main__":
    typer.run(main)
