"""A process that queries a remote service is killed repeatedly: what is billed, and what is reported.

For a longer check, run ``PYTHONPATH=. python tests/querying/kill_many.py --images 1000 --kills 20``.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from counting import write_images
from loopback import Loopback, LoopbackAdapter

from pipeline.querying.client import query_adapter
from pipeline.querying.counts import RequestCounts
from pipeline.querying.requests import key_maker
from pipeline.querying.store import Store

CHILD = """
import sys, time
sys.path[:] = {path!r}
from pathlib import Path
from counting import CountingAdapter, write_images
from loopback import LoopbackAdapter
from pipeline.querying.client import query_adapter
from pipeline.querying.store import Store
folder = Path({folder!r})
images = write_images(folder / "images", [str(n) for n in range({count})])
adapter = {adapter}
with Store(folder / "responses.sqlite") as store:
    print("asking", flush=True)
    query_adapter(adapter, images, store)
"""


def killed_at_random(folder: Path, adapter: str, *, images: int, kills: int, longest: float, seed: int) -> int:
    """Start and kill the query repeatedly after random times; return how often a running process was killed.

    ``adapter``: the adapter, as the process makes it; ``longest``: seconds before a kill at most.
    """
    code = CHILD.format(path=sys.path, folder=str(folder), count=images, adapter=adapter)
    moments, hits = random.Random(seed), 0
    for _ in range(kills):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(moments.uniform(0, longest))
            hits += child.poll() is None
            child.kill()
    return hits


@dataclass(frozen=True)
class Seen:
    """The last run's counts, what the service billed, what is reported, and whether the labels are correct."""

    counts: RequestCounts
    billed: Counter[str]
    reported: Counter[str]
    same_answers: bool
    killed: int


def kill_many(
    folder: Path, *, images: int, kills: int, batch: int, concurrency: int, rate: float, longest: float, seed: int
) -> Seen:
    """Query with repeated kills after random times, then without a kill to the end."""
    with Loopback(lambda *_: "slow") as service:
        made = f"LoopbackAdapter({service.url!r}, batch={batch}, concurrency={concurrency}, rate={rate})"
        killed = killed_at_random(folder, made, images=images, kills=kills, longest=longest, seed=seed)
        time.sleep(0.2)  # the service finishes what it received
        refs = write_images(folder / "images", [str(n) for n in range(images)])
        adapter = LoopbackAdapter(service.url, batch=batch, concurrency=concurrency, rate=rate)
        key = key_maker(adapter)
        keys = {key(image.sha256): image.sha256 for image in refs}
        with Store(folder / "responses.sqlite") as store:
            counts = query_adapter(adapter, refs, store)
            number = store.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
            reported = Counter(store.possibly_billed(classifier=number))
            labels = {keys[k]: adapter.parse(answer) for k, answer in store.answers(keys)}
        billed = service.billed.copy()
    with Loopback() as service, Store(folder / "straight.sqlite") as store:
        adapter = LoopbackAdapter(service.url, batch=batch, concurrency=concurrency)
        query_adapter(adapter, refs, store)
        straight = {keys[k]: adapter.parse(answer) for k, answer in store.answers(keys)}
    return Seen(counts, billed, reported, labels == straight and len(labels) == images, killed)


def main() -> None:
    """A longer check from the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=int, default=1000)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--longest", type=float, default=3.0, help="seconds before a kill at most")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        seen = kill_many(
            Path(name), images=given.images, kills=given.kills, batch=1, concurrency=16, rate=60.0,
            longest=given.longest, seed=1,
        )  # fmt: skip
    twice = {image: times for image, times in seen.billed.items() if times > 1}
    unreported = [image for image, times in twice.items() if times - 1 > seen.reported[image]]
    print(f"{seen.killed} of {given.kills} kills hit a running process; the last run: {seen.counts}")
    print(f"same labels as without kills: {seen.same_answers}; images billed more than once: {len(twice)}")
    print(
        f"intents without outcome reported: {seen.reported.total()}; billed twice and not reported: {len(unreported)}"
    )


if __name__ == "__main__":
    main()
