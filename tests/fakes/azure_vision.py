"""A fake of Azure's Image Analysis 4.0, by its documentation."""

from typing import Any
from urllib.parse import parse_qs

from fakes.http_server import FakeServer, Request, Response
from fakes.pixel_scores import pixel_scores

KEY = "planted0azure0key0123456789abcdef"
TOKEN = "eyJ0eXAi-planted-entra-token"
PRINCIPAL = {"AZURE_TENANT_ID": "a tenant", "AZURE_CLIENT_ID": "me", "AZURE_CLIENT_SECRET": "planted-client-secret"}
VERSION = "2023-10-01"


def failure(status: int, code: str, message: str, inner: str = "") -> Response:
    """An error in the format of the service."""
    error: dict[str, Any] = {"code": code, "message": message}
    if inner:
        error["innererror"] = {"code": inner, "message": message}
    return Response(status, {"error": error})


class AzureVision(FakeServer):
    """Tags have `pixel_scores`; the caption is "A red woman" or "A pale woman".

    It also issues the tokens of service principals: ``tokens`` lists them, ``refused`` is the reply in place of one.
    """

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.billed = 0
        self.tokens: list[str] = []
        self.expires_in: object = 3599
        self.refused: Response | None = None

    def _answer(self, request: Request) -> Response:
        if request.path == "/a%20tenant/oauth2/v2.0/token":
            return self._token(parse_qs(request.body.decode()))
        token = request.headers.get("authorization") in [f"Bearer {token}" for token in (TOKEN, *self.tokens)]
        if request.headers.get("ocp-apim-subscription-key") != KEY and not token:
            return failure(401, "401", "Access denied due to invalid subscription key or wrong API endpoint.")
        if request.path != "/computervision/imageanalysis:analyze" or request.query.get("api-version") != "2024-02-01":
            return failure(404, "404", "Resource not found")
        if request.headers.get("content-type") != "application/octet-stream":
            return failure(400, "InvalidRequest", "The content type is not supported.")
        features = request.query["features"].split(",")
        if not set(features) <= {"tags", "caption"}:
            return failure(400, "InvalidRequest", "Not supported.", "NotSupportedVisualFeature")
        version = request.query.get("model-version", "latest")
        try:
            scores = pixel_scores(request.body)
        except ValueError:
            return failure(400, "InvalidRequest", "The image is not valid.", "InvalidImageFormat")
        self.billed += len(features)
        answer: dict[str, Any] = {
            "modelVersion": VERSION if version == "latest" else version,
            "metadata": {"width": 64, "height": 64},
            "tagsResult": {"values": [{"name": name, "confidence": score} for name, score in scores.items()]},
        }
        if "caption" in features:
            who = "person" if request.query.get("gender-neutral-caption") == "true" else "woman"
            colour = "red" if scores["nurse"] > 0.5 else "pale"
            answer["captionResult"] = {"text": f"A {colour} {who}", "confidence": 0.85}
        return Response(200, answer, {"apim-request-id": "planted-request-id"})

    def _token(self, form: dict[str, list[str]]) -> Response:
        wanted = {"client_id": ["me"], "client_secret": ["planted-client-secret"], "grant_type": ["client_credentials"]}
        if self.refused is not None:
            return self.refused
        if form != wanted | {"scope": ["https://cognitiveservices.azure.com/.default"]}:
            return Response(401, {"error": "invalid_client", "error_description": f"AADSTS7000215: {form}"})
        self.tokens.append(f"planted-principal-token-{len(self.tokens)}")
        return Response(200, {"access_token": self.tokens[-1], "expires_in": self.expires_in, "token_type": "Bearer"})
