"""The gender sweep with the controls held fixed, and with them following gender as they do in the training faces.

``python scripts/reproduce/compare_controls.py PREPARED PHOTOS FIGURE.jpg`` draws both, one above the other, and prints
how much perceived youth and smile move.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faces_of_photos import faces_of

from models.alignment import warp_to_template
from models.fader import ATTRIBUTES, GENDER, smooth_difference
from models.judge import young_from_age
from models.precision import unit_batch
from models.training.data import FaceSet, load_faces
from models.weights import load_fader, load_judge, load_parser
from pipeline.config.attributes import ATTRIBUTES as SWEPT
from pipeline.config.options import SweepOptions
from pipeline.counterfactuals.editors.base import CROP, Edit, to_levels
from pipeline.counterfactuals.editors.fader import FaderBatch, FaderEditor, decode, sweep_inputs
from pipeline.counterfactuals.mask import add_change, patches_of, to_patch

VALUES = (-2.0, -1.0, 0.0, 1.0, 2.0)
SHOWN, HEIGHT = 3, 150


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prepared", type=Path, help="folder with faces, from train.py prepare")
    parser.add_argument("photos", type=Path)
    parser.add_argument("figure", type=Path)
    options = parser.parse_args()
    subjects = faces_of(options.photos, limit=66)
    fader, judge = load_fader(), load_judge("judge")
    encoded = FaderEditor(fader).read(subjects)
    held = encoded.edit(SWEPT["gender"], VALUES)
    released = following(encoded, held, slopes=control_slopes(load_faces(options.prepared / "faces")))
    patches = patches_of(load_parser(), subjects, region=SweepOptions().region, feather_share=SweepOptions().feather)
    rows: list[NDArray[np.uint8]] = []
    for name, edit in (("held", held), ("following", released)):
        versions = [
            [
                add_change(subject.pixels, patch, to_patch(edit.changes[place, step], subject, patch)).pixels
                for step in range(len(VALUES))
            ]
            for place, (subject, patch) in enumerate(zip(subjects, patches, strict=True))
            if patch is not None
        ]
        crops = [
            warp_to_template(pixels, subject.to_crop, size=CROP)
            for subject, line in zip(subjects, versions, strict=True)
            for pixels in line
        ]
        with torch.inference_mode():
            seen = judge.perceive(unit_batch(crops))
        for what, figures in (("young", seen.young / 2), ("smiling", seen.smiling / 2), ("masculine", seen.masculine)):
            table = figures.view(-1, len(VALUES)).mean(dim=0)
            print(f"controls {name}: {what} moves by {float(table[3] - table[1]):+.3f} from a = -1 to +1")
        for line in versions[:: max(1, len(versions) // SHOWN)][:SHOWN]:
            rows.append(np.hstack([cv2.resize(v, (HEIGHT, HEIGHT), interpolation=cv2.INTER_AREA) for v in line]))
    cv2.imwrite(str(options.figure), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])


def control_slopes(faces: FaceSet) -> dict[str, float]:
    """By how much the controls' means differ between masculine and feminine training faces, per unit of gender."""
    rows = faces.rows(0, 1)
    masculine = faces.gender[rows] > 0
    controls = {"young": young_from_age(faces.age[rows]), "smiling": faces.smiling[rows]}
    return {name: float(v[masculine].mean() - v[~masculine].mean()) / 2 for name, v in controls.items()}


@torch.inference_mode()
def following(encoded: FaderBatch, edit: Edit, *, slopes: dict[str, float]) -> Edit:
    """The same sweep, with the controls moved along by ``slopes`` per unit of gender."""
    wanted = sweep_inputs(encoded.own, SWEPT["gender"], edit.values)
    for name, slope in slopes.items():
        wanted[:, :, ATTRIBUTES.index(name)] += slope * (torch.tensor(edit.values) - encoded.own[:, [GENDER]])
    codes = encoded.codes.repeat_interleave(len(edit.values), dim=0)
    versions = decode(encoded.network, codes, wanted.flatten(0, 1))
    null = encoded.null.repeat_interleave(len(edit.values), dim=0)
    versions = null + encoded.network.strength_of("gender") * (versions - null)
    changes = to_levels(smooth_difference(versions, null).unflatten(0, wanted.shape[:2]))
    return replace(edit, changes=changes)


if __name__ == "__main__":
    main()
