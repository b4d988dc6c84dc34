"""Asks one classifier about many images: only what has no answer yet, every outcome kept, no failure unnamed.

What answers mean is not looked at here. The order of answers is of no consequence to anything.
"""

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import monotonic

from adapters.base import Adapter, AdapterError, NoAnswer, RawAnswer
from pipeline.config.redaction import Redactor
from pipeline.querying.breaker import Admission, Breaker
from pipeline.querying.counts import AskCounts
from pipeline.querying.drift import Panel, PanelLedger
from pipeline.querying.jobs import ImageError, Item, Job, content_of, jobs_of
from pipeline.querying.ledger import AnswerLedger, Ledger
from pipeline.querying.manner import CallPolicy
from pipeline.querying.outcomes import checked, kind_of, refused_for_free, unreadable
from pipeline.querying.pacing import RateLimiter
from pipeline.querying.questions import ImageRef, Questions, questions_of
from pipeline.querying.retrying import next_try
from pipeline.querying.store import Moment, Question, Store
from pipeline.querying.waiting import DelayQueue

__all__ = ["AskCounts", "ImageRef", "ask"]


def ask(
    adapter: Adapter,
    images: Iterable[ImageRef],
    store: Store,
    *,
    manner: CallPolicy | None = None,
    progress: Callable[[AskCounts], None] | None = None,
    stopped: threading.Event | None = None,
    log: Callable[[str], None] | None = None,
) -> AskCounts:
    """Ask a classifier about every image that has no answer yet; images of identical bytes are asked once.

    Args:
        adapter: the classifier.
        images: what to ask about.
        store: where answers are and go.
        manner: how fast, how long, how often.
        progress: is told the counts so far after each call.
        stopped: nothing more is asked once it is set; it is set when the asking stops by itself.
        log: is told what went wrong on the way, without secrets.

    Raises:
        AdapterError: the classifier cannot be used; every answer it gave before is kept.
    """
    questions = questions_of(adapter, images, answered=store.answered)
    return _Asking(
        adapter,
        store,
        questions,
        manner=manner or CallPolicy(),
        progress=progress or (lambda _: None),
        stopped=stopped or threading.Event(),
        log=log or (lambda _: None),
    ).run()


