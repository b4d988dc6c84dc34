"""``opt_out.txt`` of a dataset: the sha256 of the photos that were left out at somebody's wish, never a name.

So whoever holds an older edition can delete what was withdrawn, and the list can be given to the next edition.
"""

from collections.abc import Iterable

OPT_OUT = "opt_out.txt"
_HEAD = (
    "# Photos that are never processed, by the sha256 of their files. Images made from them have names that begin",
    "# with the first 16 digits: delete the copies you hold.",
)


def opt_out_text(hashes: Iterable[str]) -> str:
    """The file; ``pipeline.photos.listing`` reads it again."""
    return "\n".join([*_HEAD, *sorted(hashes)]) + "\n"
