"""Checksums and opt-out list of a dataset, and removal of withdrawn or stale files."""

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b

import numpy as np

from pipeline.counterfactuals.files import METADATA
from pipeline.dataset.layout import ID_DIGITS, MASKS, SPLITS
from pipeline.run.files import atomic_write
from pipeline.run.folder import Run
from pipeline.run.image_store import ImageStore
from pipeline.run.tables import read_frame, read_frames

CHECKSUMS = "SHA256SUMS"
IMAGE_FOLDERS = (*SPLITS, MASKS)
OPT_OUT = "opt_out.txt"
_OPT_OUT_HEAD = (
    "# Photos that are never processed, by the sha256 of their files. Images made from them have names that begin",
    "# with the first 16 digits: delete the copies you hold.",
)


def opt_out_text(hashes: Iterable[str]) -> str:
    """Return the text of ``opt_out.txt``: the sha256 of opted-out photos, without names.

    Holders of an older edition can delete these photos, and ``photos.listing`` reads the list for the next edition.
    """
    return "\n".join([*_OPT_OUT_HEAD, *sorted(hashes)]) + "\n"


def write_checksums(images: ImageStore, sums: Iterable[tuple[str, str]]) -> None:
    """Write ``SHA256SUMS`` for ``sha256sum -c``.

    Args:
        images: the dataset's files.
        sums: names of files (without line breaks and backslashes) and their sha256, in the order to write.
    """
    with (
        images.writing(CHECKSUMS) as writing,
        atomic_write(writing.folder / CHECKSUMS) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{sha256}  {name}\n" for name, sha256 in sums)


def withdraw(run: Run, images: ImageStore, ids: Collection[str], *, described: Sequence[str]) -> None:
    """Remove the images and masks of photos, or their shards, and before the first of them the descriptions.

    Files that no table lists, because their making was interrupted, are removed, too.

    Args:
        run: the dataset's run; its parts that list one of the photos are removed.
        images: the dataset's files.
        ids: IDs of the photos, see ``layout.id_of``.
        described: the names of descriptions and checksums.
    """
    kept = _kept(run, ids)

    def stays(file: str) -> bool:
        name = file.rpartition("/")[2]
        if name == METADATA or name[:ID_DIGITS] in kept:
            return True
        images.remove(described)
        return False

    images.prune(IMAGE_FOLDERS, keep=stays)


def _kept(run: Run, ids: Collection[str]) -> set[str]:
    """Return the IDs of a dataset's other photos, or the keys of the shards without photos of ``ids``."""
    parts = {path.stem: path for path in run.path("parts/counterfactuals").glob("*.parquet")}
    tables = [path for path in (*parts.values(), run.path("counterfactuals.parquet")) if path.exists()]
    listed, gone = set[str](), set[str]()
    if tables:
        photos = read_frame(run.path("photos.parquet"), columns=["photo", "sha256"])
        withdrawn = photos.loc[photos["sha256"].str[:ID_DIGITS].isin(ids), "photo"]
    for rows in (rows for table in tables for rows in read_frames(table, columns=["photo", "file"])):
        names = rows["file"].str.rpartition("/")[2].str[:ID_DIGITS]
        listed |= {*names.dropna()}
        gone |= {*names[rows["photo"].isin(withdrawn)].dropna()}
    for key in gone & parts.keys():
        parts[key].unlink()
    return listed - gone


def one_of(names: Iterable[Iterable[str]]) -> Callable[[str], bool]:
    """Return a test for membership in many names, given in batches, of which only 8-byte hashes are stored."""
    parts = [np.fromiter((_number(name) for name in batch), dtype=np.uint64) for batch in names]
    known = np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.uint64)

    def is_known(name: str) -> bool:
        place = int(np.searchsorted(known, np.uint64(_number(name))))
        return place < len(known) and int(known[place]) == _number(name)

    return is_known


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
