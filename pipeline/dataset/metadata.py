"""``metadata.csv`` of a dataset, which image-folder loaders read: one row an image, in each split's folder."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.attributes import Attribute, attribute_of
from pipeline.config.options import ConfigError
from pipeline.counterfactuals.files import metadata_file
from pipeline.run.tables import PHOTOS, read_frames

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
    "seam": Column("gradient energy on the mask's edge over the photo's; 1: no seam", "sc:Float"),
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


def photo_facts(
    photos: "pd.DataFrame", faces: "pd.DataFrame", *, swept: Mapping[str, Attribute], manifest: Sequence[str]
) -> "pd.DataFrame":
    """What metadata.csv says of each photo in all its rows: sha256, estimated values, the manifest's columns.

    Args:
        photos: the photos table.
        faces: the faces table.
        swept: the attributes of the sweeps by their names.
        manifest: names of the manifest's columns that are published.
    """
    estimated = {f"{ESTIMATED}{name}": attribute.own_value(faces).round(4) for name, attribute in swept.items()}
    known = photos[["photo", *manifest]].assign(photo_sha256=photos["sha256"])
    return known.merge(faces[["photo"]].assign(**estimated), on="photo")


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


def dataset_frames(
    versions: Path, facts: "pd.DataFrame", *, swept: Mapping[str, Attribute]
) -> "Iterator[pd.DataFrame]":
    """The versions of a dataset that were made, some at a time: the columns of metadata.csv and ``file``.

    Args:
        versions: the counterfactuals table; ``file`` is relative to the dataset's folder.
        facts: as ``photo_facts`` gives them.
        swept: the attributes of the sweeps by their names.
    """
    import pandas as pd

    for frame in read_frames(versions):
        rows = frame[frame["status"] == "ok"]
        if rows.empty:
            continue
        perceived = [attribute_of(str(name), swept).perceived(of) for name, of in rows.groupby("attribute")]
        places = rows["file"].str.partition("/")
        yield rows.assign(
            split=places[0],
            file_name=places[2],
            perceived=pd.concat(perceived).round(4),
            mask_share=rows["mask_share"].round(6),
            seam=rows["seam"].round(4),
        ).merge(facts, on="photo", how="left")


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
