"""Select the photos of a portrait: faces similar in labels and appearance, heads similar in shape and hair.

Photos are read in ``make_sample`` and blended in ``blending``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import blending
import cv2
import numpy as np
from blending import Placed, Source
from numpy.typing import NDArray

from models.attributes import RACES

FACES, HEADS = 6, 7  # photos in a blend
SPARE = 2  # additional photos tried; the worst registered ones are dropped
BEST = 18  # groups of heads kept, those whose outlines agree best


@dataclass(frozen=True)
class Candidate:
    """A candidate photo and the properties by which groups are formed.

    ``tone`` and ``hair`` are L*a*b*; ``smile`` is the width of the mouth in eye distances; ``outline`` describes the
    head's shape; ``masculine`` and ``race`` are probabilities (of heads, which carry no labels).
    """

    name: str
    placed: Placed
    age: float
    tone: NDArray[np.float32]
    hair: NDArray[np.float32]
    smile: float
    outline: NDArray[np.float32]
    masculine: float
    race: tuple[float, ...]


def describe(
    name: str, source: Source, age: float, *, masculine: float = 0.5, race: tuple[float, ...] = ()
) -> Candidate:
    """Describe a photo as a candidate; ``masculine`` and ``race`` are given only for heads."""
    placed = blending.place(source)
    cheeks = placed.colour[150:240, 110:210].reshape(-1, 3)
    x = source.landmarks
    shapes = [(blending.LAYERS[k], weight) for k, weight in ((2, 1.0), (3, 0.5), (4, 0.7), (0, 1.0))]
    maps = [cv2.GaussianBlur(placed.share(layer), (0, 0), 6) * weight for layer, weight in shapes]
    return Candidate(
        name=name,
        placed=placed,
        age=age,
        tone=cheeks.mean(axis=0),
        hair=blending.hair_colour(placed),
        smile=float(np.linalg.norm(x[4] - x[3]) / np.linalg.norm(x[1] - x[0])),
        outline=np.concatenate([cv2.resize(m, (20, 20)).ravel() for m in maps]),
        masculine=masculine,
        race=race,
    )


def choose_faces(
    pool: Sequence[Candidate], random: np.random.Generator, *, smiling: bool
) -> tuple[list[Candidate], float]:
    """Choose six faces similar to a random one with a wide (or narrow) mouth; also return their registration error."""
    tones = np.array([face.tone for face in pool])
    spread = np.median(np.abs(tones - np.median(tones, axis=0)), axis=0)
    usual = (np.abs(tones - np.median(tones, axis=0)) < 2.5 * spread + 1).all(axis=1)
    pool = [face for face, keep in zip(pool, usual, strict=True) if keep]
    order = sorted(range(len(pool)), key=lambda k: pool[k].smile, reverse=smiling)
    seed = pool[order[random.integers(max(1, len(pool) // 3))]] if pool else None
    if seed is None:
        return [], np.inf
    near = sorted(
        pool,
        key=lambda c: (
            64 * (c.smile - seed.smile) ** 2
            + ((c.age - seed.age) / 8) ** 2
            + float((((c.tone - seed.tone) / 8) ** 2).sum())
        ),
    )
    near = _different(near)[: 2 * FACES]
    tried = [near[k] for k in random.permutation(len(near))[: FACES + SPARE]]
    return _best_fitting(tried, blending.face_guides, FACES)


def head_groups(pool: Sequence[Candidate], random: np.random.Generator) -> list[list[Candidate]]:
    """Form disjoint groups of seven heads similar in shape and hair; return those whose outlines agree best."""
    left = [pool[k] for k in random.permutation(len(pool))]
    groups: list[tuple[float, list[Candidate]]] = []
    while len(left) >= HEADS + SPARE:
        seed = left[0]
        near = sorted(
            left,
            key=lambda head: float(((head.outline - seed.outline) ** 2).sum()) / 10 + _apart(head.hair, seed.hair) / 60,
        )
        group, misfit = _best_fitting(_different(near)[: HEADS + SPARE], blending.head_guides, HEADS)
        groups.append((misfit, group))
        taken = {head.name for head in (seed, *group)}
        left = [head for head in left if head.name not in taken]
    return [group for _, group in sorted(groups, key=lambda item: item[0])[:BEST]]


def choose_heads(groups: Sequence[list[Candidate]], faces: Sequence[Candidate], race: str) -> list[Candidate]:
    """Choose the group of heads most similar to the faces in hair, perceived race and age."""
    hair = np.nanmedian([face.hair for face in faces], axis=0)
    age = float(np.mean([face.age for face in faces]))

    def unlike(group: list[Candidate]) -> float:
        colour = np.nanmedian([head.hair for head in group], axis=0)
        likely = float(np.mean([head.race[RACES.index(race)] for head in group]))
        older = age - float(np.mean([head.age for head in group]))
        return _apart(colour, hair) / 40 + 4 * (1 - likely) + (older / 12) ** 2

    return min(groups, key=unlike)


def _apart(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Return the squared distance of two hair colours; for bald heads that of dark and fair hair."""
    distance = float(((one - other) ** 2).sum())
    return distance if np.isfinite(distance) else 300.0


def _best_fitting(
    tried: Sequence[Candidate], guides: Callable[[Sequence[Placed]], list[NDArray[np.uint8]]], count: int
) -> tuple[list[Candidate], float]:
    """Return the ``count`` best registered photos, and their mean distance from the common mean."""
    _, misfits = blending.congeal(guides([c.placed for c in tried]))
    best = np.argsort(misfits)[:count]
    return [tried[k] for k in best], float(np.mean([misfits[k] for k in best]))


def _different(near: Sequence[Candidate]) -> list[Candidate]:
    """Drop duplicates: faces whose lightness agrees almost everywhere."""
    kept: list[Candidate] = []
    views: list[NDArray[np.float32]] = []
    for candidate in near[: 6 * HEADS]:
        view = cv2.resize(candidate.placed.colour[110:260, 100:220, 0], (24, 30), interpolation=cv2.INTER_AREA).ravel()
        view = (view - view.mean()) / (view.std() + 1e-6)
        if all((view * other).mean() < 0.95 for other in views):
            kept.append(candidate)
            views.append(view)
    return kept
