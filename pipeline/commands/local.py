"""``counterslope local``: where, among similar photos or texts, two groups fare differently."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.additions import ANSWERED, Sources
from pipeline.commands.keeping import keep
from pipeline.commands.shared import Quiet, TableFormat, explained, print_frame, stop, watch

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.locating import LocalRows
    from pipeline.statistics.local_bias import LocalBias

TABLES = ("statistics", "clusters", "exemplars", "words")


def local(
    source: Annotated[Path, typer.Argument(help="A run's folder, or a CSV, TSV or Parquet file, one row a photo.")],
    adapter: Annotated[str | None, typer.Option(help="Of a run: whose labels.", show_default=False)] = None,
    label: Annotated[str | None, typer.Option(help="Of a run: which label.", show_default=False)] = None,
    group: Annotated[str | None, typer.Option(help="Of a file: column with two groups.", show_default=False)] = None,
    prediction: Annotated[str | None, typer.Option(help="Of a file: column predicted.", show_default=False)] = None,
    truth: Annotated[str | None, typer.Option(help="Of a file: column with the truth.", show_default=False)] = None,
    text: Annotated[str | None, typer.Option(help="Of a file: column with texts.", show_default=False)] = None,
    features: Annotated[
        Path | None,
        typer.Option(help=".npy, .csv or .parquet; of a run, else the judge's embedding.", show_default=False),
    ] = None,
    centre: Annotated[
        str | None,
        typer.Option(
            help="group: features less their group's mean, so that clusters hold both groups; none.",
            show_default="group for the judge's embedding, else none",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="accuracy, presence, fpr, tpr or auc.", show_default="accuracy; presence without truth"),
    ] = None,
    clusters: Annotated[int, typer.Option(help="k, before small ones are merged.")] = 10,
    objective: Annotated[str, typer.Option(help="literal (the paper's Eq. 2) or weighted (by rows).")] = "literal",
    strength: Annotated[float, typer.Option(help="Lambda; 0 is k-means.")] = 5.0,
    scale: Annotated[str, typer.Option(help="variance: features to a total variance of 1; none.")] = "none",
    min_rows: Annotated[int, typer.Option(help="Rows of each group that a cluster needs.")] = 20,
    min_gap: Annotated[float, typer.Option(help="|gap| from which a cluster is called biased.")] = 0.05,
    permutations: Annotated[int, typer.Option(help="Under each of two nulls.")] = 199,
    null: Annotated[str, typer.Option(help="rerun: search anew each time (valid); fixed (optimistic).")] = "rerun",
    seed: Annotated[int, typer.Option(help="Of k-means and the permutations.")] = 0,
    table: Annotated[str | None, typer.Option(help=f"Only one of {', '.join(TABLES)}.", show_default=False)] = None,
    format: TableFormat = None,
    quiet: Quiet = False,
) -> None:
    """Local group bias (LOGAN, Zhao & Chang 2020) with permutation tests and what explains each cluster."""
    if centre not in (None, "group", "none"):
        stop(f"there is no centre {centre!r}; there are group and none")
    if table is not None and table not in TABLES:
        stop(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    with explained(ValueError):
        from pipeline.locating import rows_of_file, rows_of_run
        from pipeline.statistics.group_centring import centred_by_group
        from pipeline.statistics.local_bias import local_bias
        from pipeline.statistics.local_report import exemplars
        from pipeline.statistics.local_statistics import Rules
        from pipeline.statistics.topic_words import topic_words

        if source.is_dir():
            shown = watch(quiet, format is not None)
            rows = rows_of_run(source, adapter=adapter, label=label, features=features, watch=shown)
        else:
            rows = rows_of_file(source, group=group, prediction=prediction, truth=truth, text=text, features=features)
        if centre == "group" or (centre is None and source.is_dir() and features is None):
            rows = replace(rows, features=centred_by_group(rows.features, rows.groups))
        result = local_bias(
            rows.features,
            rows.groups,
            prediction=rows.prediction,
            truth=rows.truth,
            metric=metric or ("presence" if rows.truth is None else "accuracy"),
            clusters=clusters,
            objective=objective,
            strength=strength,
            scale=scale,
            rules=Rules(min_rows=min_rows, min_gap=min_gap),
            permutations=permutations,
            null=null,
            seed=seed,
        )
        nearest = exemplars(rows.features, result.labels, rows.groups)
        tables = {
            "statistics": result.to_frame(),
            "clusters": result.clusters_frame(),
            "exemplars": nearest.assign(row=[rows.names[row] for row in nearest["row"]]),
        }
        if rows.texts is not None:
            tables["words"] = topic_words(rows.texts, result.labels)
        elif table == "words":
            stop("words need texts: name their column with --text")
        for note in (*rows.notes, *result.notes):
            typer.echo(note, err=True)
        first, second = result.groups
        _print(tables, table, format, title=f"Local bias of {result.metric}, {second} less {first}")
        if source.is_dir():
            keep(
                source,
                "local",
                kept_tables(result, tables, rows, min_rows=min_rows, min_gap=min_gap),
                sources=Sources(
                    files=(*ANSWERED, "faces.parquet"),
                    elsewhere=() if features is None else (features,),
                    options=("presence",),
                ),
                by=("adapter", "label"),
            )


def kept_tables(
    result: "LocalBias",
    tables: "Mapping[str, pd.DataFrame]",
    rows: "LocalRows",
    *,
    min_rows: int,
    min_gap: float,
) -> "dict[str, pd.DataFrame]":
    """The tables as a run keeps them: every row says whose labels and which label; the two groups are named in it."""
    first, second = result.groups
    of = {"adapter": rows.adapter, "label": rows.label}
    named = {
        f"rows {first}": "first_rows",
        f"rows {second}": "second_rows",
        f"{result.metric} {first}": "first_rate",
        f"{result.metric} {second}": "second_rate",
    }
    parts = {
        "local_statistics": tables["statistics"].assign(min_rows=min_rows, min_gap=min_gap),
        "local_clusters": tables["clusters"]
        .rename(columns=named)
        .assign(metric=result.metric, first=first, second=second),
        "local_exemplars": tables["exemplars"].rename(columns={"row": "photo"}),
    }
    return {name: part.assign(**of)[[*of, *part.columns]] for name, part in parts.items()}


def _print(tables: "dict[str, pd.DataFrame]", chosen: str | None, format: str | None, *, title: str) -> None:
    """One table, or all: one after the other, in JSON as one object, in CSV the statistics alone."""
    if chosen is not None or format == "csv":
        print_frame(tables[chosen or "statistics"], format, title=f"{title}: {chosen or 'statistics'}")
        return
    if format == "json":
        from pipeline.report.frames import render_frame

        typer.echo(
            json.dumps({name: json.loads(render_frame(part, "json")) for name, part in tables.items()}, indent=2)
        )
        return
    for place, (name, part) in enumerate(tables.items()):
        if place:
            typer.echo()
        print_frame(part, format, title=f"{title}: {name}")
