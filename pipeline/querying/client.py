"""The client of one classifier: sends the images that have no answer, stores every outcome, and logs every failure.

Images are sent in calls that are answered at once, or in jobs that are answered later (`jobs`).
"""

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from adapters.base import Adapter, AdapterError, FaceClassifier, JobService, NoAnswer
from pipeline.config.redaction import environment_redactor
from pipeline.querying.counts import RequestCounts, Tally
from pipeline.querying.drift import Panel
from pipeline.querying.jobs import JobClient, JobsUnknownError
from pipeline.querying.limits import CallPolicy, CircuitBreaker, next_try
from pipeline.querying.outcomes import (
    Outcome,
    Unreadable,
    call_result,
    contract_checked,
    printable,
    readable,
    refused_for_free,
)  # fmt: skip
from pipeline.querying.requests import ImageError, ImageRef, Pending, Request, batches_of, pending_requests, read_image
from pipeline.querying.schedule import DelayQueue, RateLimiter
from pipeline.querying.store import Intent, Job, Moment, Store


@dataclass(frozen=True)
class _Call:
    """A call to make: images, the sentinels of one moment, or a job that an earlier command sent."""

    requests: tuple[Request, ...]
    moment: Moment | None = None
    job: Job | None = None


def query_adapter(
    adapter: Adapter,
    images: Iterable[ImageRef],
    store: Store,
    *,
    policy: CallPolicy | None = None,
    pending: Pending | None = None,
    progress: Callable[[RequestCounts], None] | None = None,
    stopped: threading.Event | None = None,
    log: Callable[[str], None] | None = None,
) -> RequestCounts:
    """Send a classifier all images that have no answer; identical images are sent once.

    Args:
        adapter: the classifier.
        images: all images for it.
        store: holds and receives answers.
        policy: rates, retries and budget.
        pending: the requests for ``images``, if they are known already.
        progress: receives the counts after each call.
        stopped: stops sending when set; the client sets it when it stops by itself.
        log: receives errors, without secrets.

    Raises:
        AdapterError: the classifier cannot be used; all answers received before are stored.
    """
    return _Client(
        adapter,
        store,
        pending or pending_requests(adapter, images, answered=store.answered),
        policy=policy or CallPolicy(),
        progress=progress or (lambda _: None),
        stopped=stopped or threading.Event(),
        log=log or (lambda _: None),
    ).run()


