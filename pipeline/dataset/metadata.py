"""``metadata.csv`` of a dataset, which image-folder loaders read: one row an image, in each split's folder."""

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


PHOTO_NAME = "photo"  # published only where the options say so
ESTIMATED = "estimated_"
ESTIMATED_WORDS = "the unchanged face's own value of {name}, on the scale of *a*, as a network estimates it"
COLUMNS = {
    "file_name": Column("the image, relative to the split's folder"),
    "split": Column("all images of one photo are in the same"),
    "photo_sha256": Column("of the photo that the image was made from; its first 16 digits name the files"),
    "attribute": Column("what was changed"),
    "arm": Column("`edit`, or the placebo: a change as large that is not the attribute's"),
    "step": Column("1 to K along the sweep", "sc:Integer"),
    "value": Column("the value *a* that the face was given; see below", "sc:Float"),
    "perceived": Column(
        "an independent network's probability of the attribute's high end in this image", "sc:Float"
    ),
    "mask": Column("the photo's mask, relative to this folder: where it is 0, no pixel was changed"),
    "mask_share": Column("of the image's pixels that may have been changed", "sc:Float"),
    "mask_line": Column("share of the mask's outline at which a line shows that the photo does not have", "sc:Float"),
    "sha256": Column("of the image's file"),
    PHOTO_NAME: Column("the photo's file name"),
}  # fmt: skip


def columns_of(swept: Iterable[str], *, photo_names: bool, manifest: Iterable[str] = ()) -> dict[str, Column]:
    """The columns of a dataset's metadata.csv.

    Args:
        swept: the attributes of the sweeps.
        photo_names: whether the photos' file names are published.
        manifest: names of the manifest's columns that are published.
    """
    own = {name: column for name, column in COLUMNS.items() if name != PHOTO_NAME or photo_names}
    own |= {f"{ESTIMATED}{name}": Column(ESTIMATED_WORDS.format(name=name), "sc:Float") for name in swept}
    return own | {name: Column("of the photo, from its publisher's manifest") for name in manifest}


def check_manifest_columns(photos: "pd.DataFrame", names: Sequence[str]) -> None:
    """Refuse manifest columns that are not there, or whose name is that of another column of metadata.csv.

    Raises:
        ConfigError: the message names the column and those that there are.
    """
    known = [name for name in photos.columns if name not in PHOTOS]
    for name in names:
        if name not in known:
            raise ConfigError(f"the manifest has no column {name!r} to publish; it has {', '.join(known) or 'none'}")
        if name in COLUMNS or name.startswith(ESTIMATED):
            raise ConfigError(f"metadata.csv has a column {name!r} of its own: rename the manifest's")


def write_dataset_metadata(frames: "Iterable[pd.DataFrame]", folder: Path, columns: Sequence[str]) -> Counter[str]:
    """Write one file into each split's folder.

    Returns:
        How many rows each split has.
    """
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
