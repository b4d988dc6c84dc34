"""Azure's Image Analysis 4.0, as far as it is documented."""

from typing import Any

from fakes.seeing import seen
from fakes.serving import Received, Response, Serving

KEY = "planted0azure0key0123456789abcdef"
TOKEN = "eyJ0eXAi-planted-entra-token"
VERSION = "2023-10-01"


def failure(status: int, code: str, message: str, inner: str = "") -> Response:
    """An error as the service words it."""
    error: dict[str, Any] = {"code": code, "message": message}
    if inner:
        error["innererror"] = {"code": inner, "message": message}
    return Response(status, {"error": error})


class AzureVision(Serving):
    """Tags are what is `seen`; the caption is "A red woman" or "A pale woman"."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.billed = 0

    def _answer(self, received: Received) -> Response:
        token = received.headers.get("authorization") == f"Bearer {TOKEN}"
        if received.headers.get("ocp-apim-subscription-key") != KEY and not token:
            return failure(401, "401", "Access denied due to invalid subscription key or wrong API endpoint.")
        if (
            received.path != "/computervision/imageanalysis:analyze"
            or received.query.get("api-version") != "2024-02-01"
        ):
            return failure(404, "404", "Resource not found")
        if received.headers.get("content-type") != "application/octet-stream":
            return failure(400, "InvalidRequest", "The content type is not supported.")
        features = received.query["features"].split(",")
        if not set(features) <= {"tags", "caption"}:
            return failure(400, "InvalidRequest", "Not supported.", "NotSupportedVisualFeature")
        version = received.query.get("model-version", "latest")
        try:
            scores = seen(received.body)
        except ValueError:
            return failure(400, "InvalidRequest", "The image is not valid.", "InvalidImageFormat")
        self.billed += len(features)
        answer: dict[str, Any] = {
            "modelVersion": VERSION if version == "latest" else version,
            "metadata": {"width": 64, "height": 64},
            "tagsResult": {"values": [{"name": name, "confidence": score} for name, score in scores.items()]},
        }
        if "caption" in features:
            who = "person" if received.query.get("gender-neutral-caption") == "true" else "woman"
            colour = "red" if scores["nurse"] > 0.5 else "pale"
            answer["captionResult"] = {"text": f"A {colour} {who}", "confidence": 0.85}
        return Response(200, answer, {"apim-request-id": "planted-request-id"})
