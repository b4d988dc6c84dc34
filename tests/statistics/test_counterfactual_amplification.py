import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_sweeps import dense

from pipeline.statistics.amplification import counterfactual as module
from pipeline.statistics.amplification.counterfactual import counterfactual_amplification
from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.sweeps import Sweeps

VALUES = np.linspace(-2, 2, 5)
NAMES = ["apron", "boots", "cap"]


def random_sweeps(seed=0, *, photos=30, confidence=False):
    random = np.random.default_rng(seed)
    y = random.random((photos, 5, 3)) if confidence else random.integers(0, 2, size=(photos, 5, 3))
    return Sweeps.from_array(y, VALUES, labels=NAMES, adapter="a", attribute="gender", confidence=confidence)


def split(found):
    """The row of the mean over tasks, and the rows of the tasks."""
    return found.iloc[0], found.iloc[1:].reset_index(drop=True)


def test_hand_computed_example():
    y = np.zeros((10, 5, 1))
    y[:2, 0], y[:7, 4], y[:5, 2] = 1, 1, 1
    sweeps = Sweeps.from_array(y, VALUES, labels=["beard"])
    mean, tasks = split(counterfactual_amplification(sweeps, signs={"beard": 1}))
    assert tasks[["rate_low", "rate_high"]].to_numpy().tolist() == [[0.2, 0.7]]
    assert mean["amplification"] == pytest.approx(0.25)
    assert mean["low"] < 0.25 < mean["high"]
    other, _ = split(counterfactual_amplification(sweeps, signs={"beard": -1}))
    assert other["amplification"] == pytest.approx(-0.25)


@given(st.integers(0, 2**32), st.booleans())
def test_equals_directional_amplification_with_steps_as_groups(seed, confidence):
    sweeps = random_sweeps(seed, photos=12, confidence=confidence)
    sign = {"apron": -1, "boots": 1, "cap": 0}
    mean, of_tasks = split(counterfactual_amplification(sweeps, signs=sign, values=(-1, 1), resamples=60))
    y = dense(sweeps)
    groups = np.repeat(np.eye(2, dtype=np.int8), 12, axis=0)
    base = np.array([[-sign[name] for name in NAMES], [sign[name] for name in NAMES]])
    tasks = np.tile(np.random.default_rng(seed).integers(0, 2, size=(12, 3)), (2, 1))
    predictions, photos = np.concatenate([y[:, 1], y[:, 3]]), [*range(12), *range(12)]
    plain = attribute_to_task(groups, tasks, predictions=predictions, base=base, resamples=60, clusters=photos)
    found = mean[["amplification", "low", "high"]].tolist()
    assert found == pytest.approx([plain.value, plain.low, plain.high], abs=1e-12)
    assert of_tasks["amplification"].to_numpy() == pytest.approx(plain.contributions.mean(axis=0), abs=1e-12)


def test_labels_of_one_task_are_combined():
    sweeps = random_sweeps()
    _, found = split(counterfactual_amplification(sweeps, signs={"work": 1}, tasks={"apron": "work", "boots": "work"}))
    either = dense(sweeps)[:, [0, 4], :2].max(axis=2).mean(axis=0)
    assert found[["task", "labels"]].to_numpy().tolist() == [["work", "apron + boots"]]
    assert found[["rate_low", "rate_high"]].to_numpy()[0] == pytest.approx(either)


def test_task_missing_from_the_base_is_excluded_with_a_reason():
    frame = counterfactual_amplification(random_sweeps(), signs={"apron": 1, "cap": 0}, resamples=50)
    assert tuple(frame.columns) == module.COUNTERFACTUAL_COLUMNS
    assert frame["task"].tolist() == ["", *NAMES]
    mean, found = split(frame)
    assert mean["amplification"] == pytest.approx(found["amplification"][0] / 2)
    assert found["reason"].tolist() == ["", module.NOT_IN_BASE, "tie in the base"]
    numbers = found[["amplification", "low", "high"]]
    assert numbers.iloc[1].isna().all()
    assert numbers.iloc[2].tolist() == [0, 0, 0]


def test_without_signs_or_photos_the_value_is_nan():
    without_signs, _ = split(counterfactual_amplification(random_sweeps(), signs={}))
    assert without_signs[["amplification", "low", "high"]].isna().all()
    no_photos = Sweeps.from_array(np.zeros((0, 5, 1)), VALUES, labels=["x"])
    mean, tasks = split(counterfactual_amplification(no_photos, signs={"x": 1}))
    assert np.isnan(mean["amplification"])
    assert tasks["reason"].tolist() == [module.NO_PHOTOS]


def test_block_size_does_not_change_results(monkeypatch):
    whole = counterfactual_amplification(random_sweeps(), signs=dict.fromkeys(NAMES, 1))
    monkeypatch.setattr(module, "BLOCK_CELLS", 1)
    assert counterfactual_amplification(random_sweeps(), signs=dict.fromkeys(NAMES, 1)).equals(whole)


def test_whole_clusters_are_resampled():
    sweeps = random_sweeps(photos=40)
    person = {photo: int(photo) % 4 for photo in sweeps.photos}
    found, _ = split(counterfactual_amplification(sweeps, signs={"cap": 1}, clusters=person, tasks={"cap": "cap"}))
    change = dense(sweeps)[:, 4, 2].astype(int) - dense(sweeps)[:, 0, 2]
    means = [np.mean([change[int(p)] for p in sweeps.photos if person[p] == k]) / 2 for k in range(4)]
    assert min(means) <= found["low"] <= found["amplification"] <= found["high"] <= max(means)
    with pytest.raises(ValueError, match="clusters has no cluster for the photo"):
        counterfactual_amplification(sweeps, signs={}, clusters={})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"values": (-1.5, 1)},
            r"values must be two steps of the sweep, the lower first, not -1\.5, 1; its steps are -2",
        ),
        ({"values": (1, -1)}, "the lower first"),
        ({"tasks": {"tie": "work"}}, "tasks has the label 'tie', which 'a' never returned"),
        ({"signs": {"apron": 2}}, "the sign of 'apron' must be -1, 0 or 1"),
        ({"level": 0}, "level must lie"),
    ],
)
def test_invalid_arguments_raise(change, message):
    with pytest.raises(ValueError, match=message):
        counterfactual_amplification(random_sweeps(), **({"signs": {"apron": 1}} | change))
