"""Where a dataset's files lie: ``SPLIT/ATTRIBUTE-stepK/ID-ATTRIBUTE-stepK.png`` and ``masks/ID.png``.

The split's folder is what image-folder loaders open, the folders in it are torchvision's classes. ID is the beginning
of the photo's sha256, so no file name tells a person's. No folder holds more than 10,000 files: above that many photos
each is divided by the first digits of ID.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipeline.counterfactuals.files import kind_of
from pipeline.dataset.provenance import Provenance, stamped

MASKS = "masks"
MOST_FILES = 10_000
ID_DIGITS = 16
_USUAL_FILES = 5_000  # a folder's expected load, half of the most: digits of a hash are never quite even


@dataclass(frozen=True)
class DatasetLayout:
    """Of some photos of a dataset.

    ``hashes``: photo -> sha256; ``splits``: photo -> split; ``digits``: of ID that name a shard; ``steps``: attribute
    -> K; ``weights``: the sha256 of what makes the versions.
    """

    folder: Path
    hashes: Mapping[str, str]
    splits: Mapping[str, str]
    digits: int
    steps: Mapping[str, int]
    weights: str

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """See ``pipeline.counterfactuals.files.Layout``."""
        width = len(str(self.steps[attribute]))  # so that loaders sort the classes by step
        kind = f"{kind_of(attribute, arm)}-step{step:0{width}}"
        return self._sharded(PurePosixPath(self.splits[photo], kind), photo, f"-{kind}{suffix}")

    def mask(self, photo: str) -> PurePosixPath:
        """See ``pipeline.counterfactuals.files.Layout``."""
        return self._sharded(PurePosixPath(MASKS), photo, ".png")

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """The version with its provenance."""
        told = Provenance(self.hashes[photo], self.weights, attribute=attribute, arm=arm, value=value)
        return stamped(content, told.packet())

    def _sharded(self, folder: PurePosixPath, photo: str, ending: str) -> PurePosixPath:
        name = id_of(self.hashes[photo])
        return folder / name[: self.digits] / f"{name}{ending}"


def id_of(sha256: str) -> str:
    """What a photo is called in a dataset: the first 16 hex digits of its sha256."""
    return sha256[:ID_DIGITS]


def shard_digits(photos: int) -> int:
    """How many hex digits of ID name a shard, so that no folder holds more than ``MOST_FILES`` files of ``photos``."""
    if photos <= MOST_FILES:
        return 0
    digits = 1
    while photos / 16**digits > _USUAL_FILES:
        digits += 1
    return digits
