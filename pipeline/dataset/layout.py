"""Layout of a dataset, ``SPLIT/ATTRIBUTE-stepK/ID-ATTRIBUTE-stepK.png`` and ``masks/ID.png``, and its splits.

ID is the beginning of the photo's sha256, so that file names contain no names of people. In shards, images are
``ID.ATTRIBUTE-stepK.png`` in ``SPLIT/KEY.tar`` with ``ID.mask.png``, or in ``SPLIT/KEY.parquet`` with masks in
``masks/KEY.parquet``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256 as hashed
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pipeline.config.attributes import AT
from pipeline.config.dataset_options import Split
from pipeline.counterfactuals.files import kind_of
from pipeline.dataset.provenance import Provenance, stamped
from pipeline.run.image_store import Shards

if TYPE_CHECKING:
    import pandas as pd

MASKS = "masks"
SPLITS = ("train", "validation", "test")
MOST_FILES = 10_000
ID_DIGITS = 16
_USUAL_FILES = 5_000  # expected number of files in a folder, half of the most, because hashes spread unevenly


@dataclass(frozen=True)
class DatasetLayout:
    """The layout of some photos of a dataset.

    Image-folder loaders open a split's folder, whose subfolders are torchvision's classes. Folders with more than
    ``MOST_FILES`` photos are divided by the first digits of ID.

    Attributes:
        hashes: photo -> sha256.
        splits: photo -> split.
        digits: number of digits of ID that name a subfolder.
        steps: attribute -> K.
        editor: the editor, as in the option of that name.
        weights: the sha256 of its weights; None for external editors.
        shards: the kind of shards that the files are packed into, if any.
    """

    hashes: Mapping[str, str]
    splits: Mapping[str, str]
    digits: int
    steps: Mapping[str, int]
    editor: str
    weights: str | None
    shards: Shards | None = None

    def image(self, photo: str, *, attribute: str, arm: str, step: int, suffix: str) -> PurePosixPath:
        """See ``pipeline.counterfactuals.files.Layout``."""
        width = len(str(self.steps[attribute.partition(AT)[0]]))  # so that loaders sort the classes by step
        kind = f"{kind_of(attribute, arm)}-step{step:0{width}}"
        if self.shards:
            return PurePosixPath(self.splits[photo], f"{id_of(self.hashes[photo])}.{kind}{suffix}")
        return self._divided(PurePosixPath(self.splits[photo], kind), photo, f"-{kind}{suffix}")

    def mask(self, photo: str, *, attribute: str = "") -> PurePosixPath:
        """See ``pipeline.counterfactuals.files.Layout``."""
        of = attribute and f"-{attribute}"
        if self.shards:
            # A sample of a WebDataset includes the mask; in Parquet, rows of masks would be loaded as images.
            folder = self.splits[photo] if self.shards == "tar" else MASKS
            return PurePosixPath(folder, f"{id_of(self.hashes[photo])}.mask{of}.png")
        return self._divided(PurePosixPath(MASKS), photo, f"{of}.png")

    def finished(self, content: bytes, photo: str, *, attribute: str, arm: str, value: float) -> bytes:
        """Return the version with its provenance."""
        source = self.hashes[photo], self.editor, self.weights
        return stamped(content, Provenance(*source, attribute=attribute, arm=arm, value=value).packet())

    def _divided(self, folder: PurePosixPath, photo: str, ending: str) -> PurePosixPath:
        name = id_of(self.hashes[photo])
        return folder / name[: self.digits] / f"{name}{ending}"


def id_of(sha256: str) -> str:
    """Return the ID of a photo in a dataset: the first 16 hex digits of its sha256."""
    return sha256[:ID_DIGITS]


def shard_digits(photos: int) -> int:
    """Return the number of digits of ID that name a subfolder, so that none holds more than ``MOST_FILES`` files."""
    return 0 if photos <= MOST_FILES else next(n for n in count(1) if photos / 16**n <= _USUAL_FILES)


def split_of(key: str, *, shares: Mapping[Split, float], seed: int) -> str:
    """Return the split of a photo, which does not depend on other photos.

    Args:
        key: identifies the photo or its cluster.
        shares: split -> share, with sum 1.
        seed: the random seed.
    """
    place = int(hashed(f"{seed}\0{key}".encode("utf-8", "surrogateescape")).hexdigest()[:16], 16) / 16**16
    edge = 0.0
    for split, share in shares.items():
        edge += share
        if place < edge:
            return split
    # The sum of the shares may be slightly below 1.
    return [split for split, share in shares.items() if share > 0][-1]


def keys_of(photos: "pd.DataFrame", *, cluster: str | None) -> dict[str, str]:
    """Return photo -> the key of its split: its value in the column ``cluster``, or its sha256.

    Raises:
        ConfigError: the column does not exist.
    """
    own = {str(row.photo): f"photo\0{row.sha256}" for row in photos[["photo", "sha256"]].itertuples(index=False)}
    if cluster is None:
        return own
    from pipeline.analyses.inputs import check_column

    check_column(photos, cluster, purpose="split")
    known = photos[photos[cluster].notna()]
    return own | {str(photo): f"cluster\0{value}" for photo, value in zip(known["photo"], known[cluster], strict=True)}
