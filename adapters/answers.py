"""The raw answer of local classifiers, ``{"labels": [["smile", 0.71]], ...}``, and helpers of all parsers.

Answers come from outside, so nothing in them is assumed to have the right type until it has been checked.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any

from adapters.base import AnswerError, Label, RawAnswer

DECIMALS = 6
_ROUNDING = 1e-6  # a softmax in single precision may reach 1.0000001


def checked(labels: Iterable[tuple[object, object]], *, most: float = 1.0, repeats: bool = False) -> list[Label]:
    """Convert pairs of name and score to labels.

    Args:
        labels: the pairs.
        most: the maximum of the scores' scale, by which they are divided.
        repeats: whether a name may occur several times; the highest score then counts.

    Raises:
        AnswerError: a name is not text, empty, not encodable or (without ``repeats``) repeated; a score is not a number
            in 0-``most``.
    """
    found: dict[str, Label] = {}
    for name, score in labels:
        if not isinstance(name, str) or not name.strip():
            raise AnswerError(f"a label's name must be text, not {_short(name)}")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise AnswerError(f"the label {_short(name)} cannot be written as UTF-8") from error
        if name in found and not repeats:
            raise AnswerError(f"the label {_short(name)} occurs twice")
        if isinstance(score, bool) or not isinstance(score, Real):
            raise AnswerError(f"the score of {_short(name)} must be a number, not {_short(score)}")
        share = _as_float(score) / most
        if not -_ROUNDING <= share <= 1 + _ROUNDING:  # false for NaN too
            raise AnswerError(f"the score of {_short(name)} must be in 0-{most:g}, not {_short(score)}")
        share = min(1.0, max(0.0, share))
        if name not in found or found[name].score < share:
            found[name] = Label(name, share)
    return list(found.values())


def json_value(body: bytes) -> Any:
    """Parse a body that must be JSON, else AnswerError; the result is cached and must not be modified."""
    try:
        return _loaded(body)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the answer is not JSON: {error}") from error


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a body that must be a JSON object, else AnswerError; the result is cached and must not be modified."""
    content = json_value(body)
    if not isinstance(content, dict):
        raise AnswerError(f"the answer is not a JSON object but {_short(content)}")
    return content


def json_or_empty(body: bytes) -> dict[str, Any]:
    """Parse a body as ``json_object`` does; return an empty object if it is anything else."""
    try:
        return json_object(body)
    except AnswerError:
        return {}


def part_of(answer: RawAnswer, name: str) -> dict[str, Any]:
    """Return the image's part of an answer, the object at its position in the list ``name``; AnswerError if missing."""
    parts = objects(json_object(answer.body), name)
    if not 0 <= answer.position < len(parts):
        raise AnswerError(f"the answer's {name!r} holds {len(parts)} items, none at position {answer.position}")
    return parts[answer.position]


def objects(content: Mapping[str, Any], name: str, *, needed: bool = True) -> list[dict[str, Any]]:
    """Return the member ``name``, a list of objects that may be missing unless ``needed``; AnswerError otherwise."""
    items = content.get(name, None if needed else [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise AnswerError(f"the answer's {name!r} must be a list of objects, not {_short(items)}")
    return items


def scored(items: Iterable[Mapping[str, Any]], name: str, score: str) -> Iterator[tuple[object, object]]:
    """Return two members of each object, unchecked, as pairs for ``checked``."""
    return ((item.get(name), item.get(score)) for item in items)


def inner(content: object, *names: str) -> object:
    """Return the value at a path of member names in nested objects; None if there is none."""
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return content


def to_answer(labels: Iterable[Label], **facts: Any) -> RawAnswer:
    """Encode labels as a raw answer with scores rounded to six decimals; ``facts`` are further JSON members."""
    rows = [[label.name, round(label.score, DECIMALS)] for label in labels]
    body = json.dumps({"labels": rows, **facts}, ensure_ascii=False, allow_nan=False)
    return RawAnswer(body=body.encode())


def from_answer(answer: RawAnswer) -> list[Label]:
    """Decode the labels of a raw answer that ``to_answer`` made; AnswerError if the body is anything else."""
    rows = json_object(answer.body).get("labels")
    if not isinstance(rows, list):
        raise AnswerError('the answer has no list "labels"')
    for row in rows:
        if not isinstance(row, list) or len(row) != 2:
            raise AnswerError(f"a label must be a pair of name and score, not {_short(row)}")
    return checked((row[0], row[1]) for row in rows)


class LabelAnswers:
    """Mixin of adapters whose answers are made by `to_answer`."""

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return from_answer(answer)


def one_line(text: object, *, most: int = 200) -> str:
    """Put text on one line without control characters, at most ``most`` characters long; "" if it is not text."""
    if not isinstance(text, str):
        return ""
    plain = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


@lru_cache(maxsize=1)
def _loaded(body: bytes) -> Any:
    """Parse JSON, cached because one reply may answer 128 images, each of which is parsed separately."""
    return json.loads(body)


def _as_float(number: Real) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _short(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**9:
        return "a huge number"  # Python refuses to write integers of thousands of digits
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
