"""The contract between the pipeline and a classifier: bytes of images in, raw answers out, labels parsed from them.

Sending and parsing are separate on purpose: a raw answer is kept for ever and can be parsed again, years later and
without the classifier. Nothing here knows the pipeline; retries, rates, caching and limits are the caller's work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Label:
    """One label of one image: ``name`` in the classifier's own words, ``score`` in 0-1."""

    name: str
    score: float


Landmarks = tuple[tuple[float, float], ...]  # both eyes, nose, both corners of the mouth: x and y in an image's pixels


@dataclass(frozen=True)
class RawAnswer:
    """What came back for one image, before anyone interprets it.

    Where one answer covers several images, all of them have the whole body.
    """

    body: bytes  # kept byte for byte
    status: int | None = None  # HTTP's
    headers: Mapping[str, str] = field(default_factory=dict)  # worth keeping (request ids, versions), no credential
    position: int = 0  # which part of the body is this image's


@dataclass(frozen=True)
class NoAnswer:
    """Why an image got no answer, and whether asking again can help: a value that the caller decides by."""

    reason: str  # what happened, in words for the user; never holds a secret
    retry: Literal["never", "later", "slower"] = "never"  # the same again; it may pass; too many requests
    wait: float | None = None  # the seconds that the service asked to wait
    billed: bool = False  # the service may charge for it (its answer was lost on the way, say)
    reply: RawAnswer | None = None  # what came instead of an answer; it is kept


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
        most = (
            ("a side of {} pixels", max(width, height), self.max_side),
            ("{} pixels", width * height, self.max_pixels),
            ("{} bytes", size, self.max_bytes),
        )
        found = [] if kind in self.formats else [f"{kind}, where {', '.join(self.formats)} are accepted"]
        if self.min_side is not None and min(width, height) < self.min_side:
            found.append(f"a side of {min(width, height)} pixels, where {self.min_side} are needed")
        return found + [
            f"{what.format(number)}, where {limit} are accepted"
            for what, number, limit in most
            if limit is not None and number > limit
        ]


@dataclass(frozen=True)
class Price:
    """What a service charges, as far as it is known: for an estimate, never a promise."""

    usd_per_1000: float  # US$ for a thousand images and one feature
    as_of: date  # when the source said so
    source: str  # where this was read
    note: str = ""  # free allowances, tiers, how sure it is
    # US$ for a million tokens sent and received, where replies count them; ``usd_per_1000`` then is an estimate.
    tokens: tuple[float, float] | None = None
    calls: float = 1.0  # what an image sent in a call of its own costs, in multiples of this price
    jobs: float = 1.0  # the same of one sent in a job

    def usd(self, images: float, *, features: int = 1) -> float:
        """US$ for so many images with so many features each, free allowances not taken off."""
        return images * features * self.usd_per_1000 / 1000


@dataclass(frozen=True)
class Service:
    """What an auditor should know before sending faces to somebody else's computer."""

    provider: str  # who runs it
    host: str  # where the images go
    retention: str  # what the provider says it keeps
    version: str  # how the model's version can be pinned and where answers report it, or that they do not
    lifecycle: Literal["live", "ends", "discontinued"] = "live"
    ends: date | None = None  # when it ends or ended
    credentials: tuple[str, ...] = ()  # the environment variables that they are read from
    rate: float = 5.0  # requests per second that are allowed unless the user knows better
    price: Price | None = None  # for one image and one feature; None where nothing is charged or nothing is known


