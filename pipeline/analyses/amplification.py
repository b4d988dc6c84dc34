"""Directional bias amplification: of a file of predictions, or of a run with the attribute intervened on.

The file's part is here, the run's in ``run_amplification``; the measures are in ``pipeline.statistics``.
"""

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

UNSURE = "{count} signs not sure: the interval may be too narrow and too low; a --train or --base is better"


class AmplificationAnalysis(Analysis[AmplificationOptions]):
    """Directional bias amplification: does a classifier lean further the way its data lean?"""

    name = "amplification"
    reads = ("file", "run")
    options = AmplificationOptions
    tables = ("summary", "pairs", "rates", "precision")
    uses = ("presence_threshold", "response", "cluster")
    examples = (
        "counterslope amplification predictions.csv --attribute gender --task cooking --prediction cooking_score",
        "counterslope amplification runs/portraits --base occupations.tsv "
        "--base-columns occupation,bls_pct_female,female",
    )

    def compute(self, source: Path, options: AmplificationOptions, *, watch: Watch = unwatched) -> Result:
        """Of a run, rows of every adapter, attribute, arm and task; of a file, tables summary, pairs and rates."""
        if source.is_dir():
            elsewhere = [] if isinstance(options.base, Mapping) else [options.base]
            return Result(
                title="A->T with the attribute intervened on (no task: mean over tasks)",
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
        """Of a run: one part for each adapter, attribute and pair of values."""
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
    """The predictions at a threshold, given or calibrated; as they are without either."""
    import pandas as pd

    from pipeline.statistics import at_thresholds, calibrated_as_in_code, calibrated_as_in_paper

    if options.threshold is not None and options.validation is not None:
        raise InputError("give --threshold or --validation, not both")
    known: Data = {}
    if options.validation is not None:
        if options.rule == "paper" and train is None:
            raise InputError("calibrating as in the paper takes the share of positives from --train")
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
    """Every measure that the columns allow: A->T from predicted tasks, T->A from predicted groups, MALS from both."""
    import pandas as pd

    from pipeline import statistics as measures

    rule = measures.CODE if options.rule == "code" else measures.PAPER
    own, base = (data["attributes"], data["tasks"]), (train["attributes"], train["tasks"])
    shares = options.shares()
    sources: dict[str, Any] = {"rule": rule, **drawing}
    if shares is not None:
        sources["base"] = _base_signs(data, *shares, rule)
    elif train is not data:
        sources["train"] = base
    measures_of = {
        "predictions": (measures.attribute_to_task, "A->T"),
        "predicted_attributes": (measures.task_to_attribute, "T->A"),
    }
    predicted: dict[str, Any] = {name: data[name] for name in measures_of if name in data}
    directed: list[tuple[Any, Any, pd.DataFrame]] = [(*measures_of[name], frame) for name, frame in predicted.items()]
    if not directed:
        raise InputError("nothing is predicted: name columns with --prediction or --predicted-attribute")
    if options.over is None:
        found = [measure(*own, predictions=frame, **sources) for measure, _, frame in directed]
    else:
        over: dict[str, Any] = {"over": options.over, **sources}
        found = [measures.threshold_free(measure, *own, scores=frame, **over) for measure, _, frame in directed]
    rows = [row for each in found for row in _directed_rows(each)]
    tables = {"pairs": pd.concat([each.to_frame() for each in found], ignore_index=True)}
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
    """How well scores predict the tasks, before any threshold: a table, and mAP as a row of the summary."""
    import pandas as pd

    from pipeline.statistics import average_precision

    found = average_precision(tasks, scores, **drawing)
    last = found.iloc[-1]
    row = _row("mAP, mean average precision of the tasks", last["average_precision"], last["low"], last["high"])
    return {"summary": pd.concat([summary, pd.DataFrame([row])], ignore_index=True), "precision": found}


def _against_rates(frame: "pd.DataFrame", options: AmplificationOptions, *, table: str) -> Result:
    """Predictions against the rates of a table, where no label says who has which task (Table 2).

    Raises:
        InputError: no table, or neither tasks with predicted groups nor groups with predicted tasks.
    """
    import numpy as np
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
        own = _shares_of_tasks(known[0], [str(task) for task in tasks.columns])
        place = _place_of_group([str(name) for name in groups.columns], known[1])
        both = np.array([own, 1 - own] if place == 0 else [1 - own, own])
        weights = _weights_of_tasks(options, list(map(str, tasks.columns))) if direction == "A->T" else None
        rates: dict[str, Any] = {"shares_of_groups": both, "weights": weights, "rule": rule, **drawing}
        found.append(measures.amplification_of_rates(direction, given, predictions=predicted, **rates))
    tables = {
        "summary": pd.DataFrame([row for each in found for row in _directed_rows(each)]),
        "pairs": pd.concat([each.to_frame() for each in found], ignore_index=True),
    }
    title = f"Bias amplification against the rates of {options.base} ({options.rule}'s rules)"
    return Result(title=title, tables=tables, shown=["summary"], kept=dict)


def _weights_of_tasks(options: AmplificationOptions, tasks: Sequence[str]) -> list[float] | None:
    """How frequent each task is by the table of shares; None for equally."""
    if options.base_weights is None:
        return None
    if not isinstance(options.base, Path):
        raise InputError("--base-weights names a column of the table --base")
    known = by_name(options.base, (options.base_columns or "").partition(",")[0].strip(), options.base_weights)
    return [float(known[task]) for task in tasks]


def _place_of_group(groups: Sequence[str], group: str) -> int:
    """Which of two groups the shares are of; InputError where there are not two, or not this one."""
    if len(groups) != 2 or group not in groups:
        raise InputError(
            f"a table of shares is of one of two groups, but names {group!r} where there are {', '.join(groups)}"
        )
    return groups.index(group)


def _shares_of_tasks(base: Mapping[str, float], tasks: Sequence[str]) -> Any:
    """``(|T|,)`` the shares of the tasks at hand; InputError where the base lacks one."""
    import numpy as np

    for task in tasks:
        if task not in base:
            raise InputError(f"the base has no share for the task {task!r}: add it, or leave the task out")
    return np.array([base[task] for task in tasks])


def _base_signs(data: "Data", base: Mapping[str, float], group: str, rule: Any) -> Any:
    """The signs of a table of one group's shares."""
    import numpy as np

    from pipeline.statistics import signs_of_shares

    place = _place_of_group([str(name) for name in data["attributes"].columns], group)
    wanted = [str(task) for task in data["tasks"].columns]
    _shares_of_tasks(base, wanted)
    # The mean share is the whole table's, the signs those of the tasks at hand.
    tasks = list(base)
    own = np.array([base[task] for task in tasks])
    signs = signs_of_shares([own, 1 - own] if place == 0 else [1 - own, own], rule=rule)
    return signs[:, [tasks.index(task) for task in wanted]]


def _directed_rows(found: "Amplification") -> list[dict[str, Any]]:
    """BiasAmp->, how many pairs it rests on, and a second, wider interval where signs are not sure."""
    name = f"BiasAmp {found.direction}"
    notes = [f"{count} {reason}" for reason, count in found.to_frame()["reason"].value_counts().items() if reason]
    unsure = int(found.unsure.sum())
    notes += [UNSURE.format(count=unsure)] if unsure else []
    note = f"{found.delta.size} pairs" + (f": {'; '.join(notes)}" if notes else "")
    rows = [_row(name, found.value, found.low, found.high) | {"note": note}]
    if unsure:
        rows.append(_row(f"{name}, unsure signs either way", found.value, found.either_low, found.either_high))
    return rows


def _row(measure: str, value: float, low: float = float("nan"), high: float = float("nan")) -> dict[str, Any]:
    """A row of the summary."""
    return {"measure": measure, "value": value, "low": low, "high": high, "note": ""}


AMPLIFICATION = AmplificationAnalysis()
