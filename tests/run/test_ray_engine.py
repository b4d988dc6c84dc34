"""Jobs on two Ray nodes of this machine: results, errors, and lost processes and nodes."""

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
    with two_nodes() as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(cluster):
    with connected(None, address=cluster.address, gpus=False) as opened:
        yield opened


def square_or_die(step, *, number: int, folder: Path) -> int:
    """Square a number; the process kills itself at the first attempt at 3."""
    mark = folder / "killed"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / str(number)).write_text(str(number**2))
    return number**2


def slow_identity(step, *, number: int) -> int:
    time.sleep(0.3)
    return number


def fail(step) -> None:
    raise RunError("no such folder")


# The nodes cannot import this file, so its functions are pickled by value.
@pytest.fixture(scope="module", autouse=True)
def _by_value():
    import sys

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_job_of_a_lost_process_is_repeated_once(engine, tmp_path: Path) -> None:
    assert engine.size == 2
    found: dict[int, int] = {}

    def work(number: int) -> None:
        assert number not in found
        found[number] = engine.call(partial(square_or_die, number=number, folder=tmp_path))

    for_each(engine, range(6), work)
    assert found == {number: number**2 for number in range(6)}
    assert (tmp_path / "killed").exists()


def test_error_of_a_job_is_raised(engine) -> None:
    with pytest.raises(RunError, match="no such folder"):
        engine.call(fail)


def test_jobs_of_a_lost_node_run_on_the_others(engine, cluster) -> None:
    found: list[int] = []

    def work(number: int) -> None:
        found.append(engine.call(partial(slow_identity, number=number)))
        if len(found) == 3:
            cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)

    for_each(engine, range(8), work)
    assert sorted(found) == list(range(8))
