"""The contract between the pipeline and a classifier: bytes of images in, raw answers out, labels parsed from them.

Sending and parsing are apart on purpose: a raw answer is kept for ever and can be parsed again, years later and
without the classifier. Nothing here knows the pipeline; retries, rates, caching and limits are the caller's work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Label:
    """One label of one image: ``name`` as the classifier words it, ``score`` in 0-1."""

    name: str
    score: float


@dataclass(frozen=True)
class RawAnswer:
    """What came back for one image, before anyone interprets it.

    ``body`` is kept byte for byte; ``status`` is the HTTP status or None; ``headers`` only those worth keeping
    (request ids, versions, times), never a credential.
    """

    body: bytes
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """What an image must satisfy before it is sent; None where there is no limit."""

    max_bytes: int | None = None
    max_pixels: int | None = None
    min_side: int | None = None
    formats: tuple[str, ...] = ("png", "jpeg")


@dataclass(frozen=True)
class Capabilities:
    """What a classifier declares about itself.

    Attributes:
        remote: images leave this machine.
        labels: every label it can return, where that is known; None for an open vocabulary.
        scale: what its own scores span before they are brought to 0-1, e.g. "0-1", "0-100", "decision".
        cut_off: the score (0-1) below which it returns nothing; None where it returns all its labels.
        presence: the score (0-1) from which a returned label counts as present, unless the user says otherwise.
        top_k: how many labels it returns at most; None where there is no such bound.
        batch: images per call at most.
        concurrency: calls that may run at once.
        limits: what an image must satisfy.
    """

    remote: bool = False
    labels: tuple[str, ...] | None = None
    scale: str = "0-1"
    cut_off: float | None = None
    presence: float = 0.5
    top_k: int | None = None
    batch: int = 1
    concurrency: int = 1
    limits: Limits = Limits()


class AdapterError(Exception):
    """A classifier cannot be set up or used at all; the message says what is wrong and how to mend it."""


class AnswerError(Exception):
    """One raw answer does not hold labels; the message says what is wrong with it."""


class Adapter(Protocol):
    """A classifier.

    ``name`` identifies it within a run (no two adapters of a run share it). ``model`` is the version as far as it is
    known: together with ``parameters`` and the bytes of an image it decides whether an answer is already there, so it
    must change whenever the answers could. ``parameters`` holds plain JSON values and never a secret.
    """

    name: str
    model: str
    parameters: Mapping[str, Any]
    capabilities: Capabilities

    def send(self, images: Sequence[bytes]) -> list[RawAnswer]:
        """Ask about up to ``capabilities.batch`` encoded images; one raw answer each, in their order.

        Raises:
            AdapterError: no further call can succeed either.
            Exception: any other is taken as the failure of these images alone.
        """
        ...

    def parse(self, answer: RawAnswer) -> list[Label]:
        """The labels of a raw answer, each name once; pure, and needs neither the classifier nor its credentials.

        Raises:
            AnswerError: the answer does not hold labels.
        """
        ...
