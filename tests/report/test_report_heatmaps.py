"""The heatmap over the biases of a dataset and of a model."""

from html import unescape

import numpy as np
import pandas as pd
import pytest

from pipeline.report.charts import bias_heatmap
from pipeline.report.embedding import to_svg
from pipeline.statistics.predictability.bias_grid import bias_grid


def test_every_cell_is_drawn_and_printed():
    grid = bias_grid(dataset_biases=(0.5, 0.75, 1), model_biases=(0.5, 0.75, 1), equalise="none")
    svg = unescape(to_svg(bias_heatmap(grid), key="grid", title="DPA", description="by bias"))
    for printed in (">.33<", ">.20<", ">−.20<", ">−.33<", "bias of the dataset", "DPA, A->T"):
        assert printed in svg


def test_a_cell_without_a_value_stays_blank():
    grid = pd.DataFrame({"dataset_bias": [0.5, 1.0], "model_bias": [0.5, 0.5], "dpa": [np.nan, -0.2]})
    rows = bias_heatmap(grid).to_dict()["datasets"]
    assert [row["metric"] for part in rows.values() for row in part] == [-0.2]


def test_a_fine_grid_has_colours_only():
    biases = tuple(np.linspace(0, 1, 13))
    grid = pd.DataFrame([(d, m, d - m) for d in biases for m in biases], columns=["dataset_bias", "model_bias", "dpa"])
    assert len(bias_heatmap(grid).to_dict()["layer"]) == 1


def test_what_cannot_be_drawn_is_explained():
    with pytest.raises(ValueError, match="lacks the column dpa"):
        bias_heatmap(pd.DataFrame({"dataset_bias": [1.0], "model_bias": [1.0]}))
    with pytest.raises(ValueError, match="no value of 'dpa'"):
        bias_heatmap(pd.DataFrame({"dataset_bias": [1.0], "model_bias": [1.0], "dpa": [np.nan]}))
