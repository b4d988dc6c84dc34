"""Several classifiers asked in one run: remote ones at the same time, those on this machine one after the other.

How one is asked is in ``engine``. One that cannot be used stops by itself; the others go on.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from adapters.base import Adapter, AdapterError
from pipeline.querying.engine import AskCounts, ask
from pipeline.querying.manner import CallPolicy
from pipeline.querying.questions import ImageRef
from pipeline.querying.store import Store


@dataclass(frozen=True)
class Asked:
    """A classifier, what it is asked about, and how."""

    adapter: Adapter
    images: tuple[ImageRef, ...]
    manner: CallPolicy = field(default_factory=CallPolicy)


@dataclass(frozen=True)
class Outcome:
    """What became of asking a classifier; ``problem`` says why it cannot be used, and how to mend that."""

    counts: AskCounts
    problem: str | None = None


Progress = Callable[[str, AskCounts], None]


def ask_all(
    asked: Sequence[Asked],
    store: Store,
    *,
    progress: Progress | None = None,
    log: Callable[[str], None] | None = None,
) -> dict[str, Outcome]:
    """Ask every classifier; what became of it by the classifier's name.

    Classifiers on this machine are asked in the caller's own thread: they use its cores themselves, and users'
    functions may depend on it. Nobody waits for anybody's failures.

    Args:
        asked: no two of one name.
        store: where answers are and go.
        progress: is told a classifier's name and counts after each call, from any thread.
        log: is told what went wrong on the way.
    """
    told = progress or (lambda _name, _counts: None)
    outcomes: dict[str, Outcome] = {}
    broken: list[BaseException] = []
    stops = {one.adapter.name: threading.Event() for one in asked}

    def work(one: Asked) -> None:
        name = one.adapter.name
        last = AskCounts(images=len({image.sha256 for image in one.images}))

        def remember(counts: AskCounts) -> None:
            nonlocal last
            last = counts
            told(name, counts)

        try:
            counts = ask(
                one.adapter, one.images, store, manner=one.manner, progress=remember, stopped=stops[name], log=log
            )
        except AdapterError as error:
            left = replace(last, not_asked=last.images - last.done, stopped=str(error))
            outcomes[name] = Outcome(left, problem=str(error))
        else:
            outcomes[name] = Outcome(counts)

    def work_in_thread(one: Asked) -> None:
        try:
            work(one)
        except BaseException as error:  # raised again by the caller's thread
            broken.append(error)

    remote = [one for one in asked if one.adapter.capabilities.remote]
    threads = [
        threading.Thread(target=work_in_thread, args=(one,), name=f"asking {one.adapter.name}") for one in remote
    ]
    for thread in threads:
        thread.start()
    try:
        for one in asked:
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
    return {one.adapter.name: outcomes[one.adapter.name] for one in asked}
