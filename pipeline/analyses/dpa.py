"""Directional predictability amplification, of a file of predictions."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from pipeline.analyses.base import Names, Result
from pipeline.analyses.inputs import InputError
from pipeline.analyses.predictability import Predictability, PredictabilityOptions
from pipeline.run.formats import pluralise
from pipeline.run.progress import Watch, unwatched


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

    def compute(self, source: Path, options: DpaOptions, *, watch: Watch = unwatched) -> Result:
        """One row a direction and quantity.

        Raises:
            InputError: nothing is predicted, or the file cannot be read, or lacks a column or a value.
            ValueError: an option does not fit.
        """
        import pandas as pd

        from pipeline.statistics import dpa

        if not options.prediction and not options.predicted_attribute:
            raise InputError("name --prediction (for A->T), --predicted-attribute (for T->A), or both")
        columns = {"task_predictions": options.prediction, "attribute_predictions": options.predicted_attribute}
        arguments = self.arguments(source, options, **columns)
        with watch(self.name, total=1) as advance:
            found = dpa(**arguments)
            advance(1)
        rows = pluralise(len(arguments["tasks"]), "row")
        return self.result(
            source,
            options,
            pd.concat([each.to_frame() for each in found], ignore_index=True),
            title=f"DPA of {' and '.join(options.attribute)} and {', '.join(options.task)}, {rows}",
            notes=[f"{each.direction}: {note}" for each in found for note in each.notes],
        )


DPA = DpaAnalysis()
