"""What leakage and DPA share: their options, how a file's columns are read, and their section of the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from pipeline.analyses.artifacts import Inputs
from pipeline.analyses.base import RESAMPLES, Analysis, Names, Options, Result
from pipeline.analyses.inputs import columns_of, read_predictions
from pipeline.analyses.sections import Column, Heatmap, Section, Subsection, Table, listed
from pipeline.run.formats import decimal, is_missing, pluralise

if TYPE_CHECKING:
    import pandas as pd

GRID = (
    "To read a figure by: the metric on made-up data whose bias (the share of rows on which the task equals the "
    "attribute) is known, of the dataset upwards and of the model across. These are not this run's data."
)


class PredictabilityOptions(Options):
    """Columns of the file, and how the attackers guess."""

    attribute: Names = Field((), description="column with the group")
    task: Names = Field((), description="column with the true label; may be given again")
    attacker: str = Field(
        "auto",
        description="majority (exact), logistic, network or wang; by itself majority, or logistic for many tasks",
    )
    quality: str = Field("accuracy", description="accuracy, f1, inverse_mse or inverse_bce")
    equalise: str = Field("accuracy", description="make labels as wrong as predictions by accuracy, macro_f1, or none")
    flips: str | None = Field(None, description="expected or drawn; expected where it can be")
    held_out: float | None = Field(
        None,
        description="share of rows to test attackers on, which do not learn them; 0: all rows; "
        "unless given 0, or every row in turn (cross-fitting) for many tasks",
    )
    balance: str = Field("none", description="groups: none, redraw or weights")
    repeats: int = Field(5, description="how often labels and rows are drawn")
    resamples: int = Field(RESAMPLES, description="of the rows, for the interval over other examples; 0 for none")
    cluster: str | None = Field(None, description="column whose rows are resampled together")
    seed: int = Field(0, description="of everything that is drawn")


Chosen = TypeVar("Chosen", bound=PredictabilityOptions)


class Predictability(Analysis[Chosen]):
    """An analysis that measures how well one column is guessed from others.

    Attributes:
        title: what it is called in sentences.
        metric: the grid's column, and ``quantity`` the row of its table, that is the amplification.
        question: which question it answers.
        source: the paper.
    """

    reads = ("file",)
    title: str
    metric: str
    quantity: str
    question: str
    source: str

    def arguments(self, source: Path, options: Chosen, **columns: Sequence[str]) -> dict[str, Any]:
        """The arguments of the measure: columns of the file as arrays ``(n,)`` or ``(n, C)``, and its options.

        Args:
            source: the file.
            options: of which those that name no column are handed on.
            columns: argument -> names of columns; arguments without any are left out.

        Raises:
            InputError: the file cannot be read, or lacks a column or a value.
        """
        frame = read_predictions(source)

        def array(names: Sequence[str]) -> Any:
            table = columns_of(frame, names, table=str(source)).to_numpy()
            return table[:, 0] if len(names) == 1 else table

        named = {"attributes": options.attribute, "tasks": options.task} | columns
        how = ("attacker", "quality", "equalise", "flips", "held_out", "balance", "repeats", "resamples", "seed")
        clusters = None if options.cluster is None else array([options.cluster]).tolist()
        return (
            {name: array(names) for name, names in named.items() if names}
            | {name: getattr(options, name) for name in how}
            | {"clusters": clusters}
        )

    def result(
        self, source: Path, options: Chosen, found: "pd.DataFrame", *, title: str, notes: Sequence[str]
    ) -> Result:
        """The result; in a run the grid of known biases lies next to it, by which a figure can be read."""

        def kept() -> "Mapping[str, pd.DataFrame]":
            from pipeline.statistics import COARSE, bias_grid

            grid = bias_grid(
                dataset_biases=COARSE, model_biases=COARSE, quality=options.quality, equalise=options.equalise
            )
            return {self.name: found, f"{self.name}_grid": grid}

        about: dict[str, Any] = {"file": source.name, "attribute": list(options.attribute), "task": list(options.task)}
        about |= {"quality": options.quality, "equalise": options.equalise}
        inputs = Inputs(files=(), elsewhere=[source])
        return Result(title, {self.name: found}, notes=notes, kept=kept, about=about, inputs=inputs)

    def sections(
        self, tables: "Mapping[str, pd.DataFrame]", about: Mapping[str, Any], *, swept: Mapping[str, Any]
    ) -> Sequence[Section]:
        """The quantities, and the grid of known biases."""
        frame, grid = tables[self.name], tables[f"{self.name}_grid"]
        directed = "direction" in frame
        columns = (
            Column("Quantity", "quantity"),
            *([Column("Direction", "direction")] if directed else []),
            Column("Mean", "value", "decimal"),
            Column("Standard deviation", "sd", "decimal"),
            Column("Repeats", "repeats", "count"),
        )
        low, high = (decimal(end, places=2) for end in (grid[self.metric].min(), grid[self.metric].max()))
        chart = Heatmap(
            grid=grid,
            metric=self.metric,
            title=f"{self.title} by the bias of a dataset and of a model",
            description=f"From {low} to {high}; 0 where both biases are the same.",
            caption=GRID,
        )
        part = Subsection(
            heading=f"{listed(about['attribute'])} and {listed(about['task'])}, {about['file']}",
            sentences=[
                _sentence(row, self.title) for row in frame[frame["quantity"] == self.quantity].to_dict("records")
            ],
            charts=[chart],
            tables=[Table("All quantities", columns, frame)],
        )
        section = Section(
            key=self.name,
            heading=f"{self.title}: what predictions give away",
            explanation=self.question,
            parts=[part],
            caveats=[
                f"Made as wrong as the predictions by {about['equalise']}; quality of a guess: {about['quality']}.",
                "The spread is over repeats (labels and rows drawn anew), not over other photos.",
                self.source,
            ],
        )
        return (section,)


def _sentence(row: Mapping[Any, Any], title: str) -> str:
    direction = f" {row['direction']}" if "direction" in row else ""
    spread = "" if is_missing(row["sd"]) else f", standard deviation {decimal(row['sd'])}"
    repeats = pluralise(row["repeats"], "repeat")
    return f"{title}{direction}: {decimal(row['value'], sign=True)} (mean of {repeats}{spread})."