@dataclass(frozen=True)
class Capabilities:
    """What a classifier declares about itself; scores are in 0-1 unless it says otherwise."""

    service: Service | None = None  # the service that answers; None for a classifier on this machine
    features: tuple[str, ...] = ("labels",)  # requested for each image; each is billed on its own
    labels: tuple[str, ...] | None = None  # every label it can return; None for an open vocabulary
    scale: str = "0-1"  # what its own scores span before they are brought to 0-1: "0-1", "0-100", "decision"
    cut_off: float | None = None  # the score below which it returns nothing; None where it returns all its labels
    presence: float = 0.5  # the score from which a returned label counts as present, unless the user says otherwise
    top_k: int | None = None  # how many labels it returns at most
    batch: int = 1  # images per call at most
    batch_bytes: int | None = None  # bytes of images per call at most, before they are encoded for sending
    concurrency: int = 1  # calls that may run at once
    faces: bool = False  # it takes from the run where an image's face is; see `FaceClassifier`
    jobs: bool = False  # ``batch`` images are sent as one job, which is answered later; see `JobService`
    processes: bool = False  # copies of it (pickled) may be queried in several processes of this machine at once
    limits: Limits = Limits()  # what an image must satisfy

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
    ``Class(options)``, else as ``Class()``; ``capabilities`` as a class attribute can be shown before that. Making one
    raises ``AdapterError`` where it cannot be set up: an option that does not fit, no credentials, a missing file.

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


@runtime_checkable
class FaceClassifier(Protocol):
    """An adapter that looks at one face of an image, and need not look for it where its place is known.

    Where ``capabilities.faces`` is true, images are sent by ``send_faces`` in place of ``send``. All versions of a
    photo come with the landmarks of the photo's face, so that they are aligned alike and labels move with pixels alone.
    """

    def send_faces(self, images: Sequence[bytes], faces: Sequence[Landmarks | None]) -> Sequence[RawAnswer | NoAnswer]:
        """As ``Adapter.send``, with the landmarks of each image's face; None where they are not known."""
        ...


@runtime_checkable
class JobService(Protocol):
    """An adapter whose service also takes many images as one job and answers hours later.

    Where ``capabilities.jobs`` is true, images are sent by ``submit`` in place of ``send``. Each method raises
    ``AdapterError`` where no further call can succeed, and may be called from several threads at once.
    """

    seconds_between_looks: float

    def submit(self, name: str, images: Mapping[str, bytes]) -> str | NoAnswer:
        """Send the images (by their sha256) as one job under a name; the service's id for it.

        A ``NoAnswer`` that is ``billed`` leaves open whether there is such a job now: `find` tells.
        """
        ...

    def find(self, name: str) -> str | NoAnswer | None:
        """The id of the job of that name; None where the service has none."""
        ...

    def collect(self, job: str, images: Sequence[str]) -> Mapping[str, RawAnswer | NoAnswer] | NoAnswer | str:
        """The outcomes of a job that has ended, one for each of its images (sha256).

        Text says how far a job is that has not ended; ``NoAnswer``, why that cannot be known now.
        """
        ...

    def forget(self, job: str) -> NoAnswer | None:
        """Delete what the service holds of a job whose outcomes are kept; why it could not be deleted."""
        ...


@runtime_checkable
class Differentiable(Protocol):
    """A local network whose scores have gradients, so that they can be attributed to pixels (see ``capabilities``
    for the labels, in the order of the scores)."""

    capabilities: Capabilities

    def network_input(self, image: bytes) -> "NDArray[np.float32] | None":
        """One encoded image as the network's input ``(3, h, w)``; None where it looks at nothing in it."""
        ...

    def map_on_input(self, image: bytes, regions: "NDArray[np.uint8]") -> "NDArray[np.uint8]":
        """A map ``(H, W)`` of the image's pixels carried to the input's ``(h, w)``, by the nearest pixel."""
        ...

    def scores(self, inputs: "torch.Tensor") -> "torch.Tensor":
        """Scores in 0-1 ``(B, labels)`` of inputs ``(B, 3, h, w)``, through which gradients flow back."""
        ...


def address_of(adapter: Adapter) -> str | None:
    """The address that a remote adapter sends to: its parameter ``endpoint`` or ``url``, else https to its host."""
    service = adapter.capabilities.service
    given = [adapter.parameters.get(name) for name in ("endpoint", "url")]
    named = [one for one in given if isinstance(one, str) and one.startswith(("http://", "https://"))]
    return None if service is None else named[0] if named else f"https://{service.host}"
