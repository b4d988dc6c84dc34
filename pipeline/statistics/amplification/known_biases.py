"""What BiasAmp-> and Multi-> say when the bias of a dataset and of a model are known; ``bias_grid``'s twin."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.amplification.multi_attribute import multi_amplification

GRID_COLUMNS = ("dataset_bias", "model_bias", "bias_amplification", "multi_amplification")


def amplification_grid(
    *, dataset_biases: Sequence[float], model_biases: Sequence[float], rows: int = 400
) -> pd.DataFrame:
    """A->T amplification of a binary attribute A and task T over a grid of biases, P(T = A) and P(That = A).

    In closed form BiasAmp-> is sign(2d - 1)(m - d) for the biases d of the dataset and m of the model, so 0 for an even
    dataset whatever the model does, and Multi-> abs(m - d), which cannot tell a bias that shrinks from one that grows.

    Args:
        dataset_biases, model_biases: the grid, 0-1 each.
        rows: of the made-up data, even; biases are rounded to whole rows of each half.

    Returns:
        A row a cell, the columns of ``GRID_COLUMNS``.
    """
    half = rows // 2
    attribute = np.repeat([0, 1], half)
    groups = np.column_stack([1 - attribute, attribute])

    def labels(bias: float) -> np.ndarray[tuple[int, ...], np.dtype[np.int_]]:
        agrees = (np.arange(half) < round(bias * half)).astype(np.int_)
        return np.concatenate([1 - agrees, agrees])[:, None]

    cells = []
    for data in dataset_biases:
        for model in model_biases:
            task, prediction = labels(data), labels(model)
            directed = attribute_to_task(groups, task, predictions=prediction, resamples=0)
            several = multi_amplification("A->T", groups, task, predictions=prediction, sets=[[0]], resamples=0)
            cells.append((data, model, directed.value, several.value))
    return pd.DataFrame(cells, columns=list(GRID_COLUMNS))
