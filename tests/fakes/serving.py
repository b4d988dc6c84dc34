"""A server on this machine's loopback that answers as a function says, remembers what it was asked, and can fail.

What a vendor's protocol is lives in that vendor's own file.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """A request as it came; header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def parts(self) -> dict[str, tuple[str | None, str, bytes]]:
        """The parts of a multipart form: name -> file name, content type, content."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = BytesParser(policy=HTTP).parsebytes(head + self.body)
        assert message.is_multipart(), self.headers["content-type"]
        return {
            part.get_param("name", header="content-disposition"): (
                part.get_filename(),
                part.get_content_type() if part["content-type"] else "",
                part.get_payload(decode=True),
            )
            for part in message.iter_parts()
        }


@dataclass(frozen=True)
class Told:
    """What is answered: ``body`` is bytes, or anything that JSON can write.

    ``dropped`` closes the connection instead; ``seconds`` passes before anything is said.
    """

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    dropped: bool = False
    seconds: float = 0.0


FAULTS: dict[str, Told] = {
    "too many": Told(429, {"message": "slow down"}, {"Retry-After": "7"}),
    "broken": Told(500, {"message": "broken"}),
    "busy": Told(503, b"busy", {"Retry-After": "2"}),
    "dropped": Told(dropped=True),
    "page": Told(200, b"<html><body>It works!</body></html>", {"Content-Type": "text/html"}),
    "cut": Told(200, b'{"images": [{"cla'),
    "empty": Told(200, b""),
    "nothing": Told(200, {}),
    "redirect": Told(307, b"", {"Location": "/elsewhere"}),
}


class Serving:
    """Answers requests in threads until it is left; ``fault`` names one of ``FAULTS`` to be told instead, or None.

    Attributes:
        asked: every request, in the order they came.
    """

    def __init__(self, answer: Callable[[Asked], Told]) -> None:
        self.asked: list[Asked] = []
        self.fault: Callable[[int], str | Told | None] = lambda number: None
        self._answer = answer
        self._lock = threading.Lock()
        serving = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else every second packet waits for the first one to be confirmed

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._tell(serving._told(Asked(self.command, parts.path, query, headers, body)))

            do_GET = do_PUT = do_POST  # noqa: N815

            def _tell(self, told: Told) -> None:
                sleep(told.seconds)
                if told.dropped:
                    self.close_connection = True
                    return
                body = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
                self.send_response(told.status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in {"Content-Type": "application/json", **told.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _told(self, asked: Asked) -> Told:
        with self._lock:
            self.asked.append(asked)
            fault = self.fault(len(self.asked))
        if fault is None:
            return self._answer(asked)
        return FAULTS[fault] if isinstance(fault, str) else fault
