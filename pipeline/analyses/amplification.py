"""Directional bias amplification of a file of predictions; ``run_amplification`` analyses runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.analyses.amplification_options import AmplificationOptions
from pipeline.analyses.base import Analysis, Kept, Result
from pipeline.analyses.inputs import InputError, by_name, indicators, read_predictions, row_clusters
from pipeline.analyses.run_amplification import amplification_of_run, section
from pipeline.analyses.sections import Section
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.statistics import Amplification
    from pipeline.statistics.amplification.counts import Direction

    Data = Mapping[str, pd.DataFrame]

UNSURE = "{count} signs unsure: the interval may be too narrow and too low; a --train or --base is preferable"


class AmplificationAnalysis(Analysis[AmplificationOptions]):
    """Directional bias amplification: does a classifier strengthen the associations in its data?"""

    name = "amplification"
    reads = ("file", "run")
    options = AmplificationOptions
    tables = ("summary", "pairs", "rates", "precision")
    examples = (
        "counterslope amplification predictions.csv --attribute gender --task cooking --prediction cooking_score",
        "counterslope amplification runs/portraits --base occupations.tsv "
        "--base-columns occupation,bls_pct_female,female",
    )

    def compute(self, source: Path, options: AmplificationOptions, *, watch: Watch = unwatched) -> Result:
        """For a run, a row per adapter, attribute, arm and task; for a file, summary, pairs, rates and precision."""
        if source.is_dir():
            elsewhere = [] if isinstance(options.base, Mapping) else [options.base]
            return Result(
                title="Counterfactual A->T (the row without a task is the mean over tasks)",
                tables={self.name: amplification_of_run(source, options, watch=watch)},
                about={"base": options.base_words(), "level": options.level},
                inputs=self.inputs(options, elsewhere=elsewhere),
            )
        frame = read_predictions(source)
        if options.base_rates:
            return _against_rates(frame, options, table=str(source))
        if not options.attribute or not options.task:
            raise InputError("name the columns of groups and tasks with --attribute and --task")
        data, train = _columns(frame, options, table=str(source)), None
        if options.train is not None:
            labels_only = options.model_copy(update={"prediction": (), "predicted_attribute": ()})
            train = _columns(read_predictions(options.train), labels_only, table=str(options.train), like=data)
        scores = data.get("predictions")
        data = _at_thresholds(data, options, train=train)
        drawing = options.drawing | {"clusters": row_clusters(frame, options.cluster, table=str(source))}
        with watch(self.name, total=1) as advance:
            tables = _measured(data, options, train=train or data, drawing=drawing)
            if scores is not None and not scores.isin([0, 1]).all(axis=None):
                tables |= _with_precision(tables["summary"], data["tasks"], scores, drawing)
            advance(1)
        return Result(title=f"Bias amplification ({options.rule}'s rules)", tables=tables, shown=["summary"], kept=dict)

    def sections(self, kept: Kept) -> Sequence[Section]:
        """For a run: a part for each adapter, attribute and pair of values."""
        return (section(kept.tables[self.name], kept),)


def _columns(frame: "pd.DataFrame", options: AmplificationOptions, *, table: str, like: "Data | None" = None) -> "Data":
    """Argument of the measures -> columns of a file as numbers; ``like``: another file with its groups and tasks."""
    data: dict[str, pd.DataFrame] = {}
    for argument, columns, labels in (
        ("attributes", options.attribute, None),
        ("tasks", options.task, None),
        ("predicted_attributes", options.predicted_attribute, "attributes"),
        ("predictions", options.prediction, "tasks"),
    ):
        if not columns:
            continue
        known = data.get(labels) if labels else (like or {}).get(argument)
        names = None if known is None else list(known.columns)
        data[argument] = indicators(frame, columns, table=table, names=names)
        if labels and names is not None and data[argument].shape[1] != len(names):
            raise InputError(
                f"{table}: {len(columns)} columns are named as predicted {labels} ({', '.join(columns)}), "
                f"but {len(names)} are labelled ({', '.join(map(str, names))})"
            )
    return data


def _at_thresholds(data: "Data", options: AmplificationOptions, *, train: "Data | None") -> "Data":
    """Apply a given or calibrated threshold to the predictions, if there is one."""
    import pandas as pd

    from pipeline.statistics import at_thresholds, calibrated_as_in_code, calibrated_as_in_paper

    if options.threshold is not None and options.validation is not None:
        raise InputError("give --threshold or --validation, not both")
    known: Data = {}
    if options.validation is not None:
        if options.rule == "paper" and train is None:
            raise InputError("calibration as in the paper needs --train for the share of positives")
        known = _columns(read_predictions(options.validation), options, table=str(options.validation), like=data)
    found = dict(data)
    for argument, labels in (("predicted_attributes", "attributes"), ("predictions", "tasks")):
        scores = data.get(argument)
        if scores is not None and options.threshold is not None:
            found[argument] = (scores >= options.threshold).astype("int8")
        elif scores is not None and known:
            if options.rule == "paper" and train is not None:
                thresholds = calibrated_as_in_paper(known[argument], train[labels])
            else:
                thresholds = calibrated_as_in_code(known[argument], known[labels])
            found[argument] = pd.DataFrame(at_thresholds(scores, thresholds), columns=scores.columns)
    return found


def _measured(
    data: "Data", options: AmplificationOptions, *, train: "Data", drawing: dict[str, Any]
) -> "dict[str, pd.DataFrame]":
    """Compute all measures: A->T for predicted tasks, T->A for predicted groups, MALS for both."""
    import pandas as pd

    from pipeline import statistics as measures

    rule = measures.CODE if options.rule == "code" else measures.PAPER
    own, base = (data["attributes"], data["tasks"]), (train["attributes"], train["tasks"])
    shares = options.shares()
    sources: dict[str, Any] = {"rule": rule, **drawing}
    if shares is not None:
        table = _group_shares(*shares, groups=data["attributes"], tasks=data["tasks"])
        # The mean share is over all tasks of the table, also those that the data lack.
        signs = measures.signs_of_shares(table.to_numpy(), rule=rule)
        sources["base"] = signs[:, [list(table.columns).index(task) for task in _names(data["tasks"])]]
    elif train is not data:
        sources["train"] = base
    measures_of = {
        "predictions": (measures.attribute_to_task, "A->T"),
        "predicted_attributes": (measures.task_to_attribute, "T->A"),
    }
    predicted: dict[str, Any] = {name: data[name] for name in measures_of if name in data}
    directed: list[tuple[Any, Any, pd.DataFrame]] = [(*measures_of[name], frame) for name, frame in predicted.items()]
    if not directed:
        raise InputError("name columns of predictions with --prediction or --predicted-attribute")
    if options.over is None:
        found = [measure(*own, predictions=frame, **sources) for measure, _, frame in directed]
    else:
        over: dict[str, Any] = {"over": options.over, **sources}
        found = [measures.threshold_free(measure, *own, scores=frame, **over) for measure, _, frame in directed]
    rows, tables = _directed_rows(found), {"pairs": _pairs(found)}
    if "predictions" in predicted and options.over is None:
        how = {"level": options.level, "clusters": drawing["clusters"]}
        tables["rates"] = measures.group_rates(*own, predictions=predicted["predictions"], **how)
    if len(predicted) == 2 and options.over is None:
        both = measures.mals(base[0], base[1], **predicted, **drawing)
        rows.append(_row("BiasAmp MALS", both.value, both.low, both.high))
    if options.sets is not None:
        sets = measures.task_sets(base, own, rule=options.sets)
        common: dict[str, Any] = {"sets": sets, "train": base, "rule": rule, **drawing}
        several = [measures.multi_amplification(way, *own, predictions=frame, **common) for _, way, frame in directed]
        several += [measures.multi_mals(base[0], base[1], **predicted, sets=sets)] if len(predicted) == 2 else []
        for each in several:
            name = f"Multi {each.direction}, {len(each.sets)} sets"
            rows += [
                _row(f"{name}, absolute", each.value, each.low, each.high),
                _row(f"{name}, noise alone", each.noise),
                _row(f"{name}, signed", each.signed, each.signed_low, each.signed_high),
                _row(f"{name}, variance", each.variance),
            ]
    return {"summary": pd.DataFrame(rows), **tables}


def _with_precision(
    summary: "pd.DataFrame", tasks: "pd.DataFrame", scores: "pd.DataFrame", drawing: dict[str, Any]
) -> "dict[str, pd.DataFrame]":
    """Average precision of the scores: a table, and mAP as a row of the summary."""
    import pandas as pd

    from pipeline.statistics import average_precision

    found = average_precision(tasks, scores, **drawing)
    last = found.iloc[-1]
    row = _row("mAP, mean average precision of the tasks", last["average_precision"], last["low"], last["high"])
    return {"summary": pd.concat([summary, pd.DataFrame([row])], ignore_index=True), "precision": found}


def _against_rates(frame: "pd.DataFrame", options: AmplificationOptions, *, table: str) -> Result:
    """Compare predictions with the rates of a table instead of labels (Table 2 of the paper).

    Raises:
        InputError: no table, or neither tasks with predicted groups nor groups with predicted tasks.
    """
    import pandas as pd

    from pipeline import statistics as measures

    known, data = options.shares(), _columns(frame, options, table=table)
    named: tuple[tuple[Direction, str, str], ...] = (
        ("A->T", "attributes", "predictions"), ("T->A", "tasks", "predicted_attributes"),
    )  # fmt: skip
    ways = [(way, data[given], data[guess]) for way, given, guess in named if given in data and guess in data]
    if known is None or not ways:
        raise InputError(
            "--base-rates takes --base, and --task with --predicted-attribute or --attribute with --prediction"
        )
    rule = measures.CODE if options.rule == "code" else measures.PAPER
    drawing = options.drawing | {"clusters": row_clusters(frame, options.cluster, table=table)}
    found = []
    for direction, given, predicted in ways:
        if direction == "A->T" and "tasks" in data:
            predicted = predicted.set_axis(data["tasks"].columns, axis=1)
        groups, tasks = (given, predicted) if direction == "A->T" else (predicted, given)
        both = _group_shares(*known, groups=groups, tasks=tasks)[_names(tasks)].to_numpy()
        weights = _weights_of_tasks(options, _names(tasks)) if direction == "A->T" else None
        rates: dict[str, Any] = {"shares_of_groups": both, "weights": weights, "rule": rule, **drawing}
        found.append(measures.amplification_of_rates(direction, given, predictions=predicted, **rates))
    tables = {"summary": pd.DataFrame(_directed_rows(found)), "pairs": _pairs(found)}
    title = f"Bias amplification against the rates of {options.base} ({options.rule}'s rules)"
    return Result(title=title, tables=tables, shown=["summary"], kept=dict)


def _weights_of_tasks(options: AmplificationOptions, tasks: Sequence[str]) -> list[float] | None:
    """Frequency of each task by the table of shares; None for equal weights."""
    if options.base_weights is None:
        return None
    if not isinstance(options.base, Path):
        raise InputError("--base-weights names a column of the table --base")
    known = by_name(options.base, (options.base_columns or "").partition(",")[0].strip(), options.base_weights)
    return [float(known[task]) for task in tasks]


def _names(frame: "pd.DataFrame") -> list[str]:
    return list(map(str, frame.columns))


def _group_shares(
    base: Mapping[str, float], group: str, *, groups: "pd.DataFrame", tasks: "pd.DataFrame"
) -> "pd.DataFrame":
    """Shares of both groups (rows) in every task of the base (columns), given those of one group.

    Raises:
        InputError: there are not two groups, the group is not one of them, or the base lacks a task.
    """
    import pandas as pd

    names, own = _names(groups), pd.Series(base, dtype="float64")
    if len(names) != 2 or group not in names:
        raise InputError(
            f"the shares of {group!r} need two groups, of which it is one, but there are {', '.join(names)}"
        )
    for task in _names(tasks):
        if task not in base:
            raise InputError(f"the base has no share for the task {task!r}: add it, or leave the task out")
    return pd.DataFrame([own if name == group else 1 - own for name in names], index=names)


def _pairs(found: "Sequence[Amplification]") -> "pd.DataFrame":
    import pandas as pd

    return pd.concat([each.to_frame() for each in found], ignore_index=True)


def _directed_rows(found: "Sequence[Amplification]") -> list[dict[str, Any]]:
    """BiasAmp-> with a note on its pairs, and a second, wider interval if signs are unsure."""
    rows = []
    for each in found:
        name, unsure = f"BiasAmp {each.direction}", int(each.unsure.sum())
        notes = [f"{count} {reason}" for reason, count in each.to_frame()["reason"].value_counts().items() if reason]
        notes += [UNSURE.format(count=unsure)] if unsure else []
        note = f"{each.delta.size} pairs" + (f": {'; '.join(notes)}" if notes else "")
        rows.append(_row(name, each.value, each.low, each.high) | {"note": note})
        if unsure:
            rows.append(_row(f"{name}, unsure signs either way", each.value, each.either_low, each.either_high))
    return rows


def _row(measure: str, value: float, low: float = float("nan"), high: float = float("nan")) -> dict[str, Any]:
    """A row of the summary."""
    return {"measure": measure, "value": value, "low": low, "high": high, "note": ""}


AMPLIFICATION = AmplificationAnalysis()
