"""Checks of the two judges' outputs: falls, dead faces, the weakest group, off-target changes, years.

The worse of both figures counts. Neither judge takes part in an edit. The second has another architecture, was trained
on the other half of the data, and sees no colour.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.config.attributes import AT, EDIT_ARM, YOUNG, Attribute
from pipeline.config.options import ValidityOptions
from pipeline.counterfactuals import measures
from pipeline.counterfactuals.checks import NAN, Check, at, each, end_to_end, line, rise, wide
from pipeline.run.formats import measured

JUDGES = {"judge": "judge", "second judge": "grey"}  # printed name -> prefix of its columns
FALL = 0.02  # smaller falls of a probability are noise


def target(rows: pd.DataFrame, attribute: Attribute, judge: str = "judge") -> pd.DataFrame:
    """Return a judge's probability of the higher pole, one row per photo, one column per value; empty without outputs.

    Attributes measured in the picture are assigned to the first judge. For an attribute relative to each face, the
    probability at a = 0 is 0.5.
    """
    names = [f"{judge}_{name.removeprefix('judge_')}" for name in attribute.judged] if attribute.by_network else []
    if not attribute.by_network and judge == "judge":
        names = list(attribute.judged)
    if not names or not set(names) <= set(rows):
        return pd.DataFrame()
    seen = rows[names].set_axis(list(attribute.judged), axis=1)
    table = wide(rows.assign(target=attribute.perceived(seen)), "target")
    if attribute.relative and len(table):
        table = table.sub(at(table, 0.0), axis=0) + 0.5
    return table


def targets(rows: pd.DataFrame, attribute: Attribute) -> dict[str, pd.DataFrame]:
    """Return the `target` of each judge with outputs."""
    tables = {name: target(rows, attribute, prefix) for name, prefix in JUDGES.items()}
    return {name: table for name, table in tables.items() if len(table)}


def other_edit(attribute: Attribute, other: Attribute, versions: pd.DataFrame, options: ValidityOptions) -> Check:
    """Check an intersection's second edit: the rise of the other attribute between its poles.

    Args:
        attribute: the attribute swept on faces edited to a value of the other one.
        other: the other attribute.
        versions: the counterfactuals table.
        options: the thresholds.
    """
    made = versions[(versions["status"] == "ok") & (versions["arm"] == EDIT_ARM)]
    ends = [targets(made[made["attribute"] == f"{attribute.base}{AT}{pole}"], other) for pole in other.poles]
    rises = {
        judge: float((ends[1][judge].mean(axis=1) - ends[0][judge].mean(axis=1)).mean())
        for judge in ends[0].keys() & ends[1].keys()
    }
    words = (
        f"Rise of the mean probability of {other.judged_as} from the faces edited to {other.poles[0]} to those edited "
        f"to {other.poles[1]}, mean over the sweep, the smaller of the judges' values{each(rises, 'probability')}."
    )
    figure = min(rises.values(), default=NAN)
    return line(f"effect: {other.name}", attribute.name, figure, "probability", words, least=options.effect)


def whole_rise(rows: pd.DataFrame, attribute: Attribute) -> pd.Series:
    """Return each photo's rise from the first to the last value, the smaller of the judges' values."""
    rises = [end_to_end(table) for table in targets(rows, attribute).values()]
    return pd.concat(rises, axis=1).min(axis=1) if rises else pd.Series(dtype=float)


def order(attribute: Attribute, rows: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """Check whether probabilities fall along the sweep, and list faces that hardly change."""
    falls = {
        name: measures.falling_share(table.to_numpy(dtype=float), by=FALL)
        for name, table in targets(rows, attribute).items()
    }
    rises = whole_rise(rows, attribute)
    dead = rises[rises < options.dead_rise].sort_values()
    named = f": {', '.join(map(str, dead.index[:5]))}{' and others' if len(dead) > 5 else ''}" if len(dead) else ""
    fallen = f"Faces whose probability falls by more than {FALL:g} somewhere along the sweep{each(falls, 'share')}."
    still = f"Faces that rise by less than {options.dead_rise:g} over the whole sweep by either judge{named}."
    share = len(dead) / len(rises) if len(rises) else NAN
    return [
        line("falls", attribute.name, max(falls.values(), default=NAN), "share", fallen, most=options.falls),
        line("dead faces", attribute.name, share, "share", still, most=options.dead),
    ]


def weakest_group(
    attribute: Attribute, rows: pd.DataFrame, groups: Mapping[str, str], options: ValidityOptions
) -> Check:
    """Check the effect in the source group where it is smallest."""
    found: dict[tuple[str, str], float] = {}
    for judge, table in targets(rows, attribute).items():
        low, high = at(table, -1.0), at(table, 1.0)
        for named in words_of(table.index, groups):
            effects = measures.group_effects(low, high, named, least=options.smallest_group)
            found |= {(group, judge): effect for group, effect in effects.items() if group}
    words = f"No source group has {options.smallest_group} photos."
    smallest = NAN
    if found:
        (group, judge), smallest = min(found.items(), key=lambda item: item[1])
        words = (
            f"The effect in the source group where it is smallest: {group} ({judge}), of "
            f"{len({name for name, _ in found})} groups of {options.smallest_group} photos or more."
        )
    return line("effect: smallest group", attribute.name, smallest, "probability", words, least=options.group_effect)


def off_target(attribute: Attribute, rows: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """Check off-target changes from -1 to +1 on a 0-1 scale (and over the whole sweep)."""
    checks = []
    for control in (*attribute.must_not_move, *attribute.may_move):
        near, far = {}, {}
        for judge, prefix in JUDGES.items():
            columns = [f"{prefix}_{name.removeprefix('judge_')}" for name in control.columns]
            if set(columns) <= set(rows):
                tables = [wide(rows, column) for column in columns]
                near[judge], far[judge] = (_moved(tables, reach) * control.scale for reach in (1.0, 2.0))
        known = {judge: moved for judge, moved in near.items() if not np.isnan(moved)}
        judge = max(known, key=lambda name: abs(known[name]), default="judge")
        beyond = "" if np.isnan(far.get(judge, NAN)) else f"; {measured(far[judge], 'share')} from −2 to +2"
        words = (
            f"Mean change of perceived “{control.name}” from a = −1 to +1 as a share of its range, the larger of "
            f"the judges' values{each(known, 'share')}{beyond}."
        )
        if len(control.columns) > 1:
            words += " Of several categories half the sum of the changes' sizes."
        name = f"off-target: {control.name}"
        most = options.off_target if control in attribute.must_not_move else NAN
        checks.append(line(name, attribute.name, known.get(judge, NAN), "share", words, most=most))
    return checks


def _moved(tables: list[pd.DataFrame], reach: float) -> float:
    moves = [rise(table, reach) for table in tables]
    return moves[0] if len(moves) == 1 else float(np.abs(moves).sum())


def words_of(photos: Iterable[object], groups: Mapping[str, str]) -> list[NDArray[np.str_]]:
    """Split the photos' groups into one array per category: "feminine" first, then "Black"."""
    split = [groups.get(str(photo), "").split(", ") for photo in photos]
    places = max(map(len, split), default=0)
    return [np.array([words[k] if k < len(words) else "" for words in split], dtype=np.str_) for k in range(places)]


