"""Maps of the mean change of lightness, which show patterns that all edits of an attribute share."""

import base64
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

REACH = 15.0  # ΔL* at which the colour is saturated
DARKER, EVEN, LIGHTER, UNKNOWN = (33, 102, 172), (247, 247, 247), (230, 97, 1), (190, 190, 190)
SIDES = {"map: low": "−1", "map: high": "+1"}


@dataclass(frozen=True)
class ChangeMap:
    """A map: its data URL, its description, and the change at which the colour is saturated."""

    address: str
    words: str
    reach: str


def change_maps(checks: pd.DataFrame) -> dict[str, list[ChangeMap]]:
    """Return the maps of each attribute at a = -1 and +1 from the table of checks, if both exist."""
    found: dict[str, list[ChangeMap]] = {}
    for attribute, rows in checks.groupby("attribute"):
        by_name = rows.set_index("measure")["map"]
        if set(SIDES) <= set(by_name.index):
            fields = {side: np.asarray(by_name[name], dtype=float) for name, side in SIDES.items()}
            found[str(attribute)] = [_drawn(field, side) for side, field in fields.items()]
    return found


def _drawn(field: NDArray[np.float64], side: str) -> ChangeMap:
    square = field.reshape(int(np.sqrt(len(field))), -1)
    known = square[np.isfinite(square)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    content = BytesIO()
    Image.fromarray(coloured(square)).save(content, "PNG", optimize=True)
    address = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    return ChangeMap(address, f"Mean change of L* at a = {side}: from {low:+.1f} to {high:+.1f}", f"{REACH:g}")


def coloured(field: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return a field of ΔL* as RGB ``(H, W, 3)``: blue darker, orange lighter, grey unknown."""
    share = np.clip(np.nan_to_num(np.abs(field)) / REACH, 0, 1)[..., None]
    ends = np.where(np.nan_to_num(field)[..., None] < 0, DARKER, LIGHTER)
    colours = (1 - share) * np.array(EVEN) + share * ends
    return np.rint(np.where(np.isnan(field)[..., None], UNKNOWN, colours)).astype(np.uint8)
