"""Imagga's tags, version 2: Basic authentication, a multipart form, confidences of 0-100."""

from base64 import b64encode
from collections.abc import Callable

from fakes.seeing import seen
from fakes.serving import Received, Response


def imagga(key: str, secret: str) -> Callable[[Received], Response]:
    wanted = f"Basic {b64encode(f'{key}:{secret}'.encode()).decode()}"

    def answer(received: Received) -> Response:
        if received.path != "/v2/tags":
            return Response(404, b"<html>not found</html>")
        if received.headers.get("authorization") != wanted:
            return _failed(401, "Invalid api key or secret")
        parts = received.parts()
        assert parts["limit"][2] == b"-1"
        try:
            scores = seen(parts["image"][2])
        except ValueError:
            return _failed(400, "The image could not be read")
        threshold = float(parts["threshold"][2])
        tags = [
            {"confidence": 100 * score, "tag": {"en": name}}
            for name, score in scores.items()
            if 100 * score >= threshold
        ]
        return Response(200, {"result": {"tags": tags}, "status": {"text": "", "type": "success"}})

    return answer


def _failed(status: int, text: str) -> Response:
    return Response(status, {"status": {"text": text, "type": "error"}})
