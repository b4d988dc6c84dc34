"""Imagga's tags, version 2: Basic authentication, a multipart form, confidences of 0-100."""

from base64 import b64encode
from collections.abc import Callable

from fakes.seeing import seen
from fakes.serving import Asked, Told


def imagga(key: str, secret: str) -> Callable[[Asked], Told]:
    wanted = f"Basic {b64encode(f'{key}:{secret}'.encode()).decode()}"

    def answer(asked: Asked) -> Told:
        if asked.path != "/v2/tags":
            return Told(404, b"<html>not found</html>")
        if asked.headers.get("authorization") != wanted:
            return _failed(401, "Invalid api key or secret")
        parts = asked.parts()
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
        return Told(200, {"result": {"tags": tags}, "status": {"text": "", "type": "success"}})

    return answer


def _failed(status: int, text: str) -> Told:
    return Told(status, {"status": {"text": text, "type": "error"}})
