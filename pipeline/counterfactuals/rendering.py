"""Writing a face's versions: composite each value, encode it, hand back its table row and what the checks need."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from models.alignment import warp_to_template
from models.image_metrics import seam
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
from pipeline.counterfactuals.files import Layout
from pipeline.counterfactuals.sweep import CROP, Subject, to_patch


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


def write_mask(subject: Subject, patch: Patch, *, layout: Layout) -> str:
    """Write the photo's mask as an 8-bit PNG of the photo's size, so that others can check what may change.

    Levels are rounded up: 0 means that the pixel may not change at all. Returns the file, relative to the layout's
    folder.
    """
    name = layout.mask(subject.photo)
    whole = np.zeros(subject.pixels.shape[:2], dtype=np.uint8)
    whole[patch.window] = np.ceil(patch.mask * 255).astype(np.uint8)
    _write(layout.folder / name, cv2.imencode(".png", whole)[1].tobytes())
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
    layout: Layout,
) -> list[Version]:
    """Composite, encode and write the K versions of one photo.

    Args:
        images: ``(K, 128, 128, 3)`` float32 pixel levels: changes for `delta`, decoded faces for `reconstruction`.
        layout: where the files go.
    """
    grey = is_grey(subject.pixels[patch.window])
    mask = write_mask(subject, patch, layout=layout)
    around = widened(patch, shape=(subject.pixels.shape[0], subject.pixels.shape[1]))
    mask_share = float(np.count_nonzero(patch.mask) / subject.pixels[..., 0].size)
    versions = []
    for step, (value, image) in enumerate(zip(values, images, strict=True), start=1):
        placed = to_patch(image, subject, patch)
        if grey:
            placed = without_colour(placed)
        made = (add_change if mode == "delta" else paste)(subject.pixels, patch, placed)
        content = layout.finished(
            file.encode(made.pixels), subject.photo, attribute=attribute, arm=arm, value=float(value)
        )
        name = layout.image(subject.photo, attribute=attribute, arm=arm, step=step, suffix=file.suffix)
        _write(layout.folder / name, content)
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


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except FileNotFoundError:  # the first of its folder
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
