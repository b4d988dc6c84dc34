"""Which split a photo belongs to, by its own content alone: all steps of one face stay together, and adding or removing
other photos moves none."""

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from pipeline.config.options import Split

if TYPE_CHECKING:
    import pandas as pd


def split_of(key: str, *, shares: Mapping[Split, float], seed: int) -> str:
    """The split of what ``key`` names.

    Args:
        key: of a photo, or of all photos that belong together.
        shares: split -> share, adding up to 1.
        seed: other seeds split otherwise.
    """
    place = int(sha256(f"{seed}\0{key}".encode("utf-8", "surrogateescape")).hexdigest()[:16], 16) / 16**16
    edge = 0.0
    for split, share in shares.items():
        edge += share
        if place < edge:
            return split
    # The shares add up to a hair less than 1.
    return [split for split, share in shares.items() if share > 0][-1]


def keys_of(photos: "pd.DataFrame", *, cluster: str | None) -> dict[str, str]:
    """Photo -> what it is split by: its sha256, or its value of a manifest's column where it has one.

    Raises:
        ConfigError: there is no such column.
    """
    own = {str(row.photo): f"photo\0{row.sha256}" for row in photos[["photo", "sha256"]].itertuples(index=False)}
    if cluster is None:
        return own
    from pipeline.analyses.groups import check_column

    check_column(photos, cluster, purpose="split")
    known = photos[photos[cluster].notna()]
    return own | {str(photo): f"cluster\0{value}" for photo, value in zip(known["photo"], known[cluster], strict=True)}