def years(attribute: Attribute, rows: pd.DataFrame, groups: Mapping[str, str], options: ValidityOptions) -> list[Check]:
    """Check the change of perceived age in years: the mean in each gender, and the 90 % quantile over faces."""
    if YOUNG not in attribute.must_not_move:
        return []
    means: dict[tuple[str, str], float] = {}
    most: dict[str, float] = {}
    for judge, prefix in JUDGES.items():
        table = wide(rows, f"{prefix}_age") if f"{prefix}_age" in rows else pd.DataFrame()
        low, high = at(table, -1.0), at(table, 1.0)
        if not len(table) or np.isnan(high - low).any():
            continue
        most[judge] = measures.years_moved(low, high).most
        genders = next(iter(words_of(table.index, groups)), np.full(len(table), ""))
        named = {"all faces": np.ones(len(table), dtype=bool)}
        named |= {
            str(g): genders == g for g in np.unique(genders) if g and (genders == g).sum() >= options.smallest_group
        }
        means |= {(judge, who): measures.years_moved(low[rows_], high[rows_]).mean for who, rows_ in named.items()}
    largest, words = NAN, "No complete sweep."
    if means:
        (judge, who), largest = max(means.items(), key=lambda item: abs(item[1]))
        words = (
            f"Mean change of perceived age from a = −1 to +1 where it is largest ({judge}, {who}); "
            f"of all faces{each({j: x for (j, w), x in means.items() if w == 'all faces'}, '', sign=True)}."
        )
    nine = f"Nine of ten faces stay below this change of perceived age, in either direction{each(most, 'years')}."
    return [
        line("age", attribute.name, largest, "years", words, most=options.years),
        line(
            "age: nine of ten", attribute.name, max(most.values(), default=NAN), "years", nine, most=options.most_years
        ),
    ]
