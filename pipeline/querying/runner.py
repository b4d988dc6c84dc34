"""Several classifiers queried in one run: remote ones at the same time, those on this machine one after the other."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from adapters.base import Adapter, AdapterError
from pipeline.config.redaction import environment_redactor
from pipeline.querying.client import RequestCounts, query_adapter
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

    Classifiers on this machine are queried in the caller's own thread: they use its cores themselves, and users'
    functions may depend on it.

    Args:
        calls: no two with adapters of one name.
        store: where answers are and go.
        progress: called with a classifier's name and counts after each call, from any thread.
        log: called with what went wrong on the way.
    """
    outcomes: dict[str, AdapterOutcome] = {}
    broken: list[BaseException] = []
    stops = {one.adapter.name: threading.Event() for one in calls}

    def work(one: AdapterCalls) -> None:
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
            outcomes[name] = AdapterOutcome(left, problem=problem)
        else:
            outcomes[name] = AdapterOutcome(counts)

    def work_in_thread(one: AdapterCalls) -> None:
        try:
            work(one)
        except BaseException as error:  # raised again by the caller's thread
            broken.append(error)

    remote = [one for one in calls if one.adapter.capabilities.remote]
    threads = [threading.Thread(target=work_in_thread, args=(one,), name=f"run {one.adapter.name}") for one in remote]
    for thread in threads:
        thread.start()
    try:
        for one in calls:
            if not one.adapter.capabilities.remote:
                work(one)
        for thread in threads:
            thread.join()
    except BaseException:
        for event in stops.values():
            event.set()
        for thread in threads:
            thread.join()
        raise
    if broken:
        raise broken[0]
    return {one.adapter.name: outcomes[one.adapter.name] for one in calls}
