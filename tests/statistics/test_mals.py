import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_examples import MINORITY, WIDENED, figure_2, two_columns

from pipeline.statistics.amplification import mals as module
from pipeline.statistics.amplification.counts import Resamples
from pipeline.statistics.amplification.mals import mals, mals_of_counts
from pipeline.statistics.inference import Units, interval

QUICK = {"resamples": 0}


def mals_of_tasks(attributes, tasks, predictions, **options):
    """MALS with predicted tasks and true attributes."""
    return mals(attributes, tasks, predicted_attributes=attributes, predictions=predictions, **(QUICK | options))


@pytest.mark.parametrize(
    ("base", "predicted", "printed"),
    [
        ([[30], [20]], [[40], [10]], 0.2),
        ([[30], [20]], [[19], [11]], 1 / 30),  # printed 0.033
        ([[30], [20]], [[0], [30]], -0.6),
        ([[20], [20]], [[32], [15]], 0),
    ],
)
def test_printed_examples_are_reproduced_from_counts(base, predicted, printed):
    assert mals_of_counts(base, predicted).value == pytest.approx(printed, abs=1e-12)


def test_printed_examples_are_reproduced_from_rows():
    assert mals_of_tasks(*WIDENED).value == 0
    attributes, tasks, predictions = MINORITY
    assert mals_of_tasks(attributes, tasks, predictions).value == pytest.approx(-0.6)
    both = mals_of_tasks(attributes, two_columns(tasks), two_columns(predictions))
    assert both.value == pytest.approx(-8 / 35)  # -0.2286


def test_figure_2_is_reproduced_with_two_columns_per_task():
    found = []
    for women in (0, 30, 40):
        attributes, tasks, predictions = figure_2(women)
        found.append(mals_of_tasks(attributes, two_columns(tasks), two_columns(predictions)).value)
    assert found == pytest.approx([-0.5357142857142857, 0, 0.15])


def test_pairs_without_a_majority_in_the_base_are_skipped_with_a_reason():
    found = mals_of_counts([[5, 5, 0, 9], [5, 5, 0, 1], [5, 4, 0, 0]], [[9, 9, 9, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert found.value == pytest.approx((1 - 5 / 14 - 5 / 14) / 4)
    assert found.reason[:, 0].tolist() == [module.NOT_MORE] * 3
    assert found.reason[:, 2].tolist() == [module.NOT_IN_BASE] * 3
    assert found.reason[:, 3].tolist() == [module.NEVER_PREDICTED, module.NOT_MORE, module.NOT_MORE]
    frame = found.to_frame()
    assert tuple(frame.columns) == module.PAIR_COLUMNS
    assert len(frame) == 12


@given(st.integers(0, 2**32), st.integers(2, 4))
def test_value_equals_the_formula(seed, groups):
    random = np.random.default_rng(seed)
    base, predicted = random.integers(0, 4, size=(2, groups, 3))
    total = 0.0
    for t in range(3):
        for a in range(groups):
            if base[:, t].sum() and predicted[:, t].sum() and base[a, t] / base[:, t].sum() > 1 / groups:
                total += predicted[a, t] / predicted[:, t].sum() - base[a, t] / base[:, t].sum()
    for counts in ((base, predicted), (base[::-1], predicted[::-1]), (5 * base, 7 * predicted)):
        assert mals_of_counts(*counts).value == pytest.approx(total / 3, abs=1e-12)


def test_interval_equals_an_explicit_bootstrap_over_predictions():
    random = np.random.default_rng(0)
    base = np.eye(2, dtype=np.int8)[random.integers(0, 2, 50)], random.integers(0, 2, size=(50, 3))
    guessed = np.eye(2, dtype=np.int8)[random.integers(0, 2, 40)], random.integers(0, 2, size=(40, 3))
    found = mals(*base, predicted_attributes=guessed[0], predictions=guessed[1], resamples=100)
    values = []
    for weights in Resamples.of(Units.of(40), resamples=100, seed=0, level=0.95).weights.astype(int):
        rows = np.repeat(np.arange(40), weights)
        again = mals(*base, predicted_attributes=guessed[0][rows], predictions=guessed[1][rows], **QUICK)
        values.append(again.value)
    held = guessed[1].sum(axis=0)
    expected = interval(np.array([values]), 0.95, units=3 / (1 / held).sum())
    assert [found.low, found.high] == pytest.approx([end[0] for end in expected], abs=1e-10)


@pytest.mark.parametrize("counts", [[1, 2], [[-1]], [[np.nan]], [["a"]], [[1, 2]]])
def test_invalid_counts_raise(counts):
    with pytest.raises(ValueError, match="predicted must hold counts"):
        mals_of_counts([[1], [2]], counts)
