"""Jobs on a Ray cluster: actors that hold the networks; what a lost one was doing is done again by another.

Every node needs this package, and sees the photos and the run's folder under the same paths as the caller.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from socket import create_connection
from typing import Any

from pipeline.config.options import ConfigError
from pipeline.run.engine import Engine, Job, Result, Step, one_thread
from pipeline.run.record import RunError

ATTEMPTS = 4  # at one job whose process or machine is lost
PAUSES = (2, 4, 8, 16)  # seconds between the attempts to connect
UNREACHABLE = (
    "{wanted} in {seconds} seconds ({error}): see --ray-address, and `ray status` on the cluster's head; "
    "the same command continues"
)
LOST = "Ray lost the process of a job {attempts} times ({error}): the same command continues"


class RayEngine:
    """Does jobs on the cores, and the GPUs if there are any, of a cluster that this process is connected to.

    Args:
        workers: how many actors; as many as the cluster has cores unless given.
        gpus: let them share the cluster's GPUs.
    """

    peak_mib = 0.0  # of this machine; Ray's own dashboard has the cluster's

    def __init__(self, workers: int | None, *, gpus: bool) -> None:
        import ray

        there = ray.cluster_resources()
        self.size = workers or max(1, int(there.get("CPU", 1)))
        share = there.get("GPU", 0) / self.size if gpus else 0
        self._actor = ray.remote(_Worker).options(num_cpus=1, num_gpus=share)
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self.size):
            self._add()

    def _add(self) -> None:
        """Start an actor. It is given jobs once it runs: on a cluster that is too small for it, it may never do so."""
        worker = self._actor.remote()
        worker.__ray_ready__.remote().future().add_done_callback(lambda _: self._idle.put(worker))

    def start(self) -> None:
        """See ``Engine``; the actors start by themselves."""

    def close(self) -> None:
        """See ``Engine``; the actors end with the connection."""

    def call(self, job: Job[Result], step: Step = lambda count: None) -> Result:
        """See ``Engine``; nothing is counted before the job is done.

        Raises:
            RunError: its process was lost again and again.
        """
        import ray

        for _ in range(ATTEMPTS):
            worker = self._idle.get()
            try:
                result: Result = ray.get(worker.do.remote(job))
            except ray.exceptions.RayTaskError as error:
                self._idle.put(worker)
                raise error.cause from None
            except ray.exceptions.RayError as error:
                # Another actor goes on: where a machine is gone, one that Ray restarts would wait for its place.
                lost = error
                self._add()
                continue
            self._idle.put(worker)
            return result
        raise RunError(LOST.format(attempts=ATTEMPTS, error=lost)) from lost


class _Worker:
    def do(self, job: Job[Any]) -> Any:
        with one_thread():
            return job(lambda count: None)


@contextmanager
def connected(workers: int | None, *, address: str | None, gpus: bool) -> Iterator[Engine]:
    """An engine on a cluster; its actors end with the context.

    Args:
        workers: see ``RayEngine``.
        address: of a running cluster, such as "auto"; one is started on this machine unless given.
        gpus: see ``RayEngine``.

    Raises:
        ConfigError: Ray is not installed, or the address is none.
        RunError: the cluster does not answer, or none could be started.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ConfigError("--engine ray needs the package ray: pip install 'counterslope[ray]'") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of our own reports to nobody
    if mine := not ray.is_initialized():
        _connect(address)
    try:
        yield RayEngine(workers, gpus=gpus)
    finally:
        if mine:
            ray.shutdown()


def _connect(address: str | None) -> None:
    """Connect this process to a cluster, or start one; again after each of ``PAUSES``: it may be starting, or busy."""
    import ray

    for pause in (*PAUSES, None):
        try:
            _check_reachable(address)
            ray.init(address=address, log_to_driver=False)
        except ValueError as error:
            raise ConfigError(f"there can be no Ray cluster at {address} ({error}): see --ray-address") from error
        except Exception as error:  # Ray raises nothing more specific
            ray.shutdown()
            if pause is None:
                wanted = (
                    "Ray did not start on this machine" if address is None else f"no Ray cluster answers at {address}"
                )
                raise RunError(UNREACHABLE.format(wanted=wanted, error=error, seconds=sum(PAUSES))) from error
            time.sleep(pause)
        else:
            return


def _check_reachable(address: str | None) -> None:
    """Try whether anything listens at ``HOST:PORT``, since Ray itself waits there for ever.

    Raises:
        OSError: nothing does.
    """
    host, _, port = (address or "").rpartition(":")
    if port.isdecimal() and "/" not in host:
        create_connection((host, int(port)), timeout=10).close()
