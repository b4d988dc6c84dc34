import numpy as np
import pytest
from scipy import stats

from pipeline.statistics.repeats import across_runs


def test_papers_and_t_intervals():
    values = [0.1, 0.3, 0.2, 0.4, 0.25]
    found = across_runs(values)
    reach = 1.96 * np.std(values) / np.sqrt(5)
    assert (found.papers_low, found.papers_high) == pytest.approx((0.25 - reach, 0.25 + reach))
    t = stats.t.interval(0.95, 4, loc=0.25, scale=stats.sem(values))
    assert (found.t_low, found.t_high) == pytest.approx(t)
    assert (found.t_high - found.value) / reach == pytest.approx(1.58, abs=0.01)
    assert found.to_frame()["runs"].tolist() == [5]


def test_single_run_has_no_t_interval():
    found = across_runs([0.5])
    assert found.papers_low == found.papers_high == 0.5
    assert np.isnan(found.t_low)


@pytest.mark.parametrize("values", [[], [np.nan], [[1.0]]])
def test_invalid_values_raise(values):
    with pytest.raises(ValueError, match="one per run"):
        across_runs(values)
