"""Drawn photos with known faces, and small networks for tests of editors."""

import numpy as np
import torch
from torch import nn

from models.alignment import TEMPLATE
from models.fader import ATTRIBUTES, Fader, FaderShape
from models.judge import Judge
from models.parser import CLASSES
from models.residual import Prototypes
from models.tone import load_tone_table
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.base import Subject
from pipeline.counterfactuals.editors.fader import FaderEditor
from pipeline.counterfactuals.editors.residual import ToneAndFields
from pipeline.counterfactuals.files import RunLayout
from pipeline.counterfactuals.make import Networks, make_versions

SKIN = CLASSES.index("skin")
BOTH = SweepOptions(attributes=("gender", "race"), steps={"gender": 5, "race": 3}, region=("skin",), placebos=())
GENDER = BOTH.model_copy(update={"attributes": ("gender",)})


def tiny_fader(seed=0):
    torch.manual_seed(seed)
    return Fader(FaderShape(widths=(8, 8, 8, 8))).eval().requires_grad_(False)


def tiny_judge(seed=1):
    torch.manual_seed(seed)
    return Judge(widths=(8, 8, 8, 16)).eval().requires_grad_(False)


class RedSkinParser(nn.Module):
    """A parser for which red pixels are skin and all others background."""

    size = 96

    def forward(self, photos):
        red = photos[:, 0] - photos[:, 1]
        logits = photos.new_zeros(len(photos), len(CLASSES), *photos.shape[-2:])
        logits[:, SKIN] = 40 * (red - 0.5)
        logits[:, 0] = -40 * (red - 0.5)
        return logits


class ColourRecogniser(nn.Module):
    """A recogniser whose embedding is the mean colours of a 4 by 4 grid."""

    def forward(self, faces):
        return nn.functional.adaptive_avg_pool2d(faces, 4).flatten(1)


def networks(recogniser=None, editor=None):
    return Networks(
        editor=editor or FaderEditor(tiny_fader()), parser=RedSkinParser(), judge=tiny_judge(), recogniser=recogniser
    )


def own_values(**changes):
    values = {"gender": 0.5, "race_Black": 1.0, "young": 0.25, "smiling": -0.5, "age": 35.0}
    return dict.fromkeys(ATTRIBUTES, 0.0) | values | changes


def face_photo(*, side=160, centre=(80, 84), radius=30, grey=False, seed=0):
    """A noisy photo with a round red face: pixels, landmarks, and the mask of the face."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    disc = np.hypot(columns - centre[0], rows - centre[1]) < radius
    pixels = np.where(disc[..., None], (190, 70, 60), (60, 90, 130)) + random.integers(-12, 13, (side, side, 3))
    if grey:
        pixels = np.repeat(pixels.mean(axis=2, keepdims=True), 3, axis=2)
    landmarks = np.array(centre) + (TEMPLATE - TEMPLATE.mean(axis=0)) * 2.4 * radius
    return pixels.clip(0, 255).astype(np.uint8), landmarks, disc


def subject(photo="a/face.jpg", *, own=None, **drawing):
    pixels, landmarks, _ = face_photo(**drawing)
    return Subject(photo=photo, pixels=pixels, landmarks=landmarks, own=own_values() if own is None else own)


def faceless_subject(photo="b/none.jpg"):
    return Subject(photo, np.zeros((160, 160, 3), np.uint8), subject().landmarks, own_values())


def residual_editor(options=BOTH, **switches):
    """The editor of skin tone and fields, with random prototypes."""
    prototypes, random = Prototypes(), torch.Generator().manual_seed(0)
    prototypes.luma.normal_(std=0.05, generator=random)
    prototypes.displacement.normal_(std=0.01, generator=random)
    parts = prototypes, load_tone_table(), RedSkinParser(), options.region, options.feather, tiny_judge()
    return ToneAndFields(*parts, **switches)


def make(subjects, folder, options=BOTH, *, recogniser=None, identified=(), editor=None):
    return make_versions(
        subjects,
        networks=networks(recogniser, editor),
        options=options,
        layout=RunLayout(),
        folder=folder,
        identified=frozenset(identified),
    )
