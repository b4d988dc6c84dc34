"""``metadata.csv`` in each split's folder, one row per image, as image-folder loaders read it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.options import ConfigError
from pipeline.counterfactuals.files import metadata_file
from pipeline.run.tables import PHOTOS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column's meaning in ``words``, and its ``type`` in the Croissant format."""

    words: str
    type: str = "sc:Text"


PHOTO_NAME = "photo"  # published only on request
ESTIMATED = "estimated_"
ESTIMATED_WORDS = "value of {name} of the unedited face, estimated by a network, on the scale of *a*"
COLUMNS = {
    "file_name": Column("the image, relative to the split's folder"),
    "split": Column("the split, which is the same for all images of a photo"),
    "photo_sha256": Column("sha256 of the source photo; its first 16 digits name the files"),
    "attribute": Column("the edited attribute"),
    "arm": Column("`edit`, or the name of a placebo: a change of the same size without the attribute"),
    "step": Column("position in the sweep, 1 to K", "sc:Integer"),
    "value": Column("value *a* of the edit; see below", "sc:Float"),
    "perceived": Column("independent network's probability of the attribute's higher pole in this image", "sc:Float"),
    "mask": Column("the photo's mask, relative to this folder; pixels are unchanged where it is 0"),
    "mask_share": Column("share of the image's pixels that may have been changed", "sc:Float"),
    "mask_line": Column("share of the mask's outline with a visible line that the photo does not have", "sc:Float"),
    "sha256": Column("sha256 of the image's file"),
    PHOTO_NAME: Column("the photo's file name"),
}  # fmt: skip


def columns_of(swept: Iterable[str], *, photo_names: bool, manifest: Iterable[str] = ()) -> dict[str, Column]:
    """Return the columns of a dataset's metadata.csv.

    Args:
        swept: the attributes of the sweeps.
        photo_names: whether to publish the photos' file names.
        manifest: the manifest's columns to publish.
    """
    own = {name: column for name, column in COLUMNS.items() if name != PHOTO_NAME or photo_names}
    own |= {f"{ESTIMATED}{name}": Column(ESTIMATED_WORDS.format(name=name), "sc:Float") for name in swept}
    return own | {name: Column("from the manifest of the photos") for name in manifest}


def check_manifest_columns(photos: "pd.DataFrame", names: Sequence[str]) -> None:
    """Check the manifest columns to publish.

    Raises:
        ConfigError: a column does not exist, or metadata.csv has another column of that name.
    """
    known = [name for name in photos.columns if name not in PHOTOS]
    for name in names:
        if name not in known:
            raise ConfigError(f"the manifest has no column {name!r} to publish; it has {', '.join(known) or 'none'}")
        if name in COLUMNS or name.startswith(ESTIMATED):
            raise ConfigError(f"metadata.csv already has a column {name!r}: rename the manifest's")


def write_dataset_metadata(frames: "Iterable[pd.DataFrame]", folder: Path, columns: Sequence[str]) -> Counter[str]:
    """Write a file into each split's folder; return split -> number of rows."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        files: dict[str, Callable[[pd.DataFrame], None]] = {}
        for frame in frames:
            for name, rows in frame.groupby("split", sort=True):
                split = str(name)
                if split not in files:
                    files[split] = stack.enter_context(metadata_file(folder / split, columns))
                files[split](rows)
                counts[split] += len(rows)
    return counts
