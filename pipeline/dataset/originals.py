"""The source photos of a dataset, published next to their versions where the options say so."""

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pipeline.config.options import PhotoOptions
from pipeline.counterfactuals.files import ImageFile
from pipeline.dataset.layout import id_of
from pipeline.photos.decoding import PhotoError, read_photo
from pipeline.run.files import sha256_of, write_bytes

if TYPE_CHECKING:
    import pandas as pd

ORIGINAL = "original"  # in place of an attribute, and the name of the folder


def write_originals(
    first_versions: "pd.DataFrame", folder: Path, *, paths: dict[str, str], options: PhotoOptions, encoding: ImageFile
) -> None:
    """Write the photos that have versions as the versions were made from them: upright, of their size, no metadata.

    Args:
        first_versions: one row a photo of the dataset's rows.
        folder: the dataset's.
        paths: photo -> where its file lies.
        options: how a photo is read.
        encoding: how images are written.
    """
    for photo, file, sha256 in first_versions[["photo", "file", "photo_sha256"]].itertuples(index=False):
        path = folder / original_file(file, sha256)
        if path.exists():
            continue
        try:
            write_bytes(path, encoding.encode(read_photo(Path(paths[photo]), options=options).pixels))
        except PhotoError:  # gone since its versions were made: it is left out
            continue


def original_rows(first_versions: "pd.DataFrame", folder: Path) -> "pd.DataFrame":
    """The rows of metadata.csv of the originals that are there, from one row a photo of the dataset's versions."""
    pairs = zip(first_versions["file"], first_versions["photo_sha256"], strict=True)
    rows = first_versions.assign(file=[original_file(file, sha256) for file, sha256 in pairs])
    rows = rows[[(folder / file).is_file() for file in rows["file"]]]
    empty = dict.fromkeys(("step", "value", "perceived", "mask_share", "seam"), None)
    return rows.assign(
        attribute=ORIGINAL,
        arm=ORIGINAL,
        file_name=rows["file"].str.partition("/")[2],
        sha256=[sha256_of(folder / file) for file in rows["file"]],
        **empty,
    )


def original_file(version: str, sha256: str) -> str:
    """Where the original of a version's photo lies: ``SPLIT/original/ID-original.png``, sharded as the versions are."""
    split, _, *shard, name = PurePosixPath(version).parts
    return str(PurePosixPath(split, ORIGINAL, *shard, f"{id_of(sha256)}-{ORIGINAL}{PurePosixPath(name).suffix}"))
