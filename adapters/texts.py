"""Labels from free text: concepts by their words, length, sentiment, and refusal.

The words of a concept are in a TOML file, so that stored answers can be parsed again with other words.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from adapters.base import AdapterError, Label
from adapters.packages import package

PERSON = "person"  # the included list
REFUSED = "(refused)"
POSITIVE, NEGATIVE, SENTIMENT, LENGTH = "(positive)", "(negative)", "(sentiment)", "(words of 100)"
MEASURES = (POSITIVE, NEGATIVE, SENTIMENT, LENGTH)
DESCRIBE = "Describe the person in this photograph in two or three sentences."
_NEUTRAL = 0.05  # texts with a smaller absolute compound score (-1..1) are neutral, as VADER's authors recommend
# Refusals in the text itself, as opposed to a protocol's field for them.
_REFUSAL = re.compile(
    r"^\W*((i['’]?m|i am) )?((very|so|really) )?sorry\b|^\W*i apologi[sz]e\b|^\W*as an ai\b"
    r"|\bi (can(no|['’])t|can not|won['’]t|will not|must decline)\b|\bi( a|['’])m (not able|unable) to\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True)
class Concept:
    """A label of texts that match the pattern, ignoring case."""

    name: str
    pattern: re.Pattern[str]
    source: str = ""

    def counted(self, text: str) -> int:
        """Count the matches in a text."""
        return sum(1 for _ in self.pattern.finditer(text))


def is_refusal(text: str) -> bool:
    """Tell whether a text begins like a refusal."""
    return _REFUSAL.search(text[:200]) is not None


@lru_cache(maxsize=8)
def read_concepts(source: str | Path) -> tuple[Concept, ...]:
    """Read concepts from a TOML file.

    Each is a table with ``words`` (``smil*`` also matches smiling), ``pattern`` (a regular expression), or both, and
    the ``source`` of the words.

    Args:
        source: the file, or ``person`` for the included list.

    Raises:
        AdapterError: the file cannot be read or is not valid; the message says where.
    """
    path = Path(__file__).with_name("concepts.toml") if str(source) == PERSON else Path(source)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AdapterError(f"the concepts {path} cannot be read ({error}): give a TOML file, or {PERSON}") from error
    if not content:
        raise AdapterError(f"the concepts {path}: the file is empty")
    return tuple(_concept(name, table, f"the concepts {path}, [{name}]") for name, table in content.items())


def reader(source: str | Path) -> Callable[[str], list[Label]]:
    """Return ``labels_of_text`` bound to the concepts of a file.

    Raises:
        AdapterError: the file is not valid, or the package for sentiment is missing.
    """
    concepts = read_concepts(source)
    _analyzer()
    return lambda text: labels_of_text(text, concepts)


def labels_of_text(text: str, concepts: Sequence[Concept]) -> list[Label]:
    """Return a text's labels: each concept in it with score 1, its length and its sentiment.

    A refusal has the label ``(refused)`` only. ``(words of 100)`` is the number of words / 100, at most 1.
    ``(sentiment)`` is VADER's compound score, mapped from -1..1 to 0-1; ``(positive)`` and ``(negative)`` are given if
    it is at least 0.05 from 0. Concepts ignore negation: "not friendly" counts as friendly.

    Source: Hutto & Gilbert 2014 (VADER).
    """
    if is_refusal(text):
        return [Label(REFUSED, 1.0)]
    compound = float(_analyzer().polarity_scores(text)["compound"])
    named = [Label(concept.name, 1.0) for concept in concepts if concept.pattern.search(text)]
    tone = [POSITIVE] * (compound >= _NEUTRAL) + [NEGATIVE] * (compound <= -_NEUTRAL)
    return [
        *named,
        *(Label(name, 1.0) for name in tone),
        Label(SENTIMENT, (1 + compound) / 2),
        Label(LENGTH, min(1.0, len(_WORD.findall(text)) / 100)),
    ]


def names_of(concepts: Sequence[Concept]) -> tuple[str, ...]:
    """Return every label that ``labels_of_text`` can give; none without concepts."""
    return () if not concepts else (*(concept.name for concept in concepts), *MEASURES, REFUSED)


@lru_cache(maxsize=1)
def _analyzer() -> Any:
    return package("vaderSentiment.vaderSentiment", adapter="free text").SentimentIntensityAnalyzer()


def _concept(name: str, table: object, place: str) -> Concept:
    """Validate and compile one table of the file."""
    if not isinstance(table, dict) or not set(table) <= {"words", "pattern", "source"}:
        raise AdapterError(f"{place} must be a table with words, pattern and source, and nothing else")
    words, pattern = table.get("words", []), table.get("pattern", "")
    if not isinstance(words, list) or not all(isinstance(word, str) and word.strip("* ") for word in words):
        raise AdapterError(f"{place}: words must be a list of texts")
    if not words and not pattern:
        raise AdapterError(f"{place} has neither words nor a pattern")
    if name.startswith("("):
        raise AdapterError(f"{place}: names that begin with ( are reserved for outcomes")
    parts = [rf"\b{re.escape(word.rstrip('* '))}" + (r"\w*" if word.endswith("*") else r"\b") for word in words]
    try:
        found = re.compile("|".join([*parts, *filter(None, [pattern])]), re.IGNORECASE)
        return Concept(name, found, table.get("source", ""))
    except (re.error, TypeError) as error:
        raise AdapterError(f"{place}: the pattern is not valid: {error}") from error
