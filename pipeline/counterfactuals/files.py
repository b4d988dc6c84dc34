"""The files of versions: their names and encoding, and a run's ``metadata.csv``."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, Protocol

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.files import atomic_write
from pipeline.run.image_store import ImageStore
from pipeline.run.tables import read_frames

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

METADATA = "metadata.csv"  # the name that image-folder loaders look for
IMAGES, MASKS = "images", "masks"  # the folders of a run
METADATA_COLUMNS = ("file_name", "photo", "attribute", "arm", "step", "value", "sha256")


class Layout(Protocol):
    """The names of files below a folder, and the metadata inside an image file."""

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """Return the file of a version."""
        ...

    def mask(self, photo: str, *, attribute: str = "") -> PurePosixPath:
        """Return the file of a photo's mask (PNG); attributes with their own region have their own mask."""
        ...

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """Return an encoded version with its metadata; the pixels do not change."""
        ...


@dataclass(frozen=True)
class RunLayout:
    """A run's layout: ``images/<attribute>/<photo>/step<k>.png``, placebos in ``images/<attribute>-<arm>/…``, and
    ``masks/<photo>.png``. Files have no metadata, because classifiers receive exactly these bytes."""

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """See ``Layout``."""
        return PurePosixPath(IMAGES, kind_of(attribute, arm)) / image_folder(photo) / f"step{step}{suffix}"

    def mask(self, photo: str, *, attribute: str = "") -> PurePosixPath:
        """See ``Layout``."""
        return PurePosixPath(MASKS) / f"{image_folder(photo)}{attribute and f'-{attribute}'}.png"

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """Return the bytes unchanged."""
        return content


@dataclass(frozen=True)
class ShardLayout(RunLayout):
    """The layout of a WebDataset: the files of a photo, ``<photo>.<attribute>-step<k>.png`` and ``<photo>.mask.png``,
    are a sample, named by the part before the first dot."""

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """See ``Layout``."""
        return _sample(photo, f"{kind_of(attribute, arm)}-step{step}{suffix}")

    def mask(self, photo: str, *, attribute: str = "") -> PurePosixPath:
        """See ``Layout``."""
        return _sample(photo, f"mask{attribute and f'-{attribute}'}.png")


@dataclass(frozen=True)
class ImageFile:
    """The encoding of versions: lossless PNG, or JPEG of a given quality (50-100) without chroma subsampling."""

    format: Literal["png", "jpeg"] = "png"
    quality: int = 95

    @property
    def suffix(self) -> str:
        """The file name's ending."""
        return ".png" if self.format == "png" else ".jpg"

    def encode(self, pixels: "NDArray[np.uint8]") -> bytes:
        """Encode ``(H, W, 3)`` uint8 RGB as the bytes of a file, without metadata.

        Raises:
            ValueError: the pixels cannot be encoded.
        """
        import cv2

        if self.format == "png":
            # One filter for all rows is as small for photos as the best of five per row, and faster to write and read;
            # Huffman codes alone take 0.8 of the time for 3 % more bytes.
            filtering = [cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_AVG]
            strategy = [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_HUFFMAN_ONLY]
            flags = [cv2.IMWRITE_PNG_COMPRESSION, 1, *strategy, *filtering]
        else:
            sampling = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
            flags = [cv2.IMWRITE_JPEG_QUALITY, self.quality, *sampling]
        done, content = cv2.imencode(self.suffix, cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), flags)
        if not done:
            raise ValueError(f"an image of shape {pixels.shape} cannot be encoded as {self.format}")
        return content.tobytes()


def kind_of(attribute: str, arm: str) -> str:
    """Return the common part of a sweep's file names: the attribute, and the placebo if it is one."""
    return attribute if arm == EDIT_ARM else f"{attribute}-{arm}"


def image_folder(photo: str) -> PurePosixPath:
    """Return the folder of a photo's versions: its path made safe for any file system, and unique.

    Eight hex digits of the name's hash distinguish names that the cleaning makes equal.
    """
    parts = [part for part in PurePosixPath(photo.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    # 60 characters are at most 240 bytes of UTF-8, so with the hash below the limit of 255 of file systems.
    clean = [re.sub(r"[^\w.\- ]", "_", part)[:60].strip(" .") or "_" for part in parts] or ["_"]
    clean[-1] = f"{clean[-1]}-{sha256(photo.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return PurePosixPath(*clean)


def write_image(path: Path, content: bytes) -> None:
    """Write a file; create its folder if necessary."""
    try:
        path.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_metadata(versions: Path, images: ImageStore) -> None:
    """Write ``metadata.csv`` next to a run's images: one row per successful version; ``file_name`` is relative to it.

    Args:
        versions: the counterfactuals table.
        images: store of the images.
    """
    with (
        replace(images, shards=None).writing(METADATA) as writing,
        metadata_file(writing.folder / IMAGES, METADATA_COLUMNS) as write,
    ):
        for rows in read_frames(versions, columns=["file", "status", *METADATA_COLUMNS[1:]]):
            made = rows[rows["status"] == "ok"]
            write(made.assign(file_name=made["file"].str.removeprefix(f"{IMAGES}/")))


def files_of(rows: "pd.DataFrame") -> set[str]:
    """Return the files that hold the images and masks of rows: their own, or shards."""
    return {name.partition("#")[0] for column in ("file", "mask") for name in rows[column].dropna()}


def remove_stale(versions: Path, images: ImageStore) -> int:
    """Remove a run's images and masks that its table does not list (of other photos, steps or formats).

    Args:
        versions: the counterfactuals table.
        images: store of the images.

    Returns:
        The number of removed files.
    """
    kept = {f"{IMAGES}/{METADATA}"}
    for rows in read_frames(versions, columns=["file", "mask"]):
        kept |= files_of(rows)
    return images.prune((IMAGES, MASKS), keep=kept.__contains__)


def _sample(photo: str, ending: str) -> PurePosixPath:
    folder = image_folder(photo)
    return PurePosixPath(IMAGES) / folder.with_name(f"{folder.name.replace('.', '_')}.{ending}")


@contextmanager
def metadata_file(folder: Path, columns: Sequence[str]) -> "Iterator[Callable[[pd.DataFrame], None]]":
    """Yield a function that appends rows to ``metadata.csv`` of a folder; the file appears when the context ends."""
    with atomic_write(folder / METADATA) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n")
        yield lambda rows: rows.to_csv(file, columns=list(columns), header=False, index=False, lineterminator="\n")
