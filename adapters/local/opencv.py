"""The Haar cascades that ship with OpenCV, as a classifier of whole images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from adapters.answers import LabelAnswers, to_answer
from adapters.base import Capabilities, Label, RawAnswer
from adapters.options import AdapterOptions

if TYPE_CHECKING:
    import cv2
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class _Search:
    """One cascade, the ``scale_factor`` between window sizes, and the number of neighbours of a detection."""

    file: str
    scale_factor: float = 1.2
    # A detection needs more than OpenCV's default minNeighbors = 3.
    enough: int = 4


_FACE = _Search("haarcascade_frontalface_alt2.xml")
_SEARCHES = {
    "frontal face": _FACE,
    "profile face": _Search("haarcascade_profileface.xml"),
    "upper body": _Search("haarcascade_upperbody.xml"),
    # A tree-based eye detector, also trained on eyes behind glasses.
    "eyes or eyeglasses": _Search("haarcascade_eye_tree_eyeglasses.xml", scale_factor=1.1),
    # It has three neighbours on any mouth; 20 are commonly required.
    "smile": _Search("haarcascade_smile.xml", scale_factor=1.1, enough=20),
}
# With a frontal face, profiles and bodies of less than this share of its size are not searched: they would be other
# people's, and the search would take twice as long.
_BESIDE_FACE = 0.75
# The part of the face's height that is searched, and the face's side in pixels during the search: large enough for the
# cascade's window (eyes 20 x 20, smiles 36 x 18), small enough to be fast.
_IN_FACE = {"eyes or eyeglasses": (0.2, 0.55, 96), "smile": (0.5, 1.0, 64)}


class OpenCV(LabelAnswers):
    """OpenCV's Haar cascades: frontal and profile face, upper body, eyes or eyeglasses, smile.

    OpenCV merges the overlapping candidates of a cascade. The score of a label is ``n / (n + enough)``, where n is the
    number of candidates merged into the best detection. It increases with n, is in 0-1, and reaches 0.5 exactly where
    the cascade counts as detecting something: at more than OpenCV's default of 3 neighbours (20 for smiles). Single
    candidates are considered noise and not returned.

    The image is searched at a shorter side of ``short_side`` pixels, with windows of at least ``smallest`` of it. If
    there is a frontal face, profiles and upper bodies are searched from three quarters of its size, and eyes and smiles
    in the best one, at a fixed size.
    """

    name = "opencv"
    capabilities = Capabilities(
        labels=tuple(_SEARCHES),
        scale="merged detections n, as n / (n + enough)",
        cut_off=2 / 22,  # two candidates for a smile
        presence=0.5,
        batch=16,
        processes=True,
    )

    class Options(AdapterOptions):
        short_side: int = Field(72, ge=24, le=1024)
        """the image's shorter side during the search, in pixels."""
        smallest: float = Field(0.3, gt=0, le=1)
        """the smallest detected face or body, as a fraction of the shorter side."""

    def __init__(self, options: Options) -> None:
        self._short_side, self._smallest = options.short_side, options.smallest
        self.parameters: Mapping[str, Any] = options.model_dump()

    @cached_property
    def model(self) -> str:
        """OpenCV's version and the digest of the cascades' files and of the constants of the search."""
        import cv2

        digest = sha256(repr((_SEARCHES, _BESIDE_FACE, _IN_FACE)).encode())
        for search in _SEARCHES.values():
            digest.update(_path(search).read_bytes())
        return f"opencv {cv2.__version__}, cascades sha256 {digest.hexdigest()}"

    @cached_property
    def _cascades(self) -> "dict[str, cv2.CascadeClassifier]":
        import cv2

        return {label: cv2.CascadeClassifier(str(_path(search))) for label, search in _SEARCHES.items()}

    def send(self, images: Sequence[bytes]) -> list[RawAnswer]:
        """Search each image; see ``Adapter.send``."""
        return [to_answer(self._look(image)) for image in images]

    def _look(self, data: bytes) -> list[Label]:
        import cv2
        import numpy as np

        image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_GRAYSCALE) if data else None
        if image is None:
            raise ValueError("not an image that OpenCV can read")
        scale = min(1.0, self._short_side / min(image.shape))
        small = _resize(image, width=round(image.shape[1] * scale), height=round(image.shape[0] * scale))
        least = max(1, round(self._smallest * min(small.shape)))
        counts = {}
        counts["frontal face"], face = self._strongest("frontal face", small, least)
        if counts["frontal face"] < _FACE.enough:
            face = None
        if face is not None:
            least = max(least, round(_BESIDE_FACE * face[2]))
        for label in ("profile face", "upper body"):
            counts[label], _ = self._strongest(label, small, least)
        if face is not None:
            left, top, width, height = (round(side / scale) for side in face)
            crop = image[max(0, top) : top + height, max(0, left) : left + width]
            for label, (start, stop, side) in _IN_FACE.items():
                part = _resize(crop, width=side, height=side)[round(start * side) : round(stop * side)]
                counts[label], _ = self._strongest(label, np.ascontiguousarray(part), 1)
        return [Label(label, n / (n + _SEARCHES[label].enough)) for label, n in counts.items() if n]

    def _strongest(
        self, label: str, image: "NDArray[np.uint8]", least: int
    ) -> tuple[int, tuple[int, int, int, int] | None]:
        """Return the number of candidates of the best detection (0, or at least 2), and its box (left, top, width,
        height)."""
        boxes, merged = self._cascades[label].detectMultiScale2(
            image, scaleFactor=_SEARCHES[label].scale_factor, minNeighbors=1, minSize=(least, least)
        )
        # OpenCV's threads find candidates in any order, so ties are resolved by the box.
        ranked = [
            (int(n), (int(box[0]), int(box[1]), int(box[2]), int(box[3]))) for n, box in zip(merged, boxes, strict=True)
        ]
        return max(ranked, default=(0, None), key=lambda found: found)


def _path(search: _Search) -> Path:
    from cv2.data import haarcascades

    return Path(haarcascades) / search.file


def _resize(image: "NDArray[np.uint8]", *, width: int, height: int) -> "NDArray[np.uint8]":
    import cv2
    import numpy as np

    resized = cv2.resize(image, (max(1, width), max(1, height)), interpolation=cv2.INTER_AREA)
    return np.asarray(resized, dtype=np.uint8)
