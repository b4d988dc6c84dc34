"""Bias amplification of a file of predictions: which columns are what, and the tables of all that they allow.

The measures are in ``pipeline.statistics``, the files in ``predictions``; of a run, ``intervening`` does the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipeline.analyses.predictions import InputError, indicators

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.statistics import Amplification, MultiAmplification, SignRule

Frames = dict[str, "pd.DataFrame"]


@dataclass(frozen=True)
class Columns:
    """Names of columns: groups and tasks as labelled and as predicted, each one column of names or several of numbers.

    ``predicted_tasks`` stand in the order of ``tasks``, ``predicted_attributes`` in that of ``attributes``.
    """

    attributes: tuple[str, ...]
    tasks: tuple[str, ...]
    predicted_tasks: tuple[str, ...] = ()
    predicted_attributes: tuple[str, ...] = ()
    cluster: str | None = None


@dataclass(frozen=True, eq=False)
class Labelled:
    """A file's columns as frames of numbers; what it does not have is None."""

    attributes: "pd.DataFrame"
    tasks: "pd.DataFrame"
    predicted_tasks: "pd.DataFrame | None" = None
    predicted_attributes: "pd.DataFrame | None" = None


@dataclass(frozen=True)
class Options:
    """How it is measured.

    Attributes:
        rule: "code" or "paper", where the two differ.
        sets: the rule for sets of tasks, for the multi-attribute measures; None leaves them out.
        over: thresholds are integrated over "scores" or "ranks"; None takes predictions as they are.
        resamples, seed, level: of the intervals.
    """

    rule: Literal["code", "paper"] = "code"
    sets: Literal["code", "paper"] | None = None
    over: Literal["scores", "ranks"] | None = None
    resamples: int = 2000
    seed: int = 0
    level: float = 0.95


@dataclass(frozen=True, eq=False)
class Amplified:
    """Tables: the measures as a whole, pair by pair, and the rates of the groups (empty without predicted tasks)."""

    summary: "pd.DataFrame"
    pairs: "pd.DataFrame"
    rates: "pd.DataFrame"


def labelled(frame: "pd.DataFrame", columns: Columns, *, table: str, like: Labelled | None = None) -> Labelled:
    """The columns of a file; with ``like``, groups and tasks are those of another file, and no other.

    Raises:
        InputError: a column that is missing or cannot be what it should be.
    """
    groups = None if like is None else list(like.attributes.columns)
    names = None if like is None else list(like.tasks.columns)
    attributes = indicators(frame, columns.attributes, table=table, names=groups)
    tasks = indicators(frame, columns.tasks, table=table, names=names)
    predicted: dict[str, Any] = {}
    for name, wanted, given in (
        ("predicted_tasks", tasks, columns.predicted_tasks),
        ("predicted_attributes", attributes, columns.predicted_attributes),
    ):
        if given:
            predicted[name] = indicators(frame, given, table=table, names=list(wanted.columns))
            if predicted[name].shape[1] != wanted.shape[1]:
                raise InputError(
                    f"{table}: {len(given)} columns are named as {name.replace('_', ' ')} ({', '.join(given)}), "
                    f"but {wanted.shape[1]} are labelled ({', '.join(map(str, wanted.columns))})"
                )
    return Labelled(attributes, tasks, **predicted)


def at_threshold(data: Labelled, threshold: float) -> Labelled:
    """Predictions of 1 from ``threshold`` on, of 0 below it."""

    def called(scores: "pd.DataFrame | None") -> "pd.DataFrame | None":
        return None if scores is None else (scores >= threshold).astype("int8")

    return Labelled(data.attributes, data.tasks, called(data.predicted_tasks), called(data.predicted_attributes))


def calibrated(data: Labelled, validation: Labelled, *, train: Labelled | None) -> Labelled:
    """Predictions at thresholds calibrated on a validation file: as the paper has it with ``train``, else as the code.

    Raises:
        ValueError: the scores of either file cannot be such.
    """
    import pandas as pd

    from pipeline.statistics import at_thresholds, calibrated_as_in_code, calibrated_as_in_paper

    def called(name: str) -> "pd.DataFrame | None":
        scores, known = getattr(data, f"predicted_{name}"), getattr(validation, f"predicted_{name}")
        if scores is None:
            return None
        if train is None:
            thresholds = calibrated_as_in_code(known, getattr(validation, name))
        else:
            thresholds = calibrated_as_in_paper(known, getattr(train, name))
        return pd.DataFrame(at_thresholds(scores, thresholds), columns=scores.columns)

    return Labelled(data.attributes, data.tasks, called("tasks"), called("attributes"))


