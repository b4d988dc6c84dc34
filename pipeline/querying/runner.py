"""Several classifiers queried in one run: at the same time, but for those that need the caller's own thread."""

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
    """A classifier, all images for it, and how the calls are made; ``pending`` where the requests are known already."""

    adapter: Adapter
    images: tuple[ImageRef, ...]
    policy: CallPolicy = field(default_factory=CallPolicy)
    pending: Pending | None = None


@dataclass(frozen=True)
class AdapterOutcome:
    """The counts of a classifier; ``problem`` says why it cannot be used, and what to do."""

    counts: RequestCounts
    problem: str | None = None


def run_adapters(
    calls: Sequence[AdapterCalls],
    store: Store,
    *,
    progress: Progress | None = None,
    log: Callable[[str], None] | None = None,
) -> dict[str, AdapterOutcome]:
    """Query every classifier; the outcomes by the classifiers' names. One that cannot be used does not stop the others.

    Classifiers on this machine that take one call at a time are queried in the caller's own thread, one after the
    other: they use its cores themselves, and users' functions may depend on it.

    Args:
        calls: no two with adapters of one name.
        store: where answers are and go.
        progress: called with a classifier's name and counts after each call, from any thread.
        log: called with what went wrong on the way.
    """
    stops = {one.adapter.name: threading.Event() for one in calls}
    aside = [one for one in calls if one.adapter.capabilities.remote or one.adapter.capabilities.concurrency > 1]

    def work(one: AdapterCalls) -> AdapterOutcome:
        name = one.adapter.name
        last = RequestCounts(images=len({image.sha256 for image in one.images}))

        def remember(counts: RequestCounts) -> None:
            nonlocal last
            last = counts
            if progress is not None:
                progress(name, counts)

        try:
            counts = query_adapter(
                one.adapter,
                one.images,
                store,
                policy=one.policy,
                pending=one.pending,
                progress=remember,
                stopped=stops[name],
                log=log,
            )
        except AdapterError as error:
            problem = environment_redactor().text(str(error))
            left = replace(last, not_sent=last.images - last.done, stopped=problem)
            return AdapterOutcome(left, problem=problem)
        return AdapterOutcome(counts)

    with ThreadPoolExecutor(max(1, len(aside)), thread_name_prefix="run") as pool:
        try:
            futures = {one.adapter.name: pool.submit(work, one) for one in aside}
            outcomes = {one.adapter.name: work(one) for one in calls if one not in aside}
            outcomes |= {name: future.result() for name, future in futures.items()}
        except BaseException:
            for event in stops.values():
                event.set()
            raise
    return {one.adapter.name: outcomes[one.adapter.name] for one in calls}
