"""Facial prototypes (Rowland and Perrett 1995): the residual editor's fields as differences of mean faces.

Faces are first brought to one skin tone, other attributes are held fixed, and mean faces are registered before their
colours are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from models.fader import ATTRIBUTES, GENDER, RACE
from models.image_metrics import batch_luma
from models.residual import AGES, COARSE_SIDE, Prototypes, displaced, mirrored_displacement, symmetric
from models.training.small_faces import FACE, SIZE, SmallFaces, shift_tones

COMMON_TONE = np.array([60.0, 14.5, 18.0])  # CIELAB, the training faces' median
FARTHEST = 0.025  # crop sides: largest displacement by one unit
LIGHTEST = 0.13  # of RGB -1..1 (17 levels): saturation of a change of light by one unit
BANDWIDTH = 12.0  # years: bandwidth of the kernel over ages
RIDGE = 8.0  # ridge penalty of every difference, in faces
EYES, EYE_SPREAD = ((0.335, 0.365), (0.665, 0.365)), (0.10, 0.06)  # crop sides: centres and standard deviations
MOUTH, MOUTH_SPREAD = ((0.5, 0.71),), (0.16, 0.10)
DETAIL = 0.12  # crop sides: standard deviation above which light counts as tone (see ``models.tone``)
_FINE = 288  # side in pixels at which mean faces are registered


@dataclass(frozen=True)
class Use:
    """Shares of an attribute's differences that its fields contain, at strength 1.

    Attributes:
        light, colour, shape: shares of the differences of light, colour and displacement.
        eyes, mouth: shares of light and colour, and of displacement, at eyes and mouth. Lids, lashes, open or full lips
            would draw one picture on all faces, which classifiers can learn.
        detail: use only the components of light that are smaller than `DETAIL`.
    """

    light: float = 1.0
    colour: float = 1.0
    shape: float = 1.0
    eyes: tuple[float, float] = (1.0, 1.0)
    mouth: tuple[float, float] = (1.0, 1.0)
    detail: bool = False


# The shares were chosen on calibration faces, by the rises of perceived gender and race and by visual inspection.
USES = {
    "gender": Use(shape=1.45, eyes=(0.5, 0.0), mouth=(0.75, 0.0)),
    "race": Use(colour=0.45, shape=0.65, eyes=(0.0, 1.0), mouth=(0.0, 0.0), detail=True),
    "young": Use(),
    "smiling": Use(light=0.0, colour=0.0),  # its light would draw teeth on a closed mouth
}


def even_toned(faces: SmallFaces, rows: Tensor) -> NDArray[np.float32]:
    """Return faces ``(B, 64, 64, 3)`` in -1..1 with their skin's median colour moved to `COMMON_TONE`."""
    crops, classes = faces.batch(rows)
    colours = faces.lab[rows]
    toned = shift_tones(crops, classes, colours, COMMON_TONE - colours.double().numpy())
    return np.ascontiguousarray(toned.permute(0, 2, 3, 1).numpy())


def set_prototypes(prototypes: Prototypes, faces: SmallFaces, rows: Tensor) -> None:
    """Set the fields to the differences of mean faces, measured on the faces ``rows``.

    Near each age a local linear regression gives the mean face as a function of gender, race, age and smile, so that
    each field holds the other attributes, and age within the group, fixed.
    """
    pictures = np.concatenate([even_toned(faces, chunk) for chunk in rows.split(256)])
    inside = torch.cat([faces.batch(chunk)[1][:, FACE] for chunk in rows.split(256)]).numpy()
    # Only pixels that show the face count; hair over a temple would become a shadow.
    covers = (inside > 0.85).astype(np.float32)
    own, age = faces.own[rows].numpy(), faces.labels.age[rows].numpy()
    # Fields fade out where few faces show skin.
    fading = ((symmetric(torch.from_numpy(inside.mean(axis=0))) - 0.5) / 0.35).clamp(0, 1)
    coarse_fading = _coarse(fading)
    everyone, women = np.ones(len(own), dtype=bool), own[:, GENDER] < 0
    overall = mean_faces(pictures, covers, own, age, everyone, centre=AGES[1], bandwidth=3 * BANDWIDTH)
    for knot, centre in enumerate(AGES):
        means = partial(mean_faces, pictures, covers, own, age, centre=centre)
        slopes = means(everyone, bandwidth=BANDWIDTH)
        # Feminine faces only; otherwise differences in the share of beards would be drawn.
        races = means(women, bandwidth=1.5 * BANDWIDTH)
        for place, attribute in enumerate(ATTRIBUTES):
            if attribute == "race_Others":
                continue
            if attribute.startswith("race"):
                # One race against the mean of the three other named races.
                mean, change = races
                others = [k for k in range(RACE.start, RACE.stop - 1) if k != place]
                ends, apart = (mean + change[place], mean + change[others].mean(axis=0)), 1.0
            else:
                mean, change = overall if attribute == "young" else slopes
                ends, apart = (mean + change[place], mean - change[place]), 2.0
            colour, moved = difference(*(np.asarray(end, dtype=np.float32) for end in ends))
            light, chroma = split_colour(colour / apart)
            moved = (moved / apart).clamp(-FARTHEST, FARTHEST)
            light = fading * LIGHTEST * torch.tanh(light / LIGHTEST)
            use = USES[attribute.partition("_")[0]]
            if use.detail:
                light = fading * (light - smooth(light, DETAIL))
            at_eyes, at_mouth = near(EYES, EYE_SPREAD), near(MOUTH, MOUTH_SPREAD)
            seen, moving = (
                (1 - (1 - eyes) * at_eyes) * (1 - (1 - mouth) * at_mouth)
                for eyes, mouth in zip(use.eyes, use.mouth, strict=True)
            )
            prototypes.luma[knot, place] = use.light * seen * light
            prototypes.chroma[knot, place] = use.colour * _coarse(seen) * coarse_fading * chroma
            prototypes.displacement[knot, place] = use.shape * _coarse(moving) * coarse_fading * moved


