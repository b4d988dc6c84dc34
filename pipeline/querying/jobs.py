"""Jobs: many images sent as one, answered hours later. What was sent is written down before anything is waited for."""

import threading
from collections.abc import Callable, Sequence
from time import monotonic

from adapters.base import AdapterError, JobService, NoAnswer
from pipeline.querying.outcomes import Outcome
from pipeline.querying.store import Intent, Job, Store

_UNFOUND = NoAnswer("the service has no such job: its images were not sent", retry="later")


class JobsUnknownError(Exception):
    """How far a job is could not be learned for too long; it stays as it is, for a later command."""


class JobClient:
    """Sends jobs and waits for them.

    Args:
        service: takes the jobs.
        store: where jobs and intents are kept.
        classifier: its number in the store.
        stopped: nothing more is waited for once it is set.
        patience: seconds for which it may be unknown how far a job is.
        log: called with how far a job is, and with what went wrong.
    """

    def __init__(
        self,
        service: JobService,
        store: Store,
        *,
        classifier: int,
        stopped: threading.Event,
        patience: float,
        log: Callable[[str], None],
    ) -> None:
        self._service, self._store, self._classifier = service, store, classifier
        self._stopped, self._patience, self._log = stopped, patience, log

    def submit(self, intents: Sequence[Intent], contents: Sequence[bytes]) -> Job | NoAnswer:
        """Send the images of these intents as one job; ``NoAnswer`` where there is none for sure.

        Raises:
            AdapterError: the service cannot be used; nothing was sent.
        """
        job = self._store.begin_job(intents, classifier=self._classifier)
        images = {one.request.sha256: content for one, content in zip(intents, contents, strict=True)}
        try:
            found = self._service.submit(job.name, images)
        except AdapterError:
            self._store.finish([], classifier=self._classifier, job=job)
            raise
        if isinstance(found, str):
            return self._store.name_job(job, found)
        if found.billed:  # its reply was lost: whether there is such a job, the service's list will tell
            self._log(f"{found.reason}; looking whether the job is there")
            return job
        self._store.finish([], classifier=self._classifier, job=job)
        return found

    def wait(self, job: Job) -> tuple[Job, list[Outcome]] | None:
        """A job that has ended, and the outcomes of its intents; None: stopped before.

        Raises:
            AdapterError: the service cannot be used now; the job stays as it is.
            JobsUnknownError: how far it is could not be learned.
        """
        known = monotonic()
        before = ""
        while not self._stopped.is_set():
            if job.service_id is None:
                found = self._service.find(job.name)
                if found is None:
                    return job, [_UNFOUND] * len(job.intents)
                if isinstance(found, str):
                    job = self._store.name_job(job, found)
                    continue
            else:
                images = [one.request.sha256 for one in job.intents]
                result = self._service.collect(job.service_id, images)
                if not isinstance(result, str | NoAnswer):
                    return job, [result[image] for image in images]
                found = result
            words = found if isinstance(found, str) else found.reason
            if words != before:
                self._log(words)
                before = words
            if isinstance(found, str):
                known = monotonic()
            elif monotonic() - known > self._patience or found.retry == "never":
                raise JobsUnknownError(f"{words}; the same command looks for the job again")
            self._stopped.wait(self._service.seconds_between_looks)
        return None

    def end(self, job: Job, outcomes: Sequence[tuple[Intent, Outcome]]) -> None:
        """Keep the outcomes of a job, and only then have the service delete what it holds of it."""
        self._store.finish(outcomes, classifier=self._classifier, job=job)
        if job.service_id is not None:
            try:
                failure = self._service.forget(job.service_id)
                reason = "" if failure is None else failure.reason
            except AdapterError as error:
                reason = str(error)
            if reason:
                self._log(f"the images of {job.service_id} are still with the service: {reason}")
