"""``counterslope amplification``: of a file of labels and predictions, or of a run with the attribute intervened on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.analyses.amplification import Columns, Labelled, Options, amplified, at_threshold, calibrated, labelled
from pipeline.analyses.artifacts import Inputs
from pipeline.analyses.predictions import InputError, read_predictions, share_table
from pipeline.analyses.run_amplification import amplification_of_run, read_mapping
from pipeline.cli.artifacts import keep, run_options
from pipeline.cli.options import Cluster, TableFile, TableFormat, print_frame, user_errors

if TYPE_CHECKING:
    import pandas as pd

Names = list[str] | None
SHOWN = ("summary", "pairs", "rates")
RUN_OPTIONS = ("presence_threshold", "response", "cluster")


def _column(help: str) -> Any:
    return typer.Option(help=help, show_default=False)


def amplification(
    source: Annotated[Path, typer.Argument(help="A CSV, TSV or Parquet file with one row a photo, or a run's folder.")],
    attribute: Annotated[Names, _column("Column of the groups' names, or columns of 0 and 1. May be repeated.")] = None,
    task: Annotated[Names, _column("Column of tasks' names, or columns of 0 and 1. May be repeated.")] = None,
    predicted_task: Annotated[Names, _column("Column of predicted tasks, in the order of --task: A->T.")] = None,
    predicted_attribute: Annotated[
        Names, _column("Column of predicted groups, likewise: T->A; with both, MALS.")
    ] = None,
    train: Annotated[Path | None, _column("File of training labels, same columns: the base of the signs.")] = None,
    base: Annotated[Path | None, _column("Table of a group's share in each task: the base instead.")] = None,
    base_columns: Annotated[
        str | None, _column("TASK,SHARE,GROUP: its two columns, and the group whose share it is.")
    ] = None,
    threshold: Annotated[float | None, _column("Scores from here on are predictions of 1; else averaged.")] = None,
    over: Annotated[str | None, _column("Average over all thresholds: scores or ranks.")] = None,
    validation: Annotated[Path | None, _column("File to calibrate thresholds on: same columns.")] = None,
    rule: Annotated[str, typer.Option(help="Where they differ: the published code or the paper.")] = "code",
    sets: Annotated[str | None, _column("Also sets of tasks (Multi): as in the code or the paper.")] = None,
    map_label: Annotated[
        Names, typer.Option("--map", help="Of a run: LABEL=TASK, or a file with columns label and task.")
    ] = None,
    values: Annotated[Names, _column("Of a run: LOW,HIGH values of the attribute to compare. May be repeated.")] = None,
    response: Annotated[str | None, typer.Option(help="Of a run: presence or confidence.", show_default=False)] = None,
    cluster: Cluster = None,
    show: Annotated[
        str, typer.Option(help="Of a file: summary, pairs, or rates (TPR, FPR, accuracy by group).")
    ] = SHOWN[0],
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples; 0 for no intervals.")] = 2000,
    seed: int = 0,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    format: TableFormat = None,
    out: TableFile = None,
) -> None:
    """Directional bias amplification: does a classifier lean further the way its data lean?"""
    with user_errors(ValueError):
        for name, value, allowed in (
            ("--rule", rule, ("code", "paper")),
            ("--sets", sets or "code", ("code", "paper")),
            ("--over", over or "scores", ("scores", "ranks")),
            ("--show", show, SHOWN),
        ):
            if value not in allowed:
                raise InputError(f"{name} must be {' or '.join(allowed)}, not {value!r}")
        shares, share_group = _shares(base, base_columns)
        if source.is_dir():
            frame = amplification_of_run(
                source,
                shares=shares,
                share_group=share_group,
                observed=(attribute[0], task) if attribute and task else None,
                tasks=_mapping(map_label),
                values=[_pair(text) for text in values or ()],
                cluster=cluster,
                response=response,
                resamples=resamples,
                seed=seed,
                level=level,
            )
            print_frame(
                frame, format, title="A->T with the attribute intervened on (no task: mean over tasks)", out=out
            )
            keep(
                source,
                "amplification",
                {"amplification": frame},
                sources=Inputs(
                    elsewhere=() if base is None else (base,),
                    options=run_options({"cluster": cluster, "response": response}, *RUN_OPTIONS),
                ),
                about={"base": _base_words(base, share_group, attribute, task), "level": level},
            )
            return
        if not attribute or not task:
            raise InputError("name the columns of groups and tasks with --attribute and --task")
        columns = Columns(
            tuple(attribute), tuple(task), tuple(predicted_task or ()), tuple(predicted_attribute or ()), cluster
        )
        table = read_predictions(source)
        data = labelled(table, columns, table=str(source))
        labels_only = Columns(columns.attributes, columns.tasks)
        training = None
        if train is not None:
            training = labelled(read_predictions(train), labels_only, table=str(train), like=data)
        data = _called(data, columns, threshold=threshold, validation=validation, rule=rule, train=training)
        options = Options(rule=rule, sets=sets, over=over, resamples=resamples, seed=seed, level=level)  # type: ignore[arg-type]
        found = amplified(
            data,
            options=options,
            train=training,
            base=shares,
            base_group=share_group,
            clusters=_clusters(table, cluster, source),
        )
        print_frame(getattr(found, show), format, title=f"Bias amplification, {show} ({rule}'s rules)", out=out)


def _base_words(base: Path | None, group: str | None, attribute: Names, task: Names) -> str:
    """Where the signs come from, for people."""
    if base is not None:
        return f"the shares of {group} in {base.name}"
    return f"what the manifest says of the photos: {', '.join(attribute or ())} against {', '.join(task or ())}"


def _called(
    data: Labelled,
    columns: Columns,
    *,
    threshold: float | None,
    validation: Path | None,
    rule: str,
    train: Labelled | None,
) -> Labelled:
    """The predictions at a threshold, given or calibrated; as they are without either."""
    if threshold is not None and validation is not None:
        raise InputError("give --threshold or --validation, not both")
    if validation is not None:
        if rule == "paper" and train is None:
            raise InputError("calibrating as in the paper takes the share of positives from --train")
        known = labelled(read_predictions(validation), columns, table=str(validation), like=data)
        return calibrated(data, known, train=train if rule == "paper" else None)
    return data if threshold is None else at_threshold(data, threshold)


def _shares(base: Path | None, columns: str | None) -> tuple[dict[str, float] | None, str | None]:
    if base is None:
        return None, None
    parts = [part.strip() for part in (columns or "").split(",")]
    if len(parts) != 3 or not all(parts):
        raise InputError("--base needs --base-columns TASK,SHARE,GROUP, such as occupation,bls_pct_female,female")
    return share_table(base, task=parts[0], share=parts[1]), parts[2]


def _mapping(texts: Names) -> dict[str, str] | None:
    if not texts:
        return None
    mapping: dict[str, str] = {}
    for text in texts:
        label, equals, task = text.rpartition("=")
        if equals and label and task:
            mapping[label.strip()] = task.strip()
        else:
            mapping |= read_mapping(Path(text))
    return mapping


def _pair(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--values takes LOW,HIGH such as -1,1, not {text!r}") from None
    return low, high


def _clusters(table: "pd.DataFrame", column: str | None, source: Path) -> list[str] | None:
    """The cluster of each row; a row of which the column tells nothing is a cluster of its own."""
    if column is None:
        return None
    if column not in table.columns:
        raise InputError(f"{source} has no column {column!r}; its columns are {', '.join(map(repr, table.columns))}")
    missing = table[column].isna()
    return [
        f"row {row}" if alone else f"cluster {name}"
        for row, (name, alone) in enumerate(zip(table[column], missing, strict=True))
    ]
