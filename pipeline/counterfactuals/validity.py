"""The validity card: whether the versions of a run changed what they should, and nothing else.

Pure functions over the counterfactuals table. Every check carries its figure, its threshold and a sentence; what could
not be measured is "not measured", never a pass.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from pipeline.records import EDIT_ARM

EFFECT_GOAL = 0.25
MONOTONE_GOAL = 0.70
CONTROL_GOAL = 0.05
LIGHTNESS_GOAL = 5.0
CLIPPED_GOAL = 0.02
SMALLEST_GROUP = 10


@dataclass(frozen=True)
class Check:
    """One line of the card; ``passed`` is None where nothing was measured or no threshold applies."""

    name: str
    attribute: str
    figure: float
    unit: str
    threshold: float
    passed: bool | None
    words: str


def validity_card(versions: pd.DataFrame, *, race_pair: tuple[str, str], groups: Mapping[str, str]) -> pd.DataFrame:
    """The card of a run, one row a check.

    Args:
        versions: the counterfactuals table.
        race_pair: the races at -1 and +1.
        groups: photo -> its source group, such as "feminine, Black"; changes of lightness are compared between them.
    """
    edits = versions[(versions["arm"] == EDIT_ARM) & (versions["status"] == "ok")]
    checks: list[Check] = []
    for attribute, rows in edits.groupby("attribute", sort=True):
        name = str(attribute)
        target = perceived_target(rows, name, race_pair=race_pair)
        checks.append(_background(name, rows))
        checks += _effect(name, _wide(rows.assign(target=target), "target"))
        checks += _controls(name, rows)
        checks += _lightness(name, rows, groups)
        checks.append(_clipping(name, rows))
    return pd.DataFrame([asdict(check) for check in checks], columns=list(Check.__dataclass_fields__))


def perceived_target(rows: pd.DataFrame, attribute: str, *, race_pair: tuple[str, str]) -> pd.Series:
    """The judge's probability of the attribute's high end: masculine, or the second race given one of the pair."""
    if attribute == "gender":
        return rows["judge_masculine"]
    low, high = (rows[f"judge_race_{race}"] for race in race_pair)
    return high / (low + high)


def effectiveness_curve(versions: pd.DataFrame, *, race_pair: tuple[str, str]) -> pd.DataFrame:
    """The judge's mean probability along a, with its 10 % and 90 % quantiles over photos.

    Returns:
        Columns attribute, value, mean, low, high.
    """
    edits = versions[(versions["arm"] == EDIT_ARM) & (versions["status"] == "ok")]
    parts = []
    for attribute, rows in edits.groupby("attribute", sort=True):
        wide = _wide(rows.assign(target=perceived_target(rows, str(attribute), race_pair=race_pair)), "target")
        parts.append(
            pd.DataFrame(
                {
                    "attribute": attribute,
                    "value": wide.columns.to_numpy(dtype=float),
                    "mean": wide.mean().to_numpy(),
                    "low": wide.quantile(0.1).to_numpy(),
                    "high": wide.quantile(0.9).to_numpy(),
                }
            )
        )
    columns = ["attribute", "value", "mean", "low", "high"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _wide(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """One row a photo, one column a value; photos with every step only."""
    return rows.pivot(index="photo", columns="value", values=column).dropna()


def at(wide: pd.DataFrame, value: float) -> NDArray[np.float64]:
    """Each photo's figure at ``value``, interpolated between the steps beside it; NaN beyond the sweep's ends."""
    values = wide.columns.to_numpy(dtype=float)
    figures = [np.interp(value, values, row, left=np.nan, right=np.nan) for row in wide.to_numpy(dtype=float)]
    return np.array(figures, dtype=np.float64)


def spearman_per_row(values: NDArray[np.float64], figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's correlation of each row of ``figures`` ``(n, K)`` with ``values`` ``(K,)``; 0 for a constant row."""
    order = rankdata(values) - (len(values) + 1) / 2
    ranks = rankdata(figures, axis=1) - (len(values) + 1) / 2
    spread = np.sqrt((ranks**2).sum(axis=1) * (order**2).sum())
    correlations: NDArray[np.float64] = np.divide(ranks @ order, spread, out=np.zeros(len(ranks)), where=spread > 0)
    return correlations


def _judged(figure: float, passed: bool) -> bool | None:
    """``passed``, but None where there is no figure."""
    return None if np.isnan(figure) else passed


