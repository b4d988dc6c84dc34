"""DPA of continuous variables."""

import numpy as np
import pytest

from pipeline.statistics.predictability.continuous import CONTINUOUS_COLUMNS, dpa_of_numbers


def salary_data(lean, rows=400, seed=0):
    """Age, salary, and a predicted salary that depends on age by ``lean`` more than the salary does."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=rows)
    salary = 0.5 * age + rng.normal(size=rows)
    return age, salary, salary + lean * age + 0.3 * rng.normal(size=rows)


def dpa_over_null(table, direction="A->T"):
    rows = table[table["direction"] == direction].set_index("quantity")["value"]
    return rows["dpa"] - rows["dpa_shuffled"]


def test_dpa_follows_the_dependence_of_predictions_on_the_attribute():
    neutral, leaning, against = (
        dpa_over_null(dpa_of_numbers(*salary_data(x)[:2], predictions=salary_data(x)[2])) for x in (0, 1, -0.5)
    )
    assert abs(neutral) < 0.02
    assert leaning > 0.1
    assert against < -0.02


def test_perfect_predictions_have_zero_dpa():
    age, salary, _ = salary_data(0)
    table = dpa_of_numbers(age, salary, predictions=salary, repeats=3).set_index("quantity")["value"]
    assert table["dpa"] == pytest.approx(0, abs=1e-12)
    assert table["data"] == pytest.approx(table["model"])


def test_named_groups_both_directions_and_seed():
    age, salary, guess = salary_data(1)
    group = np.where(age > 0, "old", "young")
    rng = np.random.default_rng(1)
    guessed_age = age + rng.normal(size=len(age))
    both = dpa_of_numbers(age, salary[:, None], predictions=guess, predicted_attributes=guessed_age, repeats=2)
    assert list(both.columns) == list(CONTINUOUS_COLUMNS)
    assert both["direction"].tolist() == ["A->T"] * 4 + ["T->A"] * 4
    named = dpa_of_numbers(group, salary, predictions=guess, attacker="forest", repeats=1)
    assert dpa_over_null(named) > 0.05
    assert named.equals(dpa_of_numbers(group, salary, predictions=guess, attacker="forest", repeats=1))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"predictions": ["a"] * 20}, "numbers"), ({"predictions": np.ones(19)}, "same number"), ({}, "predictions"),
        ({"predictions": np.full(20, np.nan)}, "finite"), ({"predictions": np.ones(20), "attacker": "guru"}, "linear"),
    ],
)  # fmt: skip
def test_invalid_arguments_raise(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        dpa_of_numbers(np.arange(20), np.arange(20.0), **arguments)
