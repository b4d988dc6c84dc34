"""Where jobs on chunks of photos and images run: in this process, or in worker processes that hold the networks.

A job is picklable, and its result depends on nothing but its fields. What the jobs compute is in the stages.
"""

import ctypes
import gc
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pickle import PickleError
from queue import SimpleQueue
from socket import socketpair
from threading import Event, Lock, Thread
from typing import Any, Protocol, TypeVar

from pipeline.run.record import RunError

Step = Callable[[float], None]
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

STEP, DONE, FAILED = "step", "done", "failed"
# One thread each: the processes take all cores, and a result has the same bytes whatever the number of cores.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Of glibc, which other C libraries ignore. From so many bytes it gives memory back when it is freed: without it each
# process keeps a tenth more than it needs. Huge pages, where Linux grants them, cost a third less time to take again.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(2**24),
    "MALLOC_TRIM_THRESHOLD_": str(2**25),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
LOST = (
    "a worker process ended by itself, perhaps for lack of memory: the same command continues; give it fewer --workers"
)


class Job(Protocol[Result_co]):
    """Some work that may be done in another process."""

    def __call__(self, step: Step) -> Result_co:
        """Do it; ``step`` is called with how many more photos are done."""
        ...


class Engine(Protocol):
    """Does jobs, several at once."""

    @property
    def size(self) -> int:
        """How many jobs are done at once."""
        ...

    @property
    def peak_mib(self) -> float:
        """The most memory that other processes than this one have held for it, in MiB."""
        ...

    def start(self) -> None:
        """Get ready, in the background, for jobs that will come soon."""
        ...

    def close(self) -> None:
        """Give back what is held between jobs."""
        ...

    def call(self, job: Job[Result], step: Step = ...) -> Result:
        """Do one job and return its result, or raise its exception. Safe to call from ``size`` threads at once."""
        ...


class InProcess:
    """Does jobs one after the other in the caller's thread."""

    size = 1
    peak_mib = 0.0

    def start(self) -> None:
        """See ``Engine``."""

    def close(self) -> None:
        """See ``Engine``."""

    def call(self, job: Job[Result], step: Step = lambda count: None) -> Result:
        """See ``Engine``."""
        with one_thread():
            return job(step)


IN_PROCESS = InProcess()


class WorkerPool:
    """Does jobs in processes of its own, which are started with the first job and end with this one, however it ends.

    They are forked from one process that has imported the networks' packages. The standard library's pools are not
    used: they run the caller's main module again, and their processes outlive a caller that was killed.

    Args:
        size: how many processes.
        preload: modules that they import before they are forked.
    """

    def __init__(self, size: int, *, preload: Sequence[str] = ()) -> None:
        self.size = size
        self._preload = tuple(preload)
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        self._parent: subprocess.Popen[bytes] | None = None
        self._alive = -1  # a pipe's end; the processes end when it is closed
        self._lock = Lock()
        self._peaks: dict[int, float] = {}

    def start(self) -> None:
        """See ``Engine``."""
        with self._lock:
            if self._parent is not None:
                return
            watched, self._alive = os.pipe()
            pairs = [socketpair() for _ in range(self.size)]
            theirs = [other.fileno() for _, other in pairs]
            code = f"import sys; sys.path[:] = {sys.path!r}; from pipeline.run.engine import serve; serve()"
            words = [sys.executable, "-c", code, ",".join(self._preload), str(watched), *map(str, theirs)]
            self._parent = subprocess.Popen(  # noqa: S603 - this program
                words,
                pass_fds=(watched, *theirs),
                env=os.environ | ONE_THREAD | MALLOC,
                stdin=subprocess.DEVNULL,
                stdout=2,
            )
            os.close(watched)
            for mine, other in pairs:
                other.close()
                self._idle.put(Connection(mine.detach()))

    def call(self, job: Job[Result], step: Step = lambda count: None) -> Result:
        """See ``Engine``.

        Raises:
            RunError: the process that did the job is gone.
        """
        self.start()
        worker = self._idle.get()
        try:
            worker.send(job)
            while (message := worker.recv())[0] == STEP:
                step(message[1])
        except (EOFError, OSError) as error:
            raise RunError(LOST) from error
        except BaseException:
            worker.close()  # it is in the middle of a job: nobody may take its answers for those of another
            raise
        finally:
            self._idle.put(worker)
        kind, result, self._peaks[id(worker)] = message
        if kind == FAILED:
            raise result
        found: Result = result
        return found

    @property
    def peak_mib(self) -> float:
        """The most memory that each process has held, added up, in MiB; what they share is counted for each."""
        return sum(self._peaks.values())

    def close(self) -> None:
        """End the processes, whatever they are doing; the next job starts them again."""
        with self._lock:
            if self._parent is not None:
                os.close(self._alive)
                self._parent.wait()
                self._parent = None
                while not self._idle.empty():
                    self._idle.get().close()


