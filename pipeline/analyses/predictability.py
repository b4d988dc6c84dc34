"""Leakage and directional predictability amplification, of a file of predictions: one analysis, two measures."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

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
OF_NUMBERS = "inverse_rmse"
SPREAD = (
    "1 / RMSE also grows where predictions merely spread less than labels: read dpa less dpa_shuffled, which is the "
    "same with the attacker's input in a random order."
)
EXAMPLE = "counterslope {} predictions.csv --attribute gender --task cooking --prediction guess"


class PredictabilityOptions(Options):
    """Columns of the file, and how the attackers guess."""

    attribute: Names = Field((), description="column with the group")
    task: Names = Field((), description="column with the true label; repeatable")
    attacker: Names = Field(
        ("auto",),
        description="majority (exact), logistic, network or wang; by itself majority, or logistic for many tasks; "
        "repeatable, to see how far the measure depends on it",
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


_OTHERS = {
    "bias_amplification": ("BiasAmp", "For comparison: 0 for an even dataset, whatever the model does."),
    "multi_amplification": ("Multi", "For comparison: never below 0, so it cannot show that a bias shrank."),
}
HOW = {"attacker", "quality", "equalise", "flips", "held_out", "balance", "repeats", "resamples", "seed"}
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
        """One row a quantity and attacker; in a run the grid of known biases lies next to it, to read a figure by."""
        import pandas as pd

        if not options.attribute or not options.task:
            raise InputError("name the columns of groups and true labels with --attribute and --task")
        frame = read_predictions(source)

        def array(names: Sequence[str]) -> Any:
            table = columns_of(frame, names, table=str(source)).to_numpy()
            return table[:, 0] if len(names) == 1 else table

        named = {"attributes": options.attribute, "tasks": options.task, **self.columns(options)}
        arguments = {name: array(names) for name, names in named.items() if names} | options.model_dump(include=HOW)
        arguments["clusters"] = None if options.cluster is None else array([options.cluster]).tolist()
        frames, notes = [], list[str]()
        with watch(self.name, total=len(options.attacker)) as advance:
            for attacker in options.attacker:
                part, own = self.measure(options, arguments | {"attacker": attacker})
                frames.append(part)
                notes += own if len(options.attacker) == 1 else [f"{attacker}: {note}" for note in own]
                advance(1)
        found = pd.concat(frames, ignore_index=True)
        notes += self._agreement(found) if len(frames) > 1 else []

        def kept() -> "Mapping[str, pd.DataFrame]":
            from pipeline.statistics import COARSE, amplification_grid, bias_grid

            biases: dict[str, Any] = {"dataset_biases": COARSE, "model_biases": COARSE}
            quality = "accuracy" if options.quality == OF_NUMBERS else options.quality  # the grid's labels are two
            grid = bias_grid(**biases, quality=quality, equalise=options.equalise)
            others = amplification_grid(**biases).drop(columns=["dataset_bias", "model_bias"])
            return {self.name: found, f"{self.name}_grid": grid.join(others)}

        groups, tasks = " and ".join(options.attribute), ", ".join(options.task)
        about = options.model_dump(mode="json", include={"attribute", "task", "quality", "equalise"})
        return Result(
            title=f"{self.title} of {groups} by {tasks}, {pluralise(len(frame), 'row')}",
            tables={self.name: found},
            notes=notes,
            kept=kept,
            about={"file": source.name, **about},
            inputs=Inputs(files=(), elsewhere=[source]),
        )

    def _agreement(self, table: "pd.DataFrame") -> list[str]:
        """How far attackers agree about the amplification: its range over them, for each direction."""
        rows = table[table["quantity"] == self.quantity]
        parts = page.rows_by(rows, "direction") if "direction" in rows else [(("",), rows)]
        found = []
        for key, own in parts:
            low, high = (decimal(end, sign=True) for end in (own["value"].min(), own["value"].max()))
            name, spread = " ".join([self.title, *key]).strip(), decimal(own["value"].std())
            found.append(f"{name} over {len(own)} attackers: {low} to {high}, standard deviation {spread}.")
        return found

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """The quantities, and the grid of known biases."""
        frame, grid, about = kept.tables[self.name], kept.tables[f"{self.name}_grid"], kept.about
        direction: list[page.Column] = [("Direction", "direction", "text")] if "direction" in frame else []
        several = "attacker" in frame and frame["attacker"].nunique() > 1
        attacker: list[page.Column] = [("Attacker", "attacker", "text")] if several else []
        columns: list[page.Column] = [
            ("Quantity", "quantity", "text"), *direction, *attacker,
            ("Mean", "value", "decimal"), ("Standard deviation", "sd", "decimal"), ("Repeats", "repeats", "count"),
        ]  # fmt: skip
        low, high = (decimal(end, places=2) for end in (grid[self.metric].min(), grid[self.metric].max()))
        title = f"{self.title} by the bias of a dataset and of a model"
        chart = page.Heatmap(grid, self.metric, title, f"From {low} to {high}; 0 where both biases are the same.", GRID)
        measured = frame[frame["quantity"] == self.quantity].to_dict("records")
        part = page.Subsection(
            heading=f"{page.listed(about['attribute'])} and {page.listed(about['task'])}, {about['file']}",
            sentences=[_sentence(row, self.title, by=f"{row['attacker']}; " if several else "") for row in measured],
            charts=[chart, *_others(grid)],
            tables=[page.Table("All quantities", frame, columns)],
        )
        caveats = (
            f"Made as wrong as the predictions by {about['equalise']}; quality of a guess: {about['quality']}.",
            "The spread is over repeats (labels and rows drawn anew), not over other photos.",
            self.source,
        )
        heading = f"{self.title}: what predictions give away"
        return (page.Section(self.name, heading, self.question, [part], caveats),)


def _others(grid: "pd.DataFrame") -> list[page.Heatmap]:
    """The same grid as BiasAmp-> and Multi-> see it; runs that were made before they were there lack them."""
    return [
        page.Heatmap(grid, metric, f"{name} by the bias of a dataset and of a model", words, f"{name}, A->T. {words}")
        for metric, (name, words) in _OTHERS.items()
        if metric in grid.columns
    ]


def _sentence(row: Mapping[Any, Any], title: str, *, by: str) -> str:
    direction = f" {row['direction']}" if "direction" in row else ""
    spread = "" if is_missing(row["sd"]) else f", standard deviation {decimal(row['sd'])}"
    repeats = pluralise(row["repeats"], "repeat")
    return f"{title}{direction}: {decimal(row['value'], sign=True)} ({by}mean of {repeats}{spread})."


class LeakageOptions(PredictabilityOptions):
    """Columns of the file, and how the attackers guess."""

    prediction: Names = Field((), description="column with the predicted label; one for each task")
    output: Names = Field((), description="column of scores, attacked in place of predictions")
    folded: bool = Field(False, description="0.5 + |accuracy - 0.5|, as the published code")


class LeakageAnalysis(Predictability[LeakageOptions]):
    """Leakage and its amplification (Wang et al.): how well the attribute is guessed from labels and predictions."""

    name = "leakage"
    options = LeakageOptions
    examples = (EXAMPLE.format(name),)
    title = "Leakage"
    metric, quantity = "leakage_amplification", "amplification"
    question = (
        "How much better is the attribute guessed from the predictions than from labels made as wrong as they are? "
        "Positive: the predictions give away more of it."
    )
    source = "After Wang et al., “Balanced Datasets Are Not Enough”, 2019."

    def columns(self, options: LeakageOptions) -> Mapping[str, Sequence[str]]:
        """Of the predicted tasks, and of scores."""
        if not options.prediction:
            raise InputError("name the columns of predicted labels with --prediction")
        return {"predictions": options.prediction, "outputs": options.output}

    def measure(self, options: LeakageOptions, arguments: Mapping[str, Any]) -> "tuple[pd.DataFrame, Sequence[str]]":
        """Leakage of the labels and of the predictions."""
        from pipeline.statistics import leakage

        found = leakage(**arguments, folded=options.folded)
        return found.to_frame(), found.notes


class DpaOptions(PredictabilityOptions):
    """Columns of the file, and how the attackers guess."""

    renamed: ClassVar[Mapping[str, str]] = {
        "task_prediction": "prediction",
        "attribute_prediction": "predicted_attribute",
    }

    prediction: Names = Field((), description="column with the predicted label, for A->T; one for each task")
    predicted_attribute: Names = Field((), description="column with the predicted group, for T->A")
    quality: str = Field(
        "accuracy", description="accuracy, f1, inverse_mse or inverse_bce of labels; inverse_rmse of numbers"
    )
    repeats: int = Field(20, description="how often labels and rows are drawn")


class DpaAnalysis(Predictability[DpaOptions]):
    """Directional predictability amplification (Tokas et al.): attribute to task, task to attribute, or both."""

    name = "dpa"
    options = DpaOptions
    examples = (EXAMPLE.format(name),)
    title = "DPA"
    metric, quantity = "dpa", "dpa"
    question = (
        "How much better is the task guessed from the attribute (or the attribute from the task) in the predictions "
        "than in labels made as wrong as they are? Directional predictability amplification: 0 says that they are "
        "guessed alike."
    )
    source = "After Tokas et al., directional predictability amplification."

    def columns(self, options: DpaOptions) -> Mapping[str, Sequence[str]]:
        """Of the predicted tasks, of the predicted groups, or both."""
        if not options.prediction and not options.predicted_attribute:
            raise InputError("name --prediction (for A->T), --predicted-attribute (for T->A), or both")
        return {"predictions": options.prediction, "predicted_attributes": options.predicted_attribute}

    def measure(self, options: DpaOptions, arguments: Mapping[str, Any]) -> "tuple[pd.DataFrame, Sequence[str]]":
        """DPA in each direction that is predicted."""
        import pandas as pd

        from pipeline.statistics import dpa, dpa_of_numbers

        if options.quality == OF_NUMBERS:
            if options.cluster is not None:
                raise InputError(f"--quality {OF_NUMBERS} has no interval over examples, so it takes no --cluster")
            named: dict[str, Any] = {name: arguments.get(name) for name in ("predictions", "predicted_attributes")}
            chosen = arguments["attacker"]
            how: Any = {"attacker": "linear" if chosen == "auto" else chosen}
            return dpa_of_numbers(
                arguments["attributes"], arguments["tasks"], **named, **how, repeats=options.repeats, seed=options.seed
            ), [SPREAD]
        found = dpa(**arguments)
        notes = [f"{each.direction}: {note}" for each in found for note in each.notes]
        return pd.concat([each.to_frame() for each in found], ignore_index=True), notes


LEAKAGE, DPA = LeakageAnalysis(), DpaAnalysis()