def amplified(
    data: Labelled,
    *,
    options: Options,
    train: Labelled | None = None,
    base: Mapping[str, float] | None = None,
    base_group: str | None = None,
    clusters: list[str] | None = None,
) -> Amplified:
    """Every measure that the columns allow: A->T from predicted tasks, T->A from predicted groups, MALS from both.

    Args:
        data: the test set.
        options: as its own docstring has them.
        train: labels whose signs count, and the base of MALS; the test labels unless given.
        base: task -> share of ``base_group``, whose signs count instead.
        base_group: one of two groups; the other has the rest.
        clusters: the cluster of each row.

    Raises:
        InputError: nothing is predicted, or the base does not fit.
        ValueError: the labels or predictions cannot be such.
    """
    import pandas as pd

    from pipeline.statistics import CODE, PAPER, attribute_to_task, group_rates, mals, task_to_attribute, threshold_free

    rule = CODE if options.rule == "code" else PAPER
    drawing: dict[str, Any] = {
        "resamples": options.resamples, "seed": options.seed, "level": options.level, "clusters": clusters,
    }  # fmt: skip
    sources: dict[str, Any] = {"rule": rule, **drawing}
    if base is not None:
        sources["base"] = _base_signs(data, base, base_group, rule)
    elif train is not None:
        sources["train"] = (train.attributes, train.tasks)
    found: list[Amplification] = []
    rates = pd.DataFrame()
    for measure, predictions in (
        (attribute_to_task, data.predicted_tasks),
        (task_to_attribute, data.predicted_attributes),
    ):
        if predictions is None:
            continue
        if options.over is None:
            found.append(measure(data.attributes, data.tasks, predictions=predictions, **sources))
        else:
            arguments = {"scores": predictions, "over": options.over, **sources}
            found.append(threshold_free(measure, data.attributes, data.tasks, **arguments))
    if not found:
        raise InputError("nothing is predicted: name columns with --predicted-task or --predicted-attribute")
    rows = [row for each in found for row in _directed_rows(each)]
    if data.predicted_tasks is not None and options.over is None:
        rates = group_rates(
            data.attributes, data.tasks, predictions=data.predicted_tasks, level=options.level, clusters=clusters
        ).to_frame()
    if data.predicted_tasks is not None and data.predicted_attributes is not None and options.over is None:
        labels = data if train is None else train
        both = mals(
            labels.attributes,
            labels.tasks,
            attribute_predictions=data.predicted_attributes,
            task_predictions=data.predicted_tasks,
            **drawing,
        )
        rows.append(_row("BiasAmp MALS", both.value, both.low, both.high))
    if options.sets is not None:
        for several in _multi(data, options=options, train=train, drawing=drawing, rule=rule):
            name = f"Multi {several.direction}, {len(several.sets)} sets"
            rows.append(_row(f"{name}, absolute", several.value, several.low, several.high))
            rows.append(_row(f"{name}, noise alone", several.noise))
            rows.append(_row(f"{name}, signed", several.signed, several.signed_low, several.signed_high))
            rows.append(_row(f"{name}, variance", several.variance))
    pairs = pd.concat([each.to_frame() for each in found], ignore_index=True)
    return Amplified(pd.DataFrame(rows), pairs, rates)


def _multi(
    data: Labelled, *, options: Options, train: Labelled | None, drawing: Mapping[str, Any], rule: "SignRule"
) -> "list[MultiAmplification]":
    from pipeline.statistics import multi_amplification, multi_mals, task_sets

    labels = data if train is None else train
    base, test = (labels.attributes, labels.tasks), (data.attributes, data.tasks)
    sets = task_sets(base, test, rule=options.sets or "code")
    common: dict[str, Any] = {"sets": sets, "train": base, "rule": rule, **drawing}
    found = []
    if data.predicted_tasks is not None:
        found.append(multi_amplification("A->T", *test, predictions=data.predicted_tasks, **common))
    if data.predicted_attributes is not None:
        found.append(multi_amplification("T->A", *test, predictions=data.predicted_attributes, **common))
    if data.predicted_tasks is not None and data.predicted_attributes is not None:
        found.append(
            multi_mals(
                *base,
                attribute_predictions=data.predicted_attributes,
                task_predictions=data.predicted_tasks,
                sets=sets,
            )
        )
    return found


def _base_signs(data: Labelled, base: Mapping[str, float], group: str | None, rule: "SignRule") -> Any:
    import numpy as np

    from pipeline.statistics import signs_of_shares

    groups = [str(name) for name in data.attributes.columns]
    if len(groups) != 2 or group not in groups:
        raise InputError(
            f"a table of shares is of one of two groups, but names {group!r} where there are {', '.join(groups)}"
        )
    for task in data.tasks.columns:
        if str(task) not in base:
            raise InputError(f"the base has no share for the task {str(task)!r}: add it, or leave the task out")
    # The mean share is the whole table's, the signs those of the tasks at hand.
    tasks = list(base)
    own = np.array([base[task] for task in tasks])
    signs = signs_of_shares([own, 1 - own] if group == groups[0] else [1 - own, own], rule=rule)
    return signs[:, [tasks.index(str(task)) for task in data.tasks.columns]]


def _directed_rows(found: "Amplification") -> list[dict[str, Any]]:
    """BiasAmp->, how many pairs it rests on, and a second, wider interval where signs are not sure."""
    name = f"BiasAmp {found.direction}"
    reasons = found.to_frame()["reason"].value_counts()
    said = [f"{count} {reason}" for reason, count in reasons.items() if reason]
    unsure = int(found.unsure.sum())
    if unsure:
        said.append(
            f"{unsure} signs not sure: the interval may be too narrow and too low; a --train or --base is better"
        )
    rows = [_row(name, found.value, found.low, found.high)]
    rows[0]["note"] = f"{found.delta.size} pairs" + (f": {'; '.join(said)}" if said else "")
    if unsure:
        rows.append(_row(f"{name}, unsure signs either way", found.value, found.either_low, found.either_high))
    return rows


def _row(measure: str, value: float, low: float = float("nan"), high: float = float("nan")) -> dict[str, Any]:
    return {"measure": measure, "value": value, "low": low, "high": high, "note": ""}
