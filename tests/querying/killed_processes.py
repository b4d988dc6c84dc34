"""Kill a process that queries a remote service repeatedly, and compare what is billed with what is reported.

For a longer check, run ``PYTHONPATH=.:tests python tests/querying/killed_processes.py --images 1000 --kills 20``.
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

from counting_adapter import write_images
from loopback_service import LoopbackAdapter, LoopbackService

from pipeline.querying.client import query_adapter
from pipeline.querying.counts import RequestCounts
from pipeline.querying.requests import key_maker
from pipeline.querying.store import Store

CHILD = """
import sys, time
sys.path[:] = {path!r}
from pathlib import Path
from counting_adapter import CountingAdapter, write_images
from loopback_service import LoopbackAdapter
from pipeline.querying.client import query_adapter
from pipeline.querying.store import Store
folder = Path({folder!r})
images = write_images(folder / "images", [str(n) for n in range({count})])
adapter = {adapter}
with Store(folder / "responses.sqlite") as store:
    print("querying", flush=True)
    query_adapter(adapter, images, store)
"""


def query_and_kill(folder: Path, adapter: str, *, images: int, kills: int, longest: float, seed: int) -> int:
    """Start the query and kill it after a random time, repeatedly; return how often a running process was killed.

    ``adapter`` is the code that creates the adapter, ``longest`` the maximum of seconds before a kill.
    """
    code = CHILD.format(path=sys.path, folder=str(folder), count=images, adapter=adapter)
    chance, hits = random.Random(seed), 0
    for _ in range(kills):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            time.sleep(chance.uniform(0, longest))
            hits += child.poll() is None
            child.kill()
    return hits


@dataclass(frozen=True)
class Outcome:
    """Counts of the last query, images billed, images reported as possibly billed, and whether labels are correct."""

    counts: RequestCounts
    billed: Counter[str]
    reported: Counter[str]
    same_answers: bool
    killed: int


def kill_many(
    folder: Path, *, images: int, kills: int, batch: int, concurrency: int, rate: float, longest: float, seed: int
) -> Outcome:
    """Query with repeated kills, then to the end, and compare with a query that was not interrupted."""
    with LoopbackService(lambda *_: "slow") as service:
        code = f"LoopbackAdapter({service.url!r}, batch={batch}, concurrency={concurrency}, rate={rate})"
        killed = query_and_kill(folder, code, images=images, kills=kills, longest=longest, seed=seed)
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
    with LoopbackService() as service, Store(folder / "uninterrupted.sqlite") as store:
        adapter = LoopbackAdapter(service.url, batch=batch, concurrency=concurrency)
        query_adapter(adapter, refs, store)
        uninterrupted = {keys[k]: adapter.parse(answer) for k, answer in store.answers(keys)}
    return Outcome(counts, billed, reported, labels == uninterrupted and len(labels) == images, killed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--longest", type=float, default=3.0, help="maximum of seconds before a kill")
    options = vars(parser.parse_args())
    with tempfile.TemporaryDirectory() as name:
        outcome = kill_many(Path(name), **options, batch=1, concurrency=16, rate=60.0, seed=1)
    twice = {image: times for image, times in outcome.billed.items() if times > 1}
    unreported = [image for image, times in twice.items() if times - 1 > outcome.reported[image]]
    print(f"{outcome.killed} of {options['kills']} kills hit a running process; the last run: {outcome.counts}")
    print(f"same labels as without kills: {outcome.same_answers}; images billed more than once: {len(twice)}")
    print(f"reported as possibly billed: {outcome.reported.total()}; billed twice, not reported: {len(unreported)}")


if __name__ == "__main__":
    main()
