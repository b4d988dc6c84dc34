"""Amplification against external base rates (Table 2 of Wang & Russakovsky 2021), and average precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from pipeline.statistics.amplification.average_precision import MEAN, average_precision
from pipeline.statistics.amplification.base_rates import amplification_of_rates


def published_value(base, predicted, direction):
    """The published code's formula; ``base`` and ``predicted`` are ``(|T|, |A|)``."""
    axis = 1 if direction == "T->A" else 0
    data = base / base.sum(axis=1, keepdims=True) if axis else base / base.sum(axis=0)
    guess = predicted / predicted.sum(axis=1, keepdims=True) if axis else predicted / base.sum(axis=0)
    sign = np.sign(base / base.sum(axis=0) - base.sum(axis=1, keepdims=True) / base.sum())
    return np.nanmean(sign * (guess - data))


@pytest.mark.parametrize("seed", range(5))
def test_task_to_attribute_equals_the_published_code(seed):
    rng = np.random.default_rng(seed)
    women = rng.uniform(0.02, 0.98, 12)
    shares = np.array([1 - women, women])
    tasks = np.repeat(np.eye(12, dtype=int), 20, axis=0)
    pronouns = rng.dirichlet([2, 2], len(tasks))
    found = amplification_of_rates("T->A", tasks, predictions=pronouns, shares_of_groups=shares, resamples=0)
    predicted = np.array([pronouns[tasks[:, t] == 1].mean(axis=0) for t in range(12)])
    assert found.value == pytest.approx(published_value(shares.T, predicted, "T->A"), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_attribute_to_task_equals_the_published_code_with_task_sizes(seed):
    rng = np.random.default_rng(seed)
    women, sizes = rng.uniform(0.02, 0.98, 12), rng.integers(50, 4000, 12)
    shares = np.array([1 - women, women])
    groups = np.repeat(np.eye(2, dtype=int), 30, axis=0)
    jobs = rng.dirichlet(np.ones(12), len(groups))
    found = amplification_of_rates(
        "A->T", groups, predictions=jobs, shares_of_groups=shares, weights=sizes, resamples=0
    )
    base = (shares * sizes).T
    base = base / base.sum(axis=0, keepdims=True)
    predicted = np.array([jobs[groups[:, a] == 1].mean(axis=0) for a in range(2)]).T
    assert found.value == pytest.approx(published_value(base, predicted, "A->T"), abs=1e-12)


def test_interval_contains_the_value_and_narrows_with_rows():
    rng = np.random.default_rng(0)
    shares = np.array([[0.8, 0.3], [0.2, 0.7]])

    def found(rows):
        tasks = np.eye(2, dtype=int)[rng.integers(0, 2, rows)]
        guess = np.eye(2, dtype=int)[rng.integers(0, 2, rows)]
        return amplification_of_rates("T->A", tasks, predictions=guess, shares_of_groups=shares)

    few, many = found(40), found(4000)
    assert few.low <= few.value <= few.high
    assert many.high - many.low < (few.high - few.low) / 5
    assert many.value == pytest.approx(-0.25, abs=0.03), "uniform predictions are more equal than the base"


def test_shares_of_another_shape_raise():
    with pytest.raises(ValueError, match="2 groups by 3 tasks"):
        amplification_of_rates(
            "T->A", np.eye(3, dtype=int), predictions=np.ones((3, 2)) / 2, shares_of_groups=np.eye(2)
        )


@given(st.integers(0, 10_000), st.integers(3, 40))
def test_average_precision_equals_scikit_learn(seed, rows):
    rng = np.random.default_rng(seed)
    tasks = rng.integers(0, 2, (rows, 3))
    tasks[0] = 1
    scores = rng.integers(0, 6, (rows, 3)) / 5
    table = average_precision(tasks, scores, resamples=0).set_index("task")["average_precision"]
    expected = [average_precision_score(tasks[:, t], scores[:, t]) for t in range(3)]
    np.testing.assert_allclose(table.to_numpy()[:3], expected, atol=1e-12)
    assert table[MEAN] == pytest.approx(np.mean(expected))


def test_average_precision_skips_tasks_without_positives_and_resamples_clusters():
    rng = np.random.default_rng(1)
    tasks = np.column_stack([rng.integers(0, 2, 60), np.zeros(60, dtype=int)])
    scores = rng.random((60, 2))
    table = average_precision(tasks, scores, resamples=300).set_index("task")
    assert np.isnan(table.loc["1", "average_precision"])
    assert table.loc[MEAN, "average_precision"] == table.loc["0", "average_precision"]
    assert table.loc["0", "low"] < table.loc["0", "average_precision"] < table.loc["0", "high"]
    repeated, person = (np.repeat(part, 4, axis=0) for part in (tasks, scores)), np.repeat(range(60), 4).tolist()
    clustered = average_precision(*repeated, resamples=300, clusters=person).set_index("task")
    width = table.loc["0", "high"] - table.loc["0", "low"]
    assert clustered.loc["0", "high"] - clustered.loc["0", "low"] == pytest.approx(width, rel=0.25)
