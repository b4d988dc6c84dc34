"""Labels out of any JSON reply, by configured paths (see `adapters.paths`). Pure; knows no service."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from adapters.answers import checked
from adapters.base import AdapterError, AnswerError, Label
from adapters.paths import MISSING, JsonPath, json_path

Scale = Literal["0-1", "0-100", "logit"]


@dataclass(frozen=True)
class JsonLabels:
    """Where the labels are in a reply.

    Attributes:
        items: the list whose items ``label`` and ``score`` start from; None where they start from the reply itself
            and name several values each, as ``names[*]`` and ``scores[*]`` do.
        label: a label's name.
        score: its score; None where being there is all that is told, which counts as 1.
        scale: what the scores span; a logit x becomes 1 / (1 + exp(-x)).
        may_lack_items: a reply without the list has no labels; else it is faulty.
    """

    items: JsonPath | None
    label: JsonPath
    score: JsonPath | None
    scale: Scale
    may_lack_items: bool = False

    def labels_of(self, body: bytes) -> list[Label]:
        """The labels of a reply; of a name that is there several times, the highest score.

        Raises:
            AnswerError: the reply does not hold labels at these places.
        """
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"the answer is not JSON: {error}") from error
        pairs = self._pairs(content)
        if self.scale == "logit":
            pairs = ((name, _probability(score)) for name, score in pairs)
        return checked(pairs, most=100 if self.scale == "0-100" else 1, repeats=True)

    def _pairs(self, content: Any) -> Iterator[tuple[Any, Any]]:
        if self.items is not None:
            for item in _items(content, self.items, may_lack=self.may_lack_items):
                yield _there(self.label, item), 1 if self.score is None else _there(self.score, item)
            return
        names = self.label.all(content)
        scores = [1] * len(names) if self.score is None else self.score.all(content)
        if len(names) != len(scores):
            raise AnswerError(f"there are {len(names)} labels but {len(scores)} scores")
        if MISSING in names or MISSING in scores:
            raise AnswerError(
                f"there is nothing at {(self.label if MISSING in names else self.score or self.label).text!r}"
            )
        yield from zip(names, scores, strict=True)


def json_labels(
    *,
    items: str | None,
    label: str,
    score: str | None,
    scale: Scale,
    may_lack_items: bool,
    adapter: str,
) -> JsonLabels:
    """Read the options that say where the labels are.

    Raises:
        AdapterError: a path cannot be read, or they do not go together; the message names the option.
    """
    place = f"the adapter {adapter!r}: option"
    listed = None if items is None else option_path(items, option="items", adapter=adapter)
    named = option_path(label, option="label", adapter=adapter)
    scored = None if score is None else option_path(score, option="score", adapter=adapter)
    for option, path in {"label": named, "score": scored}.items():
        if path is None:
            continue
        if listed is None and not path.many:
            raise AdapterError(
                f"{place} {option!r}: {path.text!r} names one value. Name the list of labels by the option items, "
                "or several values by [*]"
            )
        if listed is not None and path.many:
            raise AdapterError(f"{place} {option!r}: [*] belongs into the option items where there is one")
    if scored is None and scale != "0-1":
        raise AdapterError(f"{place} 'scale' is {scale}, but the option score names no scores")
    return JsonLabels(listed, named, scored, scale, may_lack_items)


def option_path(text: str, *, option: str, adapter: str) -> JsonPath:
    """A path that was given by an option.

    Raises:
        AdapterError: it cannot be read.
    """
    try:
        return json_path(text)
    except ValueError as error:
        raise AdapterError(f"the adapter {adapter!r}: option {option!r}: {error}") from error


def _items(content: Any, path: JsonPath, *, may_lack: bool) -> list[Any]:
    if path.many:
        return [item for item in path.all(content) if not (may_lack and item is MISSING)]
    held = path.one(content)
    if isinstance(held, dict):
        return [list(pair) for pair in held.items()]
    if isinstance(held, list):
        return held
    if may_lack and (held is MISSING or held is None):
        return []
    raise AnswerError(f"there is no list at {path.text!r}")


def _there(path: JsonPath, content: Any) -> Any:
    found = path.one(content)
    if found is MISSING:
        raise AnswerError(f"a label has nothing at {path.text!r}")
    return found


def _probability(logit: Any) -> float:
    if isinstance(logit, bool) or not isinstance(logit, int | float) or not math.isfinite(logit):
        raise AnswerError(f"a logit must be a finite number, not {ascii(logit)[:40]}")
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
