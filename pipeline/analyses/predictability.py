"""What leakage and DPA share: their options, how a file's columns are read, and their section of the report."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from pipeline.analyses import sections as page
from pipeline.analyses.artifacts import Inputs
from pipeline.analyses.base import RESAMPLES, Analysis, Kept, Names, Options, Result
from pipeline.analyses.inputs import InputError, columns_of, read_predictions
from pipeline.run.formats import decimal, is_missing, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

GRID = (
    "To read a figure by: the metric on made-up data whose bias (the share of rows on which the task equals the "
    "attribute) is known, of the dataset upwards and of the model across. These are not this run's data."
)


class PredictabilityOptions(Options):
    """Columns of the file, and how the attackers guess."""

    attribute: Names = Field((), description="column with the group")
    task: Names = Field((), description="column with the true label; repeatable")
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
    cluster: str | None = Field(None, description="column by which rows are resampled together")
    seed: int = Field(0, description="of everything that is drawn")


HOW = ("attacker", "quality", "equalise", "flips", "held_out", "balance", "repeats", "resamples", "seed")
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

    @abstractmethod
    def columns(self, options: Chosen) -> Mapping[str, Sequence[str]]:
        """Argument of the measure -> names of columns with predictions; arguments without any are left out."""

    @abstractmethod
    def measure(self, options: Chosen, arguments: Mapping[str, Any]) -> "tuple[pd.DataFrame, Sequence[str]]":
        """The table and what a reader must know about it."""

    def compute(self, source: Path, options: Chosen, *, watch: Watch = unwatched) -> Result:
        """One row a quantity; in a run the grid of known biases lies next to it, by which a figure can be read."""
        if not options.attribute or not options.task:
            raise InputError("name the columns of groups and true labels with --attribute and --task")
        frame = read_predictions(source)

        def array(names: Sequence[str]) -> Any:
            table = columns_of(frame, names, table=str(source)).to_numpy()
            return table[:, 0] if len(names) == 1 else table

        named = {"attributes": options.attribute, "tasks": options.task, **self.columns(options)}
        arguments = {name: array(names) for name, names in named.items() if names}
        arguments |= {name: getattr(options, name) for name in HOW}
        arguments["clusters"] = None if options.cluster is None else array([options.cluster]).tolist()
        with watch(self.name, total=1) as advance:
            found, notes = self.measure(options, arguments)
            advance(1)

        def kept() -> "Mapping[str, pd.DataFrame]":
            from pipeline.statistics import COARSE, bias_grid

            biases: dict[str, Any] = {"dataset_biases": COARSE, "model_biases": COARSE}
            grid = bias_grid(**biases, quality=options.quality, equalise=options.equalise)
            return {self.name: found, f"{self.name}_grid": grid}

        groups, tasks = " and ".join(options.attribute), ", ".join(options.task)
        about: dict[str, Any] = {"file": source.name, "attribute": list(options.attribute), "task": list(options.task)}
        return Result(
            title=f"{self.title} of {groups} by {tasks}, {pluralise(len(frame), 'row')}",
            tables={self.name: found},
            notes=notes,
            kept=kept,
            about=about | {"quality": options.quality, "equalise": options.equalise},
            inputs=Inputs(files=(), elsewhere=[source]),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """The quantities, and the grid of known biases."""
        frame, grid, about = kept.tables[self.name], kept.tables[f"{self.name}_grid"], kept.about
        direction: list[page.Column] = [("Direction", "direction", "text")] if "direction" in frame else []
        columns: list[page.Column] = [
            ("Quantity", "quantity", "text"), *direction, ("Mean", "value", "decimal"),
            ("Standard deviation", "sd", "decimal"), ("Repeats", "repeats", "count"),
        ]  # fmt: skip
        low, high = (decimal(end, places=2) for end in (grid[self.metric].min(), grid[self.metric].max()))
        chart = page.Heatmap(
            grid=grid,
            metric=self.metric,
            title=f"{self.title} by the bias of a dataset and of a model",
            description=f"From {low} to {high}; 0 where both biases are the same.",
            caption=GRID,
        )
        part = page.Subsection(
            heading=f"{page.listed(about['attribute'])} and {page.listed(about['task'])}, {about['file']}",
            sentences=[
                _sentence(row, self.title) for row in frame[frame["quantity"] == self.quantity].to_dict("records")
            ],
            charts=[chart],
            tables=[page.Table("All quantities", frame, columns)],
        )
        section = page.Section(
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