class _Client:
    """The threads that send requests to one classifier."""

    def __init__(
        self,
        adapter: Adapter,
        store: Store,
        pending: Pending,
        *,
        policy: CallPolicy,
        progress: Callable[[RequestCounts], None],
        stopped: threading.Event,
        log: Callable[[str], None],
    ) -> None:
        service = adapter.capabilities.service
        if service is not None:
            store.outlive_power_loss()
        self._adapter, self._store, self._policy, self._log = adapter, store, policy, log
        self._classifier = store.number_of(adapter)
        self._redactor = environment_redactor(service.credentials if service is not None else ())
        self._limiter = RateLimiter(policy.rate_for(adapter))
        self._breaker = CircuitBreaker(policy.breaker)
        self._chance = random.Random()  # noqa: S311 - jitter
        self._stopped = stopped
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._todo = len(pending.requests)
        self._calls: list[_Call] = []
        self._jobs: JobClient | None = None
        sent_before: list[Job] = []
        if isinstance(adapter, JobService):
            patience, number = policy.breaker.patience, self._classifier
            self._jobs = JobClient(
                adapter, store, classifier=number, stopped=stopped, patience=patience, log=self._note
            )
            sent_before = store.jobs(classifier=self._classifier)
        # Jobs have many images, so only one thread at a time reads and sends those of a job.
        self._one_job: AbstractContextManager[Any] = threading.Lock() if adapter.capabilities.jobs else nullcontext()
        waiting = {intent.request.key for job in sent_before for intent in job.intents}
        wanted = {request.key: request for request in pending.requests}
        fresh = [request for request in pending.requests if request.key not in waiting]
        sentinels = policy.sentinels if fresh and service is not None else ()
        self._panel = Panel.of(sentinels, store.sentinels(classifier=self._classifier), pending=self._todo)
        for job in sent_before:  # it may also have images of versions that no longer exist
            keys = [intent.request.key for intent in job.intents if intent.request.key in wanted]
            self._calls.append(_Call(tuple(wanted[key] for key in keys), job=job))
        counts = RequestCounts(
            images=pending.images,
            known=pending.known,
            waiting=sum(len(call.requests) for call in self._calls),
            unresolved=store.unresolved(classifier=self._classifier),
        )
        self._tally = Tally(counts, progress)
        self._calls += self._sentinel_calls("start")
        self._calls += [_Call(batch) for batch in batches_of(adapter, fresh)]
        self._queue = DelayQueue(self._calls, stopped=stopped)

    def run(self) -> RequestCounts:
        """Send until everything is done or the client is stopped; return the final counts."""
        self._tally.add(show=True)
        threads = min(self._policy.concurrency_for(self._adapter), len(self._calls))
        if threads <= 1:
            self._work()  # in the caller's thread, which local models and users' functions may require
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix=f"query {self._adapter.name}") as pool:
                try:
                    wait([pool.submit(self._work) for _ in range(threads)])
                except BaseException:
                    self._halt(None)
                    raise
        if self._error is not None:
            raise self._error
        left = (call for call in self._queue.left() if call.moment is None and not call.job)
        _, done = self._tally.add(failed=sum(_was_sent(request) for call in left for request in call.requests))
        return replace(done, not_sent=done.images - done.done - done.waiting)

    def _work(self) -> None:
        while (call := self._queue.take()) is not None:
            try:
                self._make(call)
            except BaseException as error:  # raised again in the caller's thread
                self._halt(error)
            finally:
                self._queue.done()

    def _halt(self, error: BaseException | None) -> None:
        with self._lock:
            self._error = self._error or error
        self._stopped.set()

    def _give_up(self, reason: str) -> None:
        why = f"{self._adapter.name}: {reason}"
        self._tally.stopped(why)
        self._log(why)
        self._stopped.set()

    def _make(self, call: _Call) -> None:
        """Make a call: record its intents, send it, store its outcomes."""
        if call.job is not None:
            return self._fetch(call, call.job)
        with self._one_job:
            requests, contents = self._read(call)
            if not requests:
                return
            cost = self._policy.usd * len(requests)
            if not (self._breaker.admit(self._stopped) and self._limiter.wait_turn(self._stopped)):
                return self._leave(call, requests, self._breaker.gave_up)
            # Taken last, so that a call that waits for its turn does not block the budget.
            if not self._policy.budget.take(cost, stopped=self._stopped):
                return self._leave(call, requests, self._policy.budget.exhausted)
            sentinel = None if call.moment is None else (self._panel.number, call.moment)
            intents = self._store.begin(requests, classifier=self._classifier, sentinel=sentinel)
            sent = monotonic()
            self._tally.add(calls=1)
            found = self._send(intents, contents, cost)
            del contents
        if isinstance(found, Job):
            self._tally.add(waiting=len(requests), show=True)
            self._fetch(replace(call, requests=tuple(requests)), found, cost=cost)
            return
        outcomes = self._checked(found, cost=cost)
        self._settle(call, list(zip(requests, intents, outcomes, strict=True)), sent=sent)
        self._learn(outcomes, sent=sent)

    def _send(self, intents: Sequence[Intent], contents: Sequence[bytes], cost: float) -> Sequence[Outcome] | Job:
        """Send images whose intents are recorded; return their outcomes, or the job they were sent as."""
        try:
            if self._adapter.capabilities.faces and isinstance(self._adapter, FaceClassifier):
                answers = self._adapter.send_faces(contents, [intent.request.face for intent in intents])
                return contract_checked(answers, expected=len(contents))
            if self._jobs is None or not self._adapter.capabilities.jobs:
                return contract_checked(self._adapter.send(contents), expected=len(contents))
            found = self._jobs.submit(intents, contents)
            return found if isinstance(found, Job) else [found] * len(intents)
        except AdapterError as error:
            self._stopped.set()  # first, because no further call can succeed
            reason = self._clean(str(error))
            self._store.finish([(intent, NoAnswer(reason)) for intent in intents], classifier=self._classifier)
            self._policy.budget.settle(cost, charged=0.0)
            raise AdapterError(reason) from None
        except (Exception, SystemExit) as error:  # the failure of some images must not end the run
            remote = self._adapter.capabilities.remote
            return [NoAnswer(f"{type(error).__name__}: {error}", billed=remote)] * len(contents)

    def _fetch(self, call: _Call, job: Job, *, cost: float = 0.0) -> None:
        """Wait for the outcomes of a job.

        A job of an earlier command may also have images that this run does not need; its ``cost`` is 0, being spent.
        """
        try:
            ended = self._jobs.wait(job) if self._jobs is not None else None
        except JobsUnknownError as error:
            return self._give_up(self._clean(str(error)))
        except AdapterError as error:
            raise AdapterError(self._clean(str(error))) from None
        if ended is None:
            return
        job, found = ended
        outcomes = self._checked(found, cost=cost)
        self._tally.add(waiting=-len(call.requests))
        requests = {request.key: request for request in call.requests}
        ours: list[tuple[Request, Intent, Outcome]] = []
        others: list[tuple[Intent, Outcome]] = []
        for intent, outcome in zip(job.intents, outcomes, strict=True):
            if request := requests.get(intent.request.key):
                ours.append((request, intent, outcome))
            else:
                others.append((intent, outcome))
        received = monotonic()
        self._settle(call, ours, sent=received, job=job, others=others)
        self._learn(outcomes, sent=received)

    def _checked(self, found: Sequence[Outcome], *, cost: float) -> list[Outcome]:
        """Redact secrets, turn unreadable answers into failures, and settle the cost."""
        outcomes = [readable(self._redactor.outcome(outcome), self._adapter, clean=self._clean) for outcome in found]
        charged = sum(not isinstance(outcome, NoAnswer) or outcome.billed for outcome in outcomes)
        self._policy.budget.settle(cost, charged=self._policy.usd * charged if cost else 0.0)
        return outcomes

    def _read(self, call: _Call) -> tuple[list[Request], list[bytes]]:
        """Read the images of a call; return the requests and contents of those that are readable and unchanged."""
        requests: list[Request] = []
        contents: list[bytes] = []
        for request in call.requests:
            try:
                contents.append(read_image(request.path, request.sha256))
            except ImageError as error:
                if call.moment is None:
                    self._store.refuse(request, classifier=self._classifier, error=str(error))
                self._count(call, failed=1)
            else:
                requests.append(request)
        return requests, contents

    def _settle(
        self,
        call: _Call,
        outcomes: Sequence[tuple[Request, Intent, Outcome]],
        *,
        sent: float,
        job: Job | None = None,
        others: Sequence[tuple[Intent, Outcome]] = (),
    ) -> None:
        """Store the outcomes of a call, or of a ``job`` with its ``others``; queue retries, and count the rest."""
        results = [outcome for _, _, outcome in outcomes]
        # If the service refused the whole call, a single image may be the reason.
        split = job is None and len(results) > 1 and all(refused_for_free(outcome) for outcome in results)
        kept: list[tuple[Intent, Outcome]] = []
        together: list[Request] = []
        alone: list[Request] = []
        delay, counted = 0.0, {"answered": 0, "unreadable": 0, "failed": 0}
        for request, intent, outcome in outcomes:
            final: Outcome = outcome
            if not isinstance(outcome, NoAnswer):
                counted["answered"] += 1
            elif split:
                alone.append(request)
            else:
                pause = self._pause(request, outcome, sent=sent)
                self._report(request, outcome, pause)
                if pause is not None:
                    delay = max(delay, pause)
                    if isinstance(outcome, Unreadable):
                        alone.append(replace(request, unreadable=request.unreadable + 1))
                    else:
                        together.append(request)
                elif isinstance(outcome, Unreadable) and outcome.reply is not None and call.moment is None:
                    final = outcome.reply  # stored because it was paid for: other options may extract labels from it
                    counted["unreadable"] += 1
                else:
                    counted["failed"] += 1
            kept.append((intent, final))
        if job is not None and self._jobs is not None:
            self._jobs.end(job, [*kept, *others])
            # Not as single images: a job takes as long for one as for many.
            again = batches_of(self._adapter, [*together, *alone])
        else:
            self._store.finish(kept, classifier=self._classifier)
            again = [tuple(group) for group in (together, *([request] for request in alone)) if group]
        for group in again:
            self._put_back(call, group, delay=delay, sent=sent)
        self._count(call, **counted)

    def _pause(self, request: Request, failure: NoAnswer, *, sent: float) -> float | None:
        """Return the seconds until a request is retried; None: it is not."""
        policy = self._policy.retry
        last = isinstance(failure, Unreadable) and request.unreadable + 1 >= policy.unreadable
        if last or self._stopped.is_set():
            return None
        elapsed = monotonic() - (request.first or sent)
        return next_try(failure, attempts=request.attempts + 1, elapsed=elapsed, policy=policy, chance=self._chance)

    def _report(self, request: Request, failure: NoAnswer, pause: float | None) -> None:
        then = "" if pause is None else f"; again in {pause:.1f} s"
        name = f"{request.photo} ({request.path.name})" if request.photo else request.path.name
        self._log(f"{self._adapter.name}: {name}: {failure.reason}{then}")

    def _put_back(self, call: _Call, requests: Sequence[Request], *, delay: float, sent: float) -> None:
        # While the service is down, its failures do not count as attempts.
        attempt = 0 if self._breaker.failing else 1
        retries = tuple(
            replace(request, attempts=request.attempts + attempt, first=request.first or sent) for request in requests
        )
        self._queue.put(_Call(retries, call.moment), delay=delay)
        self._tally.add(repeated=len(retries))

    def _learn(self, outcomes: Sequence[Outcome], *, sent: float) -> None:
        """Update rate limiter and circuit breaker by the outcomes of a call."""
        result, reason = call_result(outcomes)
        if result == "slower":
            waits = [outcome.wait for outcome in outcomes if isinstance(outcome, NoAnswer) and outcome.wait]
            self._limiter.refused(sent=sent, wait=max(waits, default=None))
            self._tally.add(throttled=1)
        elif result == "answer":
            self._limiter.accepted()
        # A service that refuses many images will refuse all, but a local function may fail for some faces only.
        if result != "never" or self._adapter.capabilities.remote or not self._tally.counts.answered:
            self._breaker.record(result, reason=reason)
        if self._breaker.gave_up is not None:
            self._give_up(self._breaker.gave_up)

    def _leave(self, call: _Call, requests: Sequence[Request], reason: str | None) -> None:
        """Drop a call because the client stops; images that were sent before count as failed."""
        if not self._stopped.is_set() and reason is not None:
            self._give_up(reason)
        self._stopped.set()
        self._count(call, failed=sum(_was_sent(request) for request in requests))

    def _count(self, call: _Call, *, answered: int = 0, unreadable: int = 0, failed: int = 0) -> None:
        if call.moment is not None or not answered + unreadable + failed:
            return
        was, now = self._tally.add(answered=answered, unreadable=unreadable, failed=failed, show=True)
        before, after = was.done - was.known, now.done - now.known
        if before < self._todo // 2 <= after and self._todo > 1:
            self._put_sentinels("middle")
        if before < self._todo <= after:
            self._put_sentinels("end")

    def _put_sentinels(self, moment: Moment) -> None:
        for call in self._sentinel_calls(moment):
            self._queue.put(call)

    def _sentinel_calls(self, moment: Moment) -> list[_Call]:
        requests = [Request("", image.sha256, image.path) for image in self._panel.missing(moment)]
        return [_Call(batch, moment) for batch in batches_of(self._adapter, requests)]

    def _note(self, message: str) -> None:
        self._log(f"{self._adapter.name}: {self._clean(message)}")

    def _clean(self, reason: str) -> str:
        return printable(self._redactor.text(reason))


def _was_sent(request: Request) -> bool:
    return request.first > 0
