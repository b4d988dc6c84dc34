"""A small labelling service on this machine that misbehaves on demand, and the adapter that speaks to it.

The service's label of an image is a function of the image's bytes; what it answered it counts as billed.
"""

import base64
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from adapters.answers import checked
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.http_client import Call, HttpClient, failure_of, kept_headers

KEY = "LOOPBACK_API_KEY"
Fault = Callable[[int, list[bytes]], str | None]


def score_of(image: bytes) -> float:
    """What the service thinks of an image, 0-1."""
    return int(sha256(image).hexdigest()[:6], 16) / 16**6


class Loopback:
    """Serves until the block ends; ``fault`` names what goes wrong with a request, by its number and images.

    ``billed`` counts the images that were answered with 200; ``asked`` every request's, ``times`` when each came.
    """

    def __init__(self, fault: Fault = lambda number, images: None, *, log: Path | None = None) -> None:
        self.fault = fault
        self.billed: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.times: list[float] = []
        self.authorised: list[str | None] = []
        self.version = "v1"
        self._log = log
        self._lock = threading.Lock()
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else every second packet waits for the first one to be confirmed

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                loopback._answer(self, [base64.b64decode(text) for text in json.loads(content)["images"]])

            def do_GET(self) -> None:
                loopback.received["a redirect was followed"] += 1
                self._say(200, b"{}")

            def _say(self, status: int, body: bytes, **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # the client was killed meanwhile

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: Any, images: list[bytes]) -> None:
        names = [sha256(image).hexdigest() for image in images]
        with self._lock:
            self.times.append(time.monotonic())
            number = len(self.times)
            self.received.update(names)
            self.authorised.append(handler.headers.get("Authorization"))
            fault = self.fault(number, images)
            answers = fault not in ("429", "throttle", "500", "503", "drop", "redirect", "never", "unauthorised")
            self.billed.update(names if answers else [])
            if self._log is not None and answers:
                with self._log.open("a") as log:
                    log.writelines(f"{name}\n" for name in names)
        results: list[dict[str, Any]] = [
            {"labels": [["bright", score_of(image)], ["=cmd()", 0.75]]} for image in images
        ]
        match fault:
            case "drop":
                handler.close_connection = True
                handler.connection.close()
                return
            case "429":
                return handler._say(429, b'{"error": "slow down"}', Retry_After="0.05")
            case "throttle":
                return handler._say(429, b'{"error": "slow down"}')
            case "500" | "503":
                echo = handler.headers.get("Authorization", "")
                return handler._say(int(fault), f"<html>broken, you sent {echo}</html>".encode())
            case "redirect":
                return handler._say(302, b"", Location=f"{self.url}/elsewhere")
            case "never":
                return handler._say(400, b'{"error": "not this image"}')
            case "unauthorised":
                return handler._say(401, b'{"error": "who are you"}')
            case "html":
                return handler._say(200, b"<html>Our site moved</html>")
            case "malformed":
                return handler._say(200, json.dumps({"results": results}).encode()[:-9])
            case "missing":
                return handler._say(200, b'{"status": "fine"}')
            case "nan":
                return handler._say(200, b'{"results": [{"labels": [["bright", NaN]]}]}')
            case "range":
                return handler._say(200, b'{"results": [{"labels": [["bright", 73.2]]}]}')
            case "slow":
                time.sleep(0.05)
            case "refusal":
                results = [{"refused": "I cannot help with faces"} for _ in images]
            case "partial":
                results[1:] = [{"error": "busy"} for _ in results[1:]]
                with self._lock:
                    self.billed.subtract(names[1:])
        body = json.dumps({"results": results, "model_version": self.version}).encode()
        handler._say(200, body, X_Request_Id=f"r{number}")


class LoopbackAdapter:
    """Speaks to a `Loopback`; one part of a reply may fail alone."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "loopback",
        batch: int = 1,
        concurrency: int = 8,
        rate: float = 1000.0,
        limits: Limits | None = None,
        price: Price | None = None,
        **service: Any,
    ) -> None:
        self.name = name
        self.model = "1"
        self.parameters = {"features": ["labels"]}
        facts = {"host": url.removeprefix("http://"), "provider": "Nobody Ltd"} | service
        self.capabilities = Capabilities(
            service=Service(
                retention="kept for a day", version="in each reply", credentials=(KEY,), rate=rate, price=price, **facts
            ),
            batch=batch,
            concurrency=concurrency,
            limits=limits or Limits(),
        )  # fmt: skip
        self._url = url
        self._call = HttpClient(timeout=(10.0, 30.0))

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        body = json.dumps({"images": [base64.b64encode(image).decode() for image in images]}).encode()
        headers = {"Authorization": f"Bearer {os.environ[KEY]}"} if KEY in os.environ else {}
        reply = self._call(Call(self._url, body=body, headers=headers))
        if isinstance(reply, NoAnswer):
            return [reply] * len(images)
        if reply.status == 401:
            raise AdapterError(f"the key {os.environ.get(KEY)} is not known: set {KEY}")
        failure = failure_of(reply, message=reply.body.decode())
        if failure is not None:
            return [failure] * len(images)
        whole = [
            RawAnswer(reply.body, 200, kept_headers(reply.headers, ["x-request-id"]), at) for at in range(len(images))
        ]
        try:
            results = json.loads(reply.body)["results"]
        except (ValueError, KeyError):
            return list(whole)
        return [
            NoAnswer(result["error"], retry="later") if "error" in result else answer
            for result, answer in zip(results, whole, strict=True)
        ]

    def parse(self, answer: RawAnswer) -> list[Label]:
        try:
            content = json.loads(answer.body)
            result = content["results"][answer.position]
        except (ValueError, LookupError) as error:
            raise AnswerError(f"not an answer: {type(error).__name__}") from error
        if "refused" in result:
            raise AnswerError(f"refused: {result['refused']}")
        return checked((name, score) for name, score in result["labels"])
