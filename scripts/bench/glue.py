"""How fast photos become versions on the disk, against a script that glues the same parts together:

    python scripts/bench/glue.py PHOTOS --out /tmp/bench --photos 200

The script is what one writes first: a photo at a time, facenet-pytorch's MTCNN, a crop, BiSeNet at its 512 pixels, the
Fader network in float32 once for each version, paste, `cv2.imwrite`; every library as it comes. It checks nothing.
BiSeNet has random weights, which are as fast as the public ones; so all of the crop counts as the face. On a busy
machine the ratio of the processor is to be read, with OMP_NUM_THREADS=1: threads that wait for others are busy, too.
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

STEPS = (-2.0, -1.33, -0.67, 0.0, 0.67, 1.33, 2.0)
CROP = 128
FEW = 20  # photos; more than the pipeline does in its own process


def main(
    folder: Annotated[Path, typer.Argument(metavar="PHOTOS", help="A folder.")],
    out: Annotated[Path, typer.Option(help="A folder of its own; emptied first.")],
    photos: Annotated[int, typer.Option(help="How many of them.")] = 200,
    workers: Annotated[int | None, typer.Option(help="Of the pipeline: all cores unless given.")] = None,
    rounds: int = 2,
) -> None:
    """Print what each photo takes, by the clock and of the processor, and how much less the pipeline takes."""
    found = sorted(folder.glob("*.jpg"))[:photos]
    first = found[: max(FEW, photos // 4)]  # what a few take is taken off: it is loading, most of all
    for _ in range(rounds):
        taken = []
        for work, named in ((glued, {}), (piped, {"workers": workers})):
            shutil.rmtree(out, ignore_errors=True)
            few, every = (measured(work, some, out / str(len(some)), **named) for some in (first, found))
            more = len(found) - len(first)
            taken.append(((every.seconds - few.seconds) / more, (every.processor - few.processor) / more))
            clock, processor = taken[-1]
            print(f"{work.__name__}  {clock:.3f} s a photo, {processor:.3f} s of processor; all: {every}")
        (clock, processor), (own_clock, own_processor) = taken
        print(
            f"glue / pipeline: {clock / own_clock:.1f} by the clock, {processor / own_processor:.1f} of the processor"
        )


@torch.no_grad()
def glued(photos: list[Path], out: Path) -> int:
    """Write 7 versions of each photo as a first script would; how many."""
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
        mask = _mask(parser, crop)
        back = invert(similarity_to_template(landmarks[0], size=CROP))
        size = photo.shape[1::-1]
        weight = cv2.warpAffine(mask, back, size)[..., None]
        for step, value in enumerate(STEPS, start=1):
            attributes = torch.zeros(1, 8)
            attributes[0, 0] = value
            edited = fader(face, attributes)[0].permute(1, 2, 0).numpy()
            whole = cv2.warpAffine((edited + 1) * 127.5, back, size)
            version = (weight * whole + (1 - weight) * photo).round().clip(0, 255).astype(np.uint8)
            cv2.imwrite(str(out / f"{path.stem}-{step}.png"), cv2.cvtColor(version, cv2.COLOR_RGB2BGR))
            written += 1
    return written


def piped(photos: list[Path], out: Path, *, workers: int | None) -> int:
    """Write 7 versions of each photo with the same editor; how many. They are judged and measured, too."""
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
    """Where the face is in the crop, ``(128, 128)`` in 0-1, with a soft edge."""
    shown = cv2.resize(crop, (parser.size, parser.size))
    classes = parser(torch.from_numpy(shown).permute(2, 0, 1)[None] / 127.5 - 1).argmax(dim=1)[0].numpy()
    small = cv2.resize((classes >= 0).astype(np.float32), (CROP, CROP))
    return np.asarray(cv2.GaussianBlur(small, (0, 0), 3), dtype=np.float32)


if __name__ == "__main__":
    typer.run(main)
