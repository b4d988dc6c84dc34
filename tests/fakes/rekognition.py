"""A fake of Amazon Rekognition's DetectLabels and DetectFaces (JSON 1.1), which verifies Signature Version 4."""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fakes.http_server import FakeServer, Request, Response
from fakes.pixel_scores import pixel_scores

ID, SECRET, TOKEN = "AKIAPLANTEDKEYID0001", "planted/Secret+AccessKey0123456789", "PlantedSessionToken//0123456789=="
REGION = "eu-west-1"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<scope>[^,]+), "
    r"SignedHeaders=(?P<names>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)
_NEEDED = {"host", "x-amz-date", "content-type", "x-amz-target"}


def failure(status: int, code: str, message: str = "", *, prefix: str = "", word: str = "Message") -> Response:
    """An error in the format of the service; ``word`` is the key of its message, ``prefix`` starts its ``__type``."""
    return Response(status, {"__type": f"{prefix}{code}", word: message}, {"x-amzn-RequestId": "planted-request-id"})


@dataclass(frozen=True)
class Keys:
    """The secrets of an access key."""

    secret: str
    token: str = ""
    expired: bool = False


class RekognitionService(FakeServer):
    """Labels have `pixel_scores`, in per cent. ``keys`` maps access key ids to their secrets."""

    def __init__(self, *, region: str = REGION) -> None:
        super().__init__(self._answer)
        self.keys = {ID: Keys(SECRET)}
        self.billed = 0
        self._region = region

    def _answer(self, request: Request) -> Response:
        problem = self._signature_problem(request)
        if problem is not None:
            return failure(400, *problem)
        service, _, operation = request.headers["x-amz-target"].partition(".")
        if request.path != "/" or service != "RekognitionService" or operation not in ("DetectLabels", "DetectFaces"):
            return failure(400, "UnknownOperationException")
        content = request.json()
        image = base64.b64decode(content["Image"]["Bytes"], validate=True)
        if not 1 <= len(image) <= 5_242_880:
            return failure(400, "ValidationException", "image.bytes has a length outside 1-5242880")
        try:
            scores = pixel_scores(image)
        except ValueError:
            return failure(400, "InvalidImageFormatException", "Request has invalid image format")
        self.billed += 1
        answer = self._labels(scores, content) if operation == "DetectLabels" else self._faces(scores, content)
        return Response(200, answer, {"x-amzn-RequestId": "planted-request-id"})

    def _labels(self, scores: dict[str, float], content: dict[str, Any]) -> dict[str, Any]:
        assert set(content) <= {"Image", "MaxLabels", "MinConfidence", "Features", "Settings"}
        wanted = content.get("Settings", {}).get("GeneralLabels", {}).get("LabelInclusionFilters")
        rows = [
            {"Name": name, "Confidence": score * 100, "Instances": [], "Parents": [], "Aliases": [], "Categories": []}
            for name, score in sorted(scores.items(), key=lambda pair: -pair[1])
            if score * 100 >= content.get("MinConfidence", 55) and (wanted is None or name in wanted)
        ]
        return {"Labels": rows[: content.get("MaxLabels", 1000)], "LabelModelVersion": "3.0"}

    def _faces(self, scores: dict[str, float], content: dict[str, Any]) -> dict[str, Any]:
        assert content["Attributes"] == ["ALL"]
        masculine = scores["engineer"] >= 0.5

        def face(left: float, *, male: bool, sure: float) -> dict[str, Any]:
            return {
                "BoundingBox": {"Width": 0.4, "Height": 0.4, "Left": left, "Top": 0.3},
                "Confidence": 99.5,
                "Gender": {"Value": "Male" if male else "Female", "Confidence": sure},
                "AgeRange": {"Low": 25, "High": 35},
                "Smile": {"Value": False, "Confidence": 90.0},
                "Emotions": [{"Type": "CALM", "Confidence": 61.0}, {"Type": "HAPPY", "Confidence": 30.0}],
            }

        sure = 100 * max(scores["engineer"], 1 - scores["engineer"])
        return {"FaceDetails": [face(0.0, male=not masculine, sure=99.0), face(0.3, male=masculine, sure=sure)]}

    def _signature_problem(self, request: Request) -> tuple[str, str] | None:
        given = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
        if given is None:
            return "MissingAuthenticationTokenException", "Missing Authentication Token"
        keys = self.keys.get(given["id"])
        token = request.headers.get("x-amz-security-token", "")
        if keys is None or token != keys.token:
            return "UnrecognizedClientException", "The security token included in the request is invalid."
        if keys.expired:
            return "ExpiredTokenException", "The security token included in the request is expired"
        names = given["names"].split(";")
        if not set(names) >= _NEEDED or names != sorted(names) or (keys.token and "x-amz-security-token" not in names):
            return "IncompleteSignatureException", "not every header that has to be is signed"
        moment = request.headers["x-amz-date"]
        off = datetime.now(UTC) - datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(off.total_seconds()) > 300:
            return "InvalidSignatureException", f"Signature expired: {moment} is now earlier than the clock allows"
        scope = f"{moment[:8]}/{self._region}/rekognition/aws4_request"
        if given["scope"] != scope:
            return "InvalidSignatureException", f"Credential should be scoped to {scope}"
        if not hmac.compare_digest(given["signature"], _signature(request, names, scope, keys.secret)):
            return "InvalidSignatureException", "The request signature we calculated does not match"
        return None


def _signature(request: Request, names: list[str], scope: str, secret: str) -> str:
    """Signature Version 4 of a request."""
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names)
    digest = hashlib.sha256(request.body).hexdigest()
    canonical = "\n".join([request.method, request.path, "", headers, ";".join(names), digest])
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, hashed])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
