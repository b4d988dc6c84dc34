"""Captions as a table of predictions, for ``amplification`` and others: the concepts and the group that each names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.texts import Concept, labels_of_text, read_concepts
from pipeline.analyses.inputs import InputError, columns_of, read_predictions

if TYPE_CHECKING:
    import pandas as pd

GROUP = "group"


@dataclass(frozen=True, eq=False)
class CaptionTable:
    """Captions as numbers.

    Attributes:
        rows: the file's other columns; for each column of captions C, ``C concept`` (0 or 1) for each concept, and the
            measures of the text; with groups, ``C group``.
        left_out: number of rows without exactly one group in every column of captions.
    """

    rows: "pd.DataFrame"
    left_out: int = 0


def caption_table(path: Path, *, columns: Sequence[str], concepts: str, groups: Sequence[str] = ()) -> CaptionTable:
    """Find the concepts in captions.

    Rows in which a caption names none or several of the ``groups`` are left out, as Wang & Russakovsky do before they
    compare captions by people with those of a model.

    Args:
        path: a CSV, TSV or Parquet file.
        columns: of captions; several captions of an image are in one cell, one per line.
        concepts: a TOML file of concepts, or ``person``.
        groups: concepts that are the groups, such as woman and man.

    Raises:
        InputError: a column or a concept is unknown, or no row is left.
    """
    import pandas as pd

    found = read_concepts(concepts)
    unknown = set(groups) - {concept.name for concept in found}
    if unknown or len(groups) == 1:
        known = ", ".join(concept.name for concept in found)
        raise InputError(f"--groups takes two or more of the concepts of {concepts}: {known}")
    frame = read_predictions(path)
    captions = columns_of(frame, list(columns), table=str(path), complete=False)
    rows = frame.drop(columns=list(columns))
    for column in columns:
        texts = [str(text) if isinstance(text, str) else "" for text in captions[column]]
        rows = rows.join(
            pd.DataFrame([_numbers(text, found) for text in texts], index=frame.index).add_prefix(f"{column} ")
        )
        if groups:
            rows[f"{column} {GROUP}"] = [_group(text, found, groups) for text in texts]
    kept = rows.dropna(subset=[f"{column} {GROUP}" for column in columns]) if groups else rows
    if kept.empty:
        raise InputError(f"no row of {path} has captions that name one of {', '.join(groups)}")
    return CaptionTable(kept.reset_index(drop=True), len(rows) - len(kept))


def _numbers(text: str, concepts: Sequence[Concept]) -> dict[str, float]:
    """Concepts as 0 or 1, and the measures of a text; a refusal has no concepts."""
    scores = {label.name: label.score for label in labels_of_text(text, concepts)}
    measures = {name: score for name, score in scores.items() if name.startswith("(")}
    return {concept.name: int(concept.name in scores) for concept in concepts} | measures


def _group(text: str, concepts: Sequence[Concept], groups: Sequence[str]) -> str | None:
    """The only group that a caption names, else None."""
    named = [concept.name for concept in concepts if concept.name in groups and concept.pattern.search(text)]
    return named[0] if len(named) == 1 else None
