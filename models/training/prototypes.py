"""Facial prototypes (Rowland and Perrett 1995): the residual editor's common fields as differences of mean faces.

Groups are matched in everything else, every face is first brought to one skin tone, shape is compared before colour.
"""

from collections.abc import Callable

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from models.attributes import RACES
from models.fader import ATTRIBUTES
from models.image_metrics import batch_luma
from models.residual import COARSE_SIDE, ResidualEditor, displaced, mirrored_displacement, symmetric
from models.training.small_faces import FACE, SIZE, SmallFaces, shift_tones

COMMON_TONE = np.array([60.0, 14.5, 18.0])  # CIELAB, the training faces' median
FARTHEST = 0.025  # crop sides, of a displacement by one unit
LIGHTEST = 0.13  # of RGB -1..1: towards which a change of light by one unit saturates, 17 levels
_FINE = 288  # pixels a side at which mean faces are registered


def even_toned(faces: SmallFaces, rows: Tensor) -> NDArray[np.float32]:
    """Faces ``(B, 64, 64, 3)`` in -1..1 with their skin's median colour moved to `COMMON_TONE`."""
    crops, classes = faces.batch(rows)
    colours = faces.lab[rows]
    toned = shift_tones(crops, classes, colours, COMMON_TONE - colours.double().numpy())
    return np.ascontiguousarray(toned.permute(0, 2, 3, 1).numpy())


