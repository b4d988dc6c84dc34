"""Re-encoding of images that exceed a classifier's limits.

All versions of a photo are encoded in the same way, and no adapter resizes anything.
"""

import math
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from adapters.base import Limits
from pipeline.querying.requests import ImageRef, canonical_json
from pipeline.run.files import write_bytes
from pipeline.run.storage import File
from pipeline.run.tables import SENT, read_frame, to_table, write_table

if TYPE_CHECKING:
    from PIL import Image

QUALITIES = (95, 90, 85, 80)  # of JPEG, tried in this order
SHRINK = 0.8
SMALLEST = 64  # minimum side in pixels after shrinking to save bytes; smaller faces would not be recognisable
_SUFFIX = {"png": ".png", "jpeg": ".jpg"}


@dataclass(frozen=True)
class SentImage:
    """The file sent in place of a version, or none; ``how`` is its encoding, or the reason."""

    sha256: str | None
    path: File | None
    how: str


@dataclass(frozen=True)
class Encoding:
    """An encoding of all versions of a photo: side lengths times ``scale``, as PNG, or JPEG of a ``quality``."""

    scale: float
    format: Literal["png", "jpeg"]
    quality: int | None = None

    @property
    def words(self) -> str:
        """Description for the record."""
        size = "" if self.scale == 1 else f"side lengths × {self.scale:.4g}, "
        return f"{size}{self.format}" + ("" if self.quality is None else f" quality {self.quality}")


def prepare(
    versions: Sequence[ImageRef], limits: Limits, *, folder: Path, answered: Collection[str] = frozenset()
) -> dict[str, SentImage]:
    """Re-encode versions that exceed a classifier's limits; return what is sent in place of them by their sha256.

    Args:
        versions: all versions of every photo.
        limits: the classifier's limits.
        folder: where re-encoded files and their table (``sent.parquet``) are stored.
        answered: sha256 of versions that have an answer. Photos are skipped if each version has one or was encoded.
    """
    if limits == Limits():
        return {}
    kept = recorded(folder, limits)
    photos: dict[str, list[ImageRef]] = defaultdict(list)
    for version in versions:
        photos[version.photo].append(version)
    found = dict(kept)
    for photo in photos.values():
        if not all(version.sha256 in kept or version.sha256 in answered for version in photo):
            found |= _encode_photo(photo, limits, folder / _name(limits))
    if found != kept:
        rows: list[dict[str, Any]] = [
            {"sha256": name, "sent_sha256": sent.sha256, "file": sent.path.name if sent.path else None, "how": sent.how}
            for name, sent in sorted(found.items())
        ]
        write_table(to_table(rows, SENT), folder / _name(limits) / "sent.parquet")
    return found


def recorded(folder: Path, limits: Limits) -> dict[str, SentImage]:
    """Return the results of earlier calls of `prepare` for the same limits."""
    path = folder / _name(limits) / "sent.parquet"
    if not path.exists():
        return {}
    rows = read_frame(path).to_dict("records")
    return {
        row["sha256"]: SentImage(row["sent_sha256"], path.parent / row["file"] if row["file"] else None, row["how"])
        for row in rows
    }


def images_to_send(versions: Sequence[ImageRef], sent: Mapping[str, SentImage]) -> list[ImageRef]:
    """Return the image to send for each version that can be sent, given the result of `prepare`."""
    images = []
    for version in versions:
        substitute = sent.get(version.sha256)
        if substitute is None:
            images.append(version)
        elif substitute.sha256 is not None and substitute.path is not None:
            images.append(ImageRef(substitute.sha256, substitute.path, version.photo))
    return images


def misfit(path: File, limits: Limits) -> str | None:
    """Return the first limit that a file exceeds, in words; None if it can be sent."""
    from PIL import Image

    with path.open("rb") as file, Image.open(file) as image:
        kind, (width, height) = (image.format or "?").lower(), image.size
        size = file.seek(0, os.SEEK_END)
    return next(iter(limits.misfits(kind=kind, width=width, height=height, size=size)), None)


def encodings(width: int, height: int, limits: Limits) -> Iterator[Encoding]:
    """Yield encodings of an image of this size within all limits except bytes, from the best to the smallest."""
    least = max(1.0, (limits.min_side or 1) / min(width, height))
    most = min(
        math.sqrt(limits.max_pixels / (width * height)) if limits.max_pixels is not None else math.inf,
        limits.max_side / max(width, height) if limits.max_side is not None else math.inf,
    )
    scale = least if least > 1 else min(1.0, most)
    while scale <= most and min(width, height) * scale >= (limits.min_side or 1):
        if "png" in limits.formats:
            yield Encoding(scale, "png")
        if "jpeg" in limits.formats:
            yield from (Encoding(scale, "jpeg", quality) for quality in QUALITIES)
        scale *= SHRINK
        if min(width, height) * scale < max(SMALLEST, limits.min_side or 1):
            return


def encode(image: "Image.Image", encoding: Encoding) -> bytes:
    """Encode an RGB image deterministically, without metadata."""
    from PIL import Image

    if encoding.scale != 1:
        width, height = image.width * encoding.scale, image.height * encoding.scale
        if encoding.scale > 1:
            width, height = math.ceil(width - 1e-9), math.ceil(height - 1e-9)
        image = image.resize((math.floor(width), math.floor(height)), Image.Resampling.LANCZOS)
    stream = BytesIO()
    if encoding.format == "png":
        image.save(stream, "PNG")
    else:
        image.save(stream, "JPEG", quality=encoding.quality, subsampling=0)
    return stream.getvalue()


def _encode_photo(versions: Sequence[ImageRef], limits: Limits, folder: Path) -> dict[str, SentImage]:
    from PIL import Image

    try:
        reasons = {version.path.name: reason for version in versions if (reason := misfit(version.path, limits))}
        if not reasons:
            return {}
        images = {}
        for version in versions:
            with version.path.open("rb") as file, Image.open(file) as opened:
                images[version.sha256] = opened.convert("RGB")
    except OSError:
        return {}  # the client reports the file that cannot be read
    first = next(iter(reasons.values()))
    if len({image.size for image in images.values()}) > 1:
        return _excluded(versions, f"its versions differ in size, and some exceed the limits ({first})")
    width, height = next(iter(images.values())).size
    for encoding in encodings(width, height, limits):
        contents: dict[str, bytes] = {}
        for name, image in images.items():
            contents[name] = encode(image, encoding)
            if limits.max_bytes is not None and len(contents[name]) > limits.max_bytes:
                break
        else:
            return {name: _written(content, encoding, folder) for name, content in contents.items()}
    return _excluded(versions, f"{first}; no encoding is within the limits")


def _excluded(versions: Sequence[ImageRef], why: str) -> dict[str, SentImage]:
    return {version.sha256: SentImage(None, None, why) for version in versions}


def _written(content: bytes, encoding: Encoding, folder: Path) -> SentImage:
    name = sha256(content).hexdigest()
    path = folder / f"{name}{_SUFFIX[encoding.format]}"
    if not path.exists():
        write_bytes(path, content)
    return SentImage(name, path, encoding.words)


def _name(limits: Limits) -> str:
    return sha256(canonical_json(asdict(limits)).encode()).hexdigest()[:16]
