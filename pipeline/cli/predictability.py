"""``counterslope leakage`` and ``counterslope dpa``: what labels and predictions give away, from a plain file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.analyses.artifacts import Inputs
from pipeline.cli.artifacts import keep
from pipeline.cli.options import TableFile, TableFormat, print_frame, stop, user_errors

if TYPE_CHECKING:
    import pandas as pd

File = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet, one row a photo.")]
AttributeColumns = Annotated[list[str], typer.Option("--attribute", help="Column with the group.")]
TaskColumns = Annotated[list[str], typer.Option("--task", help="Column with the true label; may be given again.")]
AttackerName = Annotated[
    str, typer.Option("--attacker", help="majority (exact), logistic, network, wang-coco or wang-imsitu.")
]
QualityOption = Annotated[str, typer.Option("--quality", help="accuracy, f1, inverse_mse or inverse_bce.")]
EqualiseOption = Annotated[
    str, typer.Option("--equalise", help="Make labels as wrong as predictions by accuracy, macro_f1, or none.")
]
FlipsOption = Annotated[
    str | None,
    typer.Option("--flips", help="expected or drawn; expected where it can be.", show_default=False),
]
HeldOut = Annotated[float, typer.Option(help="Share of rows asked about and not learnt; 0: the same rows.")]
BalanceOption = Annotated[str, typer.Option("--balance", help="Groups: none, redraw or weights.")]
Repeats = Annotated[int, typer.Option(help="How often labels and rows are drawn.")]
Resamples = Annotated[int, typer.Option(help="Of the rows, for the interval over other examples; 0 for none.")]
ClusterColumn = Annotated[
    str | None, typer.Option("--cluster", help="Column whose rows are resampled together.", show_default=False)
]
OfRun = Annotated[
    Path | None,
    typer.Option("--run", help="Leave the table in this run's folder, for its report.", show_default=False),
]
Seed = Annotated[int, typer.Option(help="Of all that is drawn.")]


def leakage(
    file: File,
    attribute: AttributeColumns,
    task: TaskColumns,
    prediction: Annotated[list[str], typer.Option(help="Column with the predicted label; one for each task.")],
    output: Annotated[
        list[str] | None,
        typer.Option(help="Column of scores, attacked in place of predictions.", show_default=False),
    ] = None,
    attacker: AttackerName = "majority",
    quality: QualityOption = "accuracy",
    equalise: EqualiseOption = "accuracy",
    flips: FlipsOption = None,
    held_out: HeldOut = 0.0,
    balance: BalanceOption = "none",
    folded: Annotated[bool, typer.Option("--folded", help="0.5 + |accuracy - 0.5|, as the published code.")] = False,
    repeats: Repeats = 5,
    resamples: Resamples = 2000,
    cluster: ClusterColumn = None,
    seed: Seed = 0,
    run: OfRun = None,
    format: TableFormat = None,
    out: TableFile = None,
) -> None:
    """Leakage and its amplification (Wang et al.): how well the attribute is guessed from labels and predictions."""
    with user_errors(ValueError):
        from pipeline.analyses.predictions import read_predictions
        from pipeline.statistics import leakage as measure

        frame = read_predictions(file)
        result = measure(
            _labels(frame, attribute, file),
            _labels(frame, task, file),
            _labels(frame, prediction, file),
            outputs=_labels(frame, output, file) if output else None,
            attacker=attacker,
            quality=quality,
            equalise=equalise,
            flips=flips,
            repeats=repeats,
            held_out=held_out,
            balance=balance,
            folded=folded,
            resamples=resamples,
            clusters=_labels(frame, [cluster], file).tolist() if cluster else None,
            seed=seed,
        )
        for note in result.notes:
            typer.echo(note, err=True)
        title = f"Leakage of {' and '.join(attribute)} by {', '.join(task)}, {len(frame)} rows"
        found = result.to_frame()
        print_frame(found, format, title=title, out=out)
        if run is not None:
            _keep(run, "leakage", found, file, attribute, task, quality=quality, equalise=equalise)


def dpa(
    file: File,
    attribute: AttributeColumns,
    task: TaskColumns,
    task_prediction: Annotated[
        list[str] | None,
        typer.Option(help="Column with the predicted label, for A→T; one for each task.", show_default=False),
    ] = None,
    attribute_prediction: Annotated[
        list[str] | None, typer.Option(help="Column with the predicted group, for T→A.", show_default=False)
    ] = None,
    attacker: AttackerName = "majority",
    quality: QualityOption = "accuracy",
    equalise: EqualiseOption = "accuracy",
    flips: FlipsOption = None,
    held_out: HeldOut = 0.0,
    balance: BalanceOption = "none",
    repeats: Repeats = 20,
    resamples: Resamples = 2000,
    cluster: ClusterColumn = None,
    seed: Seed = 0,
    run: OfRun = None,
    format: TableFormat = None,
    out: TableFile = None,
) -> None:
    """Directional predictability amplification (Tokas et al.): attribute to task, task to attribute, or both."""
    if not task_prediction and not attribute_prediction:
        stop("name --task-prediction (for A→T), --attribute-prediction (for T→A), or both")
    with user_errors(ValueError):
        import pandas as pd

        from pipeline.analyses.predictions import read_predictions
        from pipeline.statistics import dpa as measure

        frame = read_predictions(file)
        results = measure(
            _labels(frame, attribute, file),
            _labels(frame, task, file),
            task_predictions=_labels(frame, task_prediction, file) if task_prediction else None,
            attribute_predictions=_labels(frame, attribute_prediction, file) if attribute_prediction else None,
            attacker=attacker,
            quality=quality,
            equalise=equalise,
            flips=flips,
            repeats=repeats,
            held_out=held_out,
            balance=balance,
            resamples=resamples,
            clusters=_labels(frame, [cluster], file).tolist() if cluster else None,
            seed=seed,
        )
        for result in results:
            for note in result.notes:
                typer.echo(f"{result.direction}: {note}", err=True)
        title = f"DPA of {' and '.join(attribute)} and {', '.join(task)}, {len(frame)} rows"
        found = pd.concat([result.to_frame() for result in results], ignore_index=True)
        print_frame(found, format, title=title, out=out)
        if run is not None:
            _keep(run, "dpa", found, file, attribute, task, quality=quality, equalise=equalise)


def _keep(
    run: Path,
    name: str,
    found: "pd.DataFrame",
    file: Path,
    attribute: Sequence[str],
    task: Sequence[str],
    *,
    quality: str,
    equalise: str,
) -> None:
    """The table, and beside it the grid of known biases by which a figure can be read (exact attacker)."""
    from pipeline.statistics import COARSE, bias_grid

    grid = bias_grid(dataset_biases=COARSE, model_biases=COARSE, quality=quality, equalise=equalise)
    keep(
        run,
        name,
        {name: found, f"{name}_grid": grid},
        sources=Inputs(files=(), elsewhere=[file]),
        about={
            "file": file.name, "attribute": list(attribute), "task": list(task), "quality": quality,
            "equalise": equalise,
        },
    )  # fmt: skip


def _labels(frame: "pd.DataFrame", columns: Sequence[str], file: Path) -> Any:
    """Columns as an array ``(n,)`` or ``(n, C)``, after a look whether they are there and complete."""
    from pipeline.analyses.columns import complete_columns

    table = complete_columns(frame, columns, table=str(file)).to_numpy()
    return table[:, 0] if len(columns) == 1 else table
