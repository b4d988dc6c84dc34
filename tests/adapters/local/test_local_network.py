"""Properties shared by all local networks: full batches, and labels from outputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from adapters.base import AdapterError
from adapters.local.network import LocalNetwork, NetworkOptions, Reading, TorchOptions, torch_device
from adapters.options import read_options


class FirstByteNetwork(LocalNetwork):
    """Returns the first byte of an image as every output, and records the sizes of its batches."""

    model = "1"
    parameters: Mapping[str, Any] = {}

    def __init__(self, *, outputs: int = 2, batch: int = 4, top_k: int | None = None, presence: float = 0.5) -> None:
        super().__init__(
            "counting", NetworkOptions(presence=presence), reading=Reading(("a", "b"), "sigmoid", top_k), batch=batch
        )
        self.batch_sizes: list[int] = []
        self._count = outputs

    def _prepare(self, image: bytes) -> NDArray[np.float32]:
        return np.array([image[0]], np.float32)

    def _outputs(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        self.batch_sizes.append(len(batch))
        return np.repeat(batch, self._count, axis=1)


def test_batches_are_padded_to_full_size():
    network = FirstByteNetwork()
    answers = network.send([b"\x00", b"\x01", b"\x02"])
    assert network.batch_sizes == [4]
    assert network.parse(answers[0])[0].score == 0.5
    assert len(answers) == 3


def test_wrong_number_of_labels_stops_the_run():
    with pytest.raises(AdapterError, match=r"shape \(4, 3\), but 2 labels need \(4, 2\)"):
        FirstByteNetwork(outputs=3).send([b"x"])


@pytest.mark.parametrize("options", [{"batch": 0}, {"top_k": 0}, {"top_k": -1}, {"presence": 2.0}])
def test_invalid_options_are_refused(options):
    with pytest.raises(AdapterError, match=next(iter(options))):
        read_options("counting", TorchOptions, options)


def test_top_k_above_the_number_of_labels_is_refused():
    with pytest.raises(AdapterError, match=r"'top_k' must be in 1-2, as there are 2 labels, not 3"):
        FirstByteNetwork(top_k=3)


@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=8))
def test_scores_are_in_0_to_1_and_keep_order(outputs):
    names = tuple(str(number) for number in range(len(outputs)))
    for activation in ("softmax", "sigmoid"):
        scores = [label.score for label in Reading(names, activation).labels(np.array(outputs))]
        assert all(0 <= score <= 1 for score in scores)
        assert all(
            first >= second
            for (low, first) in zip(outputs, scores, strict=True)
            for (high, second) in zip(outputs, scores, strict=True)
            if low > high
        )
        if activation == "softmax":
            assert sum(scores) == pytest.approx(1)


def test_top_k_breaks_ties_by_position():
    reading = Reading(("a", "b", "c"), "none", top_k=2)
    labels = reading.labels(np.array([0.2, 0.7, 0.2]))
    assert [(label.name, label.score) for label in labels] == [("b", 0.7), ("a", 0.2)]


def test_outputs_that_are_not_scores_are_refused():
    for outputs in ([1.0, np.nan], [np.inf, 0]):
        with pytest.raises(ValueError, match="not finite"):
            Reading(("a", "b")).labels(np.array(outputs))
    with pytest.raises(ValueError, match="set the option activation"):
        Reading(("a", "b"), "none").labels(np.array([-1.0, 2.0]))


@pytest.mark.parametrize("name", ["cuda:99", "abacus"])
def test_missing_device_is_explained(name):
    with pytest.raises(AdapterError, match=f"the device '{name}' cannot be used.*device=cpu"):
        torch_device(name, adapter="counting")