@contextmanager
def started(workers: int, *, preload: Sequence[str] = ()) -> Iterator[Engine]:
    """An engine of so many workers; its processes end with the context."""
    if workers == 1:
        yield IN_PROCESS
        return
    pool = WorkerPool(workers, preload=preload)
    try:
        yield pool
    finally:
        pool.close()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(engine: Engine, items: Iterable[Any], work: Callable[[Any], None]) -> None:
    """Call ``work`` with every item, from as many threads as the engine does jobs at once; items are taken when needed.

    The first exception ends it, once the items that are being worked on are done.
    """
    if engine.size == 1:
        for item in items:
            work(item)
        return
    left, lock, stopped = iter(items), Lock(), Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            while not stopped.is_set():
                with lock:
                    item = next(left, left)
                if item is left:
                    return
                work(item)
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)
            stopped.set()

    threads = [Thread(target=run, daemon=True, name=f"engine {number}") for number in range(engine.size)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stopped.set()
    if errors:
        raise errors[0]


@contextmanager
def alongside(engine: Engine, work: Callable[[], None]) -> Iterator[None]:
    """Have ``work``, which gives the engine jobs, done while the context's body is; by an engine of one job, before it.

    Both end before the context does; the body's exception is raised if both fail.
    """
    if engine.size == 1:
        work()
        yield
        return
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    thread = Thread(target=run, daemon=True, name="engine alongside")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]


@contextmanager
def one_thread() -> Iterator[None]:
    """Have PyTorch and OpenCV compute on one thread; what they were set to comes back."""
    import cv2
    import torch

    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def serve() -> None:
    """Import what the arguments name, fork a worker for each socket, and wait for them; run by ``WorkerPool``."""
    import signal
    from importlib import import_module

    preload, watched, *sockets = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's
    for name in preload.split(",") if preload else ():
        import_module(name)
    mine = list(map(int, sockets))
    gc.freeze()  # else each worker's collector writes to all objects, and so copies the memory that they share
    with one_thread():
        for number in mine:
            if os.fork() == 0:
                for other in mine:
                    if other != number:
                        os.close(other)
                Thread(target=_end_with, args=(int(watched),), daemon=True).start()
                _work(Connection(number))
                os._exit(0)
    for number in mine:
        os.close(number)
    for _ in mine:
        os.wait()


def _end_with(watched: int) -> None:
    """Wait until the other end of the pipe is closed, by the caller or by its death, and end this process."""
    os.read(watched, 1)
    os._exit(1)


def _work(caller: Connection) -> None:
    last: type[object] | None = None
    while True:
        try:
            job = caller.recv()
            if last not in (None, type(job)):
                give_back()  # what other work needed; for more of the same it would have to be taken again
            last = type(job)
            kind, result = DONE, job(lambda count: caller.send((STEP, count)))
        except EOFError:
            return
        except (Exception, SystemExit) as error:
            kind, result = FAILED, error
        try:
            caller.send((kind, result, peak_mib()))
        except (TypeError, ValueError, AttributeError, PickleError) as error:
            unsent = RuntimeError(f"{type(result).__name__}: {result} (it cannot be pickled: {error})")
            caller.send((FAILED, unsent, peak_mib()))


def give_back() -> None:
    """Give the system the memory that is free in this process; other C libraries than glibc are left alone."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak_mib() -> float:
    """The most memory this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