def set_templates(editor: ResidualEditor, faces: SmallFaces, rows: Tensor) -> None:
    """Set the editor's common fields to the prototypes' differences, measured on the faces ``rows``."""
    pictures = np.concatenate([even_toned(faces, chunk) for chunk in rows.split(256)])
    inside = torch.cat([faces.batch(chunk)[1][:, FACE] for chunk in rows.split(256)]).numpy()
    # A pixel counts where it shows the face: hair over a temple would become a shadow on it.
    covers = (inside > 0.85).astype(np.float32)
    labels, own = faces.labels, faces.own[rows]
    gender = (labels.gender[rows] > 0).long().numpy()
    race = labels.race[rows].numpy()
    age = labels.age[rows].numpy()
    band = np.digitize(age, (25, 40, 60))
    smile = np.digitize(labels.smiling[rows].numpy(), (-0.33, 0.33))
    young = own[:, ATTRIBUTES.index("young")].numpy()
    smiling = own[:, ATTRIBUTES.index("smiling")].numpy()

    def contrast(high: NDArray[np.bool_], low: NDArray[np.bool_], cell: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
        return difference(*matched_means(pictures, covers, high, low, cell))

    found: dict[str, tuple[Tensor, Tensor]] = {}
    luma, moved = contrast(gender == 1, gender == 0, race * 100 + band * 10 + smile)
    found["gender"] = luma / 2, moved / 2
    for index, name in enumerate(RACES):
        others = (race != index) & (race != RACES.index("Others"))
        # Of feminine faces: otherwise the share of men with beards would be drawn as a part of the face.
        chosen = gender == 0
        found[f"race_{name}"] = contrast(chosen & (race == index), chosen & others, band * 10 + smile)
    is_young, is_old = age < 27, age > 52
    apart = young[is_young].mean() - young[is_old].mean()
    luma, moved = contrast(is_young, is_old, gender * 100 + race * 10 + smile)
    found["young"] = luma / apart, moved / apart
    wide, narrow = smile == 2, smile == 0
    apart = smiling[wide].mean() - smiling[narrow].mean()
    luma, moved = contrast(wide, narrow, gender * 100 + race * 10 + band)
    found["smiling"] = luma / apart, moved / apart
    # Beyond the face, and where few faces show skin, nothing is known.
    coverage = symmetric(torch.from_numpy(inside.mean(axis=0)))
    fading = ((coverage - 0.5) / 0.35).clamp(0, 1)
    coarse_fading = F.adaptive_avg_pool2d(fading[None], COARSE_SIDE)[0]
    with torch.no_grad():
        for place, attribute in enumerate(ATTRIBUTES):
            colour, displacement = found[attribute]
            light, chroma = split_colour(colour)
            if attribute != "smiling":
                light = LIGHTEST * torch.tanh(light / LIGHTEST)
            editor.luma_template[place] = fading * light
            editor.chroma_template[place] = coarse_fading * chroma
            editor.displacement_template[place] = coarse_fading * displacement.clamp(-FARTHEST, FARTHEST)


def matched_means(
    pictures: NDArray[np.float32],
    covers: NDArray[np.float32],
    high: NDArray[np.bool_],
    low: NDArray[np.bool_],
    cell: NDArray[np.integer],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean faces of two groups with the same share of every cell (the smaller group's count), each ``(64, 64, 3)``.

    Args:
        pictures: ``(N, 64, 64, 3)``.
        covers: ``(N, 64, 64)``, 1 where a picture shows the face; elsewhere it does not count. Where hardly any picture
            of one of the groups does, both means are that of everything.
        high, low: ``(N,)`` who belongs to the groups.
        cell: ``(N,)`` what the groups are matched in.
    """
    sums = [np.zeros(pictures.shape[1:]) for _ in range(2)]
    seen = [np.zeros(pictures.shape[1:3]) for _ in range(2)]
    total = 0.0
    for value in np.unique(cell):
        groups = [np.flatnonzero(group & (cell == value)) for group in (high, low)]
        weight = min(len(groups[0]), len(groups[1]))
        if weight < 5:
            continue
        total += weight
        for place, group in enumerate(groups):
            sums[place] += weight * (covers[group, :, :, None] * pictures[group]).mean(axis=0)
            seen[place] += weight * covers[group].mean(axis=0)
    rare = np.minimum(*seen)[..., None] < 0.15 * max(total, 1)
    overall = (sums[0] + sums[1]) / np.maximum(seen[0] + seen[1], 1e-6)[..., None]
    first, second = (
        np.where(rare, overall, one / np.maximum(count, 1e-6)[..., None]).astype(np.float32)
        for one, count in zip(sums, seen, strict=True)
    )
    return first, second


def difference(high: NDArray[np.float32], low: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """What makes the second mean face the first: colour ``(3, 64, 64)`` after displacement ``(2, 16, 16)``."""
    faces = [symmetric(torch.from_numpy(face).permute(2, 0, 1)) for face in (high, low)]
    flow = _flow(*(_light(face) for face in faces))
    flow = (flow + mirrored_displacement(flow)) / 2
    coarse = F.interpolate(flow[None], size=(COARSE_SIDE, COARSE_SIDE), mode="area")[0]
    dense = F.interpolate(coarse[None], size=faces[0].shape[-2:], mode="bicubic", align_corners=False)
    return faces[0] - displaced(faces[1][None], dense)[0], coarse


def split_colour(colour: Tensor) -> tuple[Tensor, Tensor]:
    """A change ``(3, 64, 64)`` of RGB as luma ``(64, 64)`` and coarse Cb, Cr ``(2, 16, 16)`` (BT.601)."""
    light = batch_luma(colour[None])[0, 0]
    chroma = torch.stack([(colour[2] - light) / 1.772, (colour[0] - light) / 1.402])
    return light, F.interpolate(chroma[None], size=(COARSE_SIDE, COARSE_SIDE), mode="area")[0]


def _light(face: Tensor) -> NDArray[np.uint8]:
    light = batch_luma(face[None])[0, 0].numpy()
    levels = np.clip((light + 1) * 127.5, 0, 255).astype(np.float32)
    return np.asarray(cv2.resize(levels, (_FINE, _FINE), interpolation=cv2.INTER_CUBIC).clip(0, 255).astype(np.uint8))


def _flow(reference: NDArray[np.uint8], moved: NDArray[np.uint8]) -> Tensor:
    """Where each pixel of ``reference`` is found in ``moved``, ``(2, 64, 64)`` in sides (DIS, Kroeger et al. 2016)."""
    search: Callable[..., NDArray[np.float32]]
    found = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    found.setFinestScale(2)
    search = found.calc
    flow = cv2.GaussianBlur(search(reference, moved, None), (0, 0), _FINE / 32)
    small = cv2.resize(flow, (SIZE, SIZE), interpolation=cv2.INTER_AREA) / _FINE
    return torch.from_numpy(np.ascontiguousarray(small.transpose(2, 0, 1)))
