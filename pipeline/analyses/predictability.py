"""Leakage and directional predictability amplification of a file of predictions."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, Field

from pipeline.analyses import sections as page
from pipeline.analyses.artifacts import Inputs
from pipeline.analyses.base import Analysis, Kept, Names, ResamplingOptions, Result, one_or_more
from pipeline.analyses.inputs import InputError, columns_of, read_predictions
from pipeline.config.flags import Flag
from pipeline.run.formats import decimal, is_missing, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

GRID = (
    "For orientation: the metric on synthetic data with known biases (the share of rows on which the task equals the "
    "attribute), of the dataset upwards and of the model across. These are not this run's data."
)
OF_NUMBERS = "inverse_rmse"
ROBUSTNESS = "robustness"
SPREAD = (
    "1 / RMSE also grows if predictions merely vary less than labels: use dpa less dpa_shuffled, which is measured "
    "with the attacker's input in random order."
)
EXAMPLE = "counterslope {} predictions.csv --attribute gender --task cooking --prediction guess"


class PredictabilityOptions(ResamplingOptions):
    """Columns of the file, and options of the attackers."""

    attribute: Names = Field((), description="column with the group")
    task: Names = Field((), description="column with the true label; repeatable")
    attacker: Annotated[tuple[str, ...], BeforeValidator(one_or_more), Flag(metavar="ATTACKER", parse=list)] = Field(
        ("auto",),
        description="classifier that predicts one variable from the other: majority (exact), logistic, network, "
        "network:32x32:0.01 (units of each layer, L2 penalty), wang, networks (ten with other depths, widths and "
        "penalties), or auto (majority, or logistic for many tasks); repeatable, to compare attackers",
    )
    quality: str = Field("accuracy", description="quality of predictions: accuracy, f1, inverse_mse or inverse_bce")
    equalise: str = Field(
        "accuracy",
        description="add errors to the labels until they are as wrong as predictions by accuracy or macro_f1; or none",
    )
    flips: str | None = Field(None, description="label errors: expected or drawn; default: expected where possible")
    held_out: float | None = Field(
        None,
        description="share of rows held out to test attackers; 0: test on the training rows; default: 0, or "
        "cross-fitting for many tasks",
    )
    balance: str = Field("none", description="balance of the groups: none, redraw (rows) or weights")
    repeats: int = Field(5, description="number of draws of label errors and rows")


_OTHERS = {
    "bias_amplification": ("BiasAmp", "For comparison: 0 for an unbiased dataset, whatever the model does."),
    "multi_amplification": ("Multi", "For comparison: never negative, so it cannot show that a bias shrank."),
}
HOW = {"attacker", "quality", "equalise", "flips", "held_out", "balance", "repeats", "resamples", "seed"}
Chosen = TypeVar("Chosen", bound=PredictabilityOptions)


class Predictability(Analysis[Chosen]):
    """An analysis that measures how well a column can be predicted from others."""

    reads = ("file",)
    title: str  # name of the measure in sentences
    metric: str  # column of the grid with the amplification
    quantity: str  # row of the table with the amplification
    question: str  # that it answers
    source: str  # the paper

    @abstractmethod
    def columns(self, options: Chosen) -> Mapping[str, Sequence[str]]:
        """Argument of the measure -> columns with predictions; arguments without columns are omitted."""

    @abstractmethod
    def measure(self, options: Chosen, arguments: Mapping[str, Any]) -> "tuple[pd.DataFrame, Sequence[str]]":
        """Compute the table and notes on how to read it."""

    def compute(self, source: Path, options: Chosen, *, watch: Watch = unwatched) -> Result:
        """A row per quantity and attacker, the agreement of the attackers, and for a run the grid of known biases."""
        import pandas as pd

        from pipeline.statistics.predictability.attackers import NETWORKS

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
        attackers = [each for name in options.attacker for each in (NETWORKS if name == "networks" else (name,))]
        with watch(self.name, total=len(attackers)) as advance:
            for attacker in attackers:
                part, own = self.measure(options, arguments | {"attacker": attacker})
                frames.append(part)
                notes += own if len(attackers) == 1 else [f"{attacker}: {note}" for note in own]
                advance(1)
        tables = {self.name: pd.concat(frames, ignore_index=True)}
        if len(frames) > 1:
            tables[f"{self.name}_{ROBUSTNESS}"] = over_attackers(tables[self.name])
            notes += self._agreement(tables[f"{self.name}_{ROBUSTNESS}"])

        def kept() -> "Mapping[str, pd.DataFrame]":
            from pipeline.statistics import COARSE, bias_grid

            quality = "accuracy" if options.quality == OF_NUMBERS else options.quality  # the grid has binary labels
            how: dict[str, Any] = {"quality": quality, "equalise": options.equalise}
            grid = bias_grid(dataset_biases=COARSE, model_biases=COARSE, **how)
            return {**tables, f"{self.name}_grid": grid}

        groups, tasks = " and ".join(options.attribute), ", ".join(options.task)
        about = options.model_dump(mode="json", include={"attribute", "task", "quality", "equalise"})
        return Result(
            title=f"{self.title} of {groups} by {tasks}, {pluralise(len(frame), 'row')}",
            tables=tables,
            notes=notes,
            kept=kept,
            about={"file": source.name, **about},
            inputs=Inputs(files=(), elsewhere=[source]),
        )

    def _agreement(self, table: "pd.DataFrame") -> list[str]:
        """Describe the agreement of attackers about the amplification, for each direction."""
        return [
            f"{' '.join([self.title, row.get('direction', '')]).strip()} over {row['attackers']} attackers: "
            f"{decimal(row['lowest'], sign=True)} ({row['lowest_attacker']}) to {decimal(row['highest'], sign=True)} "
            f"({row['highest_attacker']}), standard deviation {decimal(row['sd'])}."
            for row in table[table["quantity"] == self.quantity].to_dict("records")
        ]

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
        over = kept.tables.get(f"{self.name}_{ROBUSTNESS}")
        each = [_sentence(row, self.title, by=f"{row['attacker']}; " if several else "") for row in measured]
        part = page.Subsection(
            heading=f"{page.listed(about['attribute'])} and {page.listed(about['task'])}, {about['file']}",
            sentences=each if over is None else self._agreement(over),
            charts=[chart, *_others(grid)],
            tables=[page.Table("All quantities", frame, columns), *([] if over is None else [_over(over, direction)])],
        )
        caveats = (
            f"Labels made as wrong as the predictions by {about['equalise']}; quality: {about['quality']}.",
            "The standard deviation is over repeats (label errors and rows), not over other photos.",
            self.source,
        )
        heading = f"{self.title}: what predictions give away"
        return (page.Section(self.name, heading, self.question, [part], caveats),)


def over_attackers(table: "pd.DataFrame") -> "pd.DataFrame":
    """Dependence of each quantity on the attacker, a row per direction and quantity.

    ``sd`` is over the attackers' values. ``sd_repeats`` is the root mean square of their sd over repeats, the part due
    to random label errors and rows. ``same_sign`` is the share of attackers whose value has the sign of the mean.
    """
    import numpy as np
    import pandas as pd

    rows, keys = [], [name for name in ("direction", "quantity") if name in table]
    for key, own in table.dropna(subset=["value"]).groupby(keys, sort=False):
        ordered = own.sort_values("value", kind="stable")
        (low, least), (high, most) = ordered[["value", "attacker"]].iloc[[0, -1]].itertuples(index=False)
        mean = own["value"].mean()
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"attackers": len(own), "mean": mean, "sd": own["value"].std()}
            | {"sd_repeats": float(np.sqrt((own["sd"] ** 2).mean())), "lowest": low, "lowest_attacker": least}
            | {"highest": high, "highest_attacker": most, "same_sign": np.mean(np.sign(own["value"]) == np.sign(mean))}
        )
    return pd.DataFrame(rows)


def _over(frame: "pd.DataFrame", direction: Sequence[page.Column]) -> page.Table:
    columns: list[page.Column] = [
        ("Quantity", "quantity", "text"), *direction, ("Attackers", "attackers", "count"),
        ("Mean", "mean", "decimal"), ("Standard deviation", "sd", "decimal"),
        ("Over repeats alone", "sd_repeats", "decimal"), ("Lowest", "lowest", "decimal"),
        ("by", "lowest_attacker", "text"), ("Highest", "highest", "decimal"), ("by", "highest_attacker", "text"),
        ("Same sign as the mean", "same_sign", "share"),
    ]  # fmt: skip
    return page.Table("Dependence on the attacker", frame, columns)


def _others(grid: "pd.DataFrame") -> list[page.Heatmap]:
    """The same grid for BiasAmp-> and Multi->, which runs of earlier versions lack."""
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
    """Columns of the file, and options of the attackers."""

    prediction: Names = Field((), description="column with the predicted label; one for each task")
    output: Names = Field((), description="column of scores, attacked in place of predictions")
    folded: bool = Field(False, description="report 0.5 + |accuracy - 0.5|, as the published code does")


class LeakageAnalysis(Predictability[LeakageOptions]):
    """Leakage and its amplification (Wang et al.): how well labels and predictions predict the attribute."""

    name = "leakage"
    options = LeakageOptions
    examples = (EXAMPLE.format(name),)
    title = "Leakage"
    metric, quantity = "leakage_amplification", "amplification"
    question = (
        "How much better can the attribute be predicted from the predictions than from labels that are equally wrong? "
        "Positive: the predictions leak more."
    )
    source = "After Wang et al., “Balanced Datasets Are Not Enough”, 2019."

    def columns(self, options: LeakageOptions) -> Mapping[str, Sequence[str]]:
        """Columns of the predicted tasks and of scores."""
        if not options.prediction:
            raise InputError("name the columns of predicted labels with --prediction")
        return {"predictions": options.prediction, "outputs": options.output}

    def measure(self, options: LeakageOptions, arguments: Mapping[str, Any]) -> "tuple[pd.DataFrame, Sequence[str]]":
        """Leakage of the labels and of the predictions."""
        from pipeline.statistics import leakage

        found = leakage(**arguments, folded=options.folded)
        return found.to_frame(), found.notes


class DpaOptions(PredictabilityOptions):
    """Columns of the file, and options of the attackers."""

    renamed: ClassVar[Mapping[str, str]] = {
        "task_prediction": "prediction",
        "attribute_prediction": "predicted_attribute",
    }

    prediction: Names = Field((), description="column with the predicted label, for A->T; one for each task")
    predicted_attribute: Names = Field((), description="column with the predicted group, for T->A")
    quality: str = Field(
        "accuracy",
        description="quality of predictions: accuracy, f1, inverse_mse or inverse_bce; inverse_rmse for numbers",
    )
    repeats: int = Field(20, description="number of draws of label errors and rows")


class DpaAnalysis(Predictability[DpaOptions]):
    """Directional predictability amplification (Tokas et al.): attribute to task, task to attribute, or both."""

    name = "dpa"
    options = DpaOptions
    examples = (EXAMPLE.format(name),)
    title = "DPA"
    metric, quantity = "dpa", "dpa"
    question = (
        "How much better can the task be predicted from the attribute (or the attribute from the task) in the "
        "predictions than in labels that are equally wrong? Directional predictability amplification; 0: no difference."
    )
    source = "After Tokas et al., directional predictability amplification."

    def columns(self, options: DpaOptions) -> Mapping[str, Sequence[str]]:
        """Columns of the predicted tasks, of the predicted groups, or both."""
        if not options.prediction and not options.predicted_attribute:
            raise InputError("name --prediction (for A->T), --predicted-attribute (for T->A), or both")
        return {"predictions": options.prediction, "predicted_attributes": options.predicted_attribute}

    def measure(self, options: DpaOptions, arguments: Mapping[str, Any]) -> "tuple[pd.DataFrame, Sequence[str]]":
        """DPA in each direction with predictions."""
        import pandas as pd

        from pipeline.statistics import dpa, dpa_of_numbers

        if options.quality == OF_NUMBERS:
            if options.cluster is not None:
                raise InputError(f"--quality {OF_NUMBERS} has no interval over examples, so it takes no --cluster")
            named: dict[str, Any] = {name: arguments.get(name) for name in ("predictions", "predicted_attributes")}
            chosen: Any = "linear" if arguments["attacker"] == "auto" else arguments["attacker"]
            how: dict[str, Any] = {"attacker": chosen, "repeats": options.repeats, "seed": options.seed}
            found = dpa_of_numbers(arguments["attributes"], arguments["tasks"], **named, **how)
            return found.assign(attacker=chosen), [SPREAD]
        parts = dpa(**arguments)
        notes = [f"{each.direction}: {note}" for each in parts for note in each.notes]
        return pd.concat([each.to_frame() for each in parts], ignore_index=True), notes


LEAKAGE, DPA = LeakageAnalysis(), DpaAnalysis()
