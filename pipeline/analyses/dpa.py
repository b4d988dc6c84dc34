"""Directional predictability amplification, of a file of predictions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from pipeline.analyses.base import Names
from pipeline.analyses.inputs import InputError
from pipeline.analyses.predictability import Predictability, PredictabilityOptions

if TYPE_CHECKING:
    import pandas as pd


class DpaOptions(PredictabilityOptions):
    """Columns of the file, and how the attackers guess."""

    renamed: ClassVar[Mapping[str, str]] = {
        "task_prediction": "prediction",
        "attribute_prediction": "predicted_attribute",
    }

    prediction: Names = Field((), description="column with the predicted label, for A->T; one for each task")
    predicted_attribute: Names = Field((), description="column with the predicted group, for T->A")
    repeats: int = Field(20, description="how often labels and rows are drawn")


class DpaAnalysis(Predictability[DpaOptions]):
    """Directional predictability amplification (Tokas et al.): attribute to task, task to attribute, or both."""

    name = "dpa"
    options = DpaOptions
    examples = ("counterslope dpa predictions.csv --attribute gender --task cooking --prediction guess",)
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

        from pipeline.statistics import dpa

        found = dpa(**arguments)
        notes = [f"{each.direction}: {note}" for each in found for note in each.notes]
        return pd.concat([each.to_frame() for each in found], ignore_index=True), notes


DPA = DpaAnalysis()
