"""Writing a face's versions: composite each value, encode it, hand back its table row and what the checks need."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from models.alignment import warp_to_template
from pipeline.counterfactuals.compositing import (
    Patch,
    add_change,
    background_kept,
    is_grey,
    mean_lightness,
    paste,
    widened,
    without_colour,
)
from pipeline.counterfactuals.fidelity import seam
from pipeline.counterfactuals.sweep import CROP, Subject, to_patch
from pipeline.records import EDIT_ARM


@dataclass(frozen=True)
class ImageFile:
    """How versions are encoded: lossless PNG, or JPEG of a stated quality (50-100) without chroma subsampling."""

    format: Literal["png", "jpeg"] = "png"
    quality: int = 95

    def encode(self, pixels: NDArray[np.uint8]) -> bytes:
        """``(H, W, 3)`` uint8 RGB as the bytes of a file, without metadata."""
        if self.format == "png":
            # Of zlib's strategies the fastest for photos, and smaller than the default's fastest level.
            strategy = [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_HUFFMAN_ONLY]
            suffix, flags = ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1, *strategy]
        else:
            suffix = ".jpg"
            flags = [
                cv2.IMWRITE_JPEG_QUALITY,
                self.quality,
                cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
                cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
            ]
        done, content = cv2.imencode(suffix, cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), flags)
        if not done:
            raise ValueError(f"an image of shape {pixels.shape} cannot be encoded as {self.format}")
        return content.tobytes()

    @property
    def suffix(self) -> str:
        """The file name's ending."""
        return ".png" if self.format == "png" else ".jpg"


@dataclass(frozen=True)
class Version:
    """One written version: its row of the counterfactuals table (the judge's columns still open) and its aligned crop
    ``(128, 128, 3)`` uint8, from which the judge fills them."""

    row: dict[str, Any]
    crop: NDArray[np.uint8]


def image_folder(photo: str) -> PurePosixPath:
    """The folder of a photo's versions: its own path made safe for any file system, and unique.

    Eight hex digits of the name's hash keep apart what the cleaning would have made equal.
    """
    parts = [part for part in PurePosixPath(photo.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    # 60 characters are at most 240 bytes of UTF-8: with the hash, below the 255 that a file system allows.
    clean = [re.sub(r"[^\w.\- ]", "_", part)[:60].strip(" .") or "_" for part in parts] or ["_"]
    clean[-1] = f"{clean[-1]}-{sha256(photo.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return PurePosixPath(*clean)


def write_mask(subject: Subject, patch: Patch, *, run_folder: Path) -> str:
    """Write the photo's mask as an 8-bit PNG of the photo's size, so that others can check what may change.

    Levels are rounded up: 0 means that the pixel may not change at all. Returns the file, relative to the run.
    """
    name = PurePosixPath("masks") / f"{image_folder(subject.photo)}.png"
    whole = np.zeros(subject.pixels.shape[:2], dtype=np.uint8)
    whole[patch.window] = np.ceil(patch.mask * 255).astype(np.uint8)
    path = run_folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode(".png", whole)[1].tobytes())
    return str(name)


def render(
    subject: Subject,
    patch: Patch,
    *,
    attribute: str,
    arm: str,
    values: Sequence[float],
    images: NDArray[np.float32],
    mode: Literal["delta", "reconstruction"],
    file: ImageFile,
    run_folder: Path,
) -> list[Version]:
    """Composite, encode and write the K versions of one photo.

    Args:
        images: ``(K, 128, 128, 3)`` float32 pixel levels: changes for `delta`, decoded faces for `reconstruction`.
        run_folder: the run; files go to ``images/<attribute>/<photo>/step<k>.png`` in it, those of a placebo to
            ``images/<attribute>-<arm>/…``.
    """
    kind = attribute if arm == EDIT_ARM else f"{attribute}-{arm}"
    folder = PurePosixPath("images", kind) / image_folder(subject.photo)
    (run_folder / folder).mkdir(parents=True, exist_ok=True)
    grey = is_grey(subject.pixels[patch.window])
    mask = write_mask(subject, patch, run_folder=run_folder)
    around = widened(patch, shape=(subject.pixels.shape[0], subject.pixels.shape[1]))
    mask_share = float(np.count_nonzero(patch.mask) / subject.pixels[..., 0].size)
    versions = []
    for step, (value, image) in enumerate(zip(values, images, strict=True), start=1):
        placed = to_patch(image, subject, patch)
        if grey:
            placed = without_colour(placed)
        made = (add_change if mode == "delta" else paste)(subject.pixels, patch, placed)
        content = file.encode(made.pixels)
        name = folder / f"step{step}{file.suffix}"
        (run_folder / name).write_bytes(content)
        row = {
            "attribute": attribute,
            "arm": arm,
            "photo": subject.photo,
            "step": step,
            "value": float(value),
            "status": "ok",
            "reason": None,
            "file": str(name),
            "sha256": sha256(content).hexdigest(),
            "mask": mask,
            "mask_share": mask_share,
            "background_kept": background_kept(subject.pixels, made.pixels, patch),
            "clipped_share": made.clipped_share,
            "seam": seam(subject.pixels[around.window], made.pixels[around.window], around.mask),
            "lightness": mean_lightness(made.pixels[patch.window], patch.mask),
        }
        versions.append(Version(row, warp_to_template(made.pixels, subject.to_crop, size=CROP)))
    return versions
