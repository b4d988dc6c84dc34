"""Calibration of the residual editor: how strong a unit of each attribute is, and what must not drift along with it.

Measured on the held-out faces kept for choosing, as the mean over several networks, none of them the judge.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from models.attributes import RACES
from models.fader import ATTRIBUTES, GENDER, RACE
from models.judge import Classifier, age_in_years, split
from models.residual import ResidualEditor, apply_change, centred, change_by
from models.tone import ToneTable, tone_shifts
from models.training.data import CROP, selection_rows
from models.training.edits import DEFAULT_PAIR
from models.training.guides import Guide
from models.training.residual_losses import SMILING, YOUNG
from models.training.small_faces import FACE, SmallFaces, shift_tones

# What an observer perceives in faces ``(B, 3, 64, 64)``: P(masculine) ``(B,)``, race logarithms ``(B, 5)``, age in
# years ``(B,)``, smile in -1..1 ``(B,)``.
Observer = Callable[[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]

MOST = 120  # faces that are looked at
LOW, HIGH = (ATTRIBUTES.index(f"race_{race}") for race in DEFAULT_PAIR)


@dataclass(frozen=True)
class Wanted:
    """How strong the edits of gender and race shall be.

    Attributes:
        rises: of the mean probability from -1 to +1, which the strength is searched for.
        strengths: a strength of each set by hand instead; None searches.
        between: the range of strengths that is searched.
    """

    rises: Mapping[str, float] = field(default_factory=lambda: {"gender": 0.50, "race": 0.55})
    strengths: Mapping[str, float | None] = field(default_factory=dict)
    between: tuple[float, float] = (0.3, 2.0)


def guide_observer(guide: Guide) -> Observer:
    """What a guide perceives."""

    def observe(faces: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        gender, race, _, age, smile = split(guide(faces, torch.Generator().manual_seed(3)))
        return torch.sigmoid(gender), race.log_softmax(1), age_in_years(age), torch.tanh(smile)

    return observe


def estimator_observer(estimator: Classifier) -> Observer:
    """What the estimator perceives in faces enlarged to its size."""

    def observe(faces: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        larger = F.interpolate(faces, size=(CROP, CROP), mode="bicubic", align_corners=False).clamp(-1, 1)
        seen = estimator.perceive(larger)
        return seen.masculine, seen.race.log(), seen.age, seen.smiling

    return observe


@torch.no_grad()
def calibrate(
    editor: ResidualEditor, observers: Sequence[Observer], faces: SmallFaces, tones: ToneTable, wanted: Wanted
) -> Mapping[str, float]:
    """Set ``editor.mixing``; returns the strengths and the rises they give.

    Age and smile come first: their perceived change by each attribute (least squares over random differences of all) is
    taken out through the fields of *young* and *smiling*. Then the strengths of gender and race are set.
    """
    rows = selection_rows(faces.labels)
    rows = rows[:: max(1, len(rows) // MOST)]
    crops, classes = faces.batch(rows)
    masks, own = classes[:, FACE : FACE + 1], faces.own[rows]
    editor.mixing.copy_(torch.eye(len(ATTRIBUTES)))
    fields = editor(crops)
    before = [observer(crops) for observer in observers]

    def seen(difference: Tensor, photos: Tensor = crops) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        change = centred(change_by(fields, difference @ editor.mixing, size=crops.shape[-1]), masks)
        result = apply_change(photos, change, masks)
        return [observer(result) for observer in observers]

    random = torch.Generator().manual_seed(17)
    others = [place for place in range(len(ATTRIBUTES)) if place not in (YOUNG, SMILING)]
    for _ in range(2):
        differences = torch.cat([_random_differences(own, random) for _ in range(2)])
        moved = torch.cat([_moved(seen(part), before) for part in differences.split(len(own))])
        solution = torch.linalg.lstsq(differences, moved).solution  # (8, 2): years and smile by unit
        correction = solution[others] @ torch.linalg.inv(solution[[YOUNG, SMILING]])
        editor.mixing[others] -= correction @ editor.mixing[[YOUNG, SMILING]]
    toned = {value: _toned(faces, rows, crops, classes, tones, value) for value in (-1.0, 1.0)}

    def rise(name: str) -> float:
        ends = []
        for value in (-1.0, 1.0):
            difference = torch.zeros_like(own)
            if name == "gender":
                difference[:, GENDER] = value - own[:, GENDER]
            else:
                half = (value - (own[:, HIGH] - own[:, LOW])) / 2
                difference[:, HIGH], difference[:, LOW] = half, -half
            ends.append(_target(seen(difference, toned[value] if name == "race" else crops), name))
        return float((ends[1] - ends[0]).mean())

    figures: dict[str, float] = {}
    for name, lines in (("gender", slice(GENDER, GENDER + 1)), ("race", RACE)):
        start, (below, above) = editor.mixing[lines].clone(), wanted.between
        by_hand = wanted.strengths.get(name)
        for _ in range(1 if by_hand is not None else 5):
            strength = (below + above) / 2 if by_hand is None else by_hand
            editor.mixing[lines] = strength * start
            found = rise(name)
            if abs(found - wanted.rises[name]) < 0.01:
                break
            below, above = (strength, above) if found < wanted.rises[name] else (below, strength)
        figures |= {f"{name}_strength": strength, f"{name}_rise": found}
    return figures


def _toned(faces: SmallFaces, rows: Tensor, crops: Tensor, classes: Tensor, tones: ToneTable, value: float) -> Tensor:
    """The faces with the skin tone of a value of the default race sweep."""
    shifts = [
        tone_shifts(
            tones,
            faces.lab[row].double().numpy(),
            (value,),
            own=float(faces.own[row, HIGH] - faces.own[row, LOW]),
            pair=DEFAULT_PAIR,
            gender=float(faces.own[row, GENDER]),
            age=float(faces.labels.age[row]),
        )[0]
        for row in rows.tolist()
    ]
    return shift_tones(crops, classes, faces.lab[rows], np.stack(shifts))


def _random_differences(own: Tensor, random: torch.Generator) -> Tensor:
    count = len(own)
    out = torch.zeros_like(own)
    out[:, GENDER] = -own[:, GENDER] * torch.rand(count, generator=random) * 2
    for sign in (-1.0, 1.0):
        place = 1 + torch.randint(len(RACES) - 1, (count, 1), generator=random)
        out.scatter_add_(1, place, sign * torch.rand(count, 1, generator=random))
    out[:, YOUNG] = torch.rand(count, generator=random) - 0.5
    out[:, SMILING] = torch.rand(count, generator=random) - 0.5
    return out


def _moved(after: Sequence[tuple[Tensor, ...]], before: Sequence[tuple[Tensor, ...]]) -> Tensor:
    """The mean change of age in years and of smile ``(B, 2)`` over the observers."""
    changes = [torch.stack([a[2] - b[2], a[3] - b[3]], dim=1) for a, b in zip(after, before, strict=True)]
    return torch.stack(changes).mean(dim=0)


def _target(seen: Sequence[tuple[Tensor, ...]], name: str) -> Tensor:
    """The mean probability ``(B,)`` of the higher end of gender or the default races, over the observers."""
    if name == "gender":
        return torch.stack([one[0] for one in seen]).mean(dim=0)
    low, high = (RACES.index(race) for race in DEFAULT_PAIR)
    return torch.stack([torch.sigmoid(one[1][:, high] - one[1][:, low]) for one in seen]).mean(dim=0)
