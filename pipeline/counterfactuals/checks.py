"""The single checks of the validity card: each a pure function from rows of the counterfactuals table to its lines.

Thresholds come from the configuration; ``validity`` makes the card of the lines.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from pipeline.config.attributes import Attribute
from pipeline.config.options import ValidityOptions

NAN = float("nan")
RANKED = 0.9  # Spearman's correlation from which a face's sweep counts as in order


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


def wide(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """One row a photo, one column a value; photos with every step only."""
    return rows.pivot(index="photo", columns="value", values=column).dropna()


def at(table: pd.DataFrame, value: float) -> NDArray[np.float64]:
    """Each photo's figure at ``value``, interpolated between the neighbouring steps; NaN beyond the sweep's ends."""
    values = table.columns.to_numpy(dtype=float)
    figures = [np.interp(value, values, row, left=np.nan, right=np.nan) for row in table.to_numpy(dtype=float)]
    return np.array(figures, dtype=np.float64)


def rise(table: pd.DataFrame, reach: float = 1.0) -> float:
    """Mean change from a = -reach to +reach; NaN where no photo's sweep spans them."""
    return float((at(table, reach) - at(table, -reach)).mean()) if len(table) else NAN


def spearman_per_row(values: NDArray[np.float64], figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's correlation of each row of ``figures`` ``(n, K)`` with ``values`` ``(K,)``; 0 for a constant row."""
    order = rankdata(values) - (len(values) + 1) / 2
    ranks = rankdata(figures, axis=1) - (len(values) + 1) / 2
    spread = np.sqrt((ranks**2).sum(axis=1) * (order**2).sum())
    correlations: NDArray[np.float64] = np.divide(ranks @ order, spread, out=np.zeros(len(ranks)), where=spread > 0)
    return correlations


def undecided(table: pd.DataFrame) -> NDArray[np.float64]:
    """Where each photo's probability first rises through one half (a50), interpolated linearly; NaN where it stays.

    Args:
        table: one row a photo, one column a value.
    """
    values, figures = table.columns.to_numpy(dtype=float), table.to_numpy(dtype=float)
    through = (figures[:, :-1] < 0.5) & (figures[:, 1:] >= 0.5)
    first = through.argmax(axis=1)
    below, above = (figures[np.arange(len(figures)), first + step] for step in (0, 1))
    share = np.divide(0.5 - below, above - below, out=np.zeros(len(figures)), where=above > below)
    return np.where(through.any(axis=1), values[first] + share * (values[first + 1] - values[first]), NAN)


def null_edit(attribute: str, rows: pd.DataFrame, options: ValidityOptions, *, mode: str) -> list[Check]:
    """What an edit to the face's own value changes inside the mask."""
    once = rows.drop_duplicates("photo")
    found = {name: float(once[name].mean()) for name in ("null_psnr", "null_ssim", "cycles_psnr", "cycles_ssim")}
    if mode == "delta":
        words = (
            "The version at the face's own value is the photo itself, by construction, however often it is made. "
            f"(The network's own reconstruction, which is not used: {found['null_psnr']:.1f} dB, "
            f"SSIM {found['null_ssim']:.2f}.)"
        )
        return [Check("null edit", attribute, float("inf"), "dB", options.null_psnr, True, words)]
    dB, similar = found["null_psnr"], found["null_ssim"]  # noqa: N806 (the unit is written so)
    return [
        Check("null edit", attribute, dB, "dB", options.null_psnr, judged(dB, dB >= options.null_psnr),
              f"The face decoded with its own values against the photo, inside the mask "
              f"(after ten such edits {found['cycles_psnr']:.1f} dB)."),
        Check("null edit: SSIM", attribute, similar, "", options.null_ssim,
              judged(similar, similar >= options.null_ssim),
              f"The same by structural similarity (after ten such edits {found['cycles_ssim']:.2f})."),
    ]  # fmt: skip


def background(attribute: str, rows: pd.DataFrame) -> Check:
    """Whether anything outside the mask changed."""
    kept = float(rows["background_kept"].min())
    words = "Pixels outside the mask that equal the photo's, in the version where the fewest do (before encoding)."
    return Check("background", attribute, kept, "share", 1.0, judged(kept, kept >= 1.0), words)


def effect(attribute: Attribute, table: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """Whether the judge perceives what was to change.

    Args:
        attribute: what was swept.
        table: the judge's probability of the higher pole, one row a photo, one column a value.
        options: the thresholds.
    """
    name = attribute.name
    if table.empty:
        words = "No complete sweep."
        return [
            Check("effect", name, NAN, "probability", options.effect, None, words),
            Check("monotone", name, NAN, "share", options.monotone, None, words),
            Check("crossing", name, NAN, "share", NAN, None, words),
        ]
    rose = rise(table)
    whole = float((table.iloc[:, -1] - table.iloc[:, 0]).mean())
    steps = table.columns.to_numpy(dtype=float)
    monotone = float((spearman_per_row(steps, table.to_numpy(dtype=float)) >= RANKED).mean())
    turning = undecided(table)
    crossing = float(np.isfinite(turning).mean())
    raised = (
        f"Rise of the judge's mean probability of {attribute.judged_as} from a = −1 to +1 "
        f"({whole:+.2f} over the whole sweep)."
    )
    ordered = f"Faces whose sweep the judge ranks in order (Spearman at least {RANKED:g})."
    crossed = f"Faces whose probability rises through one half along the sweep{_turning(turning)}."
    return [
        Check("effect", name, rose, "probability", options.effect, judged(rose, rose >= options.effect), raised),
        Check("monotone", name, monotone, "share", options.monotone, monotone >= options.monotone, ordered),
        Check("crossing", name, crossing, "share", NAN, None, crossed),
    ]


def off_target(attribute: Attribute, rows: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """How much what should stay moves, on a 0-1 scale, from -1 to +1 (and over the whole sweep)."""
    checks = []
    for control in attribute.must_not_move:
        name = f"off-target: {control.name}"
        tables = [wide(rows, column) for column in control.columns]
        if len(tables) > 1:
            moved = float(np.abs([rise(table) for table in tables]).sum() * control.scale)
            words = (
                f"Change of the judge's mean {control.name} probabilities from a = −1 to +1 "
                "(half the sum of absolute changes)."
            )
        else:
            moved, far = rise(tables[0]) * control.scale, rise(tables[0], 2.0) * control.scale
            beyond = "" if np.isnan(far) else f" ({far:+.3f} from −2 to +2)"
            words = f"Mean change of perceived “{control.name}” (0 to 1) from a = −1 to +1{beyond}."
        passed = judged(moved, abs(moved) <= options.off_target)
        checks.append(Check(name, attribute.name, moved, "share", options.off_target, passed, words))
    return checks


def lightness(
    attribute: Attribute, rows: pd.DataFrame, groups: Mapping[str, str], options: ValidityOptions
) -> list[Check]:
    """How much lighter or darker the skin becomes, and whether that differs between source groups."""
    table = wide(rows, "lightness")
    change = pd.Series(at(table, 1.0) - at(table, -1.0), index=table.index).dropna()
    group_of = change.index.map(lambda photo: groups.get(str(photo), "unknown"))
    by_group = change.groupby(group_of).agg(["mean", "size"])
    means = by_group.loc[by_group["size"] >= options.smallest_group, "mean"]
    gap = float(means.max() - means.min()) if len(means) > 1 else NAN
    between = f" ({means.idxmin()} {means.min():+.1f}, {means.idxmax()} {means.max():+.1f})" if len(means) > 1 else ""
    mean = rise(table)
    # Where skin colour belongs to the attribute, the edit is meant to move it: only its size is reported.
    limit = NAN if attribute.moves_colour else options.lightness
    passed = None if attribute.moves_colour else judged(mean, abs(mean) <= limit)
    words = (
        f"Largest difference of that change between source groups of {options.smallest_group} photos or more{between}."
    )
    return [
        Check(
            "lightness", attribute.name, mean, "ΔL*", limit, passed,
            "Mean change of lightness inside the mask from a = −1 to +1.",
        ),
        Check(
            "lightness gap", attribute.name, gap, "ΔL*", options.lightness_gap,
            judged(gap, gap <= options.lightness_gap), words,
        ),
    ]  # fmt: skip


def clipping(attribute: str, rows: pd.DataFrame, options: ValidityOptions) -> Check:
    """Whether the edit ran out of the range of pixel levels."""
    share = float(rows["clipped_share"].mean())
    words = "Pixels of the mask that the edit pushed beyond black or white."
    return Check("clipping", attribute, share, "share", options.clipped, judged(share, share <= options.clipped), words)


def seam(attribute: str, rows: pd.DataFrame, options: ValidityOptions) -> Check:
    """Whether the mask's edge shows, at the step where it shows most."""
    table = wide(rows, "seam")
    if table.empty:
        return Check("seam", attribute, NAN, "share", options.seam, None, "Not measured.")
    changes = np.log(table.to_numpy(dtype=float)).mean(axis=0)
    most = int(np.abs(changes).argmax())
    worst = float(np.expm1(changes[most]))
    words = (
        "Change of the gradient energy along the mask's edge against the photo's own, mean over photos at the value "
        f"where it is largest (a = {table.columns[most]:+.2g})."
    )
    return Check("seam", attribute, worst, "share", options.seam, abs(worst) <= options.seam, words)


def identity(attribute: str, rows: pd.DataFrame, options: ValidityOptions) -> Check:
    """Whether a recognition network would take the versions for the same person."""
    seen = rows[rows["identity"].notna()]
    if seen.empty:
        words = "The recognition network (facenet-pytorch's InceptionResnetV1, VGGFace2) is not on this machine."
        return Check("identity", attribute, NAN, "", options.identity, None, words)
    table = wide(seen, "identity")
    figure = float(np.mean([at(table, value).mean() for value in (-1.0, 1.0)])) if len(table) else NAN
    words = f"Mean cosine similarity to the null edit at a = −1 and +1, of {len(table)} photos (InceptionResnetV1)."
    return Check("identity", attribute, figure, "", options.identity, judged(figure, figure >= options.identity), words)


def placebo(attribute: Attribute, arm: str, table: pd.DataFrame, options: ValidityOptions) -> Check:
    """Whether a placebo leaves alone what the judge perceives."""
    moved = rise(table)
    words = f"Change of the judge's mean probability from a = −1 to +1 along the placebo “{arm}”; it should stay."
    # Where colour belongs to the attribute, its placebo moves it too, and is only reported.
    limit = NAN if attribute.moves_colour and arm == "colour" else options.off_target
    passed = None if np.isnan(limit) else judged(moved, abs(moved) <= limit)
    return Check(f"placebo: {arm}", attribute.name, moved, "probability", limit, passed, words)


def judged(figure: float, passed: bool) -> bool | None:
    """``passed``, but None where there is no figure."""
    return None if np.isnan(figure) else passed


def _turning(values: NDArray[np.float64]) -> str:
    found = values[np.isfinite(values)]
    if not len(found):
        return ""
    low, middle, high = np.quantile(found, (0.1, 0.5, 0.9))
    return f"; half of them are undecided below a = {middle:+.2f} (10–90 %: {low:+.2f} to {high:+.2f})"
