"""A fake of Imagga's tags, version 2: Basic authentication, a multipart form, confidences of 0-100."""

from base64 import b64encode

from fakes.http_server import FakeServer, Request, Response
from fakes.pixel_scores import pixel_scores

KEY, SECRET = "planted-imagga-key", "planted-imagga-secret"


class ImaggaService(FakeServer):
    def __init__(self) -> None:
        super().__init__(self._answer)
        self.billed = 0
        self.authorization = f"Basic {b64encode(f'{KEY}:{SECRET}'.encode()).decode()}"

    def _answer(self, request: Request) -> Response:
        if request.path != "/v2/tags":
            return Response(404, b"<html>not found</html>")
        if request.headers.get("authorization") != self.authorization:
            return failure(401, "Invalid api key or secret")
        parts = request.parts()
        assert parts["limit"][2] == b"-1"
        try:
            scores = pixel_scores(parts["image"][2])
        except ValueError:
            return failure(400, "The image could not be read")
        self.billed += 1
        threshold = float(parts["threshold"][2])
        tags = [
            {"confidence": 100 * score, "tag": {"en": name}}
            for name, score in scores.items()
            if 100 * score >= threshold
        ]
        return Response(200, {"result": {"tags": tags}, "status": {"text": "", "type": "success"}})


def failure(status: int, text: str) -> Response:
    return Response(status, {"status": {"text": text, "type": "error"}})
