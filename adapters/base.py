"""The contract between the pipeline and a classifier: encoded images in, raw answers out, labels parsed from them.

Sending and parsing are separate: a raw answer is stored permanently and can be parsed again years later without the
classifier. Retries, rate limits and caching are up to the caller.
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
    """One label of one image: ``name`` as the classifier gives it, ``score`` in 0-1."""

    name: str
    score: float


Landmarks = tuple[tuple[float, float], ...]  # both eyes, nose, both corners of the mouth: x and y in an image's pixels


@dataclass(frozen=True)
class RawAnswer:
    """The answer about one image, not yet interpreted.

    If one reply covers several images, each has the whole body.
    """

    body: bytes  # stored byte for byte
    status: int | None = None  # HTTP status
    headers: Mapping[str, str] = field(default_factory=dict)  # to be stored (request ids, versions); no credentials
    position: int = 0  # index of the image's part of the body


@dataclass(frozen=True)
class NoAnswer:
    """Why an image got no answer, and whether to retry."""

    reason: str  # what happened, for the user; never contains a secret
    retry: Literal["never", "later", "slower"] = "never"  # permanent; may be temporary; too many requests
    wait: float | None = None  # seconds that the service asked to wait
    billed: bool = False  # the service may charge for it, e.g. if its answer was lost on the way
    reply: RawAnswer | None = None  # the reply in place of an answer, to be stored


@dataclass(frozen=True)
class Limits:
    """Requirements on an image to be sent; None: no limit."""

    max_bytes: int | None = None
    max_pixels: int | None = None
    min_side: int | None = None
    max_side: int | None = None
    formats: tuple[str, ...] = ("png", "jpeg")

    def misfits(self, *, kind: str, width: int, height: int, size: int) -> list[str]:
        """Return the limits that an image breaks, in words.

        Args:
            kind: the image's format ("png", "jpeg").
            width, height: in pixels.
            size: in bytes.
        """
        maxima = (
            ("a side of {} pixels", max(width, height), self.max_side),
            ("{} pixels", width * height, self.max_pixels),
            ("{} bytes", size, self.max_bytes),
        )
        broken = [] if kind in self.formats else [f"{kind}, where {', '.join(self.formats)} are accepted"]
        if self.min_side is not None and min(width, height) < self.min_side:
            broken.append(f"a side of {min(width, height)} pixels, where {self.min_side} are needed")
        return broken + [
            f"{what.format(number)}, where {limit} are accepted"
            for what, number, limit in maxima
            if limit is not None and number > limit
        ]


@dataclass(frozen=True)
class Price:
    """A service's price as far as it is known, for estimates."""

    usd_per_1000: float  # US$ for 1,000 images and one feature
    as_of: date  # date of the source
    source: str
    note: str = ""  # free allowance, tiers, uncertainty
    # US$ for a million tokens sent and received, if replies count tokens; ``usd_per_1000`` is then an estimate.
    tokens: tuple[float, float] | None = None
    calls: float = 1.0  # price of an image sent in a call, in multiples of this price
    jobs: float = 1.0  # price of an image sent in a job, in multiples of this price

    def usd(self, images: float, *, features: int = 1) -> float:
        """Compute the price in US$, without deducting free allowances."""
        return images * features * self.usd_per_1000 / 1000


@dataclass(frozen=True)
class Service:
    """Facts about a remote service to know before sending faces to it."""

    provider: str  # who runs it
    host: str  # where the images go
    retention: str  # what the provider says it stores
    version: str  # how the model's version can be pinned, and whether answers report it
    lifecycle: Literal["live", "ends", "discontinued"] = "live"
    ends: date | None = None  # date of its end
    credentials: tuple[str, ...] = ()  # environment variables of the credentials
    rate: float = 5.0  # default limit of requests per second
    price: Price | None = None  # None: free of charge, or unknown


@dataclass(frozen=True)
class Capabilities:
    """A classifier's declaration about itself."""

    service: Service | None = None  # None: the classifier runs on this machine
    features: tuple[str, ...] = ("labels",)  # requested for each image, billed separately
    labels: tuple[str, ...] | None = None  # every label it can return; None: open vocabulary
    scale: str = "0-1"  # range of its own scores before they are mapped to 0-1: "0-1", "0-100", "decision"
    cut_off: float | None = None  # the score (0-1) below which labels are not returned; None: all are returned
    presence: float = 0.5  # default threshold (0-1) from which a returned label counts as present
    top_k: int | None = None  # maximum number of labels per image
    batch: int = 1  # maximum images per call
    batch_bytes: int | None = None  # maximum bytes of images per call, before they are encoded for sending
    concurrency: int = 1  # maximum concurrent calls
    faces: bool = False  # it takes face landmarks; see `FaceClassifier`
    jobs: bool = False  # ``batch`` images are sent as one job that is answered later; see `JobService`
    processes: bool = False  # pickled copies of it may be queried in several processes of this machine
    limits: Limits = Limits()

    @property
    def remote(self) -> bool:
        """Whether images leave this machine."""
        return self.service is not None


