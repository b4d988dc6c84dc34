"""Detection of changes of a remote classifier during a run by sentinel images, sent at its start, middle and end.

Sentinels are always sent, even if an answer is stored, and their answers are not used as answers of the run.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.base import Label, RawAnswer
from pipeline.querying.requests import ImageRef
from pipeline.querying.store import Moment, Sentinel

if TYPE_CHECKING:
    from pipeline.run.record import Drift

MOMENTS: tuple[Moment, ...] = ("start", "middle", "end")
_VERSION_WORDS = ("version", "model", "system_fingerprint")


@dataclass(frozen=True)
class Panel:
    """The sentinel images of one round, and which of them were sent when. An interrupted run continues its round."""

    images: tuple[ImageRef, ...]
    number: int
    sent: frozenset[tuple[Moment, str]] = frozenset()

    @classmethod
    def of(cls, images: Sequence[ImageRef], before: Sequence[Sentinel], *, pending: int) -> "Panel":
        """Continue the unfinished round, or begin a new one after a finished round.

        Args:
            images: the sentinel images.
            before: the sentinels sent so far.
            pending: number of images without an answer. If a round needs more requests than that, no new one begins.
        """
        number = max((sentinel.round for sentinel in before), default=1)
        current = [sentinel for sentinel in before if sentinel.round == number]
        if any(sentinel.moment == "end" for sentinel in current):
            return cls(tuple(images) if pending >= len(MOMENTS) * len(images) else (), number + 1)
        answered = (sentinel for sentinel in current if sentinel.outcome is not None)
        sent = frozenset((sentinel.moment, sentinel.image_sha256) for sentinel in answered)
        return cls(tuple(images), number, sent)

    def sizes(self, *, pending: int) -> list[int]:
        """Count the images still to be sent at each moment; a single pending image has no middle."""
        moments = [moment for moment in MOMENTS if pending > (moment == "middle")]
        return [len(self.missing(moment)) for moment in moments]

    def missing(self, moment: Moment) -> list[ImageRef]:
        """Return the images still to be sent at a moment."""
        return [image for image in self.images if (moment, image.sha256) not in self.sent]


def drift_of(
    sentinels: Iterable[Sentinel], *, parse: Callable[[RawAnswer], list[Label]], names: Mapping[str, str] | None = None
) -> "Drift":
    """Compare every answer about a sentinel with the first answer about it; answers without labels are ignored.

    Args:
        sentinels: all sentinels sent, in order.
        parse: the classifier's parser.
        names: image sha256 -> the image's name in the record.
    """
    from pipeline.run.record import Drift  # imported late, because the client does not need the record

    first: dict[str, tuple[Mapping[str, float], tuple[str, ...]]] = {}
    versions: dict[str, None] = {}
    images: set[str] = set()
    drift = Drift(sentinels=0, answers=0)
    for sentinel in sentinels:
        image = sentinel.image_sha256
        images.add(image)
        if not isinstance(sentinel.outcome, RawAnswer):
            continue
        try:
            scores: Mapping[str, float] = {label.name: label.score for label in parse(sentinel.outcome)}
        except Exception:  # noqa: S112 - a damaged reply says nothing about the model
            continue
        drift.answers += 1
        version = tuple(versions_in(sentinel.outcome))
        versions.update(dict.fromkeys(version))
        first_scores, first_version = first.setdefault(image, (scores, version))
        for what, changed in (("version", version != first_version), ("answer", scores != first_scores)):
            if changed:
                moment = f"{sentinel.moment} of round {sentinel.round}"
                drift.changed.append(f"{(names or {}).get(image, image)}: {what} at the {moment}")
        changes = [abs(first_scores.get(name, 0.0) - scores.get(name, 0.0)) for name in {*first_scores, *scores}]
        drift.largest_score_change = max(drift.largest_score_change, *changes, 0.0)
    drift.sentinels, drift.versions = len(images), list(versions)
    drift.largest_score_change = round(drift.largest_score_change, 6)
    return drift


def versions_in(answer: RawAnswer) -> Iterator[str]:
    """Yield the model versions in an answer's headers and anywhere in its JSON, as ``name=value``."""
    for name, value in sorted(answer.headers.items()):
        if _names_version(name):
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
            if isinstance(value, str | int | float) and not isinstance(value, bool) and _names_version(name):
                yield f"{name}={value}"[:200]
            elif name.lower() == "model_version" and isinstance(value, Mapping) and isinstance(value.get("id"), str):
                yield f"{name}={value['id']}"[:200]
            else:
                yield from _versions_in_json(value, depth=depth + 1)
    elif isinstance(content, list):
        for value in content[:1000]:
            yield from _versions_in_json(value, depth=depth + 1)


def _names_version(name: str) -> bool:
    last = name.lower().replace("-", "_")
    return last in _VERSION_WORDS or last.endswith(("version", "_model"))
