"""Counterfactual bias amplification of a run: signs of a base, the table, and the report's section."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.analyses import sections as page
from pipeline.analyses.amplification_options import AmplificationOptions
from pipeline.analyses.inputs import InputError, check_column, indicators, run_sweeps
from pipeline.config.attributes import EDIT_ARM, Attribute, attribute_of
from pipeline.run.folder import settings_of
from pipeline.run.formats import count, decimal, is_missing, plain, pluralise
from pipeline.run.progress import Watch
from pipeline.run.record import RunError

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.base import Kept

NO_BASE = (
    "the signs of the tasks need a base: give a table with --base, "
    "or the manifest's columns of groups and tasks with --attribute and --task"
)
NO_LABEL = "no classifier of {folder} returned the label {label!r}"
NO_SWEEP = "{folder} has no complete sweep with poles named {known}"


def amplification_of_run(folder: Path, options: AmplificationOptions, *, watch: Watch) -> "pd.DataFrame":
    """Counterfactual amplification of every adapter, attribute and arm of a run, by task and as a mean over tasks.

    The signs are those of a table of shares, or of the photos' groups and tasks in the manifest. Errors as for
    ``AmplificationAnalysis.compute``.
    """
    import pandas as pd

    from pipeline.statistics import COUNTERFACTUAL_COLUMNS, counterfactual_amplification

    known = run_sweeps(folder, options.changes())
    swept, shares, tasks = settings_of(known.run).sweep.chosen(), options.shares(), options.map
    if shares is None and not (options.attribute and options.task):
        raise InputError(NO_BASE)
    returned = {label for each in known.sweeps for label in each.labels}
    for label in tasks or ():
        if label not in returned:
            raise InputError(NO_LABEL.format(folder=folder, label=label))
    pairs = options.values or (None,)
    frames = []
    with watch("amplification", total=len(known.sweeps) * len(pairs)) as advance:
        for sweeps in known.sweeps:
            poles = attribute_of(sweeps.attribute, swept).pole_names
            if not sweeps.photos:
                signs = None
            elif shares is not None:
                signs = _signs_of_shares(*shares, poles)
            else:
                signs = _signs_observed(known.photos, options.attribute[0], options.task, poles)
            own = None if tasks is None else {label: task for label, task in tasks.items() if label in sweeps.labels}
            for ends in pairs:
                if signs is not None and _has(sweeps, ends):
                    how: dict[str, Any] = {"clusters": known.clusters, **options.drawing}
                    frames.append(counterfactual_amplification(sweeps, signs=signs, tasks=own, values=ends, **how))
                advance(1)
    if not frames:
        names = f"as in the column {options.attribute[0]!r}" if shares is None else shares[1]
        raise RunError(NO_SWEEP.format(folder=folder, known=names))
    return pd.concat(frames, ignore_index=True)[list(COUNTERFACTUAL_COLUMNS)]


def _has(sweeps: Any, ends: tuple[float, float] | None) -> bool:
    """Whether a placebo has these values; True for edits, for which ``counterfactual_amplification`` checks them."""
    return sweeps.arm == EDIT_ARM or ends is None or all(abs(sweeps.values - end).min() < 1e-6 for end in ends)


def _signs_of_shares(
    shares: Mapping[str, float], group: str, poles: tuple[tuple[str, ...], tuple[str, ...]]
) -> dict[str, int] | None:
    """Task -> +1 if the higher pole has more than its mean share; None if the group is not one of the poles."""
    from pipeline.statistics import signs_of_shares

    end = _end(group, poles)
    if end is None:
        return None
    signs = signs_of_shares([list(shares.values())])[0]
    return {task: int(sign) if end == 1 else -int(sign) for task, sign in zip(shares, signs, strict=True)}


def _signs_observed(
    photos: "pd.DataFrame", column: str, tasks: Sequence[str], poles: tuple[tuple[str, ...], tuple[str, ...]]
) -> dict[str, int] | None:
    """Task -> +1 if it is more frequent in photos of the higher pole; None without photos of both poles."""
    import numpy as np

    from pipeline.statistics import signs

    for name in (column, *tasks):
        check_column(photos, name, purpose="find the signs")
    ends = np.array([np.nan if (end := _end(value, poles)) is None else end for value in photos[column]])
    known = photos[~np.isnan(ends)].reset_index(drop=True)
    ends = ends[~np.isnan(ends)].astype(int)
    if len(set(ends.tolist())) < 2:
        return None
    labels = indicators(known, tasks, table="the manifest")
    found = signs(np.eye(2, dtype=np.int8)[ends], labels)[1]
    return {str(task): int(sign) for task, sign in zip(labels.columns, found, strict=True)}


def _end(name: Any, poles: tuple[tuple[str, ...], tuple[str, ...]]) -> int | None:
    """0 for a name of the lower pole, 1 for a name of the higher one, else None."""
    folded = str(name).casefold()
    return next((end for end, names in enumerate(poles) if folded in {pole.casefold() for pole in names}), None)


# The report's section


def section(frame: "pd.DataFrame", kept: "Kept") -> page.Section:
    """A part for each adapter, attribute and pair of values; the base and the level are in ``kept.about``."""
    return page.Section(
        key="amplification",
        heading="Directional bias amplification",
        explanation="Given the same faces with another perceived attribute, do the classifier’s labels change in the "
        "direction of the association in the base? For each task: half the change of its rate from one end of the "
        "sweep to the other, positive in the direction of the base (counterfactual BiasAmp→ from attribute to task). "
        f"The base is {kept.about['base']}.",
        parts=[
            _part(rows, adapter, kept.attribute(name), level=float(kept.about["level"]))
            for (adapter, name, *_), rows in page.rows_by(frame, "adapter", "attribute", "value_low", "value_high")
        ],
        caveats=[
            "The base is treated as exact: the intervals are over photos and do not include its errors.",
            "Each interval is of a single task; with many tasks some exclude 0 by chance.",
            "After Wang and Russakovsky, “Directional Bias Amplification”, 2021, with the observed groups replaced by "
            "two versions of the same photos.",
        ],
        attributes=page.attributes_of(frame),
    )


def _part(rows: "pd.DataFrame", adapter: str, attribute: Attribute, *, level: float) -> page.Subsection:
    def bounds(row: Any) -> str:
        return page.bounds(row["amplification"], row["low"], row["high"], level=level)

    edits, placebos = page.edits_of(rows), {}
    for (arm,), part in page.rows_by(rows[rows["arm"] != EDIT_ARM], "arm"):
        placebos[arm] = part.set_index("task")
    tasks = edits[edits["task"] != ""].sort_values("amplification", ascending=False, kind="stable", na_position="last")
    known = tasks[tasks["amplification"].notna()]
    low, high = (plain(float(rows[name].iloc[0])) for name in ("value_low", "value_high"))
    heading = f"{adapter}, {attribute.subject}: a = {low} against a = {high}"
    sentences = [_overall(edits[edits["task"] == ""].to_dict("records"), len(known), bounds)]
    more, less = known[known["low"] > 0], known[known["high"] < 0].iloc[::-1]
    for sure, words in ((more, "in the direction of the base"), (less, "against the base")):
        if len(sure):
            sentences.append(
                f"{count(len(sure))} of {count(len(known))} tasks change {words} (intervals that exclude 0), "
                f"most {page.quoted(sure.iloc[0]['task'])}: {bounds(sure.iloc[0])}."
            )
    sentences += [
        f"The placebo {page.quoted(arm)}, which should not change the attribute: {bounds(part.loc[''])}."
        for arm, part in placebos.items()
        if "" in part.index
    ]
    leaning = tasks["sign"].map({-1: attribute.poles[0], 1: attribute.poles[1]}).fillna("neither")
    shown = tasks.assign(
        leans=tasks["reason"].where(tasks["reason"] != "", leaning),
        **{f"placebo {arm}": tasks["task"].map(part["amplification"]) for arm, part in placebos.items()},
    )
    mapped: list[page.Column] = [("Labels", "labels", "text")] if (tasks["labels"] != tasks["task"]).any() else []
    columns: list[page.Column] = [
        ("Task", "task", "text"), *mapped, ("Base leans to", "leans", "text"),
        (f"Rate at a = {low}", "rate_low", "decimal"), (f"Rate at a = {high}", "rate_high", "decimal"),
        ("BiasAmp→", "amplification", "signed"), (f"{100 * level:g} % interval", ("low", "high"), "interval"),
    ]  # fmt: skip
    columns += [(f"Placebo {page.quoted(arm)}", f"placebo {arm}", "signed") for arm in placebos]
    return page.Subsection(
        heading=heading,
        sentences=sentences,
        charts=[_chart(known, heading, level=level)] if len(known) else [],
        tables=[page.Table(f"{pluralise(len(shown), 'task')}, largest BiasAmp→ first", shown, columns)],
    )


def _overall(rows: Sequence[Mapping[Any, Any]], tasks: int, bounds: Callable[[Any], str]) -> str:
    if not rows or is_missing(rows[0]["amplification"]):
        return "The base has none of the tasks, so nothing can be concluded about amplification."
    row = rows[0]
    mean = f"mean over {pluralise(tasks, 'task')} {bounds(row)}"
    if is_missing(row["low"]):
        return f"Without an interval, nothing can be concluded: {mean}."
    if row["low"] > 0:
        return f"The labels change in the direction of the base: {mean}."
    if row["high"] < 0:
        return f"The labels change against the direction of the base: {mean}."
    return f"No evidence of an amplification larger than {decimal(max(-row['low'], row['high']))} either way: {mean}."


def _chart(known: "pd.DataFrame", heading: str, *, level: float) -> page.Dots:
    import pandas as pd

    half = page.MOST // 2
    shown = known if len(known) <= page.MOST else pd.concat([known[:half], known[-half:]])
    first, last = known.iloc[0], known.iloc[-1]
    caption = f"BiasAmp→ of each task with its {100 * level:g} % interval; full where the interval excludes 0."
    if len(shown) < len(known):
        caption += f" The {len(shown)} farthest ends of {len(known)} tasks; the table has them all."
    return page.Dots(
        page.dot_rows(shown, "task", "amplification", "low", "high"),
        axis="← against · BiasAmp→ · with the base →",
        title=f"BiasAmp→: {heading}",
        description=f"{pluralise(len(shown), 'task')}, from {page.quoted(first['task'])} "
        f"({decimal(first['amplification'])}) to {page.quoted(last['task'])} ({decimal(last['amplification'])}).",
        caption=caption,
    )
