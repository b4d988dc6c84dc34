"""Jobs on a Ray cluster, executed by actors that hold the networks. The job of a lost actor is repeated by another.

Every node needs this package, and access to the photos and the run's folder under the caller's paths.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from socket import create_connection
from typing import Any

from pipeline.config.options import ConfigError
from pipeline.run.engine import IN_PROCESS, Engine, Job, Result, Step
from pipeline.run.record import RunError

ATTEMPTS = 4  # at a job whose process or machine is lost
PAUSES = (2, 4, 8, 16)  # seconds between attempts to connect
UNREACHABLE = (
    "{wanted} in {seconds} seconds ({error}): check --ray-address, and `ray status` on the cluster's head; "
    "repeat the command to continue"
)
LOST = "Ray lost the process of a job {attempts} times ({error}): repeat the command to continue"


class RayEngine:
    """Executes jobs on the cores and GPUs of a cluster to which this process is connected.

    Args:
        workers: number of actors; default: the cluster's number of cores.
        gpus: whether the actors share the cluster's GPUs.
    """

    peak_mib = 0.0  # Ray's dashboard shows the cluster's memory

    def __init__(self, workers: int | None, *, gpus: bool) -> None:
        import ray

        resources = ray.cluster_resources()
        self.size = workers or max(1, int(resources.get("CPU", 1)))
        share = resources.get("GPU", 0) / self.size if gpus else 0
        self._actor = ray.remote(_Worker).options(num_cpus=1, num_gpus=share)
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self.size):
            self._add()

    def _add(self) -> None:
        """Start an actor. It receives jobs once it runs, which may never happen on a cluster that is too small."""
        worker = self._actor.remote()
        worker.__ray_ready__.remote().future().add_done_callback(lambda _: self._idle.put(worker))

    def start(self) -> None:
        """See ``Engine``; the actors start by themselves."""

    def close(self) -> None:
        """See ``Engine``; the actors end with the connection."""

    def call(self, job: Job[Result], step: Step = lambda count: None) -> Result:
        """See ``Engine``. ``step`` is not called.

        Raises:
            RunError: the job's process was lost ``ATTEMPTS`` times.
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
                # A new actor, because one that Ray restarts would wait for the lost machine.
                lost = error
                self._add()
                continue
            self._idle.put(worker)
            return result
        raise RunError(LOST.format(attempts=ATTEMPTS, error=lost)) from lost


class _Worker:
    def do(self, job: Job[Any]) -> Any:
        return IN_PROCESS.call(job)


@contextmanager
def connected(workers: int | None, *, address: str | None, gpus: bool) -> Iterator[Engine]:
    """Connect to a cluster for the duration of the context.

    Args:
        workers, gpus: see ``RayEngine``.
        address: the address of a running cluster, such as "auto"; default: start one on this machine.

    Raises:
        ConfigError: Ray is not installed, or the address is invalid.
        RunError: the cluster does not answer, or none could be started.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ConfigError("--engine ray needs the package ray: pip install 'counterslope[ray]'") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry from a cluster started here
    if mine := not ray.is_initialized():
        _connect(address)
    try:
        yield RayEngine(workers, gpus=gpus)
    finally:
        if mine:
            ray.shutdown()


def _connect(address: str | None) -> None:
    """Connect this process to a cluster, or start one; retry after ``PAUSES``, as it may be starting or busy."""
    import ray

    for pause in (*PAUSES, None):
        try:
            _check_reachable(address)
            ray.init(address=address, log_to_driver=False)
        except ValueError as error:
            raise ConfigError(
                f"{address} is not the address of a Ray cluster ({error}): check --ray-address"
            ) from error
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
    """Connect to ``HOST:PORT`` once, because Ray itself would wait for ever.

    Raises:
        OSError: nothing listens there.
    """
    host, _, port = (address or "").rpartition(":")
    if port.isdecimal() and "/" not in host:
        create_connection((host, int(port)), timeout=10).close()
