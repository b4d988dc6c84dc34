"""A proxy in front of a fake service that corrupts replies on their way."""

import random
import threading
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from time import sleep
from urllib.parse import urlsplit

from fakes.http_server import LoopbackServer

# Faults as a client sees them: BEFORE the service receives the request, and AFTER it has answered.
BEFORE = ("500", "429", "dropped before")
AFTER = ("dropped after", "truncated", "html", "empty", "wrong length", "slow")


class FaultyProxy(LoopbackServer):
    """Forwards requests to ``url``; a ``share`` of them, drawn from a seed, gets each of the faults in turn.

    Attributes:
        faults: how many requests got each fault ("" for none).
        answered: requests that the service answered with 200, including those whose reply was corrupted.
    """

    def __init__(self, url: str, *, share: float, seed: int = 0) -> None:
        self.faults: Counter[str] = Counter()
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
                    proxy.faults[fault] += 1
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
                elif fault == "truncated":
                    self._reply(status, body[: len(body) // 2], headers)
                elif fault == "html":
                    self._reply(200, b"<html><body>Please sign in</body></html>", {"Content-Type": "text/html"})
                elif fault == "empty":
                    self._reply(200, b"", {})
                else:
                    self._reply(status, body, headers, longer=fault == "wrong length", slow=fault == "slow")

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
                size = 20 if slow else max(1, len(body))
                for start in range(0, len(body), size):
                    self.wfile.write(body[start : start + size])
                    sleep(0.005 * slow)
                self.close_connection = longer

        super().__init__(Handler)
