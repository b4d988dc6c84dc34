"""The figures by which two choices were made: how edits are composited, and that the controls are held fixed.

``compare_edits.py compositing PHOTOS`` prints seam, clipping and effect for several soft edges and two colour spaces.
``compare_edits.py controls PREPARED PHOTOS FIGURE.jpg`` draws the gender sweep with the controls held, and below with
the controls following gender as they do in the training faces; it prints how much youth and smile move.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import torch
import typer
from numpy.typing import NDArray

from models.alignment import warp_to_template
from models.detector import FaceDetector
from models.fader import ATTRIBUTES as INPUTS
from models.fader import GENDER, smooth_difference
from models.image_metrics import seam
from models.judge import Perception, young_from_age
from models.precision import unit_batch
from models.training.data import FaceSet, load_faces
from models.weights import load_fader, load_judge, load_parser
from pipeline.config.attributes import ATTRIBUTES
from pipeline.config.options import FaceOptions, PhotoOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.base import CROP, Composite, Edit, Patch, Subject, to_levels
from pipeline.counterfactuals.editors.fader import FaderBatch, FaderEditor, decode, sweep_inputs
from pipeline.counterfactuals.make import subject_of
from pipeline.counterfactuals.mask import add_change, patches_of, to_patch
from pipeline.photos.decoding import read_photo
from pipeline.photos.faces import face_rows
from pipeline.photos.listing import check_photos, find_photos

FEATHERS = (0.0, 0.01, 0.02, 0.04, 0.08)
REGION, FEATHER = SweepOptions().region, SweepOptions().feather
SHOWN, HEIGHT = 3, 150

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Photos = Annotated[Path, typer.Argument(help="folder of photos")]


@app.command()
def compositing(photos: Photos, limit: int = 48, attribute: str = "gender") -> None:
    """Seam, clipping and effect by the width of the mask's soft edge and by colour space."""
    values, swept = (-2.0, -1.0, 1.0, 2.0), ATTRIBUTES[attribute]
    subjects, finder = faces_of(photos, limit=limit), load_parser()
    batch = FaderEditor(load_fader()).read(subjects)
    edit = batch.edit(swept, values)
    print(f"{len(subjects)} faces, {attribute}: seam at -2 and +2 (1 is none), clipped at -2 and +2, effect")
    for space, compose in (("RGB", in_rgb), ("L*a*b*", in_lab)):
        for feather in FEATHERS:
            seams, clipped, crops = [], [], []
            patches = patches_of(finder, subjects, region=REGION, feather_share=feather)
            for place, (subject, patch) in enumerate(zip(subjects, patches, strict=True)):
                if patch is None:
                    continue
                for step, value in enumerate(values):
                    made = compose(subject, patch, edit, batch, place, step)
                    if abs(value) == values[-1]:
                        seams.append(seam(subject.pixels[patch.window], made.pixels[patch.window], patch.mask))
                        clipped.append(made.clipped_share)
                    else:
                        crops.append(warp_to_template(made.pixels, subject.to_crop, size=CROP))
            target = swept.perceived({f"judge_{name}": figures for name, figures in judged(crops).named().items()})
            effect = float((target[1::2] - target[::2]).mean())
            mean_seam = float(np.exp(np.log(seams).mean()))
            print(f"{space:7} feather {feather:.2f}: {mean_seam:.3f} {float(np.mean(clipped)):.4f} {effect:+.3f}")