def near(places: Sequence[tuple[float, float]], spread: tuple[float, float]) -> Tensor:
    """Return ``(64, 64)``: 1 at ``places`` (x, y), falling to 0 with standard deviations ``spread``, in crop sides."""
    centres = (torch.arange(SIZE) + 0.5) / SIZE
    across, down = centres[None, :], centres[:, None]
    bumps = [torch.exp(-(((across - x) / spread[0]) ** 2 + ((down - y) / spread[1]) ** 2) / 2) for x, y in places]
    return torch.stack(bumps).sum(dim=0).clamp(max=1)


def smooth(field: Tensor, deviation: float) -> Tensor:
    """Smooth a field ``(S, S)`` with a Gaussian whose standard deviation is given in sides."""
    pixels = deviation * field.shape[-1]
    return torch.from_numpy(cv2.GaussianBlur(field.numpy(), (0, 0), pixels, borderType=cv2.BORDER_REPLICATE))


def mean_faces(
    pictures: NDArray[np.float32],
    covers: NDArray[np.float32],
    own: NDArray[np.float32],
    age: NDArray[np.float32],
    chosen: NDArray[np.bool_],
    *,
    centre: float,
    bandwidth: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean face ``(64, 64, 3)`` at an age, and its change per unit of each attribute ``(8, 64, 64, 3)``.

    Args:
        pictures: ``(N, 64, 64, 3)``.
        covers: ``(N, 64, 64)``, 1 where a picture shows the face; other pixels are ignored.
        own: ``(N, 8)`` attribute values.
        age: ``(N,)`` years.
        chosen: ``(N,)`` the faces to use.
        centre: the age in years at which the mean is taken; faces are weighted by a Gaussian kernel around it.
        bandwidth: its standard deviation in years.
    """
    near = np.flatnonzero(chosen & (np.abs(age - centre) < 2.5 * bandwidth))
    years = (age[near] - centre) / bandwidth
    columns = np.ones((len(near), 1)), own[near], (years**2)[:, None]
    design = np.concatenate(columns, axis=1, dtype=np.float32)
    weights = np.exp(-0.5 * ((age[near] - centre) / bandwidth) ** 2).astype(np.float32)
    side, count = pictures.shape[1], design.shape[1]
    seen = (covers[near] * weights[:, None, None]).reshape(len(near), -1)
    products = (design[:, :, None] * design[:, None, :]).reshape(len(near), -1)
    gram = (products.T @ seen).T.reshape(-1, count, count).astype(np.float64)
    right = np.stack([(design.T @ (seen * pictures[near, ..., c].reshape(len(near), -1))).T for c in range(3)], axis=-1)
    ridge = np.diag([1.0] + [RIDGE] * (count - 1))
    solved = np.linalg.solve(gram + ridge, right.astype(np.float64)).reshape(side, side, count, 3)
    solved = solved.transpose(2, 0, 1, 3)
    return solved[0], solved[1 : 1 + len(ATTRIBUTES)]


def difference(high: NDArray[np.float32], low: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """Return the change from the second mean face to the first.

    Returns:
        Colour ``(3, 64, 64)``, added after the displacement ``(2, 16, 16)``.
    """
    faces = [symmetric(torch.from_numpy(face).permute(2, 0, 1)) for face in (high, low)]
    flow = _flow(*(_light(face) for face in faces))
    flow = (flow + mirrored_displacement(flow)) / 2
    coarse = F.interpolate(flow[None], size=(COARSE_SIDE, COARSE_SIDE), mode="area")[0]
    dense = F.interpolate(coarse[None], size=faces[0].shape[-2:], mode="bicubic", align_corners=False)
    return faces[0] - displaced(faces[1][None], dense)[0], coarse


def split_colour(colour: Tensor) -> tuple[Tensor, Tensor]:
    """Split a change ``(3, 64, 64)`` of RGB into luma ``(64, 64)`` and coarse Cb, Cr ``(2, 16, 16)`` (BT.601)."""
    light = batch_luma(colour[None])[0, 0]
    chroma = torch.stack([(colour[2] - light) / 1.772, (colour[0] - light) / 1.402])
    return light, F.interpolate(chroma[None], size=(COARSE_SIDE, COARSE_SIDE), mode="area")[0]


def _coarse(field: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(field[None], COARSE_SIDE)[0]


def _light(face: Tensor) -> NDArray[np.uint8]:
    light = batch_luma(face[None])[0, 0].numpy()
    levels = np.clip((light + 1) * 127.5, 0, 255).astype(np.float32)
    return np.asarray(cv2.resize(levels, (_FINE, _FINE), interpolation=cv2.INTER_CUBIC).clip(0, 255).astype(np.uint8))


def _flow(reference: NDArray[np.uint8], moved: NDArray[np.uint8]) -> Tensor:
    """Return the optical flow from ``reference`` to ``moved``, ``(2, 64, 64)`` in sides (DIS, Kroeger et al. 2016)."""
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    search.setFinestScale(2)
    flow = cv2.GaussianBlur(search.calc(reference, moved, None), (0, 0), _FINE / 32)
    small = cv2.resize(flow, (SIZE, SIZE), interpolation=cv2.INTER_AREA) / _FINE
    return torch.from_numpy(np.ascontiguousarray(small.transpose(2, 0, 1)))
