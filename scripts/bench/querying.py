"""How fast a remote service is queried, and how soon a run of 100,000 answers knows that there is nothing to do.

The service is a process of its own on this machine: it answers each request after 200 ms and, in the first part, allows
so many requests within any second and refuses the others (HTTP 429). Prints one line a part.
"""

import asyncio
import json
import multiprocessing
import os
import sqlite3
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Annotated, Any

import typer

from adapters.answers import from_answer
from adapters.base import Capabilities, Label, NoAnswer, RawAnswer, Service
from adapters.http_client import Call, HttpClient, failure_of
from pipeline.querying.client import query_adapter
from pipeline.querying.counts import RequestCounts
from pipeline.querying.limits import CallPolicy
from pipeline.querying.requests import ImageRef, key_maker
from pipeline.querying.store import Store
from pipeline.run.engine import peak_mib

LATENCY = 0.2
IMAGE_BYTES = 40_000


class Remote:
    """The service's adapter: an image is the body of a request."""

    name = "bench"
    model = "1"

    def __init__(self, url: str, *, rate: float, concurrency: int) -> None:
        self.parameters: Mapping[str, Any] = {}
        service = Service(provider="This machine", host="127.0.0.1", retention="nothing", version="none", rate=rate)
        self.capabilities = Capabilities(service=service, concurrency=concurrency)
        self._url = url
        self._call = HttpClient()

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """See ``adapters.base.Adapter``."""
        reply = self._call(Call(self._url, body=images[0]))
        if isinstance(reply, NoAnswer):
            return [reply]
        return [failure_of(reply) or RawAnswer(reply.body, reply.status)]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``adapters.base.Adapter``."""
        return from_answer(answer)


class Answering(asyncio.Protocol):
    """One connection; ``times`` are the accepted requests of the last second, ``log`` all (seconds, accepted)."""

    def __init__(self, limit: float | None, times: deque[float], log: list[tuple[float, bool]]) -> None:
        self._limit, self._times, self._log = limit, times, log
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: D102
        self._received += data
        head, found, _ = bytes(self._received[:4096]).partition(b"\r\n\r\n")
        if not found:
            return
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        if len(self._received) < len(head) + 4 + length:
            return
        self._received.clear()
        now = monotonic()
        while self._times and self._times[0] <= now - 1:
            self._times.popleft()
        accepted = self._limit is None or len(self._times) < self._limit
        if accepted:
            self._times.append(now)
        self._log.append((now, accepted))
        body = b'{"labels": [["bright", 0.5]]}' if accepted else b'{"error": "slow down"}'
        status = b"200 OK" if accepted else b"429 Too Many Requests"
        reply = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
        asyncio.get_running_loop().call_later(LATENCY, self._say, reply)

    def _say(self, reply: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(reply)


def serve(limit: float | None, pipe: Connection) -> None:
    """Serve until the parent says stop; then send the log."""

    async def main() -> None:
        log: list[tuple[float, bool]] = []
        times: deque[float] = deque()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Answering(limit, times, log), "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)
        pipe.send(log)

    asyncio.run(main())


def queried(folder: Path, images: list[ImageRef], *, limit: float | None, rate: float, concurrency: int) -> str:
    """Ask a service of its own process; what came of it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(limit, theirs), daemon=True)
    process.start()
    adapter = Remote(f"http://127.0.0.1:{ours.recv()}", rate=rate, concurrency=concurrency)
    began, cpu = perf_counter(), process_time()
    with Store(folder / f"{limit}.sqlite") as store:
        counts = query_adapter(adapter, images, store, policy=CallPolicy(concurrency=concurrency))
    seconds, cpu = perf_counter() - began, process_time() - cpu
    ours.send("stop")
    log = ours.recv()
    process.join()
    first, last = log[0][0], log[-1][0]
    accepted = sum(fine for _, fine in log)
    late = sum(not fine for when, fine in log if when > first + 1)
    early = sum(not fine for when, fine in log if when <= first + 1)
    per_second = (accepted - 1) / (last - first)
    share = "" if limit is None else f", {per_second / limit:.1%} of the allowed {limit:g}/s"
    return (
        f"{counts.answered} answered in {seconds:.1f} s: {per_second:.1f} requests/s{share}; "
        f"refused: {early} in the first second, {late} after it; {1000 * cpu / counts.calls:.2f} ms of a core each"
    )


def written(folder: Path, count: int) -> list[ImageRef]:
    """So many different files of random bytes."""
    folder.mkdir()
    images = []
    for number in range(count):
        content = os.urandom(IMAGE_BYTES)
        path = folder / f"{number}.png"
        path.write_bytes(content)
        images.append(ImageRef(sha256(content).hexdigest(), path))
    return images


def known(folder: Path, count: int) -> str:
    """How long it takes to see that every image has an answer."""
    adapter = Remote("http://127.0.0.1:9", rate=1, concurrency=1)
    key = key_maker(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    digests = [sha256(str(number).encode()).hexdigest() for number in range(count)]
    path = folder / "known.sqlite"
    with Store(path) as store:
        classifier = store.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    body = json.dumps({"labels": [[f"label {n}", 0.5] for n in range(20)]}).encode()
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO replies VALUES (?, ?, 200, '{}', '')", ((n, body) for n in range(count)))
        connection.executemany(
            "INSERT INTO answers VALUES (?, ?, ?, ?, 0)",
            ((key(digest), classifier, digest, n) for n, digest in enumerate(digests)),
        )
    connection.close()
    images = [ImageRef(digest, folder / digest) for digest in digests]
    began, cpu = perf_counter(), process_time()
    with Store(path) as store:
        counts = query_adapter(adapter, images, store)
    seconds, cpu = perf_counter() - began, process_time() - cpu
    assert counts == RequestCounts(images=count, known=count)
    return (
        f"{count} known answers: nothing to do, decided in {seconds:.2f} s ({cpu:.2f} s of a core), "
        f"peak {peak_mib():.0f} MiB"
    )


def main(
    seconds: Annotated[float, typer.Option(help="Of asking at the limited rate.")] = 20,
    limit: Annotated[float, typer.Option(help="Requests that the service allows within any second.")] = 50,
    fast: Annotated[int, typer.Option(help="Images for the service without limit.")] = 4000,
    concurrency: int = 128,
) -> None:
    """Run all parts."""
    few = round(limit * seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(known(folder, 100_000))
        images = written(folder / "images", max(fast, few))
        print(queried(folder, images[:few], limit=limit, rate=limit, concurrency=max(16, round(limit * 0.6))))
        print(queried(folder, images[:fast], limit=None, rate=2000, concurrency=concurrency))


if __name__ == "__main__":
    typer.run(main)
