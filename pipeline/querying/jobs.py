"""Jobs: many images sent together and answered hours later. Each job is recorded in the store before it is sent."""

import threading
from collections.abc import Callable, Sequence
from time import monotonic

from adapters.base import AdapterError, JobService, NoAnswer
from pipeline.querying.outcomes import Outcome
from pipeline.querying.store import Intent, Job, Store

_UNFOUND = NoAnswer("the service has no such job: its images were not sent", retry="later")


class JobsUnknownError(Exception):
    """The state of a job has been unknown for too long; a later command can continue to wait for it."""


class JobClient:
    """Sends jobs and waits for them.

    Args:
        service: takes the jobs.
        store: stores jobs and intents.
        classifier: the classifier's number in the store.
        stopped: ends all waiting once it is set.
        patience: maximum seconds for which the state of a job may be unknown.
        log: receives the progress of jobs, and errors.
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
        """Send the images of intents as one job; ``NoAnswer`` if the service certainly has no such job.

        Raises:
            AdapterError: the service cannot be used; nothing was sent.
        """
        job = self._store.begin_job(intents, classifier=self._classifier)
        images = {intent.request.sha256: content for intent, content in zip(intents, contents, strict=True)}
        try:
            found = self._service.submit(job.name, images)
        except AdapterError:
            self._store.finish([], classifier=self._classifier, job=job)
            raise
        if isinstance(found, str):
            return self._store.name_job(job, found)
        if found.billed:  # the reply was lost: `wait` finds out whether the service has the job
            self._log(f"{found.reason}; checking whether the service has the job")
            return job
        self._store.finish([], classifier=self._classifier, job=job)
        return found

    def wait(self, job: Job) -> tuple[Job, list[Outcome]] | None:
        """Wait until a job has ended; return it with the outcomes of its intents, or None if the client was stopped.

        Raises:
            AdapterError: the service cannot be used at present; a later command can continue to wait.
            JobsUnknownError: the state of the job is unknown.
        """
        known = monotonic()
        logged = ""
        while not self._stopped.is_set():
            if job.service_id is None:
                found = self._service.find(job.name)
                if found is None:
                    return job, [_UNFOUND] * len(job.intents)
                if isinstance(found, str):
                    job = self._store.name_job(job, found)
                    continue
            else:
                images = [intent.request.sha256 for intent in job.intents]
                result = self._service.collect(job.service_id, images)
                if not isinstance(result, str | NoAnswer):
                    return job, [result[image] for image in images]
                found = result
            state = found if isinstance(found, str) else found.reason
            if state != logged:
                self._log(state)
                logged = state
            if isinstance(found, str):
                known = monotonic()
            elif monotonic() - known > self._patience or found.retry == "never":
                raise JobsUnknownError(f"{state}; the same command checks the job again")
            self._stopped.wait(self._service.seconds_between_looks)
        return None

    def end(self, job: Job, outcomes: Sequence[tuple[Intent, Outcome]]) -> None:
        """Store the outcomes of a job, and only then have the service delete its data."""
        self._store.finish(outcomes, classifier=self._classifier, job=job)
        if job.service_id is not None:
            try:
                failure = self._service.forget(job.service_id)
                reason = "" if failure is None else failure.reason
            except AdapterError as error:
                reason = str(error)
            if reason:
                self._log(f"the service still has the images of {job.service_id}: {reason}")
