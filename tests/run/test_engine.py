"""Jobs in worker processes: results, errors, memory, and the end of processes."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from pipeline.run.engine import IN_PROCESS, WorkerPool, alongside, cores, for_each, started
from pipeline.run.record import RunError


def double(step, *, number: int) -> int:
    step(0.25)
    step(0.75)
    return 2 * number


def fail(step, *, reason: str) -> None:
    raise RunError(reason)


def process_id(step) -> int:
    time.sleep(0.2)  # the other process takes the next job
    return os.getpid()


def return_lambda(step) -> object:
    return lambda: None


def threads(step) -> tuple[int, int]:
    import cv2
    import torch

    return torch.get_num_threads(), cv2.getNumThreads()


KEPT_BLOCKS: list[bytearray] = []


def allocate(step, *, blocks: int) -> int:
    held = [bytearray(1 << 16) for _ in range(blocks)]
    KEPT_BLOCKS.append(bytearray(1 << 16))  # keeps the end of the heap occupied
    return len(held)


def resident_pages(step) -> int:
    """Resident pages of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1])


def kill_itself(step) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def pool():
    with started(2) as engine:
        yield engine


@pytest.mark.parametrize("kind", ["here", "pool"])
def test_job_returns_its_result_and_progress_or_raises(kind: str, pool: WorkerPool) -> None:
    engine = pool if kind == "pool" else IN_PROCESS
    steps: list[float] = []
    assert engine.call(partial(double, number=21), steps.append) == 42
    assert steps == [0.25, 0.75]
    with pytest.raises(RunError, match="no such folder"):
        engine.call(partial(fail, reason="no such folder"))
    assert engine.call(partial(double, number=1)) == 2
    assert engine.call(threads) == (1, 1)


def test_for_each_uses_all_processes_once_per_item(pool: WorkerPool) -> None:
    results: list[tuple[int, int]] = []
    for_each(pool, iter(range(6)), lambda item: results.append((item, pool.call(process_id))))
    assert sorted(item for item, _ in results) == list(range(6))
    assert len({process for _, process in results} - {os.getpid()}) == 2
    assert pool.peak_mib > 0


def test_first_error_stops_for_each(pool: WorkerPool) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 3:
            raise ValueError("item 3")
        done.append(item)

    with pytest.raises(ValueError, match="item 3"):
        for_each(pool, range(1000), work)
    assert len(done) < 1000


def test_unpicklable_result_raises(pool: WorkerPool) -> None:
    with pytest.raises(RuntimeError, match=r"function.*pickle"):
        pool.call(return_lambda)


def test_killed_worker_raises_with_advice() -> None:
    with started(2) as engine, pytest.raises(RunError, match="--workers"):
        engine.call(kill_itself)


CALLER_SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from pipeline.run.engine import WorkerPool, for_each
from test_engine import process_id
pool = WorkerPool(2)  # without the guard of `if __name__ == "__main__"`
for_each(pool, range(2), lambda _: print(pool.call(process_id), flush=True))
print("ready", flush=True)
sys.stdin.read()
"""


def test_workers_end_when_their_caller_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(CALLER_SCRIPT.format(tests=str(Path(__file__).parent)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        *workers, ready = (caller.stdout.readline().strip() for _ in range(3))
        assert ready == "ready"
        assert all(Path("/proc", worker).exists() for worker in workers)
        caller.kill()
        caller.wait()
    deadline = time.monotonic() + 10
    while any(_is_running(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its caller"
        time.sleep(0.05)


def _is_running(process: str) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return " Z " not in Path("/proc", process, "stat").read_text().rpartition(")")[2][:4]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_freed_memory_is_returned_to_the_system(pool: WorkerPool) -> None:
    with started(2) as engine:
        before = engine.call(resident_pages)
        for _ in range(2):  # in both processes
            engine.call(partial(allocate, blocks=1600))  # 100 MiB
        after = [engine.call(resident_pages) for _ in range(2)]
    assert max(after) - before < 6400, "less than a quarter is still allocated"


def test_cores_are_between_one_and_the_cpu_count() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_closed_pool_restarts_with_the_next_job() -> None:
    with started(2) as engine:
        first = engine.call(process_id)
        engine.close()
        assert engine.call(process_id) != first


def test_alongside_runs_concurrently_and_raises_errors(pool: WorkerPool) -> None:
    begun, ended = Event(), Event()

    def wait() -> None:
        begun.set()
        ended.wait(timeout=30)

    with alongside(pool, wait):
        assert begun.wait(timeout=30)
        ended.set()

    def fail() -> None:
        raise RunError("the disk is full")

    with pytest.raises(RunError, match="the disk is full"), alongside(pool, fail):
        pass
    order: list[str] = []
    with alongside(IN_PROCESS, lambda: order.append("checks")):
        order.append("query")
    assert order == ["checks", "query"]
