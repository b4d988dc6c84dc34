"""Where a dataset's files lie, ``SPLIT/ATTRIBUTE-stepK/ID-ATTRIBUTE-stepK.png`` and ``masks/ID.png``, and which split a
photo belongs to. ID is the beginning of the photo's sha256, so that no file name holds a person's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256 as hashed
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pipeline.config.attributes import AT
from pipeline.config.dataset_options import Split
from pipeline.counterfactuals.files import kind_of
from pipeline.dataset.provenance import Provenance, stamped

if TYPE_CHECKING:
    import pandas as pd

MASKS = "masks"
SPLITS = ("train", "validation", "test")
MOST_FILES = 10_000
ID_DIGITS = 16
_USUAL_FILES = 5_000  # a folder's expected load, half of the most: digits of a hash are never quite even


@dataclass(frozen=True)
class DatasetLayout:
    """The layout of some photos of a dataset.

    A split's folder is what image-folder loaders open; the folders in it are torchvision's classes. No folder holds
    more than ``MOST_FILES`` files: above that many photos, each is divided by the first digits of ID.

    Attributes:
        hashes: photo -> sha256.
        splits: photo -> split.
        digits: how many digits of ID name a shard.
        steps: attribute -> K.
        weights: the sha256 of the network that makes the versions.
    """

    hashes: Mapping[str, str]
    splits: Mapping[str, str]
    digits: int
    steps: Mapping[str, int]
    weights: str

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """See ``pipeline.counterfactuals.files.Layout``."""
        width = len(str(self.steps[attribute.partition(AT)[0]]))  # so that loaders sort the classes by step
        kind = f"{kind_of(attribute, arm)}-step{step:0{width}}"
        return self._sharded(PurePosixPath(self.splits[photo], kind), photo, f"-{kind}{suffix}")

    def mask(self, photo: str, *, attribute: str = "") -> PurePosixPath:
        """See ``pipeline.counterfactuals.files.Layout``."""
        return self._sharded(PurePosixPath(MASKS), photo, f"{attribute and f'-{attribute}'}.png")

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """The version with its provenance."""
        provenance = Provenance(self.hashes[photo], self.weights, attribute=attribute, arm=arm, value=value)
        return stamped(content, provenance.packet())

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


def split_of(key: str, *, shares: Mapping[Split, float], seed: int) -> str:
    """The split of a photo, by its own content alone: other photos that come or go move none.

    Args:
        key: names the photo, or all photos that belong together.
        shares: split -> share, adding up to 1.
        seed: other seeds split otherwise.
    """
    place = int(hashed(f"{seed}\0{key}".encode("utf-8", "surrogateescape")).hexdigest()[:16], 16) / 16**16
    edge = 0.0
    for split, share in shares.items():
        edge += share
        if place < edge:
            return split
    # The shares add up to a hair less than 1.
    return [split for split, share in shares.items() if share > 0][-1]


def keys_of(photos: "pd.DataFrame", *, cluster: str | None) -> dict[str, str]:
    """Photo -> what it is split by: its sha256, or its value of a manifest's column where it has one.

    Raises:
        ConfigError: there is no such column.
    """
    own = {str(row.photo): f"photo\0{row.sha256}" for row in photos[["photo", "sha256"]].itertuples(index=False)}
    if cluster is None:
        return own
    from pipeline.analyses.inputs import check_column

    check_column(photos, cluster, purpose="split")
    known = photos[photos[cluster].notna()]
    return own | {str(photo): f"cluster\0{value}" for photo, value in zip(known["photo"], known[cluster], strict=True)}
