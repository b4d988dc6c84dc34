"""Search queries: keywords, each combined with modifiers such as "female" or "Asian"."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.options import ConfigError

OCCUPATIONS = "occupations"
# Kind -> words that precede a keyword; "none" is the keyword alone.
MODIFIERS: dict[str, tuple[str, ...]] = {
    "none": ("",),
    "gender": ("female", "male"),
    "race": ("African American", "Asian", "Caucasian", "Hispanic"),
}


@dataclass(frozen=True)
class Query:
    """One search query.

    Attributes:
        keyword: the keyword as in its list.
        modifier: a word that precedes the keyword; empty for the keyword alone.
        soc: the occupation's code in the Standard Occupational Classification; empty if the list has none.
    """

    keyword: str
    modifier: str = ""
    soc: str = ""

    @property
    def text(self) -> str:
        """The query as sent to the search service."""
        return f"{self.modifier} {self.keyword}".strip()


def queries_of(keywords: str, modifiers: Sequence[str]) -> list[Query]:
    """Combine every keyword of a list with every modifier.

    Args:
        keywords: a CSV file with the column keyword and optionally soc, or ``occupations`` for the included list of
            129 job titles.
        modifiers: kinds of ``MODIFIERS``, or other words.

    Raises:
        ConfigError: the file cannot be read, or has no column or no value ``keyword``.
    """
    path = Path(__file__).with_name("occupations.csv") if keywords == OCCUPATIONS else Path(keywords)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [{name: str(row[name] or "").strip() for name in row if name} for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"the keywords {path} cannot be read: {error}") from error
    if not any(row.get("keyword") for row in rows):
        raise ConfigError(f"{path} has no keywords: give a CSV file with a column 'keyword', or occupations")
    words = [word for kind in modifiers or ("none",) for word in MODIFIERS.get(kind, (kind,))]
    queries = (Query(row["keyword"], word, row.get("soc", "")) for row in rows if row.get("keyword") for word in words)
    return list(dict.fromkeys(queries))
