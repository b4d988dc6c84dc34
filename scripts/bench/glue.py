"""Speed of the pipeline from photos to versions on disk, compared with a simple script built from the same components:

    python scripts/bench/glue.py PHOTOS --out /tmp/bench --photos 200

The script processes one photo at a time: facenet-pytorch's MTCNN, a crop, BiSeNet at 512 pixels, the Fader network in
float32 once per version, paste, `cv2.imwrite`, with no checks. BiSeNet has random weights, which are as fast as the
public ones, so the whole crop counts as face. On a busy machine set OMP_NUM_THREADS=1 and compare processor time.
"""

import shutil
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import torch
import typer
from facenet_pytorch import MTCNN
from measure import measured
from numpy.typing import NDArray

from models.alignment import aligned_crop, invert, similarity_to_template
from models.parser import BiSeNet
from models.weights import load_fader
from pipeline.config.sources import load_settings

VALUES = (-2.0, -1.33, -0.67, 0.0, 0.67, 1.33, 2.0)
CROP = 128
SMALL_RUN = 20  # photos at least; with fewer the pipeline does not start worker processes


def main(
    folder: Annotated[Path, typer.Argument(metavar="PHOTOS", help="A folder of photos.")],
    out: Annotated[Path, typer.Option(help="Output folder; emptied first.")],
    photos: Annotated[int, typer.Option(help="Number of photos.")] = 200,
    workers: Annotated[int | None, typer.Option(help="Worker processes of the pipeline. [default: all cores]")] = None,
    rounds: int = 2,
) -> None:
    """Print wall-clock and processor time per photo, without start-up time, and the ratio of script to pipeline."""
    selected = sorted(folder.glob("*.jpg"))[:photos]
    subset = selected[: max(SMALL_RUN, photos // 4)]
    for _ in range(rounds):
        timings = []
        for function, options in ((simple_script, {}), (run_pipeline, {"workers": workers})):
            shutil.rmtree(out, ignore_errors=True)
            small, full = (measured(function, part, out / str(len(part)), **options) for part in (subset, selected))
            # The difference of a small and a full run does not contain the start-up time.
            extra = len(selected) - len(subset)
            timings.append(((full.seconds - small.seconds) / extra, (full.processor - small.processor) / extra))
            seconds, processor = timings[-1]
            print(f"{function.__name__}: {seconds:.3f} s, {processor:.3f} s processor time per photo; full run: {full}")
        (seconds, processor), (pipeline_seconds, pipeline_processor) = timings
        ratios = f"{seconds / pipeline_seconds:.1f} in seconds, {processor / pipeline_processor:.1f} in processor time"
        print(f"script / pipeline: {ratios}")


@torch.no_grad()
def simple_script(photos: list[Path], out: Path) -> int:
    """Write 7 versions of each photo with a simple script; return their number."""
    detector = MTCNN()
    parser, fader = BiSeNet().eval(), load_fader()
    out.mkdir(parents=True)
    written = 0
    for path in photos:
        photo = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        _, _, landmarks = detector.detect(photo, landmarks=True)
        if landmarks is None:
            continue
        crop = aligned_crop(photo, landmarks[0], size=CROP)
        face = torch.from_numpy(crop).permute(2, 0, 1)[None] / 127.5 - 1
        to_photo = invert(similarity_to_template(landmarks[0], size=CROP))
        size = photo.shape[1::-1]
        weight = cv2.warpAffine(_mask(parser, crop), to_photo, size)[..., None]
        for step, value in enumerate(VALUES, start=1):
            attributes = torch.zeros(1, 8)
            attributes[0, 0] = value
            edited = fader(face, attributes)[0].permute(1, 2, 0).numpy()
            pasted = cv2.warpAffine((edited + 1) * 127.5, to_photo, size)
            version = (weight * pasted + (1 - weight) * photo).round().clip(0, 255).astype(np.uint8)
            cv2.imwrite(str(out / f"{path.stem}-{step}.png"), cv2.cvtColor(version, cv2.COLOR_RGB2BGR))
            written += 1
    return written


def run_pipeline(photos: list[Path], out: Path, *, workers: int | None) -> int:
    """Write, judge and measure 7 versions of each photo with the Fader editor of the pipeline; return their number."""
    from pipeline.run.folder import Run
    from pipeline.stages.audit import start_run
    from pipeline.stages.base import started_engine
    from pipeline.stages.counterfactuals import counterfactuals_stage
    from pipeline.stages.faces import faces_stage
    from pipeline.stages.photos import photos_stage

    sweep = {"attributes": ["gender"], "editor": "fader", "placebos": []}
    settings = load_settings(given={"sweep": sweep, "engine": {"workers": workers}}, environment={})
    run = Run(out)
    with started_engine(settings.engine) as engine:
        work = start_run(run, photos, settings=settings, given={}, engine=engine)
        counterfactuals_stage(work, faces_stage(work, photos_stage(work)))
    return run.record.stages["counterfactuals"].counts["ok"]


def _mask(parser: BiSeNet, crop: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the face mask ``(128, 128)`` of a crop in 0-1, with a soft edge."""
    resized = cv2.resize(crop, (parser.size, parser.size))
    classes = parser(torch.from_numpy(resized).permute(2, 0, 1)[None] / 127.5 - 1).argmax(dim=1)[0].numpy()
    small = cv2.resize((classes >= 0).astype(np.float32), (CROP, CROP))
    return np.asarray(cv2.GaussianBlur(small, (0, 0), 3), dtype=np.float32)


if __name__ == "__main__":
    typer.run(main)
