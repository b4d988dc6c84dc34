"""Metrics over a grid of known biases of a dataset and a model, as in the heatmap of Tokas et al."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.amplification.multi_attribute import multi_amplification
from pipeline.statistics.predictability.dpa import dpa
from pipeline.statistics.predictability.leakage import leakage

COLUMNS = ["dataset_bias", "model_bias", "dpa", "leakage_amplification", "bias_amplification", "multi_amplification"]
BIASES = tuple(round(0.05 * step, 2) for step in range(21))
COARSE = tuple(round(0.1 * step, 1) for step in range(11))  # coarse enough to print a value in each cell


def bias_grid(
    *,
    dataset_biases: Sequence[float] = BIASES,
    model_biases: Sequence[float] = BIASES,
    rows: int = 400,
    quality: str = "accuracy",
    equalise: str = "accuracy",
) -> pd.DataFrame:
    """Metrics of a binary attribute A and task T over a grid of biases, with balanced A and expected counts.

    The bias is the share of rows on which the task equals the attribute: P(T = A) for the dataset, P(That = A) for the
    model. 0.5 is no association, 1 and 0 are complete association in either direction. In each cell the model is as
    accurate as its bias allows: P(That = T) is 1 - abs(model bias - dataset bias).

    For the biases d of the dataset and m of the model, BiasAmp-> is sign(2d - 1)(m - d): 0 for an unbiased dataset,
    whatever the model does. Multi-> is abs(m - d), which does not tell a decrease of bias from an increase.

    Args:
        dataset_biases, model_biases: the grid, 0-1 each.
        rows: of the synthetic data; biases are rounded to whole rows of each group.
        quality, equalise: see ``dpa``. With equalisation, data of bias 1 always give 0: with the errors of the model
            added they are as predictable as the model. With "none" the biases themselves are compared.

    Returns:
        A row per cell, the columns of ``COLUMNS``, for A->T where there is a direction.

    Raises:
        ValueError: a bias outside 0-1, or ``rows`` is not even.
    """
    if rows < 2 or rows % 2:
        raise ValueError(f"rows must be even and 2 or more, not {rows}")
    for name, values in (("dataset_biases", dataset_biases), ("model_biases", model_biases)):
        if not len(values) or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"{name} must hold shares in 0-1")
    attribute = np.repeat([0, 1], rows // 2)
    groups = np.column_stack([1 - attribute, attribute])
    labels = {bias: _labels(bias, half=rows // 2) for bias in {*dataset_biases, *model_biases}}
    options: dict[str, Any] = {"quality": quality, "equalise": equalise, "attacker": "majority", "resamples": 0}
    cells = []
    for data in dataset_biases:
        for model in model_biases:
            task, prediction = labels[data], labels[model]
            (directional,) = dpa(attribute, task, predictions=prediction, **options)
            leaked = leakage(attribute, task, prediction, **options)
            columns: dict[str, Any] = {"predictions": prediction[:, None], "resamples": 0}
            bias_amp = attribute_to_task(groups, task[:, None], **columns)
            multi = multi_amplification("A->T", groups, task[:, None], sets=[[0]], **columns)
            cells.append((data, model, directional.dpa, leaked.amplification, bias_amp.value, multi.value))
    return pd.DataFrame(cells, columns=COLUMNS)


def _labels(bias: float, *, half: int) -> NDArray[np.intp]:
    """Labels that equal the attribute in the first rows of each group, so that labels of two biases differ least."""
    agrees = (np.arange(half) < round(bias * half)).astype(np.intp)
    return np.concatenate([1 - agrees, agrees])
