"""The individual checks of the validity card: pure functions from rows of the counterfactuals table to lines.

Thresholds come from the configuration; ``validity`` assembles the card.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.config.attributes import Attribute
from pipeline.config.options import ValidityOptions
from pipeline.run.formats import MINUS, decimal, measured, pluralise

NAN = float("nan")
RANKED = 0.9  # Spearman's correlation at which a face's sweep counts as in order


@dataclass(frozen=True)
class Check:
    """A line of the card; ``passed`` is None if nothing was measured or no threshold applies.

    ``of_size``: the threshold applies to the absolute value of the figure.
    """

    name: str
    attribute: str
    figure: float
    unit: str
    threshold: float
    passed: bool | None
    words: str
    of_size: bool


def line(
    name: str, attribute: str, figure: float, unit: str, words: str, *, least: float = NAN, most: float = NAN
) -> Check:
    """Make a line whose figure must be at least ``least``, or whose absolute value at most ``most``, if given."""
    threshold = most if np.isnan(least) else least
    passed = figure >= least if np.isnan(most) else abs(figure) <= most
    measured = not np.isnan(figure) and not np.isnan(threshold)
    return Check(
        name, attribute, figure, unit, threshold, bool(passed) if measured else None, words, of_size=bool(most == most)
    )


def wide(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Pivot to one row per photo and one column per value, for photos with every step."""
    return rows.pivot(index="photo", columns="value", values=column).dropna()


def at(table: pd.DataFrame, value: float) -> NDArray[np.float64]:
    """Interpolate each photo's figure at ``value`` between the adjacent steps; NaN beyond the ends of the sweep."""
    values = table.columns.to_numpy(dtype=float)
    figures = [np.interp(value, values, row, left=np.nan, right=np.nan) for row in table.to_numpy(dtype=float)]
    return np.array(figures, dtype=np.float64)


def rise(table: pd.DataFrame, reach: float = 1.0) -> float:
    """Return the mean change from a = -reach to +reach; NaN if no sweep spans them."""
    return float((at(table, reach) - at(table, -reach)).mean()) if len(table) else NAN


def end_to_end(table: pd.DataFrame) -> pd.Series:
    """Return each photo's change from the first to the last value of a table ``(n, K)``."""
    return table.iloc[:, -1] - table.iloc[:, 0]