@app.command()
def controls(
    prepared: Annotated[Path, typer.Argument(help="folder with faces, from train.py prepare")],
    photos: Photos,
    figure: Annotated[Path, typer.Argument(help="the picture to write")],
) -> None:
    """The gender sweep with the controls held, and following gender."""
    values = (-2.0, -1.0, 0.0, 1.0, 2.0)
    subjects = faces_of(photos, limit=66)
    batch = FaderEditor(load_fader()).read(subjects)
    held = batch.edit(ATTRIBUTES["gender"], values)
    released = following(batch, held, slopes=control_slopes(load_faces(prepared / "faces")))
    patches = patches_of(load_parser(), subjects, region=REGION, feather_share=FEATHER)
    found = [(place, *pair) for place, pair in enumerate(zip(subjects, patches, strict=True))]
    rows: list[NDArray[np.uint8]] = []
    for name, edit in (("held", held), ("following", released)):
        versions = [
            (subject, [in_rgb(subject, patch, edit, batch, place, step).pixels for step in range(len(values))])
            for place, subject, patch in found
            if patch is not None
        ]
        seen = judged([warp_to_template(p, subject.to_crop, size=CROP) for subject, line in versions for p in line])
        for what, figures in (("young", seen.young / 2), ("smiling", seen.smiling / 2), ("masculine", seen.masculine)):
            table = figures.view(-1, len(values)).mean(dim=0)
            print(f"controls {name}: {what} moves by {float(table[3] - table[1]):+.3f} from a = -1 to +1")
        for _, line in versions[:: max(1, len(versions) // SHOWN)][:SHOWN]:
            rows.append(np.hstack([cv2.resize(v, (HEIGHT, HEIGHT), interpolation=cv2.INTER_AREA) for v in line]))
    cv2.imwrite(str(figure), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])


def faces_of(photos: Path, *, limit: int) -> list[Subject]:
    """The faces of the first photos of a folder that have one."""
    options = PhotoOptions()
    table = check_photos(find_photos([photos]), options=options).to_pandas()
    table = table[table["status"] == "ok"].head(limit)
    pixels = [read_photo(Path(path), options=options).pixels for path in table["path"]]
    estimator = load_judge("estimator")
    rows = face_rows(list(table["photo"]), pixels, detector=FaceDetector(), estimator=estimator, options=FaceOptions())
    return [subject_of(row, image) for row, image in zip(rows, pixels, strict=True) if row["status"] == "ok"]


@torch.inference_mode()
def judged(crops: list[NDArray[np.uint8]]) -> Perception:
    """What the judge perceives in aligned crops."""
    return load_judge("judge").perceive(unit_batch(crops))


def in_rgb(subject: Subject, patch: Patch, edit: Edit, batch: FaderBatch, place: int, step: int) -> Composite:
    """The change of levels added to the photo's own, as the pipeline does it."""
    return add_change(subject.pixels, patch, to_patch(edit.changes[place, step], subject, patch))


def in_lab(subject: Subject, patch: Patch, edit: Edit, batch: FaderBatch, place: int, step: int) -> Composite:
    """The same change as a difference in CIELAB, added to the photo's."""
    null = (to_levels(batch.null[place]) + 127.5).astype(np.float32)
    before, after = (
        cv2.cvtColor(to_patch(np.clip(face, 0, 255), subject, patch) / 255, cv2.COLOR_RGB2LAB)
        for face in (null, null + edit.changes[place, step])
    )
    photo = cv2.cvtColor(subject.pixels[patch.window].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    lab = photo + patch.mask[..., None] * (after - before)
    rgb = cv2.cvtColor(lab.astype(np.float32), cv2.COLOR_LAB2RGB) * 255
    # The conversion back clips by itself: levels at the very ends that the photo does not have there were beyond.
    ends = ((rgb <= 0.01) | (rgb >= 254.99)).any(axis=2) & (patch.mask > 0)
    had = ((subject.pixels[patch.window] == 0) | (subject.pixels[patch.window] == 255)).any(axis=2)
    pixels = subject.pixels.copy()
    np.copyto(pixels[patch.window], np.clip(np.rint(rgb), 0, 255).astype(np.uint8), where=patch.mask[..., None] > 0)
    return Composite(pixels, float((ends & ~had).sum() / max(1, np.count_nonzero(patch.mask))))


def control_slopes(faces: FaceSet) -> dict[str, float]:
    """By how much the controls' means differ between masculine and feminine training faces, per unit of gender."""
    rows = faces.rows(0, 1)
    masculine = faces.gender[rows] > 0
    held = {"young": young_from_age(faces.age[rows]), "smiling": faces.smiling[rows]}
    return {name: float(v[masculine].mean() - v[~masculine].mean()) / 2 for name, v in held.items()}


@torch.inference_mode()
def following(batch: FaderBatch, edit: Edit, *, slopes: dict[str, float]) -> Edit:
    """The same sweep, with the controls moved along by ``slopes`` per unit of gender."""
    wanted = sweep_inputs(batch.own, ATTRIBUTES["gender"], edit.values)
    for name, slope in slopes.items():
        wanted[:, :, INPUTS.index(name)] += slope * (torch.tensor(edit.values) - batch.own[:, [GENDER]])
    versions = decode(batch.network, batch.codes.repeat_interleave(len(edit.values), dim=0), wanted.flatten(0, 1))
    null = batch.null.repeat_interleave(len(edit.values), dim=0)
    versions = null + batch.network.strength_of("gender") * (versions - null)
    return replace(edit, changes=to_levels(smooth_difference(versions, null).unflatten(0, wanted.shape[:2])))


if __name__ == "__main__":
    app()