def _rise(wide: pd.DataFrame) -> float:
    """Mean change from a = -1 to +1; NaN where no photo's sweep spans them."""
    return float((at(wide, 1.0) - at(wide, -1.0)).mean()) if len(wide) else float("nan")


def _background(attribute: str, rows: pd.DataFrame) -> Check:
    kept = float(rows["background_kept"].min())
    words = "Pixels outside the mask that equal the photo's, in the version where the fewest do (before encoding)."
    return Check("background", attribute, kept, "share", 1.0, _judged(kept, kept >= 1.0), words)


def _effect(attribute: str, wide: pd.DataFrame) -> list[Check]:
    what = "perceived masculinity" if attribute == "gender" else "the second race of the pair being perceived"
    if wide.empty:
        nan, words = float("nan"), "No complete sweep."
        return [
            Check("effect", attribute, nan, "probability", EFFECT_GOAL, None, words),
            Check("monotone", attribute, nan, "share", MONOTONE_GOAL, None, words),
        ]
    rise = _rise(wide)
    whole = float((wide.iloc[:, -1] - wide.iloc[:, 0]).mean())
    steps = wide.columns.to_numpy(dtype=float)
    monotone = float((spearman_per_row(steps, wide.to_numpy(dtype=float)) >= 0.9).mean())
    return [
        Check(
            "effect", attribute, rise, "probability", EFFECT_GOAL, _judged(rise, rise >= EFFECT_GOAL),
            f"Rise of the judge's mean probability of {what} from a = −1 to +1 ({whole:+.2f} over the whole sweep).",
        ),
        Check(
            "monotone", attribute, monotone, "share", MONOTONE_GOAL, monotone >= MONOTONE_GOAL,
            "Faces whose sweep the judge ranks in order (Spearman at least 0.9).",
        ),
    ]  # fmt: skip


def _controls(attribute: str, rows: pd.DataFrame) -> list[Check]:
    """Change of what should stay, on a 0-1 scale, from -1 to +1."""
    others = {"young": ("judge_young", 0.5), "smiling": ("judge_smiling", 0.5)}
    if attribute != "gender":
        others["masculine"] = ("judge_masculine", 1.0)
    checks = []
    for name, (column, scale) in others.items():
        moved = _rise(_wide(rows, column)) * scale
        passed = _judged(moved, abs(moved) <= CONTROL_GOAL)
        words = f"Mean change of perceived “{name}” (0 to 1) from a = −1 to +1; it should stay."
        checks.append(Check(f"off-target: {name}", attribute, moved, "share", CONTROL_GOAL, passed, words))
    return checks


def _lightness(attribute: str, rows: pd.DataFrame, groups: Mapping[str, str]) -> list[Check]:
    wide = _wide(rows, "lightness")
    change = pd.Series(at(wide, 1.0) - at(wide, -1.0), index=wide.index).dropna()
    group_of = change.index.map(lambda photo: groups.get(str(photo), "unknown"))
    by_group = change.groupby(group_of).agg(["mean", "size"])
    means = by_group.loc[by_group["size"] >= SMALLEST_GROUP, "mean"]
    gap = float(means.max() - means.min()) if len(means) > 1 else float("nan")
    between = f" ({means.idxmin()} {means.min():+.1f}, {means.idxmax()} {means.max():+.1f})" if len(means) > 1 else ""
    mean = _rise(wide)
    # A change of perceived race is meant to move lightness, so only its size is reported.
    passed = _judged(mean, abs(mean) <= LIGHTNESS_GOAL) if attribute == "gender" else None
    return [
        Check("lightness", attribute, mean, "ΔL*", LIGHTNESS_GOAL if attribute == "gender" else float("nan"), passed,
              "Mean change of lightness inside the mask from a = −1 to +1."),
        Check("lightness gap", attribute, gap, "ΔL*", LIGHTNESS_GOAL, _judged(gap, gap <= LIGHTNESS_GOAL),
              f"Largest difference of that change between source groups of {SMALLEST_GROUP} photos or more{between}."),
    ]  # fmt: skip


def _clipping(attribute: str, rows: pd.DataFrame) -> Check:
    share = float(rows["clipped_share"].mean())
    words = "Pixels of the mask that the edit pushed beyond black or white."
    return Check("clipping", attribute, share, "share", CLIPPED_GOAL, _judged(share, share <= CLIPPED_GOAL), words)
