"""What is sent of each photo: its versions as they are, or, where they do not fit a classifier, all re-encoded alike.

Versions of one face are never treated differently, and no adapter resizes anything.
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

QUALITIES = (95, 90, 85, 80)  # JPEG's, tried in this order
SHRINK = 0.8
SMALLEST = 64  # pixels; shrinking a face further than this to save bytes would no longer show it
_SUFFIX = {"png": ".png", "jpeg": ".jpg"}


@dataclass(frozen=True)
class SentImage:
    """What is sent for a version: another file, or nothing, for a reason."""

    sha256: str | None
    path: File | None
    how: str


@dataclass(frozen=True)
class Encoding:
    """How all versions of a photo are encoded: side lengths times ``scale``, then PNG, or JPEG of some quality."""

    scale: float
    format: Literal["png", "jpeg"]
    quality: int | None = None

    @property
    def words(self) -> str:
        """For the record."""
        size = "" if self.scale == 1 else f"side lengths × {self.scale:.4g}, "
        return f"{size}{self.format}" + ("" if self.quality is None else f" quality {self.quality}")


def prepare(
    versions: Sequence[ImageRef], limits: Limits, *, folder: Path, answered: Collection[str] = frozenset()
) -> dict[str, SentImage]:
    """What is sent in place of versions that do not fit a classifier's limits; versions that fit are not named.

    Args:
        versions: all versions of every photo.
        limits: the classifier's.
        folder: where re-encoded files and the record of them (``sent.parquet``) are kept; the same versions give the
            same files.
        answered: sha256 of versions that have an answer as they are; photos with nothing else are not looked at.
    """
    if limits == Limits():
        return {}
    kept = recorded(folder, limits)
    photos: dict[str, list[ImageRef]] = defaultdict(list)
    for version in versions:
        photos[version.photo].append(version)
    made: dict[str, SentImage] = {}
    for photo in photos.values():
        if not all(version.sha256 in kept or version.sha256 in answered for version in photo):
            made |= _encode_photo(photo, limits, folder / _name(limits))
    if made:
        _record(kept | made, limits, folder)
    return kept | made


def recorded(folder: Path, limits: Limits) -> dict[str, SentImage]:
    """What earlier calls of `prepare` found for the same limits."""
    path = folder / _name(limits) / "sent.parquet"
    if not path.exists():
        return {}
    rows = read_frame(path).to_dict("records")
    return {
        row["sha256"]: SentImage(row["sent_sha256"], path.parent / row["file"] if row["file"] else None, row["how"])
        for row in rows
    }


def images_to_send(versions: Sequence[ImageRef], sent: Mapping[str, SentImage]) -> list[ImageRef]:
    """The image to send for each version that can be sent; ``sent`` as `prepare` returned it."""
    images = []
    for version in versions:
        instead = sent.get(version.sha256)
        if instead is None:
            images.append(version)
        elif instead.sha256 is not None and instead.path is not None:
            images.append(ImageRef(instead.sha256, instead.path, version.photo))
    return images


def misfit(path: File, limits: Limits) -> str | None:
    """Why a file cannot be sent as it is; None where it can."""
    from PIL import Image

    with path.open("rb") as file, Image.open(file) as image:
        kind, (width, height) = (image.format or "?").lower(), image.size
        size = file.seek(0, os.SEEK_END)
    return next(iter(limits.misfits(kind=kind, width=width, height=height, size=size)), None)


def encodings(width: int, height: int, limits: Limits) -> Iterator[Encoding]:
    """The ways to encode an image of this size within the limits but for its bytes, from the best to the smallest."""
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
    """An RGB image as bytes; the same image gives the same bytes, which hold nothing but pixels."""
    from PIL import Image

    if encoding.scale != 1:
        size = (math.ceil(image.width * encoding.scale - 1e-9), math.ceil(image.height * encoding.scale - 1e-9))
        if encoding.scale < 1:
            size = (math.floor(image.width * encoding.scale), math.floor(image.height * encoding.scale))
        image = image.resize(size, Image.Resampling.LANCZOS)
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
        return {}  # the client names the file that cannot be read
    first = next(iter(reasons.values()))
    if len({image.size for image in images.values()}) > 1:
        return _excluded(versions, f"its versions differ in size, and do not all fit ({first})")
    width, height = next(iter(images.values())).size
    for encoding in encodings(width, height, limits):
        contents: dict[str, bytes] = {}
        for name, image in images.items():
            contents[name] = encode(image, encoding)
            if limits.max_bytes is not None and len(contents[name]) > limits.max_bytes:
                break
        else:
            return {name: _written(content, encoding, folder) for name, content in contents.items()}
    return _excluded(versions, f"{first}; no encoding fits")


def _excluded(versions: Sequence[ImageRef], why: str) -> dict[str, SentImage]:
    return {version.sha256: SentImage(None, None, why) for version in versions}


def _written(content: bytes, encoding: Encoding, folder: Path) -> SentImage:
    name = sha256(content).hexdigest()
    path = folder / f"{name}{_SUFFIX[encoding.format]}"
    if not path.exists():
        write_bytes(path, content)
    return SentImage(name, path, encoding.words)


def _record(sent: Mapping[str, SentImage], limits: Limits, folder: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"sha256": name, "sent_sha256": one.sha256, "file": one.path.name if one.path else None, "how": one.how}
        for name, one in sorted(sent.items())
    ]
    write_table(to_table(rows, SENT), folder / _name(limits) / "sent.parquet")


def _name(limits: Limits) -> str:
    return sha256(canonical_json(asdict(limits)).encode()).hexdigest()[:16]
