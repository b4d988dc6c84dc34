"""Labels from any JSON reply by JMESPath (jmespath.org)."""

import math
from collections.abc import Iterator
from typing import Any, Literal

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import model_validator

from adapters.answers import checked, json_value
from adapters.base import AnswerError, Label
from adapters.options import AdapterOptions
from adapters.texts import PERSON, reader

_ITSELF = "@"  # meaning of an empty path
Scale = Literal["0-1", "0-100", "logit"]


class JsonLabels(AdapterOptions):
    """The paths of the labels in a reply.

    Without ``items``, the paths ``label`` and ``score`` start from the reply and select a list each.
    """

    items: str | None = None
    """the path of the list of labels; label and score are then relative to its items. An object is read as a list of
    pairs: [0] is the name, [1] the value. Empty: the reply itself."""
    label: str = ""
    """the path of a label's name."""
    score: str | None = None
    """the path of a label's score; null if the service has no scores (each label then gets 1)."""
    may_lack_items: bool = False
    """a reply without the list has no labels, instead of being an error."""
    scale: Scale = "0-1"
    """the range of the scores; a logit x becomes 1 / (1 + exp(-x))."""
    text: str | None = None
    """in place of label: the path of a text, such as a caption, whose concepts are the labels."""
    concepts: str = PERSON
    """for text: a TOML file of concepts and their words, or person for the included list."""

    @model_validator(mode="after")
    def _readable(self) -> "JsonLabels":
        if bool(self.label) == bool(self.text):
            raise ValueError("exactly one of the options 'label' and 'text' is required")
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
                    f"option {option!r}: {path!r} selects one value. Give the list of labels by the option items, "
                    "or select a list with [*]"
                )
            if self.items is not None and "[*]" in path:
                raise ValueError(f"option {option!r}: move [*] into the option items")
        if self.score is None and self.scale != "0-1":
            raise ValueError(f"option 'scale' is {self.scale}, which needs the option score")
        return self

    def labels_of(self, body: bytes) -> list[Label]:
        """Extract the labels of a reply, with the highest score of a repeated name; AnswerError if there are none."""
        content = json_value(body)
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
            # JMESPath omits missing values, after which names and scores could be paired wrongly.
            listed, found_all, _ = (path or "").rpartition("[*]")
            if found_all and len(at(f"{listed}[*]", content) or ()) != len(found):
                raise AnswerError(f"a label has nothing at {path!r}")
        if len(names) != len(scores):
            raise AnswerError(f"there are {len(names)} labels but {len(scores)} scores")
        yield from zip(names, scores, strict=True)


def check_path(path: str | None, *, option: str) -> None:
    """Raise ValueError with the option's name if a path is not valid JMESPath."""
    try:
        if path is not None:
            jmespath.compile(path or _ITSELF)
    except JMESPathError as error:
        problem = str(error).partition("\n")[0]
        raise ValueError(
            f"option {option!r}: the path {path!r} cannot be read: write it like result.tags[*].name ({problem})"
        ) from error


def at(path: str | None, content: Any) -> Any:
    """Return the value at a path; None if there is none."""
    try:
        return None if path is None else jmespath.search(path or _ITSELF, content)
    except (JMESPathError, RecursionError, TypeError, ValueError, AttributeError):  # e.g. a function of another type
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