class _Asking:
    """One classifier being asked by its threads."""

    def __init__(
        self,
        adapter: Adapter,
        store: Store,
        questions: Questions,
        *,
        manner: CallPolicy,
        progress: Callable[[AskCounts], None],
        stopped: threading.Event,
        log: Callable[[str], None],
    ) -> None:
        service = adapter.capabilities.service
        if service is not None:
            store.outlive_power_loss()
        classifier = store.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
        self._adapter, self._manner, self._progress, self._log = adapter, manner, progress, log
        self._ledger: Ledger = AnswerLedger(store, classifier)
        self._redactor = Redactor(service.credentials if service is not None else ())
        self._pacer = RateLimiter(manner.rate_for(adapter))
        self._breaker = Breaker(manner.tolerance)
        self._chance = random.Random()  # noqa: S311 - jitter
        self._stopped = stopped
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._todo = len(questions.todo)
        self._counts = AskCounts(
            images=questions.images,
            known=questions.images - len(questions.todo),
            unresolved=store.unresolved(classifier=classifier),
        )
        panel = manner.panel if questions.todo and service is not None else ()
        self._panel = PanelLedger(store, classifier, Panel.of([image.sha256 for image in panel], store, classifier))
        self._panel_paths = {image.sha256: image.path for image in panel}
        self._jobs = self._panel_jobs("start") + jobs_of(adapter, questions.todo)
        self._waiting = DelayQueue(self._jobs, stopped=stopped)

    def run(self) -> AskCounts:
        """Ask until everything is done or the asking stopped; the final counts."""
        self._progress(self._counts)
        threads = min(self._manner.concurrency_for(self._adapter), len(self._jobs))
        if threads <= 1:
            self._work()  # in the caller's own thread: local models and users' functions may depend on it
        else:
            pool = [threading.Thread(target=self._work, name=f"ask {self._adapter.name}") for _ in range(threads)]
            for thread in pool:
                thread.start()
            try:
                for thread in pool:
                    thread.join()
            except BaseException:
                self._halt(None)
                for thread in pool:
                    thread.join()
                raise
        if self._error is not None:
            raise self._error
        failed_before = sum(
            item.attempts > 0 for job in self._waiting.left() if job.moment is None for item in job.items
        )
        done = replace(self._counts, failed=self._counts.failed + failed_before)
        return replace(done, not_asked=done.images - done.done)

    def _work(self) -> None:
        while (job := self._waiting.take()) is not None:
            try:
                self._do(job)
            except BaseException as error:  # told to whoever called, in its own thread
                self._halt(error)
            finally:
                self._waiting.done()

    def _halt(self, error: BaseException | None) -> None:
        with self._lock:
            self._error = self._error or error
        self._stopped.set()

    def _give_up(self, reason: str) -> None:
        with self._lock:
            if self._counts.stopped is None:
                self._counts = replace(self._counts, stopped=reason)
        self._log(reason)
        self._stopped.set()

    def _do(self, job: Job) -> None:
        ready, contents = self._read(job)
        if not ready:
            return
        admitted = self._breaker.admit(self._stopped)
        cost = self._manner.usd * len(ready)
        if admitted is None or not self._manner.budget.take(cost):
            self._not_asked(job, ready)
            return
        ledger = self._panel.at(job.moment) if job.moment is not None else self._ledger
        with self._pacer.entrance:
            intents = ledger.begin([item.question for item in ready])
            if not self._pacer.wait_turn(self._stopped):
                ledger.withdraw(intents)
                self._breaker.cancelled(admitted=admitted)
                self._not_asked(job, ready)
                return
        sent = monotonic()
        with self._lock:
            self._counts = replace(self._counts, calls=self._counts.calls + 1)
        try:
            outcomes = checked(self._adapter.send(contents), expected=len(contents))
        except AdapterError as error:
            told = self._redactor.text(str(error))
            ledger.finish([(intent, NoAnswer(told)) for intent in intents])
            self._manner.budget.give_back(cost)
            raise AdapterError(told) from None
        except Exception as error:  # one image's failure, whatever it is, must not take the run with it
            self._broken(job, ready, intents, ledger, error)
            self._breaker.cancelled(admitted=admitted)
            return
        outcomes = [self._redactor.outcome(outcome) for outcome in outcomes]
        ledger.finish(list(zip(intents, outcomes, strict=True)))
        free = sum(isinstance(outcome, NoAnswer) and not outcome.billed for outcome in outcomes)
        self._manner.budget.give_back(self._manner.usd * free)
        self._learn(outcomes, sent=sent, admitted=admitted)
        self._settle(job, ready, outcomes, sent=sent)

    def _read(self, job: Job) -> tuple[list[Item], list[bytes]]:
        """The images of a job that can be sent, with their bytes; the others fail by name."""
        ready: list[Item] = []
        contents: list[bytes] = []
        for item in job.items:
            try:
                contents.append(content_of(item.path, item.question.image_sha256))
            except ImageError as error:
                (self._panel.at(job.moment) if job.moment else self._ledger).refuse(item.question, error=str(error))
                self._count(job, failed=1)
            else:
                ready.append(item)
        return ready, contents

    def _learn(self, outcomes: Sequence[RawAnswer | NoAnswer], *, sent: float, admitted: Admission) -> None:
        """What a call's outcomes say about the service: its speed, whether it is there at all."""
        kind, reason = kind_of(outcomes)
        if kind == "answer" and self._adapter.capabilities.remote and (why := unreadable(outcomes, self._adapter)):
            kind, reason = "never", why  # each is charged for: many in a row, and nothing is gained by more of them
        if kind == "slower":
            waits = [outcome.wait for outcome in outcomes if isinstance(outcome, NoAnswer) and outcome.wait]
            self._pacer.refused(sent=sent, wait=max(waits, default=None))
            with self._lock:
                self._counts = replace(self._counts, throttled=self._counts.throttled + 1)
        elif kind == "answer":
            self._pacer.accepted()
        self._breaker.told(kind, admitted=admitted, reason=reason)
        if self._breaker.gave_up is not None:
            self._give_up(f"{self._adapter.name}: {self._breaker.gave_up}")

    def _settle(
        self, job: Job, items: Sequence[Item], outcomes: Sequence[RawAnswer | NoAnswer], *, sent: float
    ) -> None:
        """Count what was answered; put back what may be answered later; name the rest failed."""
        failures = [
            (item, outcome) for item, outcome in zip(items, outcomes, strict=True) if isinstance(outcome, NoAnswer)
        ]
        if len(failures) == len(items) > 1 and all(refused_for_free(outcome) for outcome in outcomes):
            # The service said no to the call: one of its images may be the reason.
            self._put_back(job, [[item] for item in items], delay=0.0, sent=sent)
            return
        again: list[Item] = []
        delay, failed = 0.0, 0
        for item, outcome in failures:
            elapsed = monotonic() - item.first if item.attempts else monotonic() - sent
            wait = next_try(
                outcome,
                attempts=item.attempts + 1,
                elapsed=elapsed,
                patience=self._manner.patience,
                chance=self._chance,
            )
            then = "" if wait is None else f"; again in {wait:.1f} s"
            self._log(f"{self._adapter.name}: {item.path.name}: {outcome.reason}{then}")
            if wait is None or self._stopped.is_set():
                failed += 1
            else:
                again.append(item)
                delay = max(delay, wait)
        if again:
            self._put_back(job, [again], delay=delay, sent=sent)
        self._count(job, answered=len(items) - len(failures), failed=failed)

    def _broken(
        self, job: Job, items: Sequence[Item], intents: Sequence[object], ledger: Ledger, error: Exception
    ) -> None:
        """The adapter raised something: local images are tried alone, once; a remote service may have charged."""
        remote = self._adapter.capabilities.remote
        reason = self._redactor.text(f"{type(error).__name__}: {error}")
        ledger.finish([(intent, NoAnswer(reason, billed=remote)) for intent in intents])
        self._log(f"{self._adapter.name}: {reason}")
        if len(items) > 1 and not remote:
            self._put_back(job, [[item] for item in items], delay=0.0, sent=monotonic())
        else:
            self._count(job, failed=len(items))

    def _put_back(self, job: Job, groups: Iterable[Sequence[Item]], *, delay: float, sent: float) -> None:
        for group in groups:
            items = tuple(replace(item, attempts=item.attempts + 1, first=item.first or sent) for item in group)
            self._waiting.put(Job(items, job.moment), delay=delay)
            with self._lock:
                self._counts = replace(self._counts, repeated=self._counts.repeated + len(items))

    def _not_asked(self, job: Job, items: Sequence[Item]) -> None:
        """Stopped before it could be asked; images that failed before stay failed."""
        if not self._stopped.is_set() and self._breaker.gave_up is None:
            self._give_up(f"{self._adapter.name}: {self._manner.budget.exhausted}")
        self._stopped.set()
        self._count(job, failed=sum(item.attempts > 0 for item in items))

    def _count(self, job: Job, *, answered: int = 0, failed: int = 0) -> None:
        if job.moment is not None:
            return
        with self._lock:
            before = self._counts.answered + self._counts.failed
            self._counts = replace(
                self._counts, answered=self._counts.answered + answered, failed=self._counts.failed + failed
            )
            after = self._counts.answered + self._counts.failed
            if after != before:
                self._progress(self._counts)
        if before < self._todo // 2 <= after and self._todo > 1:
            self._put_panel("middle")
        if before < self._todo <= after:
            self._put_panel("end")

    def _put_panel(self, moment: Moment) -> None:
        for job in self._panel_jobs(moment):
            self._waiting.put(job)

    def _panel_jobs(self, moment: Moment) -> list[Job]:
        questions = [(Question("", image), self._panel_paths[image]) for image in self._panel.missing(moment)]
        return [replace(job, moment=moment) for job in jobs_of(self._adapter, questions)]
