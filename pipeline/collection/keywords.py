"""What is searched for: keywords, and each of them with modifiers such as "female" or "Asian"."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.options import ConfigError

OCCUPATIONS = "occupations"
# Kind -> the words that are put before a keyword; "none" is the keyword alone.
MODIFIERS: dict[str, tuple[str, ...]] = {
    "none": ("",),
    "gender": ("female", "male"),
    "race": ("African American", "Asian", "Caucasian", "Hispanic"),
}


@dataclass(frozen=True)
class Query:
    """One search.

    Attributes:
        keyword: as the list has it.
        modifier: put before the keyword; empty for the keyword alone.
        soc: the code of the occupation in the Standard Occupational Classification, where the list has one.
    """

    keyword: str
    modifier: str = ""
    soc: str = ""

    @property
    def text(self) -> str:
        """What is searched for."""
        return f"{self.modifier} {self.keyword}".strip()


def queries_of(keywords: str, modifiers: Sequence[str]) -> list[Query]:
    """Every keyword of a list with every modifier.

    Args:
        keywords: a CSV file with the column keyword (and soc, if there is one), or ``occupations`` for the list of 129
            job titles that comes with the program.
        modifiers: kinds of ``MODIFIERS``, or words of your own.

    Raises:
        ConfigError: the file cannot be read, has no such column or no keyword.
    """
    path = Path(__file__).with_name("occupations.csv") if keywords == OCCUPATIONS else Path(keywords)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [{name: str(row[name] or "").strip() for name in row if name} for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"the keywords {path} cannot be read: {error}") from error
    known = [row for row in rows if row.get("keyword")]
    if not known:
        raise ConfigError(f"{path} has no column 'keyword' with anything in it: give such a CSV file, or occupations")
    words = list(dict.fromkeys(word for kind in modifiers or ("none",) for word in MODIFIERS.get(kind, (kind,))))
    found = [Query(row["keyword"], word, row.get("soc", "")) for row in known for word in words]
    return list(dict.fromkeys(found))
