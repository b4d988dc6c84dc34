"""``metadata.csv`` beside images: what makes a folder one that image-folder loaders read with its facts.

One row a version that was made; ``file_name``, relative to the file's own folder, is the column that they look for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.attributes import Attribute, attribute_of
from pipeline.counterfactuals.files import METADATA, metadata_file
from pipeline.run.tables import read_frames

if TYPE_CHECKING:
    import pandas as pd

NAME = METADATA
DATASET_COLUMNS = (
    "file_name",
    "split",
    "photo_sha256",
    "attribute",
    "arm",
    "step",
    "value",
    "perceived",  # the judge's probability of the attribute's high end
    "mask",  # the mask's file, relative to the dataset's folder
    "mask_share",
    "seam",
    "sha256",
)
PHOTO_NAME = "photo"  # a dataset tells it only if asked to


def dataset_frames(
    versions: Path, *, hashes: Mapping[str, str], swept: Mapping[str, Attribute]
) -> "Iterator[pd.DataFrame]":
    """The versions of a dataset that were made, some at a time: ``DATASET_COLUMNS``, ``file`` and ``photo``.

    Args:
        versions: the table; ``file`` is relative to the dataset's folder.
        hashes: photo -> sha256.
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
            photo_sha256=rows["photo"].map(hashes),
            perceived=pd.concat(perceived).round(4),
            mask_share=rows["mask_share"].round(6),
            seam=rows["seam"].round(4),
        )


def write_dataset_metadata(frames: "Iterable[pd.DataFrame]", folder: Path, columns: Sequence[str]) -> Counter[str]:
    """Write one file into each split's folder; returns how many rows each has."""
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
