"""Leakage and its amplification, of a file of predictions."""

from pathlib import Path

from pydantic import Field

from pipeline.analyses.base import Names, Result
from pipeline.analyses.predictability import Predictability, PredictabilityOptions
from pipeline.run.formats import pluralise
from pipeline.run.progress import Watch, unwatched


class LeakageOptions(PredictabilityOptions):
    """Columns of the file, and how the attackers guess."""

    prediction: Names = Field((), description="column with the predicted label; one for each task")
    output: Names = Field((), description="column of scores, attacked in place of predictions")
    folded: bool = Field(False, description="0.5 + |accuracy - 0.5|, as the published code")


class LeakageAnalysis(Predictability[LeakageOptions]):
    """Leakage and its amplification (Wang et al.): how well the attribute is guessed from labels and predictions."""

    name = "leakage"
    options = LeakageOptions
    examples = ("counterslope leakage predictions.csv --attribute gender --task cooking --prediction guess",)
    title = "Leakage"
    metric, quantity = "leakage_amplification", "amplification"
    question = (
        "How much better is the attribute guessed from the predictions than from labels made as wrong as they are? "
        "Positive: the predictions give away more of it."
    )
    source = "After Wang et al., “Balanced Datasets Are Not Enough”, 2019."

    def compute(self, source: Path, options: LeakageOptions, *, watch: Watch = unwatched) -> Result:
        """One row a quantity.

        Raises:
            InputError: the file cannot be read, or lacks a column or a value.
            ValueError: an option does not fit.
        """
        from pipeline.statistics import leakage

        columns = {"predictions": options.prediction, "outputs": options.output}
        arguments = self.arguments(source, options, **columns)
        with watch(self.name, total=1) as advance:
            found = leakage(**arguments, folded=options.folded)
            advance(1)
        rows = pluralise(len(arguments["tasks"]), "row")
        title = f"Leakage of {' and '.join(options.attribute)} by {', '.join(options.task)}, {rows}"
        return self.result(source, options, found.to_frame(), title=title, notes=found.notes)


LEAKAGE = LeakageAnalysis()
