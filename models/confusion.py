"""Confusion matrices of estimator and judges: counts on held-out faces, shipped with the weights.

``scripts/reproduce/evaluate_models.py`` writes them. This module does not import torch.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "weights" / "confusion.json"


class ConfusionError(Exception):
    """There is no confusion matrix for these weights; the message says what to do."""


@dataclass(frozen=True)
class Confusion:
    """Held-out faces by annotated and perceived group.

    Attributes:
        weights: sha256 of the network's weights file.
        data: description of the faces.
        groups: one category of each attribute, such as "feminine, White".
        counts: ``(G, G)``, one row per annotated and one column per perceived group.
    """

    weights: str
    data: str
    groups: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def faces(self) -> int:
        """Number of held-out faces."""
        return sum(map(sum, self.counts))

    def of(self, categories: Sequence[str]) -> list[list[int]]:
        """Return the counts ``(C, C)`` of the attribute with these categories, in the given order.

        Raises:
            ConfusionError: no attribute has these categories.
        """
        attributes = zip(*(group.split(", ") for group in self.groups), strict=True)
        named = next((names for names in attributes if {*names} == {*categories}), None)
        if named is None:
            raise ConfusionError(f"there is no confusion matrix for the categories {', '.join(categories)}")
        places = np.array([categories.index(name) for name in named])
        counts = np.zeros((len(categories), len(categories)), dtype=int)
        np.add.at(counts, (places[:, None], places), self.counts)
        return counts.tolist()


def write_confusion(matrices: dict[str, Confusion], file: Path = FILE) -> None:
    """Write the matrices by network name."""
    text = json.dumps({name: asdict(matrix) for name, matrix in matrices.items()}, indent=1)
    # One line per row of counts.
    lines = text.replace("\n    ", " ").replace("\n   ]", " ]")
    file.write_text(lines + "\n", encoding="utf-8")


def read_confusion(name: str, *, weights: str, file: Path | None = None) -> Confusion:
    """Read the matrix of one network.

    Args:
        name: one of ``models.weights.CLASSIFIERS``.
        weights: sha256 of the weights in use; a matrix of other weights does not apply to them.
        file: file of the matrices. Default: the shipped one.

    Raises:
        ConfusionError: there is no matrix, or it belongs to other weights.
    """
    file = file or FILE
    remedy = "compute it with scripts/reproduce/evaluate_models.py"
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))[name]
        matrix = Confusion(
            weights=kept["weights"],
            data=kept["data"],
            groups=tuple(kept["groups"]),
            counts=tuple(tuple(line) for line in kept["counts"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfusionError(f"there is no confusion matrix of the {name} in {file.name}: {remedy}") from error
    if matrix.weights != weights:
        raise ConfusionError(f"the confusion matrix of the {name} in {file.name} belongs to other weights: {remedy}")
    return matrix
