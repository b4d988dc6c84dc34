"""Leakage and its amplification, of a file of predictions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipeline.analyses.base import Names
from pipeline.analyses.inputs import InputError
from pipeline.analyses.predictability import Predictability, PredictabilityOptions

if TYPE_CHECKING:
    import pandas as pd


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


LEAKAGE = LeakageAnalysis()
