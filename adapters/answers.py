"""The raw answer that the local classifiers share, ``{"labels": [["smile", 0.71]], ...}``, and what a label must be.

No classifier lives here; services with an answer format of their own parse it themselves.
"""

import json
import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

from adapters.base import AnswerError, Label, RawAnswer

DECIMALS = 6


def checked(labels: Iterable[tuple[object, object]]) -> list[Label]:
    """Names and scores as labels.

    Raises:
        AnswerError: a name that is no text, empty, not encodable or there twice; a score that is no number in 0-1.
    """
    found: dict[str, Label] = {}
    for name, score in labels:
        if not isinstance(name, str) or not name.strip():
            raise AnswerError(f"a label's name must be text, not {_short(name)}")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise AnswerError(f"the label {_short(name)} cannot be written as UTF-8") from error
        if name in found:
            raise AnswerError(f"the label {_short(name)} is there twice")
        if isinstance(score, bool) or not isinstance(score, Real):
            raise AnswerError(f"the score of {_short(name)} must be a number, not {_short(score)}")
        if not 0 <= (number := _as_float(score)) <= 1:  # false for NaN too
            raise AnswerError(f"the score of {_short(name)} must be in 0-1, not {_short(score)}")
        found[name] = Label(name, number)
    return list(found.values())


def to_answer(labels: Iterable[Label], **facts: Any) -> RawAnswer:
    """Labels as a raw answer, scores to six decimals; ``facts`` (JSON values) are kept beside them."""
    rows = [[label.name, round(label.score, DECIMALS)] for label in labels]
    body = json.dumps({"labels": rows, **facts}, ensure_ascii=False, allow_nan=False)
    return RawAnswer(body=body.encode())


def from_answer(answer: RawAnswer) -> list[Label]:
    """The labels of a raw answer that ``to_answer`` made.

    Raises:
        AnswerError: the body is anything else.
    """
    try:
        content = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"the answer is not JSON: {error}") from error
    rows = content.get("labels") if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise AnswerError('the answer has no list "labels"')
    for row in rows:
        if not isinstance(row, list) or len(row) != 2:
            raise AnswerError(f"a label must be a pair of name and score, not {_short(row)}")
    return checked((row[0], row[1]) for row in rows)


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