class AdapterError(Exception):
    """A classifier cannot be set up or used (credentials, billing, a missing file), so no further call can succeed.

    The message says what is wrong and what to do. It never contains a secret.
    """


class AnswerError(Exception):
    """A raw answer holds no labels; the message says what is wrong with it."""


class Adapter(Protocol):
    """A classifier.

    A class with a nested ``Options`` (see `adapters.options`) is constructed as ``Class(options)``, any other as
    ``Class()``. The constructor raises ``AdapterError`` if the adapter cannot be set up: an invalid option, no
    credentials, a missing file. ``capabilities`` may also be a class attribute, to be shown before construction.

    ``name`` is unique within a run. ``model`` is the version as far as it is known. ``parameters`` holds plain JSON
    values and never a secret. Answers are cached by ``model``, ``parameters`` and the image's bytes, so ``model`` must
    change whenever answers could change.
    """

    name: str
    model: str
    parameters: Mapping[str, Any]
    capabilities: Capabilities

    def send(self, images: Sequence[bytes]) -> Sequence[RawAnswer | NoAnswer]:
        """Send up to ``capabilities.batch`` encoded images in one attempt; return one outcome per image, in order.

        Whatever a service returned for an image is its raw answer, even if it cannot be parsed, because it was paid
        for. Called from several threads concurrently if ``capabilities.concurrency`` is more than one.

        Raises:
            AdapterError: no further call can succeed either.
            Exception: any other exception counts as the failure of these images only.
        """
        ...

    def parse(self, answer: RawAnswer) -> list[Label]:
        """Return the labels of a raw answer, each name once. Needs neither the classifier nor its credentials.

        Raises:
            AnswerError: the answer does not hold labels.
        """
        ...


@runtime_checkable
class FaceClassifier(Protocol):
    """An adapter that classifies one face of an image and can be given the face's landmarks.

    If ``capabilities.faces`` is true, ``send_faces`` is called in place of ``send``. All versions of a photo come with
    the landmarks of the photo's face: alignment is then the same for all of them, and labels depend on pixels only.
    """

    def send_faces(self, images: Sequence[bytes], faces: Sequence[Landmarks | None]) -> Sequence[RawAnswer | NoAnswer]:
        """Send images as ``Adapter.send`` does, with the landmarks of each image's face; None if they are unknown."""
        ...


@runtime_checkable
class JobService(Protocol):
    """An adapter whose service also takes many images as one job and answers hours later.

    If ``capabilities.jobs`` is true, ``submit`` is called in place of ``send``. Each method raises ``AdapterError`` if
    no further call can succeed, and may be called from several threads concurrently.
    """

    seconds_between_looks: float  # polling interval

    def submit(self, name: str, images: Mapping[str, bytes]) -> str | NoAnswer:
        """Send the images (by their sha256) as one named job; return the service's id of the job.

        After a ``NoAnswer`` that is ``billed`` it is unknown whether the job exists; `find` answers that.
        """
        ...

    def find(self, name: str) -> str | NoAnswer | None:
        """Return the id of the job of that name; None if the service has none."""
        ...

    def collect(self, job: str, images: Sequence[str]) -> Mapping[str, RawAnswer | NoAnswer] | NoAnswer | str:
        """Return the outcomes of a finished job, one for each of its images (sha256).

        Text describes the progress of an unfinished job; ``NoAnswer`` says why its state is unknown.
        """
        ...

    def forget(self, job: str) -> NoAnswer | None:
        """Delete the service's data of a job whose outcomes are stored; return why that failed, if it did."""
        ...


@runtime_checkable
class Differentiable(Protocol):
    """A local network whose scores have gradients and can be attributed to pixels.

    ``capabilities.labels`` are in the order of the scores.
    """

    capabilities: Capabilities

    def network_input(self, image: bytes) -> "NDArray[np.float32] | None":
        """Convert an encoded image to the network's input ``(3, h, w)``; None if nothing in it is classified."""
        ...

    def map_on_input(self, image: bytes, regions: "NDArray[np.uint8]") -> "NDArray[np.uint8]":
        """Resample a map ``(H, W)`` of the image's pixels to the input's ``(h, w)`` by nearest neighbour."""
        ...

    def scores(self, inputs: "torch.Tensor") -> "torch.Tensor":
        """Compute differentiable scores (0-1) ``(B, labels)`` of inputs ``(B, 3, h, w)``."""
        ...


def address_of(adapter: Adapter) -> str | None:
    """Return the URL that a remote adapter sends to: its parameter ``endpoint`` or ``url``, else https to its host."""
    service = adapter.capabilities.service
    given = (adapter.parameters.get(name) for name in ("endpoint", "url"))
    urls = [url for url in given if isinstance(url, str) and url.startswith(("http://", "https://"))]
    return None if service is None else urls[0] if urls else f"https://{service.host}"
