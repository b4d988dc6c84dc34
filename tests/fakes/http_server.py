"""An HTTP server on loopback that answers by a function, records its requests, and fails on demand."""

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
class Request:
    """A request; header names are in lower case."""

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
class Response:
    """A reply; ``body`` is bytes, or is sent as JSON.

    ``dropped`` closes the connection instead; ``seconds`` is the delay before anything is sent.
    """

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    dropped: bool = False
    seconds: float = 0.0


FAULTS: dict[str, Response] = {
    "throttled": Response(429, {"message": "slow down"}, {"Retry-After": "7"}),
    "broken": Response(500, {"message": "broken"}),
    "busy": Response(503, b"busy", {"Retry-After": "2"}),
    "dropped": Response(dropped=True),
    "html": Response(200, b"<html><body>It works!</body></html>", {"Content-Type": "text/html"}),
    "truncated": Response(200, b'{"images": [{"cla'),
    "empty": Response(200, b""),
    "empty object": Response(200, {}),
    "redirect": Response(307, b"", {"Location": "/elsewhere"}),
}


class LoopbackServer:
    """A server on loopback, as a context manager; ``url`` is its address."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
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


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        pass  # the client has disconnected


class FakeServer(LoopbackServer):
    """Answers requests in threads.

    Attributes:
        requests: all requests, in order.
        fault: the number of a request -> the response in place of the answer, a key of ``FAULTS``, or None.
    """

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self.requests: list[Request] = []
        self.fault: Callable[[int], str | Response | None] = lambda number: None
        self._answer = answer
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # otherwise every second packet waits for the confirmation of the first

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._send(server._response(Request(self.command, parts.path, query, headers, body)))

            do_GET = do_HEAD = do_PUT = do_DELETE = do_POST  # noqa: N815

            def _send(self, response: Response) -> None:
                sleep(response.seconds)
                if response.dropped:
                    self.close_connection = True
                    return
                body = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
                self.send_response(response.status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in {"Content-Type": "application/json", **response.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        super().__init__(Handler)

    def _response(self, request: Request) -> Response:
        with self._lock:
            self.requests.append(request)
            fault = self.fault(len(self.requests))
        if fault is None:
            return self._answer(request)
        return FAULTS[fault] if isinstance(fault, str) else fault
