"""The search for clusters with a large gap, and the outcomes of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.statistics.local.clustering import Aim, Points, cost, gaps_of, improve, kmeans_labels
from pipeline.statistics.local.outcomes import MeanOutcome, auc, outcome_of


def random_points(seed, *, rows=150, dimensions=3, weights=False, counted=False):
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, dimensions)) + 3 * random.integers(3, size=(rows, 1))
    times = random.integers(1, 4, size=rows).astype(float) if weights else np.ones(rows)
    features = features - times @ features / times.sum()
    group, values = random.integers(2, size=rows), random.integers(2, size=rows).astype(float)
    about = random.random(rows) < 0.7 if counted else np.ones(rows, dtype=bool)
    return Points(features, times, group, MeanOutcome(values, about))


def reference_objective(points, labels, aim, clusters):
    """Inertia and objective, computed in a loop over rows."""
    inertia = bias = 0.0
    rows = np.repeat(np.arange(len(labels)), points.weights.astype(int))
    for cluster in range(clusters):
        inside = rows[labels[rows] == cluster]
        inertia += ((points.features[inside] - points.features[inside].mean(axis=0)) ** 2).sum()
        parts = [inside[(points.group[inside] == g) & points.outcome.counted[inside]] for g in (0, 1)]
        if all(len(part) for part in parts):
            gap = points.outcome.values[parts[1]].mean() - points.outcome.values[parts[0]].mean()
            bias += gap**2 * (len(inside) if aim.objective == "weighted" else 1)
    return inertia, inertia - aim.strength * bias


cases = st.tuples(
    st.integers(0, 10_000), st.sampled_from(["literal", "weighted"]), st.sampled_from([0.5, 5.0, 100.0]), st.booleans()
)


@settings(max_examples=25)
@given(cases)
def test_objective_is_never_worse_than_that_of_k_means(case):
    seed, objective, strength, uneven = case
    points, aim = random_points(seed, weights=uneven, counted=uneven), Aim(strength, objective)
    start = kmeans_labels(points.features, points.weights, clusters=4, seed=seed, starts=1)
    found = improve(points, start, aim, clusters=4)
    inertia, value = reference_objective(points, found.labels, aim, 4)
    assert found.converged
    assert found.value == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert found.inertia == pytest.approx(inertia, rel=1e-9)
    assert value <= reference_objective(points, start, aim, 4)[1] + 1e-9
    assert set(found.labels) == set(range(4))  # no cluster is empty


@pytest.mark.parametrize("objective", ["literal", "weighted"])
@pytest.mark.parametrize("uneven", [False, True])
def test_result_is_a_local_optimum(objective, uneven):
    points, aim = random_points(7, rows=40, weights=uneven, counted=uneven), Aim(3.0, objective)
    start = kmeans_labels(points.features, points.weights, clusters=3, seed=0)
    found = improve(points, start, aim, clusters=3)
    for row in range(40):
        for cluster in range(3):
            moved = found.labels.copy()
            moved[row] = cluster
            if len(set(moved)) == 3:
                assert reference_objective(points, moved, aim, 3)[1] >= found.value - 1e-6


def test_zero_strength_does_not_increase_inertia():
    points = random_points(1)
    start = kmeans_labels(points.features, points.weights, clusters=5, seed=0, starts=1)
    found = improve(points, start, Aim(0.0), clusters=5)
    assert found.inertia <= cost(points, start, Aim(0.0), clusters=5)[0]


def test_cluster_without_a_group_has_no_gap():
    outcome = MeanOutcome(np.array([1.0, 1.0, 0.0, 1.0]), np.ones(4, dtype=bool))
    points = Points(np.arange(4.0)[:, None] - 1.5, np.ones(4), np.array([0, 0, 0, 1]), outcome)
    gaps = gaps_of(points, np.array([0, 0, 1, 1]), clusters=2)
    np.testing.assert_array_equal(gaps, [np.nan, 1.0])
    assert cost(points, np.array([0, 0, 1, 1]), Aim(5.0, "literal"), clusters=2) == (1.0, -4.0)


def test_auc_can_be_searched():
    random = np.random.default_rng(0)
    features = random.normal(size=(120, 2))
    features -= features.mean(axis=0)
    truth, group = random.integers(2, size=120), random.integers(2, size=120)
    outcome = outcome_of(random.random(120), truth, metric="auc")
    points, aim = Points(features, np.ones(120), group, outcome), Aim(2.0, "weighted")
    start = kmeans_labels(features, np.ones(120), clusters=3, seed=0)
    found = improve(points, start, aim, clusters=3)
    assert found.value < cost(points, start, aim, clusters=3)[1]
    assert found.value == cost(points, found.labels, aim, clusters=3)[1]


def test_auc_equals_scikit_learn():
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(0)
    truth, score = random.integers(2, size=80), random.integers(10, size=80)
    assert auc(truth, score) == pytest.approx(roc_auc_score(truth, score))
    assert np.isnan(auc(np.ones(4), np.arange(4)))


def test_pseudo_values_of_a_mean_are_the_values():
    values = np.random.default_rng(0).random(30)
    cells = np.repeat([0, 1, 2], 10)
    outcome = outcome_of(values, np.zeros(30), metric=lambda _, prediction: float(prediction.mean()))
    weights = np.tile([1.0, 2.0], 15)
    np.testing.assert_allclose(outcome.contributions(cells, weights), values)
    np.testing.assert_allclose(
        outcome.by_cell(cells, weights, count=3),
        [np.average(values[cells == c], weights=weights[cells == c]) for c in range(3)],
    )


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("accuracy", 3 / 5), ("presence", 3 / 5), ("fpr", 1 / 2), ("tpr", 2 / 3)],
)
def test_metrics_of_a_cell(metric, expected):
    truth, prediction = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0])
    outcome = outcome_of(prediction, truth, metric=metric)
    assert outcome.by_cell(np.zeros(5, dtype=int), np.ones(5), count=2)[0] == pytest.approx(expected)


def test_accuracy_of_several_columns_requires_an_exact_match():
    outcome = outcome_of([[1, 0], [1, 1]], [[1, 0], [1, 0]])
    assert outcome.values.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prediction": [1, 0]}, "the metric 'accuracy' needs truth"),
        ({"prediction": [1, 0], "truth": [1]}, "truth has 1 rows, but prediction has 2"),
        ({"prediction": [1, 0], "truth": [1, 2], "metric": "fpr"}, "truth must hold 0 and 1 .* 2 in row 1"),
        ({"prediction": [1, 0], "truth": [1, 0], "metric": "mood"}, "metric must be one of accuracy"),
        ({"prediction": [1, np.nan], "metric": "presence"}, "prediction has no finite number in row 1"),
        ({"prediction": ["a", "b"], "metric": "presence"}, "prediction must be"),
        ({"prediction": [], "metric": "presence"}, "n > 0"),
    ],
)
def test_invalid_outcomes_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        outcome_of(**arguments)
