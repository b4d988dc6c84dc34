"""The figures by which the compositing was chosen: ``python scripts/reproduce/compare_compositing.py PHOTOS``.

For several widths of the mask's soft edge and two colour spaces: the seam, the clipping and what the judge perceives.
"""

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faces_of_photos import faces_of

from models.alignment import warp_to_template
from models.image_metrics import seam
from models.precision import unit_batch
from models.weights import load_fader, load_judge, load_parser
from pipeline.config.attributes import ATTRIBUTES
from pipeline.config.options import SweepOptions
from pipeline.counterfactuals.editors.base import CROP, Edit, Subject, to_levels
from pipeline.counterfactuals.editors.fader import FaderBatch, FaderEditor
from pipeline.counterfactuals.mask import Patch, add_change, patches_of, to_patch

FEATHERS = (0.0, 0.01, 0.02, 0.04, 0.08)
VALUES = (-2.0, -1.0, 1.0, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--limit", type=int, default=48)
    parser.add_argument("--attribute", choices=tuple(ATTRIBUTES), default="gender")
    options = parser.parse_args()
    subjects = faces_of(options.photos, limit=options.limit)
    fader, judge, finder = load_fader(), load_judge("judge"), load_parser()
    attribute = ATTRIBUTES[options.attribute]
    encoded = FaderEditor(fader).read(subjects)
    edit = encoded.edit(attribute, VALUES)
    print(f"{len(subjects)} faces, {options.attribute}: seam at -2 and +2 (1 is none), clipped at -2 and +2, effect")
    for space, compose in (("RGB", in_rgb), ("L*a*b*", in_lab)):
        for feather in FEATHERS:
            patches = patches_of(finder, subjects, region=SweepOptions().region, feather_share=feather)
            seams, clipped, crops = [], [], []
            for place, (subject, patch) in enumerate(zip(subjects, patches, strict=True)):
                if patch is None:
                    continue
                for step, value in enumerate(VALUES):
                    pixels, beyond = compose(subject, patch, edit, encoded, place, step)
                    if abs(value) == VALUES[-1]:
                        seams.append(seam(subject.pixels[patch.window], pixels[patch.window], patch.mask))
                        clipped.append(beyond)
                    else:
                        crops.append(warp_to_template(pixels, subject.to_crop, size=CROP))
            with torch.inference_mode():
                seen = judge.perceive(unit_batch(crops))
            target = attribute.perceived({f"judge_{name}": figures for name, figures in seen.named().items()})
            effect = float((target[1::2] - target[::2]).mean())
            mean_seam = float(np.exp(np.log(seams).mean()))
            print(f"{space:7} feather {feather:.2f}: {mean_seam:.3f} {float(np.mean(clipped)):.4f} {effect:+.3f}")


def in_rgb(
    subject: Subject, patch: Patch, edit: Edit, encoded: FaderBatch, place: int, step: int
) -> tuple[NDArray[np.uint8], float]:
    """The change of levels added to the photo's own, as the pipeline does it."""
    made = add_change(subject.pixels, patch, to_patch(edit.changes[place, step], subject, patch))
    return made.pixels, made.clipped_share


def in_lab(
    subject: Subject, patch: Patch, edit: Edit, encoded: FaderBatch, place: int, step: int
) -> tuple[NDArray[np.uint8], float]:
    """The same change as a difference in CIELAB, added to the photo's."""
    null = (to_levels(encoded.null[place]) + 127.5).astype(np.float32)
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
    return pixels, float((ends & ~had).sum() / max(1, np.count_nonzero(patch.mask)))


if __name__ == "__main__":
    main()
