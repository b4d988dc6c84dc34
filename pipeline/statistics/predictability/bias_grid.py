"""What the metrics say when the bias of a dataset and of a model are known: the grid behind the heatmap of Tokas et al.

The chart is in ``report.charts``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.amplification.multi_attribute import multi_amplification
from pipeline.statistics.predictability.dpa import dpa
from pipeline.statistics.predictability.leakage import leakage

COLUMNS = (
    *("dataset_bias", "model_bias", "dpa", "leakage_amplification", "bias_amplification", "multi_amplification"),
)
BIASES = tuple(round(0.05 * step, 2) for step in range(21))
COARSE = tuple(round(0.1 * step, 1) for step in range(11))  # few enough for a value to be printed in each cell


def bias_grid(
    *,
    dataset_biases: Sequence[float] = BIASES,
    model_biases: Sequence[float] = BIASES,
    rows: int = 400,
    quality: str = "accuracy",
    equalise: str = "accuracy",
) -> pd.DataFrame:
    """Metrics of a binary attribute A and task T, each in two halves, over a grid of biases; by expected counts.

    The bias is the share of rows on which the task equals the attribute: of the dataset P(T = A), of the model
    P(That = A). 0.5: no association, 1: only one association, 0: only the opposite one. In each cell the model is as
    accurate as its bias allows: P(That = T) is 1 - abs(model bias - dataset bias).

    In closed form BiasAmp-> is sign(2d - 1)(m - d) for the biases d of the dataset and m of the model, so 0 for an even
    dataset whatever the model does, and Multi-> abs(m - d), which cannot tell a bias that shrinks from one that grows.

    Args:
        dataset_biases, model_biases: the grid, 0-1 each.
        rows: of the made-up data; biases are rounded to whole rows of each half.
        quality, equalise: see ``dpa``. Equalised, data of the bias 1 always give 0: made as wrong as the model, they
            are as predictable as it. With "none" the biases themselves are compared.

    Returns:
        A row a cell, the columns of ``COLUMNS``, of A->T where there is a direction.

    Raises:
        ValueError: a bias leaves 0-1, or ``rows`` is not even.
    """
    if rows < 2 or rows % 2:
        raise ValueError(f"rows must be even and 2 or more, not {rows}")
    for name, values in (("dataset_biases", dataset_biases), ("model_biases", model_biases)):
        if not len(values) or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"{name} must hold shares in 0-1")
    attribute = np.repeat([0, 1], rows // 2)
    groups = np.column_stack([1 - attribute, attribute])
    made = {bias: _labels(bias, half=rows // 2) for bias in {*dataset_biases, *model_biases}}
    options: dict[str, Any] = {"quality": quality, "equalise": equalise, "attacker": "majority", "resamples": 0}
    cells = []
    for data in dataset_biases:
        for model in model_biases:
            task, prediction = made[data], made[model]
            (directed,) = dpa(attribute, task, predictions=prediction, **options)
            leaked = leakage(attribute, task, prediction, **options)
            columns: dict[str, Any] = {"predictions": prediction[:, None], "resamples": 0}
            leaning = attribute_to_task(groups, task[:, None], **columns)
            several = multi_amplification("A->T", groups, task[:, None], sets=[[0]], **columns)
            cells.append((data, model, directed.dpa, leaked.amplification, leaning.value, several.value))
    return pd.DataFrame(cells, columns=list(COLUMNS))


def _labels(bias: float, *, half: int) -> NDArray[np.intp]:
    """Labels of which a share equals the attribute: always the first rows of each half, so that two differ least."""
    agrees = (np.arange(half) < round(bias * half)).astype(np.intp)
    return np.concatenate([1 - agrees, agrees])
