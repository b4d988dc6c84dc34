"""The files of versions: where images and masks lie, how images are encoded, and a run's ``metadata.csv``."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, Protocol

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.files import atomic_write
from pipeline.run.tables import read_frames

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

METADATA = "metadata.csv"  # the name that image-folder loaders look for
IMAGES, MASKS = "images", "masks"  # the folders of a run
METADATA_COLUMNS = ("file_name", "photo", "attribute", "arm", "step", "value", "sha256")


class Layout(Protocol):
    """Where files go below ``folder``, and what an image's file states about itself."""

    @property
    def folder(self) -> Path:
        """The folder that the names below are relative to."""
        ...

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """The file of one version."""
        ...

    def mask(self, photo: str, *, attribute: str = "") -> PurePosixPath:
        """The file of a photo's mask, a PNG; of one attribute alone where editing it changes another region."""
        ...

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """An encoded version as it is to be written; its pixels stay as they are."""
        ...


@dataclass(frozen=True)
class RunLayout:
    """A run's: ``images/<attribute>/<photo>/step<k>.png``, a placebo's ``images/<attribute>-<arm>/…``, and
    ``masks/<photo>.png``. A file states nothing about itself: a classifier is sent exactly these bytes."""

    folder: Path

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """See ``Layout``."""
        return PurePosixPath(IMAGES, kind_of(attribute, arm)) / image_folder(photo) / f"step{step}{suffix}"

    def mask(self, photo: str, *, attribute: str = "") -> PurePosixPath:
        """See ``Layout``."""
        return PurePosixPath(MASKS) / f"{image_folder(photo)}{attribute and f'-{attribute}'}.png"

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """The bytes unchanged."""
        return content


@dataclass(frozen=True)
class ImageFile:
    """How versions are encoded: lossless PNG, or JPEG of a stated quality (50-100) without chroma subsampling."""

    format: Literal["png", "jpeg"] = "png"
    quality: int = 95

    @property
    def suffix(self) -> str:
        """The file name's ending."""
        return ".png" if self.format == "png" else ".jpg"

    def encode(self, pixels: "NDArray[np.uint8]") -> bytes:
        """``(H, W, 3)`` uint8 RGB as the bytes of a file, without metadata.

        Raises:
            ValueError: the pixels cannot be encoded.
        """
        import cv2

        if self.format == "png":
            # Of zlib's strategies the fastest for photos, and smaller than the default's fastest level.
            strategy = [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_HUFFMAN_ONLY]
            flags = [cv2.IMWRITE_PNG_COMPRESSION, 1, *strategy]
        else:
            sampling = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
            flags = [cv2.IMWRITE_JPEG_QUALITY, self.quality, *sampling]
        done, content = cv2.imencode(self.suffix, cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), flags)
        if not done:
            raise ValueError(f"an image of shape {pixels.shape} cannot be encoded as {self.format}")
        return content.tobytes()


def kind_of(attribute: str, arm: str) -> str:
    """What the files of one sweep have in common in their names: the attribute, and the placebo if it is one."""
    return attribute if arm == EDIT_ARM else f"{attribute}-{arm}"


def image_folder(photo: str) -> PurePosixPath:
    """The folder of a photo's versions: its own path made safe for any file system, and unique.

    Eight hex digits of the name's hash keep apart what the cleaning would have made equal.
    """
    parts = [part for part in PurePosixPath(photo.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    # 60 characters are at most 240 bytes of UTF-8: with the hash, below the 255 that a file system allows.
    clean = [re.sub(r"[^\w.\- ]", "_", part)[:60].strip(" .") or "_" for part in parts] or ["_"]
    clean[-1] = f"{clean[-1]}-{sha256(photo.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return PurePosixPath(*clean)


def write_image(path: Path, content: bytes) -> None:
    """Write one file, making its folder if it is the first in it."""
    try:
        path.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_metadata(versions: Path, images: Path) -> None:
    """Write ``metadata.csv`` into a run's folder of images: one row a version that was made.

    Args:
        versions: the counterfactuals table.
        images: the folder; ``file_name`` is relative to it.
    """
    with metadata_file(images, METADATA_COLUMNS) as write:
        for rows in read_frames(versions, columns=["file", "status", *METADATA_COLUMNS[1:]]):
            made = rows[rows["status"] == "ok"]
            write(made.assign(file_name=made["file"].str.removeprefix(f"{images.name}/")))


def remove_stale(versions: Path, folder: Path) -> int:
    """Remove the images and masks of a run that its table does not name: of other photos, steps or formats.

    Args:
        versions: the counterfactuals table.
        folder: the run's folder.

    Returns:
        How many files were removed.
    """
    kept = {f"{IMAGES}/{METADATA}"}
    for rows in read_frames(versions, columns=["file", "mask"]):
        kept.update(rows["file"].dropna(), rows["mask"].dropna())
    removed = 0
    for path in (path for place in (IMAGES, MASKS) for path in _deepest_first(folder / place)):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in kept:
            path.unlink()
            removed += 1
    return removed


def _deepest_first(folder: Path) -> list[Path]:
    """All that lies below a folder, what a folder holds before the folder."""
    return sorted(folder.rglob("*"), reverse=True) if folder.is_dir() else []


@contextmanager
def metadata_file(folder: Path, columns: Sequence[str]) -> "Iterator[Callable[[pd.DataFrame], None]]":
    """Give the function that adds rows to ``metadata.csv`` of a folder; the file is there when all is written."""
    with atomic_write(folder / METADATA) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n")
        yield lambda rows: rows.to_csv(file, columns=list(columns), header=False, index=False, lineterminator="\n")
