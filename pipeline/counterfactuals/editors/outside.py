"""External editors: images from ``sources`` are cached in the run's folder and composited by the mask."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from models.alignment import aligned_crop
from models.parser import BiSeNet, SmallParser
from models.precision import unit_batch
from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.counterfactuals.editors.base import CROP, Patch, PhotoEdit, PhotoVersions, Subject
from pipeline.counterfactuals.editors.sources import EditError, Pixels, Request, Source, decoded, encoded
from pipeline.counterfactuals.mask import paste, patches_of
from pipeline.run.files import digest, write_bytes

SHAPE_TOLERANCE = 0.02  # relative difference of side ratios up to which an image is scaled to the photo


@dataclass(frozen=True)
class OutsideEditor:
    """Adapts an external source of images to the interface of editors.

    Attributes:
        source: source of the images.
        parser: finds the region that may change.
        region: face classes that may change.
        feather_share: width of the soft edge, in crop sides.
        folder: cache of images, so that none is requested twice; None disables it.
    """

    source: Source
    parser: SmallParser | BiSeNet
    region: tuple[str, ...]
    feather_share: float
    folder: Path | None

    def read(self, subjects: Sequence[Subject], near: NDArray[np.float32] | None = None) -> "OutsideFaces":
        """See ``Editor.read``."""
        crops = unit_batch([aligned_crop(subject.pixels, subject.landmarks, size=CROP) for subject in subjects])
        patches = patches_of(self.parser, subjects, region=self.region, feather_share=self.feather_share)
        return OutsideFaces(self, tuple(subjects), tuple(patches), crops)


@dataclass(frozen=True)
class OutsideFaces:
    """``B`` faces and where they may change; see ``FaceBatch``. Nothing is decoded, so the null edit is the photo."""

    editor: OutsideEditor
    subjects: tuple[Subject, ...]
    patches: tuple[Patch | None, ...]
    crops: Tensor = field(repr=False)

    @property
    def null(self) -> Tensor:
        """See ``FaceBatch``."""
        return self.crops

    def null_of(self, crops: Tensor) -> Tensor:
        """See ``FaceBatch``."""
        return crops

    def edit(self, attribute: Attribute, values: tuple[float, ...]) -> PhotoEdit:
        """See ``FaceBatch``.

        ``make`` raises an ``EditError`` if the source returns no image.
        """

        def make(place: int) -> PhotoVersions | None:
            subject, patch = self.subjects[place], self.patches[place]
            if patch is None:
                return None
            images = (self._image(subject, patch, attribute, value) for value in values)
            versions = tuple(paste(subject.pixels, patch, each[patch.window].astype(np.float32)) for each in images)
            return PhotoVersions(subject.pixels, float(attribute.own_value(subject.own)), patch, versions)

        return PhotoEdit(attribute.name, EDIT_ARM, values, make)

    def _image(self, subject: Subject, patch: Patch, attribute: Attribute, value: float) -> Pixels:
        """Return a version of the photo's size, from the cache if possible."""
        height, width = subject.pixels.shape[:2]
        mask = np.zeros((height, width), dtype=np.uint8)
        mask[patch.window] = np.ceil(patch.mask * 255).astype(np.uint8)
        request = Request(subject, attribute, float(value), mask)
        kept = self._file(request)
        if kept is not None and kept.is_file():
            return decoded(kept.read_bytes())
        found = self.editor.source.image(request)
        if abs(found.shape[1] * height / (found.shape[0] * width) - 1) > SHAPE_TOLERANCE:
            raise EditError(f"the version has {found.shape[1]} x {found.shape[0]} pixels, the photo {width} x {height}")
        if found.shape[:2] != (height, width):
            found = np.asarray(cv2.resize(found, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
        if kept is not None:
            write_bytes(kept, encoded(found))
        return found

    def _file(self, request: Request) -> Path | None:
        if self.editor.folder is None:
            return None
        attribute, pixels = request.attribute, request.subject.pixels
        made_from = [self.editor.source.fingerprint, _digest_of(pixels), _digest_of(request.mask)]
        key = digest([*made_from, attribute.name, list(attribute.poles), round(request.value, 6)])
        return self.editor.folder / f"{key}.png"


def _digest_of(pixels: NDArray[np.uint8]) -> str:
    return sha256(pixels.tobytes()).hexdigest()
