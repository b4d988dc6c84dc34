"""Labels out of any JSON reply, by paths of the JMESPath language (jmespath.org). Pure; knows no service."""

import json
import math
from collections.abc import Iterator
from typing import Any, Literal

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import model_validator

from adapters.answers import checked
from adapters.base import AnswerError, Label
from adapters.options import AdapterOptions
from adapters.texts import PERSON, reader

_ITSELF = "@"  # what an empty path stands for
Scale = Literal["0-1", "0-100", "logit"]


class JsonLabels(AdapterOptions):
    """Where the labels are in a reply.

    Without ``items``, ``label`` and ``score`` start from the reply itself and name several values each.
    """

    items: str | None = None
    """the path of the list of labels, which label and score then start from. An object is taken as the list of its
    pairs: [0] is the name, [1] the value. Empty: the reply itself."""
    label: str = ""
    """the path of a label's name."""
    score: str | None = None
    """the path of its score; null if the service has no scores (each label then has 1)."""
    may_lack_items: bool = False
    """an answer without that list has no labels, rather than being faulty."""
    scale: Scale = "0-1"
    """what the scores span; a logit x becomes 1 / (1 + exp(-x))."""
    text: str | None = None
    """in place of label: the path of a text, such as a caption, of which the concepts are the labels."""
    concepts: str = PERSON
    """for text: a TOML file of concepts and their words, or person for the list that comes along."""

    @model_validator(mode="after")
    def _readable(self) -> "JsonLabels":
        if bool(self.label) == bool(self.text):
            raise ValueError("option 'label' is required, or 'text' for labels from a text, but not both")
        if self.text:
            check_path(self.text, option="text")
            return self
        for option in ("items", "label", "score"):
            path = getattr(self, option)
            check_path(path, option=option)
            if option == "items" or path is None:
                continue
            if self.items is None and not any(sign in path for sign in "[*("):
                raise ValueError(
                    f"option {option!r}: {path!r} names one value. Name the list of labels by the option items, "
                    "or several values by [*]"
                )
            if self.items is not None and "[*]" in path:
                raise ValueError(f"option {option!r}: [*] belongs into the option items where there is one")
        if self.score is None and self.scale != "0-1":
            raise ValueError(f"option 'scale' is {self.scale}, but the option score names no scores")
        return self

    def labels_of(self, body: bytes) -> list[Label]:
        """The labels of a reply (AnswerError without any); of a name that is there several times, the highest score."""
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"the answer is not JSON: {error}") from error
        if self.text:
            text = at(self.text, content)
            if not isinstance(text, str):
                raise AnswerError(f"there is no text at {self.text!r}")
            return checked((label.name, label.score) for label in reader(self.concepts)(text))
        pairs = self._listed(content) if self.items is None else self._items(content, self.items)
        if self.scale == "logit":
            pairs = ((name, _probability(score)) for name, score in pairs)
        return checked(pairs, most=100 if self.scale == "0-100" else 1, repeats=True)

    def _items(self, content: Any, path: str) -> Iterator[tuple[Any, Any]]:
        items = at(path, content)
        if isinstance(items, dict):
            items = [list(pair) for pair in items.items()]
        if items is None and self.may_lack_items:
            items = []
        if not isinstance(items, list):
            raise AnswerError(f"there is no list at {path!r}")
        for item in items:
            yield _there(self.label, item), 1 if self.score is None else _there(self.score, item)

    def _listed(self, content: Any) -> Iterator[tuple[Any, Any]]:
        names = at(self.label, content)
        scores = [1] * len(names) if self.score is None and isinstance(names, list) else at(self.score, content)
        for path, found in ((self.label, names), (self.score, scores)):
            if not isinstance(found, list):
                raise AnswerError(f"there is no list at {path!r}")
            # JMESPath leaves out what is not there, after which names and scores could be matched wrongly.
            listed, found_all, _ = (path or "").rpartition("[*]")
            if found_all and len(at(f"{listed}[*]", content) or ()) != len(found):
                raise AnswerError(f"a label has nothing at {path!r}")
        if len(names) != len(scores):
            raise AnswerError(f"there are {len(names)} labels but {len(scores)} scores")
        yield from zip(names, scores, strict=True)


def check_path(path: str | None, *, option: str) -> None:
    """ValueError with the option's name where a path cannot be read."""
    try:
        if path is not None:
            jmespath.compile(path or _ITSELF)
    except JMESPathError as error:
        problem = str(error).partition("\n")[0]
        raise ValueError(
            f"option {option!r}: the path {path!r} cannot be read: write it like result.tags[*].name ({problem})"
        ) from error


def at(path: str | None, content: Any) -> Any:
    """What lies at a path; None where nothing does."""
    try:
        return None if path is None else jmespath.search(path or _ITSELF, content)
    except (JMESPathError, RecursionError, TypeError, ValueError, AttributeError):  # a function on another type
        return None


def _there(path: str, content: Any) -> Any:
    found = at(path, content)
    if found is None:
        raise AnswerError(f"a label has nothing at {path!r}")
    return found


def _probability(logit: Any) -> float:
    if isinstance(logit, bool) or not isinstance(logit, int | float) or not math.isfinite(logit):
        raise AnswerError(f"a logit must be a finite number, not {ascii(logit)[:40]}")
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
