"""Whether a remote classifier changed while it was asked: the same few images at the start, in the middle, at the end.

Their answers are never taken from those that are kept, and never used as answers. When they are asked is the engine's.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.base import AnswerError, Label, NoAnswer, RawAnswer
from pipeline.querying.store import Moment, Question, Sentinel, Store

MOMENTS: tuple[Moment, ...] = ("start", "middle", "end")
_VERSION_WORDS = ("version", "model", "system_fingerprint")


@dataclass(frozen=True)
class Panel:
    """The images of one round, and which have been asked at which moment. An interrupted run continues its round."""

    images: tuple[str, ...]
    number: int
    asked: frozenset[tuple[Moment, str]] = frozenset()

    @classmethod
    def of(cls, images: Sequence[str], store: Store, classifier: int) -> "Panel":
        """The round that is under way, or a new one after a round whose end was asked."""
        before = store.sentinels(classifier=classifier) if images else []
        number = max((sentinel.round for sentinel in before), default=1)
        this = [sentinel for sentinel in before if sentinel.round == number]
        if any(sentinel.moment == "end" for sentinel in this):
            return cls(tuple(images), number + 1)
        asked = frozenset((sentinel.moment, sentinel.image_sha256) for sentinel in this if sentinel.outcome is not None)
        return cls(tuple(images), number, asked)


class PanelLedger:
    """Where a round's outcomes are written.

    Args:
        store: of the run.
        classifier: its number in the store.
        panel: the round.
    """

    def __init__(self, store: Store, classifier: int, panel: Panel) -> None:
        self._store, self._classifier, self._panel = store, classifier, panel

    def missing(self, moment: Moment) -> list[str]:
        """The images (sha256) that are still to be asked at a moment."""
        return [image for image in self._panel.images if (moment, image) not in self._panel.asked]

    def at(self, moment: Moment) -> "_MomentLedger":
        """The ledger of one moment; see ``querying.ledger.Ledger``."""
        return _MomentLedger(self._store, self._classifier, self._panel.number, moment)


@dataclass(frozen=True)
class _MomentLedger:
    store: Store
    classifier: int
    number: int
    moment: Moment

    def begin(self, questions: Sequence[Question]) -> Sequence[Any]:
        images = [question.image_sha256 for question in questions]
        return self.store.begin_sentinels(images, classifier=self.classifier, number=self.number, moment=self.moment)

    def finish(self, outcomes: Sequence[tuple[Any, RawAnswer | NoAnswer]]) -> None:
        self.store.finish_sentinels(outcomes)

    def withdraw(self, intents: Sequence[Any]) -> None:
        self.store.finish_sentinels((intent, None) for intent in intents)

    def refuse(self, question: Question, *, error: str) -> None:
        self.store.finish_sentinels((intent, NoAnswer(error)) for intent in self.begin([question]))


@dataclass(frozen=True)
class Drift:
    """What the panel showed, over all rounds.

    Attributes:
        images: of the panel.
        answered: how often one of them was answered.
        changed: (image sha256, moment, what changed since its first answer), in the order it was seen.
        largest: the largest change of a label's score, 0-1; a label that came or went counts with its score.
        versions: what the answers said about their model's version, in the order it was seen.
    """

    images: int
    answered: int
    changed: tuple[tuple[str, str, str], ...]
    largest: float
    versions: tuple[str, ...]


def drift_of(sentinels: Iterable[Sentinel], *, parse: Callable[[RawAnswer], list[Label]]) -> Drift:
    """Compare every answer about a sentinel with the first one."""
    first: dict[str, tuple[Mapping[str, float] | bytes, tuple[str, ...]]] = {}
    changed: list[tuple[str, str, str]] = []
    versions: dict[str, None] = {}
    answered, largest, images = 0, 0.0, set()
    for sentinel in sentinels:
        images.add(sentinel.image_sha256)
        if not isinstance(sentinel.outcome, RawAnswer):
            continue
        answered += 1
        said = _labels(sentinel.outcome, parse)
        version = tuple(versions_in(sentinel.outcome))
        versions.update(dict.fromkeys(version))
        said_first, version_first = first.setdefault(sentinel.image_sha256, (said, version))
        moment = f"{sentinel.moment} of round {sentinel.round}"
        if version != version_first:
            changed.append((sentinel.image_sha256, moment, "version"))
        if said != said_first:
            changed.append((sentinel.image_sha256, moment, "answer"))
            largest = max(largest, _largest_change(said_first, said))
    return Drift(len(images), answered, tuple(changed), largest, tuple(versions))


def versions_in(answer: RawAnswer) -> Iterator[str]:
    """What an answer says about the version of its model, as ``name=value``, in headers and anywhere in its JSON."""
    for name, value in sorted(answer.headers.items()):
        if _tells_version(name):
            yield f"{name}={value}"
    try:
        content = json.loads(answer.body)
    except (ValueError, RecursionError):
        return
    yield from dict.fromkeys(_versions_in_json(content, depth=0))


def _versions_in_json(content: Any, *, depth: int) -> Iterator[str]:
    if depth > 12:
        return
    if isinstance(content, Mapping):
        for name, value in content.items():
            if isinstance(value, str | int | float) and not isinstance(value, bool) and _tells_version(name):
                yield f"{name}={value}"[:200]
            elif name.lower() == "model_version" and isinstance(value, Mapping) and isinstance(value.get("id"), str):
                yield f"{name}={value['id']}"[:200]
            else:
                yield from _versions_in_json(value, depth=depth + 1)
    elif isinstance(content, list):
        for value in content[:1000]:
            yield from _versions_in_json(value, depth=depth + 1)


def _tells_version(name: str) -> bool:
    last = name.lower().replace("-", "_")
    return last in _VERSION_WORDS or last.endswith(("version", "_model"))


def _labels(answer: RawAnswer, parse: Callable[[RawAnswer], list[Label]]) -> Mapping[str, float] | bytes:
    try:
        return {label.name: label.score for label in parse(answer)}
    except AnswerError:
        return answer.body
    except Exception:  # a parser of someone else's must not take the run with it
        return answer.body


def _largest_change(one: Mapping[str, float] | bytes, other: Mapping[str, float] | bytes) -> float:
    if isinstance(one, bytes) or isinstance(other, bytes):
        return 1.0
    return max(abs(one.get(name, 0.0) - other.get(name, 0.0)) for name in {*one, *other})
