"""DPA of Tokas, Nair & Kerner in both directions, and the bias grid."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_examples import BALANCED_AMPLIFIED

from pipeline.statistics.predictability.bias_grid import bias_grid
from pipeline.statistics.predictability.dpa import dpa, relative_change

label_quadruples = st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=1, max_size=80)


A, T, P = BALANCED_AMPLIFIED


def test_example_interval_contains_the_value_and_is_nan_if_undefined():
    (result,) = dpa(A, T, predictions=P, resamples=200)
    row = result.to_frame().set_index("quantity").loc["dpa"]
    assert row["examples_low"] < result.dpa < row["examples_high"]
    (undefined,) = dpa([0, 1], [0, 1], predictions=[0, 1], quality="inverse_mse", resamples=20)
    assert undefined.to_frame()["examples_low"].isna().all()


def test_balanced_amplified_data_with_expected_flips():
    (result,) = dpa(A, T, predictions=P)
    assert (result.direction, result.data, result.model, result.changed) == ("A->T", 0.5, 0.6, (100,))
    assert result.dpa == pytest.approx(1 / 11, abs=1e-12)  # printed 0.0909


def test_balanced_amplified_data_with_drawn_flips():
    (result,) = dpa(A, T, predictions=P, flips="drawn", repeats=300)
    assert result.dpa == pytest.approx(0.0803, abs=0.0012)
    assert result.repeats["dpa"].std() == pytest.approx(0.0054, abs=0.0008)


def test_balanced_amplified_data_with_a_trained_attacker():
    (result,) = dpa(A, T, predictions=P, attacker="network", repeats=5)
    assert result.dpa == pytest.approx(0.0956, abs=2 * 0.0134)
    assert result.flips == "drawn"


def expected_predictability(inputs, target, wrong):
    table = np.zeros((2, 2))
    np.add.at(table, (inputs, target), 1)
    n = len(inputs)
    return (((n - wrong) * table + wrong * table[:, ::-1]) / n).max(axis=1).sum() / n


@given(label_quadruples)
def test_both_directions_equal_the_formula(rows):
    a, t, a_hat, t_hat = np.array(rows).T
    forth, back = dpa(a, t, predictions=t_hat, predicted_attributes=a_hat)
    for result, given_, truth, predicted in ((forth, a, t, t_hat), (back, t, a, a_hat)):
        wrong = int((truth != predicted).sum())
        data, model = expected_predictability(given_, truth, wrong), expected_predictability(given_, predicted, 0)
        assert result.data == pytest.approx(data, abs=1e-12)
        assert result.model == pytest.approx(model, abs=1e-12)
        assert result.dpa == pytest.approx((model - data) / (model + data), abs=1e-12)
        assert abs(result.dpa) <= 1 / 3 + 1e-12  # accuracy is at least the majority share


def test_maximum_for_binary_accuracy_is_one_third():
    a, t = np.repeat([0, 1], 50), np.tile([0, 1], 50)
    (result,) = dpa(a, t, predictions=a, equalise="none")
    assert result.dpa == pytest.approx(1 / 3)


def test_value_is_invariant_to_class_names():
    forth = dpa(A, T, predictions=P, predicted_attributes=A)
    back = dpa(1 - A, T, predictions=P, predicted_attributes=1 - A)
    assert [part.dpa for part in forth] == [part.dpa for part in back]


def test_attackers_of_data_and_model_use_the_same_seed():
    (result,) = dpa(A, T, predictions=T, attacker="network", repeats=3, flips="drawn")
    assert (result.repeats["dpa"] == 0).all()


def test_results_depend_on_the_seed_only():
    once, again, other = (
        dpa(A, T, predictions=P, flips="drawn", repeats=4, seed=seed)[0].repeats for seed in (3, 3, 4)
    )
    assert once.equals(again)
    assert not once.equals(other)


def test_inverse_mse_and_f1():
    (mse,) = dpa(A, T, predictions=P, quality="inverse_mse")
    assert (mse.data, mse.model) == pytest.approx((4, 1 / 0.24))  # 1 / (p (1 - p))
    (f1,) = dpa(A, T, predictions=P, quality="f1")
    assert f1.model == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("model", "data", "expected"),
    [(0.6, 0.5, 1 / 11), (0, 0, np.nan), (0, 0.5, -1), (np.inf, 2, 1), (2, np.inf, -1), (np.inf, np.inf, np.nan)],
)
def test_relative_change_of_zero_and_infinite_values(model, data, expected):
    assert relative_change(model, data) == pytest.approx(expected, nan_ok=True)


def test_undefined_value_is_nan_with_a_note():
    (result,) = dpa([0, 1], [0, 1], predictions=[0, 1], quality="inverse_mse")
    assert np.isnan(result.dpa)
    assert result.notes == ("both predictabilities are inf, so their relative change is not defined",)
    assert result.to_frame()["value"].isna().sum() == 1


def test_missing_or_misshaped_predictions_raise():
    with pytest.raises(ValueError, match="give predictions"):
        dpa(A, T)
    with pytest.raises(ValueError, match="predictions has 3 rows, but tasks has 1000"):
        dpa(A, T, predictions=[0, 1, 1])


def test_frame_names_direction_and_quantity():
    frame = dpa(A, T, predictions=P, predicted_attributes=A)[1].to_frame()
    assert frame["direction"].tolist() == ["T->A"] * 3
    assert frame["quantity"].tolist() == ["data", "model", "dpa"]


def test_bias_grid_values():
    grid = bias_grid(dataset_biases=(0.5, 0.7, 1), model_biases=(0.5, 0.7, 0.9), equalise="none")
    cells = grid.pivot(index="dataset_bias", columns="model_bias", values="dpa")
    assert cells.at[0.7, 0.7] == 0
    assert cells.at[0.5, 0.9] == pytest.approx(0.4 / 1.4)
    assert cells.at[0.7, 0.5] == pytest.approx(-0.2 / 1.2)
    leaked = grid.set_index(["dataset_bias", "model_bias"])["leakage_amplification"]
    assert leaked[0.5, 0.9] == pytest.approx(0.4)
    assert (bias_grid(dataset_biases=(1,), model_biases=(0, 0.5, 1))["dpa"] == 0).all()


def test_bias_grid_equals_the_closed_form():
    biases = (0.0, 0.25, 0.5, 0.8, 1.0)
    grid = bias_grid(dataset_biases=biases, model_biases=biases)
    d, m = grid["dataset_bias"], grid["model_bias"]
    np.testing.assert_allclose(grid["bias_amplification"], np.sign(2 * d - 1) * (m - d), atol=1e-12)
    np.testing.assert_allclose(grid["multi_amplification"], (m - d).abs(), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"rows": 3}, "rows must be even"), ({"model_biases": (1.2,)}, "model_biases must hold shares")],
)
def test_invalid_grids_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        bias_grid(**arguments)


@pytest.mark.parametrize("tasks", [3, 8, 12])
def test_several_unrelated_tasks_give_no_amplification(tasks):
    """70 % of the groups are predicted correctly, and the tasks are independent of them, so the true DPA is 0."""
    random = np.random.default_rng(0)
    a, t = random.integers(0, 2, 600), random.integers(0, 2, (600, tasks))
    guessed = np.where(random.random(600) < 0.7, a, 1 - a)
    (found,) = dpa(a, t, predicted_attributes=guessed, resamples=200, repeats=5)
    low, high = found.intervals.loc["dpa"]
    assert low < 0 < high
    assert low <= found.dpa <= high
    assert abs(found.dpa) < 0.04
    assert (found.attacker == "majority") == (tasks == 3)


@pytest.mark.parametrize("rows", [100, 500])
def test_interval_coverage_on_balanced_amplified_data(rows):
    """Psi_D is a maximum of tied shares here, so a plain bootstrap covers 1/11 in only 74 to 77 %."""
    random, inside = np.random.default_rng(rows), 0
    for _ in range(200):
        a, t, p = np.stack([A, T, P])[:, random.integers(0, 1000, rows)]
        (found,) = dpa(a, t, predictions=p, resamples=300)
        low, high = found.intervals.loc["dpa"]
        inside += low <= 1 / 11 <= high
    assert inside >= 183  # 91.5 %: at 95 % coverage, fewer in about 1 % of runs
