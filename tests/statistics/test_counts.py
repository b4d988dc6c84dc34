import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from pipeline.statistics.amplification import counts
from pipeline.statistics.amplification.counts import Resamples, cooccurrences
from pipeline.statistics.inference import Units, exact_product, interval

table_pairs = st.integers(1, 12).flatmap(
    lambda rows: st.tuples(
        hnp.arrays(np.int8, st.tuples(st.just(rows), st.integers(1, 4)), elements=st.integers(0, 1)),
        hnp.arrays(np.int8, st.tuples(st.just(rows), st.integers(1, 4)), elements=st.integers(-1, 1)),
    )
)


def resamples_of(rows, *, clusters=None, resamples=20):
    return Resamples.of(Units.of(rows, clusters=clusters), resamples=resamples, seed=0, level=0.95)


@given(table_pairs)
def test_counts_are_exact_integers(arrays):
    left, right = arrays
    found = cooccurrences(left, right)
    assert found.dtype == np.int64
    assert (found == left.T.astype(int) @ right.astype(int)).all()


def test_counts_of_shares_are_sums():
    left, right = np.array([[1, 0], [1, 1], [0, 1]], dtype=np.int8), np.array([[0.25], [0.5], [0.125]])
    assert cooccurrences(left, right).tolist() == [[0.75], [0.625]]
    assert cooccurrences(right, left).tolist() == [[0.75, 0.625]]


@given(table_pairs, st.booleans())
def test_resampled_counts_equal_counts_of_the_drawn_rows(arrays, clustered):
    left, right = arrays
    clusters = [row // 2 for row in range(len(left))] if clustered else None
    resamples = resamples_of(len(left), clusters=clusters)
    found = resamples.cooccurrences(left, right)
    for number, weights in enumerate(resamples.weights.astype(int)):
        of_rows = weights[clusters] if clustered else weights
        assert (found[:, :, number] == left.T.astype(int) @ (of_rows[:, None] * right)).all()
        assert (resamples.sums(right)[:, number] == of_rows @ right).all()


def test_resampled_shares_are_invariant_to_row_order():
    random = np.random.default_rng(0)
    left, right = random.integers(0, 2, size=(50, 2)).astype(np.int8), random.random((50, 3))
    resamples, order = resamples_of(50), random.permutation(50)
    again = Resamples(resamples.units, resamples.weights[:, order], 0.95)
    assert (again.cooccurrences(left[order], right[order]) == resamples.cooccurrences(left, right)).all()


@pytest.mark.parametrize("soft", [False, True])
def test_batch_size_does_not_change_resampled_counts(monkeypatch, soft):
    random = np.random.default_rng(0)
    left, right = random.integers(0, 2, size=(40, 2)).astype(np.int8), random.integers(0, 2, size=(40, 3))
    right = right * 0.3 if soft else right.astype(np.int8)
    in_one_batch = resamples_of(40).cooccurrences(left, right)
    monkeypatch.setattr(counts, "MAX_WEIGHTS", 100)
    assert (resamples_of(40).cooccurrences(left, right) == in_one_batch).all()


def test_weights_take_one_byte_per_row_and_resample():
    weights = resamples_of(1_000_000, resamples=3).weights
    assert weights.nbytes == 3_000_000
    assert (weights.sum(axis=1) == 1_000_000).all()


def test_product_over_some_rows_allows_for_the_total_weight():
    weights = np.array([[100.0, 0.0]], dtype=np.float32)
    assert exact_product(np.array([[0.3, 0.1]]), weights, total=100)[0, 0] == pytest.approx(30, rel=1e-14)


@pytest.mark.parametrize(("option", "value"), [("level", 1.0), ("level", 0.0), ("resamples", -1)])
def test_options_out_of_range_raise(option, value):
    options = {"resamples": 10, "seed": 0, "level": 0.95} | {option: value}
    with pytest.raises(ValueError, match=option):
        Resamples.of(Units.of(3), **options)


def test_interval_of_few_units_is_as_wide_as_students_t():
    random = np.random.default_rng(0)
    x = random.normal(size=8)
    resamples = Resamples.of(Units.of(8), resamples=20_000, seed=0, level=0.95)
    low, high = interval(resamples.sums(x[:, None]) / 8, 0.95, units=8)
    student = stats.t.interval(0.95, 7, loc=x.mean(), scale=stats.sem(x))
    assert high[0] - low[0] == pytest.approx(student[1] - student[0], rel=0.1)


def test_interval_of_one_unit_is_nan():
    samples = np.zeros((2, 50))
    low, high = interval(samples, 0.95, units=[1, 2])
    assert np.isnan([low[0], high[0]]).all()
    assert (low[1], high[1]) == (0, 0)
    assert np.isnan(interval(samples[:, :0], 0.95, units=5)).all()
