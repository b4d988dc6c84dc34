"""A proxy in front of a pretended service that spoils replies on their way, byte by byte where HTTP allows it."""

import random
import threading
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from time import sleep
from urllib.parse import urlsplit

from fakes.http_server import LoopbackServer

# What a client sees; before the first of AFTER the service never got the request.
BEFORE = ("500", "429", "dropped before")
AFTER = ("dropped after", "cut", "page", "empty", "longer than it is", "trickle")


class FaultyProxy(LoopbackServer):
    """Forwards requests to ``url`` until it is left; spoils a ``share`` of the replies, drawn from a seed, in each way
    in turn.

    Attributes:
        seen: how many requests met each fault ("" for none).
        answered: requests that the service itself answered with 200, whatever became of the reply.
    """

    def __init__(self, url: str, *, share: float, seed: int = 0) -> None:
        self.seen: Counter[str] = Counter()
        self.answered = 0
        chance, lock = random.Random(seed), threading.Lock()
        kinds = cycle(random.Random(seed).sample(BEFORE + AFTER, len(BEFORE + AFTER)))
        host = urlsplit(url).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with lock:
                    fault = next(kinds) if chance.random() < share else ""
                    proxy.seen[fault] += 1
                if fault == "dropped before":
                    self.close_connection = True
                    return
                if fault in BEFORE:
                    return self._reply(int(fault), b'{"message": "not now"}', {"Retry-After": "0.05"})
                connection = HTTPConnection(host, timeout=30)
                connection.request(self.command, self.path, sent, dict(self.headers.items()))
                response = connection.getresponse()
                status, body, headers = response.status, response.read(), dict(response.getheaders())
                connection.close()
                with lock:
                    proxy.answered += status == 200
                if fault == "dropped after":
                    self.close_connection = True
                elif fault == "cut":
                    self._reply(status, body[: len(body) // 2], headers)
                elif fault == "page":
                    self._reply(200, b"<html><body>Please sign in</body></html>", {"Content-Type": "text/html"})
                elif fault == "empty":
                    self._reply(200, b"", {})
                else:
                    self._reply(status, body, headers, longer=fault == "longer than it is", slow=fault == "trickle")

            do_GET = do_PUT = do_POST  # noqa: N815

            def _reply(
                self, status: int, body: bytes, headers: dict[str, str], *, longer: bool = False, slow: bool = False
            ) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body) + 40 * longer))
                self.end_headers()
                for at in range(0, len(body), 20) if slow else ():
                    self.wfile.write(body[at : at + 20])
                    sleep(0.005)
                if not slow:
                    self.wfile.write(body)
                self.close_connection = longer

        super().__init__(Handler)
