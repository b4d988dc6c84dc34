"""BiasAmp-> and Multi-> over known biases: their closed forms."""

import numpy as np

from pipeline.statistics.amplification.known_biases import amplification_grid


def test_the_grid_is_the_closed_form():
    biases = (0.0, 0.25, 0.5, 0.8, 1.0)
    grid = amplification_grid(dataset_biases=biases, model_biases=biases)
    d, m = grid["dataset_bias"], grid["model_bias"]
    np.testing.assert_allclose(grid["bias_amplification"], np.sign(2 * d - 1) * (m - d), atol=1e-12)
    np.testing.assert_allclose(grid["multi_amplification"], (m - d).abs(), atol=1e-12)
