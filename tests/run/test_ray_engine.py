"""Jobs on two Ray nodes of this machine: their results, their errors, and a process that is lost."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from ray_nodes import two_nodes

from pipeline.run.engine import for_each
from pipeline.run.ray_engine import connected
from pipeline.run.record import RunError

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as made:
        yield made


@pytest.fixture(scope="module")
def engine(cluster):
    with connected(None, address=cluster.address, gpus=False) as made:
        yield made


def square(step, *, number: int, folder: Path) -> int:
    """End its own process the first time that it is 3's turn."""
    mark = folder / "killed"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / str(number)).write_text(str(number**2))
    return number**2


def slow(step, *, number: int) -> int:
    time.sleep(0.3)
    return number


def fail(step) -> None:
    raise RunError("no such folder")


# Functions of this file are not installed on the nodes: they travel by value.
@pytest.fixture(scope="module", autouse=True)
def _by_value():
    import sys

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_a_job_whose_process_is_lost_is_done_again_once(engine, tmp_path: Path) -> None:
    assert engine.size == 2
    found: dict[int, int] = {}

    def work(number: int) -> None:
        assert number not in found
        found[number] = engine.call(partial(square, number=number, folder=tmp_path))

    for_each(engine, range(6), work)
    assert found == {number: number**2 for number in range(6)}
    assert (tmp_path / "killed").exists()


def test_an_error_of_a_job_is_raised_as_it_is(engine) -> None:
    with pytest.raises(RunError, match="no such folder"):
        engine.call(fail)


def test_a_node_that_is_lost_leaves_its_jobs_to_the_others(engine, cluster) -> None:
    found: list[int] = []

    def work(number: int) -> None:
        found.append(engine.call(partial(slow, number=number)))
        if len(found) == 3:
            cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)

    for_each(engine, range(8), work)
    assert sorted(found) == list(range(8))
