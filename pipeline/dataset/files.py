"""Checksums and opt-out list of a dataset, and removal of withdrawn or stale files."""

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b

import numpy as np

from pipeline.dataset.layout import ID_DIGITS, MASKS, SPLITS
from pipeline.run.files import atomic_write
from pipeline.run.image_store import ImageStore

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


def withdraw(images: ImageStore, ids: Collection[str], *, described: Sequence[str]) -> None:
    """Remove the images and masks of photos and, before the first of them, the files that describe them.

    Args:
        images: the dataset's files.
        ids: IDs of the photos, see ``layout.id_of``.
        described: the names of descriptions and checksums.
    """

    def stays(file: str) -> bool:
        if file.rpartition("/")[2][:ID_DIGITS] not in ids:
            return True
        images.remove(described)
        return False

    images.prune(IMAGE_FOLDERS, keep=stays)


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
