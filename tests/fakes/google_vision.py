"""A fake of Google Cloud Vision's REST v1 and of Google's token endpoint, by their documentation."""

import base64
import json
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from fakes.http_server import FakeServer, Request, Response
from fakes.pixel_scores import pixel_scores

KEY = "AIzaPlantedGoogleKey0123456789"
REFRESH = "1//planted-refresh-token"
EMAIL = "auditor@project.iam.gserviceaccount.com"
_PATH = re.compile(r"/v1/(projects/[a-z0-9-]+/(locations/(us|eu|asia)/)?)?images:annotate")
_FEATURES = {"LABEL_DETECTION", "FACE_DETECTION"}
_LIKELIHOODS = ["VERY_UNLIKELY", "UNLIKELY", "POSSIBLE", "LIKELY", "VERY_LIKELY"]


def failure(status: int, name: str, message: str, reason: str = "") -> Response:
    """An error in the format of googleapis.com."""
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}
    error = {"code": status, "message": message, "status": name, "details": [detail] if reason else []}
    return Response(status, {"error": error})


class GoogleVision(FakeServer):
    """Accepts ``KEY`` or a token that it issued; labels have `pixel_scores`, from ``cut_off`` on.

    Attributes:
        image_error: image -> the error in its place, or None.
        billed: answered images times features.
        tokens: the valid access tokens, in order of issue.
        refused: the reply in place of a token, if any.
    """

    def __init__(self, *, cut_off: float = 0.0) -> None:
        super().__init__(self._answer)
        self.image_error: Callable[[bytes], dict[str, Any] | None] = lambda image: None
        self.billed = 0
        self.tokens: list[str] = []
        self.refused: Response | None = None
        self.expires_in = 3599
        self._given = 0
        self._cut_off = cut_off
        self._private = _private_key()

    def key_file(self) -> dict[str, str]:
        """The key file of a service account."""
        form = serialization.PrivateFormat.TraditionalOpenSSL
        pem = self._private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        return {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": "planted-key-id",
            "private_key": pem.decode(),
            "client_email": EMAIL,
            "token_uri": f"{self.url}/token",
        }

    def _answer(self, request: Request) -> Response:
        if request.path == "/token":
            return self._token(request)
        if request.method != "POST" or not _PATH.fullmatch(request.path) or request.query:
            return failure(404, "NOT_FOUND", "Requested entity was not found.")
        return self._access_error(request) or self._annotate(request)

    def _access_error(self, request: Request) -> Response | None:
        key, bearer = request.headers.get("x-goog-api-key"), request.headers.get("authorization")
        if key is not None:
            good = key == KEY
            message = "API key not valid. Please pass a valid API key."
            return None if good else failure(400, "INVALID_ARGUMENT", message, "API_KEY_INVALID")
        if bearer is None:
            return failure(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers.")
        if bearer.removeprefix("Bearer ") not in self.tokens:
            message = "Request had invalid authentication credentials."
            return failure(401, "UNAUTHENTICATED", message, "ACCESS_TOKEN_EXPIRED")
        return None

    def _annotate(self, request: Request) -> Response:
        try:
            requests = request.json()["requests"]
            assert set(request.json()) == {"requests"}
            assert all(set(item) == {"image", "features"} for item in requests)
            assert all(set(item["image"]) == {"content"} for item in requests)
            for feature in (feature for item in requests for feature in item["features"]):
                assert set(feature) <= {"type", "maxResults", "model"}
                assert feature["type"] in _FEATURES
                assert feature.get("model", "") in ("", "builtin/stable", "builtin/latest")
        except (ValueError, KeyError, AssertionError):
            return failure(400, "INVALID_ARGUMENT", "Invalid JSON payload received.")
        if len(request.body) > 10_000_000:
            return failure(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 10485760 bytes.")
        if len(requests) > 16:
            return failure(400, "INVALID_ARGUMENT", "Too many images per request.")
        return Response(200, {"responses": [self._annotate_image(item) for item in requests]})

    def _annotate_image(self, item: dict[str, Any]) -> dict[str, Any]:
        image = base64.b64decode(item["image"]["content"], validate=True)
        error = self.image_error(image)
        if error is not None:
            return {"error": error}
        try:
            scores = pixel_scores(image)
        except ValueError:
            return {"error": {"code": 3, "message": "Bad image data."}}
        self.billed += len(item["features"])
        part: dict[str, Any] = {}
        for feature in item["features"]:
            if feature["type"] == "LABEL_DETECTION":
                ranked = sorted(scores.items(), key=lambda pair: -pair[1])[: feature["maxResults"]]
                found = [
                    {"mid": f"/m/{name}", "description": name, "score": score, "topicality": score / 2}
                    for name, score in ranked
                    if score >= self._cut_off
                ]
                part |= {"labelAnnotations": found} if found else {}  # an empty list is left out
            else:
                part["faceAnnotations"] = [self._face(scores["nurse"])]
        return part

    def _face(self, red: float) -> dict[str, Any]:
        likelihood = _LIKELIHOODS[min(4, int(red * 5))]
        box = {"vertices": [{"y": 2}, {"x": 9, "y": 2}, {"x": 9, "y": 9}, {"y": 9}]}
        return {"boundingPoly": box, "detectionConfidence": 0.75, "joyLikelihood": likelihood}

    def _token(self, request: Request) -> Response:
        if self.refused is not None:
            return self.refused
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if form.get("grant_type") == "refresh_token":
            if form.get("refresh_token") != REFRESH:
                return Response(400, {"error": "invalid_grant", "error_description": "Token has been revoked."})
            return self._new_token()
        if form.get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return Response(400, {"error": "unsupported_grant_type"})
        header, claim, signature = form["assertion"].split(".")
        try:
            self._private.public_key().verify(
                _decoded(signature), f"{header}.{claim}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except InvalidSignature:
            return Response(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
        claims = json.loads(_decoded(claim))
        now = time.time()
        valid = (
            json.loads(_decoded(header))["alg"] == "RS256"
            and claims["iss"] == EMAIL
            and claims["aud"] in (f"{self.url}/token", "https://oauth2.googleapis.com/token")
            and claims["scope"].startswith("https://www.googleapis.com/auth/cloud-")
            and abs(claims["iat"] - now) < 300
            and claims["exp"] - claims["iat"] <= 3600
        )
        if not valid:
            return Response(400, {"error": "invalid_grant", "error_description": "Invalid JWT: check iat and exp."})
        return self._new_token()

    def _new_token(self) -> Response:
        self._given += 1
        self.tokens.append(f"ya29.planted-token-{self._given}")
        body = {"access_token": self.tokens[-1], "expires_in": self.expires_in, "token_type": "Bearer"}
        return Response(200, body)


@cache
def _private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
