"""The contract between the pipeline and a classifier: bytes of images in, raw answers out, labels parsed from them.

Sending and parsing are separate on purpose: a raw answer is kept for ever and can be parsed again, years later and
without the classifier. Nothing here knows the pipeline; retries, rates, caching and limits are the caller's work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Label:
    """One label of one image: ``name`` in the classifier's own words, ``score`` in 0-1."""

    name: str
    score: float


@dataclass(frozen=True)
class RawAnswer:
    """What came back for one image, before anyone interprets it.

    ``body`` is kept byte for byte; ``status`` is the HTTP status or None; ``headers`` only those worth keeping
    (request ids, versions, times), never a credential. Where one answer covers several images, all of them have the
    whole body, and ``position`` says which part is this image's.
    """

    body: bytes
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    position: int = 0


@dataclass(frozen=True)
class NoAnswer:
    """Why an image got no answer, and whether asking again can help: a value that the caller decides by.

    Attributes:
        reason: what happened, in words for the user; never holds a secret.
        retry: "never": asking again gives the same; "later": it may pass; "slower": too many requests.
        wait: the seconds that the service asked to wait, where it did.
        billed: the service may charge for it (its answer was lost on the way, say).
        reply: what came instead of an answer, where something did; it is kept.
    """

    reason: str
    retry: Literal["never", "later", "slower"] = "never"
    wait: float | None = None
    billed: bool = False
    reply: RawAnswer | None = None


@dataclass(frozen=True)
class Limits:
    """What an image must satisfy before it is sent; None where there is no limit."""

    max_bytes: int | None = None
    max_pixels: int | None = None
    min_side: int | None = None
    max_side: int | None = None
    formats: tuple[str, ...] = ("png", "jpeg")

    def misfits(self, *, kind: str, width: int, height: int, size: int) -> list[str]:
        """Why an image of a format ("png", "jpeg"), so many pixels and bytes may not be sent; empty where it may."""
        short, long, area = min(width, height), max(width, height), width * height
        most = (("a side of {} pixels", long, self.max_side), ("{} pixels", area, self.max_pixels),
                ("{} bytes", size, self.max_bytes))  # fmt: skip
        found = [] if kind in self.formats else [f"{kind}, where {', '.join(self.formats)} are accepted"]
        if self.min_side is not None and short < self.min_side:
            found.append(f"a side of {short} pixels, where {self.min_side} are needed")
        return found + [
            f"{what.format(number)}, where {limit} are accepted"
            for what, number, limit in most
            if limit is not None and number > limit
        ]


@dataclass(frozen=True)
class Price:
    """What a service charges, as far as it is known: for an estimate, never a promise.

    Attributes:
        usd_per_1000: US$ for a thousand images and one feature.
        as_of: when the source said so.
        source: where this was read.
        note: free allowances, tiers, how sure it is.
        tokens: US$ for a million tokens sent and a million received, where a service charges by what its replies count;
            ``usd_per_1000`` then is an estimate.
    """

    usd_per_1000: float
    as_of: date
    source: str
    note: str = ""
    tokens: tuple[float, float] | None = None

    def usd(self, images: int, *, features: int = 1) -> float:
        """US$ for so many images with so many features each, free allowances not taken off."""
        return images * features * self.usd_per_1000 / 1000


@dataclass(frozen=True)
class Service:
    """What an auditor should know before sending faces to somebody else's computer.

    Attributes:
        provider: who runs it.
        host: where the images go.
        lifecycle: "live"; "ends" on the date ``ends``; "discontinued" since it.
        ends: that date, where there is one.
        retention: what the provider says it keeps.
        credentials: the environment variables that they are read from.
        rate: requests per second that are allowed unless the user knows better.
        price: for one image and one feature; None where nothing is charged or nothing is known.
        version: how the model's version can be pinned and where answers report it, or that they do not.
    """

    provider: str
    host: str
    retention: str
    version: str
    lifecycle: Literal["live", "ends", "discontinued"] = "live"
    ends: date | None = None
    credentials: tuple[str, ...] = ()
    rate: float = 5.0
    price: Price | None = None


@dataclass(frozen=True)
class Capabilities:
    """What a classifier declares about itself.

    Attributes:
        service: what is known of the service that answers; None for a classifier on this machine.
        features: what is requested for each image; each is billed on its own.
        labels: every label it can return, where that is known; None for an open vocabulary.
        scale: what its own scores span before they are brought to 0-1, e.g. "0-1", "0-100", "decision".
        cut_off: the score (0-1) below which it returns nothing; None where it returns all its labels.
        presence: the score (0-1) from which a returned label counts as present, unless the user says otherwise.
        top_k: how many labels it returns at most; None where there is no such bound.
        batch: images per call at most.
        batch_bytes: bytes of images per call at most, before they are encoded for sending.
        concurrency: calls that may run at once.
        limits: what an image must satisfy.
    """

    service: Service | None = None
    features: tuple[str, ...] = ("labels",)
    labels: tuple[str, ...] | None = None
    scale: str = "0-1"
    cut_off: float | None = None
    presence: float = 0.5
    top_k: int | None = None
    batch: int = 1
    batch_bytes: int | None = None
    concurrency: int = 1
    limits: Limits = Limits()

    @property
    def remote(self) -> bool:
        """Images leave this machine."""
        return self.service is not None


class AdapterError(Exception):
    """A classifier cannot be set up or used at all (credentials, billing, a missing file): no further call can succeed.

    The message says what is wrong and what to do; it never holds a secret.
    """


class AnswerError(Exception):
    """One raw answer does not hold labels; the message says what is wrong with it."""


class Adapter(Protocol):
    """A classifier. Its class may declare a nested ``Options`` (see `adapters.options`) and is then made as
    ``Class(options)``, else as ``Class()``; ``capabilities`` as a class attribute can be shown before that.

    ``name`` identifies it within a run (no two adapters of a run share it). ``model`` is the version as far as it is
    known: together with ``parameters`` and the bytes of an image it decides whether an answer is already there, so it
    must change whenever the answers could. ``parameters`` holds plain JSON values and never a secret.
    """

    name: str
    model: str
    parameters: Mapping[str, Any]
    capabilities: Capabilities

    def send(self, images: Sequence[bytes]) -> Sequence[RawAnswer | NoAnswer]:
        """Send up to ``capabilities.batch`` encoded images once; one outcome each, in their order.

        Whatever a service gave for an image is its raw answer, even if it cannot be understood: it was paid for. It is
        called from several threads at once where ``capabilities.concurrency`` is more than one.

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
