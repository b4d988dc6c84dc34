"""``counterslope local``: where, among similar photos or texts, two groups fare differently."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.analyses.artifacts import ANSWERED, Inputs
from pipeline.analyses.local_bias import CENTRES, TABLES, search
from pipeline.cli.artifacts import keep
from pipeline.cli.options import (
    Quiet,
    TableFile,
    TableFormat,
    print_text,
    stop,
    table_format,
    user_errors,
    watch,
)

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.local_bias import LocalFound
    from pipeline.analyses.local_rows import LocalRows


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
    out: TableFile = None,
    quiet: Quiet = False,
) -> None:
    """Local group bias (LOGAN, Zhao & Chang 2020) with permutation tests and what explains each cluster."""
    if centre not in (None, *CENTRES):
        stop(f"there is no centre {centre!r}; there are {' and '.join(CENTRES)}")
    if table is not None and table not in TABLES:
        stop(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    printed = table_format(format, out)
    with user_errors(ValueError):
        from pipeline.analyses.local_rows import rows_of_file, rows_of_run

        if source.is_dir():
            shown = watch(quiet, format is not None)
            rows = rows_of_run(source, adapter=adapter, label=label, features=features, watch=shown)
        else:
            rows = rows_of_file(source, group=group, prediction=prediction, truth=truth, text=text, features=features)
        of_the_judge = source.is_dir() and features is None
        found = search(
            rows,
            centre=centre or ("group" if of_the_judge else "none"),
            metric=metric,
            clusters=clusters,
            objective=objective,
            strength=strength,
            scale=scale,
            min_rows=min_rows,
            min_gap=min_gap,
            permutations=permutations,
            null=null,
            seed=seed,
        )
        if table == "words" and table not in found.tables:
            stop("words need texts: name their column with --text")
        for note in found.notes:
            typer.echo(note, err=True)
        print_text(_rendered(found.tables, table, printed, title=found.title), out)
        if source.is_dir():
            keep(
                source,
                "local",
                kept_tables(found, rows, min_rows=min_rows, min_gap=min_gap),
                sources=Inputs(
                    files=(*ANSWERED, "faces.parquet"),
                    elsewhere=() if features is None else (features,),
                    options=("presence_threshold",),
                ),
                by=("adapter", "label"),
            )


def kept_tables(found: "LocalFound", rows: "LocalRows", *, min_rows: int, min_gap: float) -> "dict[str, pd.DataFrame]":
    """The tables as a run keeps them: every row says whose labels and which label; the two groups are named in it."""
    metric, (first, second) = found.result.metric, found.result.groups
    of = {"adapter": rows.adapter, "label": rows.label}
    named = {
        f"rows {first}": "first_rows",
        f"rows {second}": "second_rows",
        f"{metric} {first}": "first_rate",
        f"{metric} {second}": "second_rate",
    }
    clusters = found.tables["clusters"].rename(columns=named)
    parts = {
        "local_statistics": found.tables["statistics"].assign(min_rows=min_rows, min_gap=min_gap),
        "local_clusters": clusters.assign(metric=metric, first=first, second=second),
        "local_exemplars": found.tables["exemplars"].rename(columns={"row": "photo"}),
    }
    return {name: part.assign(**of)[[*of, *part.columns]] for name, part in parts.items()}


def _rendered(tables: "dict[str, pd.DataFrame]", chosen: str | None, format: str, *, title: str) -> str:
    """One table, or all: one after the other, in JSON as one object, in CSV the statistics alone."""
    from pipeline.report.markup import render_frame

    if chosen is not None or format == "csv":
        name = chosen or TABLES[0]
        return render_frame(tables[name], format, title=f"{title}: {name}")
    parts = {name: render_frame(part, format, title=f"{title}: {name}") for name, part in tables.items()}
    if format == "json":
        return json.dumps({name: json.loads(part) for name, part in parts.items()}, indent=2)
    return "\n".join(parts.values())
