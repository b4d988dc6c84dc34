import numpy as np
import pytest

from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.amplification.signs import PAPER, signs, signs_of_shares


def test_shares_are_compared_with_their_mean_over_tasks():
    # share of women among nurses, janitors and cooks; the mean is 54 %
    women = np.array([0.9, 0.2, 0.52])
    assert signs_of_shares([women, 1 - women]).tolist() == [[1, -1, -1], [-1, 1, 1]]
    assert signs_of_shares([women, 1 - women], overall=0.5).tolist() == [[1, -1, 1], [-1, 1, -1]]
    assert signs_of_shares([women, 1 - women], weights=[1, 5, 5]).tolist() == [[1, -1, 1], [-1, 1, -1]]


@pytest.mark.parametrize("groups", [2, 3, 7])
def test_uniform_base_is_a_tie_everywhere(groups):
    uniform = np.full((groups, 11), 1 / groups)
    assert not signs_of_shares(uniform).any()
    assert (signs_of_shares(uniform, rule=PAPER) == -1).all()
    attributes = np.eye(groups, dtype=np.int8)
    tasks, guesses = np.zeros((groups, 11)), np.ones((groups, 11))
    base = signs_of_shares(uniform)
    assert attribute_to_task(attributes, tasks, predictions=guesses, base=base, resamples=0).value == 0


def test_signs_of_shares_equal_signs_of_rows():
    random = np.random.default_rng(0)
    group, task = random.integers(0, 2, size=500), random.integers(0, 5, size=500)
    attributes, tasks = np.eye(2, dtype=np.int8)[group], np.eye(5, dtype=np.int8)[task]
    counts = attributes.T.astype(int) @ tasks
    assert (signs_of_shares(counts / counts.sum(axis=0), weights=counts.sum(axis=0)) == signs(attributes, tasks)).all()


@pytest.mark.parametrize(
    ("shares", "weights", "message"),
    [
        ([[1.2]], None, "column 0 of group_shares must lie in 0-1"),
        ([[0.5, 0.5]], [1], "a positive number for each of 2 tasks"),
        ([[0.5, 0.5]], [1, 0], "a positive number"),
    ],
)
def test_invalid_shares_raise(shares, weights, message):
    with pytest.raises(ValueError, match=message):
        signs_of_shares(shares, weights=weights)
