"""The validity card: whether the versions of a run changed as intended, and in nothing else.

Pure functions over the counterfactuals table. Every check has a figure, a threshold and a sentence; what could not be
measured is "not measured", never a pass. The individual checks are in ``checks``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

import numpy as np
import pandas as pd

from pipeline.config.attributes import EDIT_ARM, Attribute, attribute_of
from pipeline.config.options import ValidityOptions
from pipeline.counterfactuals import checks, judged_checks, picture_checks
from pipeline.counterfactuals.checks import Check, wide
from pipeline.run.tables import CHECKS

CURVE_COLUMNS = ["attribute", "arm", "value", "mean", "low", "high"]
LIGHTNESS_COLUMNS = ["attribute", "arm", "group", "photos", "value", "change"]
FAILURE_COLUMNS = ["photo", "attribute", "arm", "check", "figure", "threshold"]


def validity_card(
    versions: pd.DataFrame,
    *,
    swept: Mapping[str, Attribute],
    groups: Mapping[str, str],
    options: ValidityOptions | None = None,
    mode: str = "delta",
    pictures: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Make the card of a run, one row per check.

    Args:
        versions: the counterfactuals table.
        swept: the swept attributes by name.
        groups: photo -> source group, such as "feminine, Black".
        options: the thresholds. Default: the default options.
        mode: mode of compositing, delta or reconstruction.
        pictures: the table of checks; without it its checks are "not measured".
    """
    options = options or ValidityOptions()
    pictures = pd.DataFrame(columns=list(CHECKS)) if pictures is None else pictures
    found: list[Check] = []
    for attribute, arm, rows in _sweeps(versions, swept):
        name, targets = attribute.name, judged_checks.targets(rows, attribute)
        if arm != EDIT_ARM:
            found.append(checks.placebo(attribute, arm, targets, options))
            continue
        of_attribute = pictures[pictures["attribute"] == name]
        found += checks.null_edit(attribute, rows, options, mode=mode)
        found.append(checks.background(name, rows))
        found += checks.effect(attribute, targets, options)
        if attribute.given is not None:
            found.append(judged_checks.other_edit(attribute, attribute.given[0], versions, options))
        found += judged_checks.order(attribute, rows, options)
        found.append(judged_checks.weakest_group(attribute, rows, groups, options))
        found += judged_checks.off_target(attribute, rows, options)
        found += judged_checks.years(attribute, rows, groups, options)
        found += checks.lightness(attribute, rows, groups, options)
        found += picture_checks.skin(attribute, rows, options)
        if attribute.given is None:  # edits of an intersection are checked in their own sweeps
            found += picture_checks.shape(attribute, rows, of_attribute, options)
            found += picture_checks.together(attribute, targets, of_attribute, options)
        found.append(checks.identity(name, rows, options))
        found.append(checks.seam(name, rows, options))
        found.append(checks.clipping(name, rows, options))
    return pd.DataFrame([asdict(check) for check in found], columns=list(Check.__dataclass_fields__))


def effectiveness_curve(versions: pd.DataFrame, *, swept: Mapping[str, Attribute]) -> pd.DataFrame:
    """Return the judge's mean probability along a, with 10 % and 90 % quantiles over photos, for edits and placebos.

    Returns:
        Columns attribute, arm, value, mean, low, high.
    """
    parts = []
    for attribute, arm, rows in _sweeps(versions, swept):
        table = judged_checks.target(rows, attribute)
        parts.append(
            pd.DataFrame(
                {
                    "attribute": attribute.name,
                    "arm": arm,
                    "value": table.columns.to_numpy(dtype=float),
                    "mean": table.mean().to_numpy(),
                    "low": table.quantile(0.1).to_numpy(),
                    "high": table.quantile(0.9).to_numpy(),
                }
            )
        )
    return _joined(parts, CURVE_COLUMNS)


def lightness_curve(versions: pd.DataFrame, *, groups: Mapping[str, str]) -> pd.DataFrame:
    """Return the mean change of lightness inside the mask along a, relative to a = 0, per source group.

    Returns:
        Columns attribute, arm, group, photos, value, change (ΔL*).
    """
    parts = []
    for attribute, arm, rows in _sweeps(versions, {}):
        table = wide(rows, "lightness")
        table = table.sub(table[table.columns[np.abs(table.columns.to_numpy(dtype=float)).argmin()]], axis=0)
        group_of = table.index.map(lambda photo: groups.get(str(photo), "unknown"))
        for group, lines in table.groupby(group_of, sort=True):
            means = lines.mean()
            parts.append(
                pd.DataFrame(
                    {
                        "attribute": attribute.name,
                        "arm": arm,
                        "group": group,
                        "photos": len(lines),
                        "value": means.index.to_numpy(dtype=float),
                        "change": means.to_numpy(),
                    }
                )
            )
    return _joined(parts, LIGHTNESS_COLUMNS)


def photo_failures(
    versions: pd.DataFrame, *, swept: Mapping[str, Attribute], options: ValidityOptions | None = None
) -> pd.DataFrame:
    """List the photos whose edits fail a check that applies to single photos, with figure and threshold.

    Returns:
        Columns photo, attribute, arm, check, figure, threshold; empty if all pass.
    """
    options = options or ValidityOptions()
    parts = []
    for attribute, arm, rows in _sweeps(versions[versions["arm"] == EDIT_ARM], swept):
        target = judged_checks.target(rows, attribute)
        ranked = checks.spearman_per_row(target.columns.to_numpy(dtype=float), target.to_numpy(dtype=float))
        by_photo = rows.groupby("photo")
        lines = rows.get("mask_line", pd.Series(checks.NAN, index=rows.index))  # runs of earlier versions have none
        figures: dict[str, tuple[pd.Series, float, bool]] = {
            "background": (by_photo["background_kept"].min(), 1.0, True),
            "monotone": (pd.Series(ranked, index=target.index), checks.RANKED, True),
            "dead": (judged_checks.whole_rise(rows, attribute), options.dead_rise, True),
            "clipping": (by_photo["clipped_share"].max(), options.clipped, False),
            "seam": (lines.groupby(rows["photo"]).max(), 3 * options.seam, False),
            "identity": (by_photo["identity"].min(), options.identity, True),
        }
        for check, (figure, threshold, least) in figures.items():
            missed = figure[(figure < threshold) if least else (figure > threshold)]
            parts.append(
                pd.DataFrame(
                    {
                        "photo": missed.index,
                        "attribute": attribute.name,
                        "arm": arm,
                        "check": check,
                        "figure": missed.to_numpy(),
                        "threshold": threshold,
                    }
                )
            )
    return _joined([part for part in parts if len(part)], FAILURE_COLUMNS)


def _sweeps(versions: pd.DataFrame, swept: Mapping[str, Attribute]) -> Iterator[tuple[Attribute, str, pd.DataFrame]]:
    """Yield the successful versions by attribute and arm."""
    made = versions[versions["status"] == "ok"]
    for (attribute, arm), rows in made.groupby(["attribute", "arm"], sort=True):
        yield attribute_of(str(attribute), swept), str(arm), rows


def _joined(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
