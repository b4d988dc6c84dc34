"""Execution of jobs on chunks of photos and images, in this process or in worker processes that hold the networks.

Jobs are picklable, and their results depend only on their fields.
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
# One thread per process, because processes use all cores, and so that results do not depend on the number of cores.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Settings of glibc. Above these sizes, freed memory is returned to the system, without which processes hold a tenth
# more memory than they need. Huge pages, where Linux grants them, take a third less time to allocate again.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(2**24),
    "MALLOC_TRIM_THRESHOLD_": str(2**25),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
LOST = "a worker process died, perhaps for lack of memory: repeat the command with fewer --workers to continue"


class Job(Protocol[Result_co]):
    """A job that may be executed in another process."""

    def __call__(self, step: Step) -> Result_co:
        """Return the result; ``step`` is called with numbers of finished photos."""
        ...


class Engine(Protocol):
    """Executes jobs, several at once."""

    @property
    def size(self) -> int:
        """The number of jobs that are executed at once."""
        ...

    @property
    def peak_mib(self) -> float:
        """The peak memory of its processes, without this one, in MiB."""
        ...

    def start(self) -> None:
        """Prepare in the background for jobs."""
        ...

    def close(self) -> None:
        """Release what is held between jobs."""
        ...

    def call(self, job: Job[Result], step: Step = ...) -> Result:
        """Execute a job and return its result or raise its exception. May be called from ``size`` threads at once."""
        ...


class InProcess:
    """Executes jobs in the caller's thread."""

    size = 1
    peak_mib = 0.0

    def start(self) -> None:
        """See ``Engine``."""

    def close(self) -> None:
        """See ``Engine``."""

    def call(self, job: Job[Result], step: Step = lambda count: None) -> Result:
        """See ``Engine``."""
        from models.precision import one_thread

        with one_thread():
            return job(step)


IN_PROCESS = InProcess()


class WorkerPool:
    """Executes jobs in worker processes, which start with the first job and end with this process, even if killed.

    They are forked from one process that has imported the networks' packages. The pools of the standard library run the
    caller's main module again, and their processes outlive a killed caller.

    Args:
        size: number of processes.
        preload: modules to import before they are forked.
    """

    def __init__(self, size: int, *, preload: Sequence[str] = ()) -> None:
        self.size = size
        self._preload = tuple(preload)
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        self._parent: subprocess.Popen[bytes] | None = None
        self._alive = -1  # end of a pipe; the processes end when it is closed
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
            RunError: the job's process died.
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
            worker.close()  # it still works on the job, so its next messages belong to no other
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
        """The sum of the processes' peak memory in MiB; shared memory is counted for each process."""
        return sum(self._peaks.values())

    def close(self) -> None:
        """End the processes, even while they work. The next job starts new ones."""
        with self._lock:
            if self._parent is not None:
                os.close(self._alive)
                self._parent.wait()
                self._parent = None
                while not self._idle.empty():
                    self._idle.get().close()


@contextmanager
def started(workers: int, *, preload: Sequence[str] = ()) -> Iterator[Engine]:
    """Yield an engine of ``workers`` processes, which end with the context."""
    if workers == 1:
        yield IN_PROCESS
        return
    pool = WorkerPool(workers, preload=preload)
    try:
        yield pool
    finally:
        pool.close()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(engine: Engine, items: Iterable[Any], work: Callable[[Any], None]) -> None:
    """Call ``work`` with every item, in ``engine.size`` threads. Items are taken from the iterable when needed.

    After an exception no further items are taken, and it is raised when the threads have finished theirs.
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
        except BaseException as error:  # raised in the caller's thread
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
    """Run ``work``, which calls the engine, in a thread during the context; with an engine of size 1, before it.

    The context ends when both have ended. If both fail, the body's exception is raised.
    """
    if engine.size == 1:
        work()
        yield
        return
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised in the caller's thread
            errors.append(error)

    thread = Thread(target=run, daemon=True, name="engine alongside")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]


def serve() -> None:
    """Import modules, fork a worker for each socket, and wait for them, as ``WorkerPool`` asks by ``sys.argv``."""
    import signal
    from importlib import import_module

    from models.precision import one_thread

    preload, watched, *sockets = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's
    for name in preload.split(",") if preload else ():
        import_module(name)
    mine = list(map(int, sockets))
    gc.freeze()  # otherwise the workers' garbage collectors write to all objects, which copies shared memory
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
    """End this process when the other end of the pipe is closed, by the caller or by its death."""
    os.read(watched, 1)
    os._exit(1)


def _work(caller: Connection) -> None:
    last: type[object] | None = None
    while True:
        try:
            job = caller.recv()
            if last not in (None, type(job)):
                give_back()  # of other jobs; jobs of the same kind would allocate it again
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
    """Return this process's free memory to the system, if the C library is glibc."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak_mib() -> float:
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
