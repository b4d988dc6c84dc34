"""A labelling service on loopback that fails on demand, and its adapter. Answered images count as billed."""

import base64
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from fakes.http_server import FakeServer, Request, Response

from adapters.answers import checked
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.http_client import Call, HttpClient, failure_of, kept_headers

KEY = "LOOPBACK_API_KEY"
Fault = Callable[[int, list[bytes]], str | None]
FAULTS = {
    "drop": Response(dropped=True),
    "429": Response(429, {"error": "slow down"}, {"Retry-After": "0.05"}),
    "throttle": Response(429, {"error": "slow down"}),
    "never": Response(400, {"error": "not this image"}),
    "unauthorised": Response(401, {"error": "who are you"}),
    "html": Response(200, b"<html>Our site moved</html>"),
    "missing": Response(200, {"status": "fine"}),
    "nan": Response(200, b'{"results": [{"labels": [["bright", NaN]]}]}'),
    "range": Response(200, b'{"results": [{"labels": [["bright", 73.2]]}]}'),
}


def score_of(image: bytes) -> float:
    """The service's score of an image (0-1)."""
    return int(sha256(image).hexdigest()[:6], 16) / 16**6


class LoopbackService(FakeServer):
    """A service whose scores are a function of the image.

    Attributes:
        fault: (number, images) of a request -> what goes wrong, or None.
        billed: image -> answers with status 200.
        received: image -> requests.
        times: when each request arrived, in seconds.
    """

    def __init__(self, fault: Fault = lambda number, images: None, *, log: Path | None = None) -> None:
        super().__init__(self._label)
        self.fault = fault
        self.billed: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.times: list[float] = []
        self.authorizations: list[str | None] = []
        self.version = "v1"
        self._log = log

    def _response(self, request: Request) -> Response:
        return self._label(request)

    def _label(self, request: Request) -> Response:
        if request.method == "GET":
            self.received["a redirect was followed"] += 1
            return Response(200, {})
        images = [base64.b64decode(text) for text in request.json()["images"]]
        names = [sha256(image).hexdigest() for image in images]
        authorization = request.headers.get("authorization")
        with self._lock:
            self.times.append(time.monotonic())
            number = len(self.times)
            self.received.update(names)
            self.authorizations.append(authorization)
            fault = self.fault(number, images)
            answers = fault not in ("429", "throttle", "500", "503", "drop", "redirect", "never", "unauthorised")
            self.billed.update(names if answers else [])
            if self._log is not None and answers:
                with self._log.open("a") as log:
                    log.writelines(f"{name}\n" for name in names)
        results: list[dict[str, Any]] = [
            {"labels": [["bright", score_of(image)], ["=cmd()", 0.75]]} for image in images
        ]
        if fault in FAULTS:
            return FAULTS[fault]
        if fault in ("500", "503"):
            return Response(int(fault), f"<html>broken, you sent {authorization or ''}</html>".encode())
        if fault == "malformed":
            return Response(200, json.dumps({"results": results}).encode()[:-9])
        if fault == "redirect":
            return Response(302, b"", {"Location": f"{self.url}/elsewhere"})
        if fault == "refusal":
            results = [{"refused": "I cannot help with faces"} for _ in images]
        elif fault == "partial":
            results[1:] = [{"error": "busy"} for _ in results[1:]]
            with self._lock:
                self.billed.subtract(names[1:])
        body = {"results": results, "model_version": self.version}
        return Response(200, body, {"X-Request-Id": f"r{number}"}, seconds=0.05 if fault == "slow" else 0.0)


class LoopbackAdapter:
    """Adapter of `LoopbackService`; images of a batch may fail separately."""

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
        failure = failure_of(reply, reply.body.decode())
        if failure is not None:
            return [failure] * len(images)
        headers = kept_headers(reply.headers, ["x-request-id"])
        answers = [RawAnswer(reply.body, 200, headers, position) for position in range(len(images))]
        try:
            results = json.loads(reply.body)["results"]
        except (ValueError, KeyError):
            return list(answers)
        return [
            NoAnswer(result["error"], retry="later") if "error" in result else answer
            for result, answer in zip(results, answers, strict=True)
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
