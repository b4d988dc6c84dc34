"""Jobs in worker processes: their results, their failures, and that no process outlives its caller."""

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


def where(step) -> int:
    time.sleep(0.2)  # so that the other process takes the next one
    return os.getpid()


def unsendable(step) -> object:
    return lambda: None


def threads(step) -> tuple[int, int]:
    import cv2
    import torch

    return torch.get_num_threads(), cv2.getNumThreads()


LAST: list[bytearray] = []


def hold(step, *, blocks: int) -> int:
    held = [bytearray(1 << 16) for _ in range(blocks)]
    LAST.append(bytearray(1 << 16))  # at the heap's end: it cannot shrink by itself
    return len(held)


def memory(step) -> int:
    """Pages of this process's own."""
    return int(Path("/proc/self/statm").read_text().split()[1])


def end(step) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def pool():
    with started(2) as engine:
        yield engine


@pytest.mark.parametrize("kind", ["here", "pool"])
def test_a_job_gives_its_result_and_its_progress_or_raises_what_it_raised(kind: str, pool: WorkerPool) -> None:
    engine = pool if kind == "pool" else IN_PROCESS
    steps: list[float] = []
    assert engine.call(partial(double, number=21), steps.append) == 42
    assert steps == [0.25, 0.75]
    with pytest.raises(RunError, match="no such folder"):
        engine.call(partial(fail, reason="no such folder"))
    assert engine.call(partial(double, number=1)) == 2
    assert engine.call(threads) == (1, 1)


def test_every_item_is_worked_on_once_and_by_all_processes(pool: WorkerPool) -> None:
    seen: list[tuple[int, int]] = []
    for_each(pool, iter(range(6)), lambda item: seen.append((item, pool.call(where))))
    assert sorted(item for item, _ in seen) == list(range(6))
    assert len({process for _, process in seen} - {os.getpid()}) == 2
    assert pool.peak_mib > 0


def test_the_first_failure_ends_the_work(pool: WorkerPool) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 3:
            raise ValueError("item 3")
        done.append(item)

    with pytest.raises(ValueError, match="item 3"):
        for_each(pool, range(1000), work)
    assert len(done) < 1000


def test_a_result_that_cannot_be_sent_is_an_error_with_its_kind(pool: WorkerPool) -> None:
    with pytest.raises(RuntimeError, match=r"function.*pickle"):
        pool.call(unsendable)


def test_a_process_that_is_killed_is_named() -> None:
    with started(2) as engine, pytest.raises(RunError, match="--workers"):
        engine.call(end)


CALLER = """
import sys
sys.path.insert(0, {tests!r})
from pipeline.run.engine import WorkerPool, for_each
from test_engine import where
pool = WorkerPool(2)  # without the guard of `if __name__ == "__main__"`
for_each(pool, range(2), lambda _: print(pool.call(where), flush=True))
print("ready", flush=True)
sys.stdin.read()
"""


def test_processes_end_with_a_caller_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(CALLER.format(tests=str(Path(__file__).parent)))
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
    while any(_runs(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its caller"
        time.sleep(0.05)


def _runs(process: str) -> bool:
    """Whether a process is there and not only waiting to be reaped."""
    try:
        return " Z " not in Path("/proc", process, "stat").read_text().rpartition(")")[2][:4]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_process_gives_back_what_other_work_needed(pool: WorkerPool) -> None:
    with started(2) as engine:
        before = engine.call(memory)
        for _ in range(2):  # in both processes, whichever is asked next
            engine.call(partial(hold, blocks=1600))  # 100 MiB
        after = [engine.call(memory) for _ in range(2)]
    assert max(after) - before < 6400, "less than a quarter of it is still held"


def test_there_are_as_many_workers_as_cores_that_may_be_used() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_a_closed_pool_starts_again_with_the_next_job() -> None:
    with started(2) as engine:
        first = engine.call(where)
        engine.close()
        assert engine.call(where) != first


def test_work_goes_on_alongside_and_its_failure_is_raised(pool: WorkerPool) -> None:
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