def spearman_per_row(values: NDArray[np.float64], figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's correlation of each row ``(n, K)`` with ``values`` ``(K,)``; 0 for a constant row."""
    order = pd.Series(values).rank().to_numpy() - (len(values) + 1) / 2
    ranks = pd.DataFrame(figures).rank(axis=1).to_numpy() - (len(values) + 1) / 2
    spread = np.sqrt((ranks**2).sum(axis=1) * (order**2).sum())
    correlations: NDArray[np.float64] = np.divide(ranks @ order, spread, out=np.zeros(len(ranks)), where=spread > 0)
    return correlations


def each(figures: Mapping[str, float], unit: str, *, sign: bool = False) -> str:
    """Format the figures of several judges, as `` (judge 0.53, second judge 0.47)``; empty for a single judge."""
    if len(figures) < 2:
        return ""
    texts = [f"{name} {decimal(x, places=2, sign=sign) if sign else measured(x, unit)}" for name, x in figures.items()]
    return f" ({', '.join(texts)})"


def signed(number: float) -> str:
    """Format a value of a with its sign: ``+1.33``, ``−2``."""
    return f"{round(number, 2):+g}".replace("-", MINUS)


def undecided(table: pd.DataFrame) -> NDArray[np.float64]:
    """Return where each photo's probability first rises through 0.5 (a50), interpolated linearly; NaN if it never does.

    Args:
        table: one row per photo, one column per value.
    """
    values, figures = table.columns.to_numpy(dtype=float), table.to_numpy(dtype=float)
    through = (figures[:, :-1] < 0.5) & (figures[:, 1:] >= 0.5)
    first = through.argmax(axis=1)
    below, above = (figures[np.arange(len(figures)), first + step] for step in (0, 1))
    share = np.divide(0.5 - below, above - below, out=np.zeros(len(figures)), where=above > below)
    return np.where(through.any(axis=1), values[first] + share * (values[first + 1] - values[first]), NAN)


def null_edit(attribute: Attribute, rows: pd.DataFrame, options: ValidityOptions, *, mode: str) -> list[Check]:
    """Check what an edit to the face's own value changes inside the mask."""
    once = rows.drop_duplicates("photo")
    found = {name: float(once[name].mean()) for name in ("null_psnr", "null_ssim", "cycles_psnr", "cycles_ssim")}
    if attribute.given:
        other = attribute.given[0].name
        words = f"At the face's own value nothing but {other} is edited, by construction; how is checked with {other}."
        return [line("null edit", attribute.name, NAN, "dB", words)]
    if mode == "delta":
        words = "The version at the face's own value is the photo itself, by construction, however often it is made."
        if np.isfinite(found["null_psnr"]):
            words += (
                f" (The network's own reconstruction, which is not used: {found['null_psnr']:.1f} dB, "
                f"SSIM {found['null_ssim']:.2f}.)"
            )
        return [line("null edit", attribute.name, float("inf"), "dB", words, least=options.null_psnr)]
    one = (
        "The face decoded with its own values against the photo, inside the mask "
        f"(after ten such edits {found['cycles_psnr']:.1f} dB)."
    )
    other = f"The same by structural similarity (after ten such edits {found['cycles_ssim']:.2f})."
    return [
        line("null edit", attribute.name, found["null_psnr"], "dB", one, least=options.null_psnr),
        line("null edit: SSIM", attribute.name, found["null_ssim"], "", other, least=options.null_ssim),
    ]


def background(attribute: str, rows: pd.DataFrame) -> Check:
    """Check that nothing outside the mask changed."""
    words = "Pixels outside the mask that equal the photo's, in the version where the fewest do (before encoding)."
    return line("background", attribute, float(rows["background_kept"].min()), "share", words, least=1.0)


def effect(attribute: Attribute, tables: Mapping[str, pd.DataFrame], options: ValidityOptions) -> list[Check]:
    """Check that the judges perceive the intended change; the worse of their figures counts.

    Args:
        attribute: the swept attribute.
        tables: each judge's probability of the higher pole, one row per photo, one column per value.
        options: the thresholds.
    """
    name, rose, monotone, crossing = attribute.name, NAN, NAN, NAN
    raised = ordered = crossed = "No complete sweep."
    if tables:
        rises = {judge: rise(table) for judge, table in tables.items()}
        rose = min(rises.values())
        shares = {judge: _ordered(table) for judge, table in tables.items()}
        monotone = min(shares.values())
        whole = {judge: float(end_to_end(table).mean()) for judge, table in tables.items()}
        judge = min(rises, key=lambda name: rises[name])
        turning = undecided(next(iter(tables.values())))
        crossing = float(np.isfinite(turning).mean())
        raised = (
            f"Rise of the mean probability of {_higher(attribute)} from a = −1 to +1, the smaller of the judges' "
            f"values{each(rises, 'probability')}, {decimal(whole[judge], places=2, sign=True)} over the whole sweep."
        )
        ordered = f"Faces whose sweep the judge ranks in order (Spearman at least {RANKED:g}){each(shares, 'share')}."
        crossed = f"Faces whose probability rises through one half along the sweep{_turning(turning)}."
    return [
        line("effect", name, rose, "probability", raised, least=options.effect),
        line("monotone", name, monotone, "share", ordered, least=options.monotone),
        line("crossing", name, crossing, "share", crossed),
    ]


def lightness(
    attribute: Attribute, rows: pd.DataFrame, groups: Mapping[str, str], options: ValidityOptions
) -> list[Check]:
    """Check the change of the skin's lightness, and its differences between source groups."""
    table = wide(rows, "lightness")
    change = pd.Series(at(table, 1.0) - at(table, -1.0), index=table.index).dropna()
    by_group = change.groupby(change.index.map(lambda photo: groups.get(str(photo), "unknown"))).agg(["mean", "size"])
    means = by_group.loc[by_group["size"] >= options.smallest_group, "mean"]
    gap, of_groups = NAN, f"Fewer than two source groups have {options.smallest_group} photos."
    if len(means) > 1:
        gap = float(means.max() - means.min())
        both = (means.idxmin(), means.min()), (means.idxmax(), means.max())
        ends = [f"{group} {decimal(float(mean), places=1, sign=True)}" for group, mean in both]
        of_groups = (
            f"Largest difference of that change between source groups of {options.smallest_group} photos or more "
            f"({', '.join(ends)})."
        )
    # If skin colour belongs to the attribute, the edit is meant to change it, so there is no threshold.
    most = NAN if attribute.moves_colour else options.lightness
    words = "Mean change of lightness inside the mask from a = −1 to +1."
    return [
        line("lightness", attribute.name, rise(table), "ΔL*", words, most=most),
        line("lightness gap", attribute.name, gap, "ΔL*", of_groups, most=options.lightness_gap),
    ]


def clipping(attribute: str, rows: pd.DataFrame, options: ValidityOptions) -> Check:
    """Check how many pixels the edit pushed beyond the range of levels."""
    words = "Pixels of the mask that the edit pushed beyond black or white."
    return line("clipping", attribute, float(rows["clipped_share"].mean()), "share", words, most=options.clipped)


def seam(attribute: str, rows: pd.DataFrame, options: ValidityOptions) -> Check:
    """Check whether the mask's edge is visible where the photo has no edge, at the worst step."""
    table = wide(rows, "mask_line") if "mask_line" in rows else pd.DataFrame()
    worst, words = NAN, "Not measured."
    if len(table):
        shares = table.to_numpy(dtype=float).mean(axis=0)
        most = int(shares.argmax())
        worst = float(shares[most])
        words = (
            "Share of the mask's outline at which a line shows that the photo does not have, mean over photos at the "
            f"value where it is largest (a = {signed(float(table.columns.to_numpy()[most]))})."
        )
    return line("seam", attribute, worst, "share", words, most=options.seam)


def identity(attribute: str, rows: pd.DataFrame, options: ValidityOptions) -> Check:
    """Check whether a recognition network would accept the versions as the same person."""
    seen, figure = rows[rows["identity"].notna()], NAN
    words = "The recognition network (facenet-pytorch's InceptionResnetV1, VGGFace2) is not on this machine."
    if len(seen):
        table = wide(seen, "identity")
        figure = float(np.mean([at(table, value).mean() for value in (-1.0, 1.0)])) if len(table) else NAN
        words = f"Mean cosine similarity to the null edit at a = −1 and +1, of {len(table)} photos (InceptionResnetV1)."
    return line("identity", attribute, figure, "", words, least=options.identity)


def placebo(attribute: Attribute, arm: str, tables: Mapping[str, pd.DataFrame], options: ValidityOptions) -> Check:
    """Check that a placebo does not change what the judges perceive."""
    words = f"Change of the mean probability from end to end of the placebo “{arm}”, the larger of the judges' values."
    # If colour belongs to the attribute, the colour placebo changes it too, so there is no threshold.
    most = NAN if attribute.moves_colour and arm == "colour" else options.off_target
    moves = [end_to_end(table).to_numpy(dtype=float) for table in tables.values()]
    most_moved = max(moves, key=lambda each: abs(each.mean()), default=np.full(1, NAN))
    moved, count = float(most_moved.mean()), len(most_moved)
    if count > 1:
        half = 1.96 * float(most_moved.std(ddof=1)) / count**0.5
        low, high = (decimal(end, places=2, sign=True) for end in (moved - half, moved + half))
        words = words.removesuffix(".") + f" (95 % interval {low} to {high}, {pluralise(count, 'photo')})."
    return line(f"placebo: {arm}", attribute.name, moved, "probability", words, most=most)


def _ordered(table: pd.DataFrame) -> float:
    """Return the share of faces whose probabilities are in the order of the values."""
    steps = table.columns.to_numpy(dtype=float)
    return float((spearman_per_row(steps, table.to_numpy(dtype=float)) >= RANKED).mean())


def _turning(values: NDArray[np.float64]) -> str:
    found = values[np.isfinite(values)]
    if not len(found):
        return ""
    low, middle, high = np.quantile(found, (0.1, 0.5, 0.9))
    return f"; for half of them below a = {signed(middle)} (10–90 %: {signed(low)} to {signed(high)})"


def _higher(attribute: Attribute) -> str:
    """Describe the event of which the judges give the probability; for a pair, name both poles."""
    if not attribute.categories:
        return attribute.judged_as
    low, high = attribute.poles
    return f"being perceived as {high} rather than {low}"
