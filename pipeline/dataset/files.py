"""The files of a dataset's folder next to its images: checksums, the opt-out list, and what no longer belongs to it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b

import numpy as np

from pipeline.dataset.layout import ID_DIGITS, MASKS, SPLITS
from pipeline.run.files import atomic_write
from pipeline.run.storage import ImageStore

CHECKSUMS = "SHA256SUMS"
IMAGE_FOLDERS = (*SPLITS, MASKS)
OPT_OUT = "opt_out.txt"
_OPT_OUT_HEAD = (
    "# Photos that are never processed, by the sha256 of their files. Images made from them have names that begin",
    "# with the first 16 digits: delete the copies you hold.",
)


def opt_out_text(hashes: Iterable[str]) -> str:
    """``opt_out.txt``: the sha256 of the photos that were left out at somebody's wish, never a name.

    Whoever holds an older edition can delete what was withdrawn; ``photos.listing`` reads the list for the next one.
    """
    return "\n".join([*_OPT_OUT_HEAD, *sorted(hashes)]) + "\n"


def write_checksums(images: ImageStore, sums: Iterable[tuple[str, str]]) -> None:
    """Write ``SHA256SUMS`` as ``sha256sum -c`` reads it.

    Args:
        images: the dataset's files.
        sums: file (relative to the folder; no line break or backslash in it) and sha256, in the order they are listed.
    """
    with (
        images.writing(CHECKSUMS) as writing,
        atomic_write(writing.folder / CHECKSUMS) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{sha256}  {name}\n" for name, sha256 in sums)


def withdraw(images: ImageStore, ids: Collection[str], *, described: Sequence[str]) -> None:
    """Remove the images and masks of photos, and with the first of them the files that describe them.

    Args:
        images: the dataset's files.
        ids: of the photos, see ``layout.id_of``.
        described: the descriptions and checksums, relative to the folder.
    """

    def stays(file: str) -> bool:
        if file.rpartition("/")[2][:ID_DIGITS] not in ids:
            return True
        images.remove(described)
        return False

    images.prune(IMAGE_FOLDERS, keep=stays)


def one_of(names: Iterable[Iterable[str]]) -> Callable[[str], bool]:
    """Whether a name is one of many, given some at a time; eight bytes of each are held, not the name."""
    parts = [np.fromiter((_number(name) for name in some), dtype=np.uint64) for some in names]
    known = np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.uint64)

    def is_known(name: str) -> bool:
        place = int(np.searchsorted(known, np.uint64(_number(name))))
        return place < len(known) and int(known[place]) == _number(name)

    return is_known


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
