"""What a section of the page is made of: parts with sentences, drawings, tables and pictures; plain text but the SVG.

Escaping is the template's work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.run.formats import count, decimal, interval, is_missing
from pipeline.run.text import visible

SMALL = 12  # rows of a table that is shown without a click


@dataclass(frozen=True)
class Sheet:
    """A table: the first cell of every row is its heading; ``texts`` are the columns that hold words, not numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: frozenset[int] = frozenset()

    @property
    def folded(self) -> bool:
        """Whether it opens with a click only."""
        return len(self.rows) > SMALL


@dataclass(frozen=True)
class Drawing:
    """A chart as inline SVG, with what stands below it."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Picture:
    """A small image: a data address, and what it is in words."""

    source: str
    alt: str


@dataclass(frozen=True)
class Gallery:
    """Pictures in named rows."""

    heading: str
    rows: Sequence[tuple[str, Sequence[Picture]]]


@dataclass(frozen=True)
class Part:
    """One result of a section."""

    heading: str
    sentences: Sequence[str]
    drawings: Sequence[Drawing] = ()
    sheets: Sequence[Sheet] = ()
    galleries: Sequence[Gallery] = ()


@dataclass(frozen=True)
class Extra:
    """A section: ``key`` is its id, ``explanation`` says in plain words what was asked, ``caveats`` how to read it.

    ``banners`` stand over everything: checks of the validity card that fail.
    """

    key: str
    heading: str
    explanation: str
    parts: Sequence[Part]
    caveats: Sequence[str] = ()
    banners: Sequence[str] = ()


def bounds(value: Any, low: Any, high: Any, *, level: float = 0.95) -> str:
    """``+0.120 (95 % interval 0.080 to 0.160)``, without the interval where there is none."""
    if is_missing(low) or is_missing(high):
        return f"{decimal(value, sign=True)} (without an interval)"
    return f"{decimal(value, sign=True)} ({100 * level:g} % interval {interval(low, high)})"


def things(number: float, thing: str) -> str:
    """``1 label``, ``2 labels``."""
    return f"{count(number)} {thing}" + ("" if number == 1 else "s")


def kinds(frame: pd.DataFrame, *columns: str) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
    """The rows of each combination of the columns' values, in the order they come."""
    found = frame.groupby(list(columns), sort=False, dropna=False)
    return [(tuple(str(part) for part in key), rows) for key, rows in found]


def listed(names: Sequence[str], *, most: int = 5) -> str:
    """``a, b and c``; of many the first and how many more there are."""
    shown = [visible(name) for name in names]
    if len(shown) > most:
        return f"{', '.join(shown[:most])} and {len(shown) - most} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
