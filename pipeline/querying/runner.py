"""Querying several classifiers concurrently, except those that need the caller's thread."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from adapters.base import Adapter, AdapterError
from pipeline.config.redaction import environment_redactor
from pipeline.querying.client import query_adapter
from pipeline.querying.counts import RequestCounts
from pipeline.querying.limits import CallPolicy
from pipeline.querying.requests import ImageRef, Pending
from pipeline.querying.store import Store

Progress = Callable[[str, RequestCounts], None]


@dataclass(frozen=True)
class AdapterCalls:
    """A classifier, all images for it, and how it is called; ``pending`` are its requests if they are known already."""

    adapter: Adapter
    images: tuple[ImageRef, ...]
    policy: CallPolicy = field(default_factory=CallPolicy)
    pending: Pending | None = None


@dataclass(frozen=True)
class AdapterOutcome:
    """The counts of a classifier; ``problem`` says why it could not be used, and what to do."""

    counts: RequestCounts
    problem: str | None = None


def run_adapters(
    calls: Sequence[AdapterCalls],
    store: Store,
    *,
    progress: Progress | None = None,
    log: Callable[[str], None] | None = None,
) -> dict[str, AdapterOutcome]:
    """Query all classifiers; return the outcomes by their names. One that cannot be used does not stop the others.

    Local classifiers that take one call at a time are queried in the caller's thread, one after the other: they use all
    cores themselves, and users' functions may depend on the thread.

    Args:
        calls: with adapters of distinct names.
        store: holds and receives answers.
        progress: receives a classifier's name and counts after each call, in any thread.
        log: receives errors.
    """
    stops = {each.adapter.name: threading.Event() for each in calls}
    threaded = [each for each in calls if each.adapter.capabilities.remote or each.adapter.capabilities.concurrency > 1]

    def query(each: AdapterCalls) -> AdapterOutcome:
        name = each.adapter.name
        last = RequestCounts(images=len({image.sha256 for image in each.images}))

        def remember(counts: RequestCounts) -> None:
            nonlocal last
            last = counts
            if progress is not None:
                progress(name, counts)

        try:
            counts = query_adapter(
                each.adapter,
                each.images,
                store,
                policy=each.policy,
                pending=each.pending,
                progress=remember,
                stopped=stops[name],
                log=log,
            )
        except AdapterError as error:
            problem = environment_redactor().text(str(error))
            left = replace(last, not_sent=last.images - last.done, stopped=problem)
            return AdapterOutcome(left, problem=problem)
        return AdapterOutcome(counts)

    with ThreadPoolExecutor(max(1, len(threaded)), thread_name_prefix="run") as pool:
        try:
            futures = {each.adapter.name: pool.submit(query, each) for each in threaded}
            outcomes = {each.adapter.name: query(each) for each in calls if each not in threaded}
            outcomes |= {name: future.result() for name, future in futures.items()}
        except BaseException:
            for event in stops.values():
                event.set()
            raise
    return {each.adapter.name: outcomes[each.adapter.name] for each in calls}
