"""Google Cloud Vision, REST v1: labels, and likelihoods of facial expressions and the like.

The error of a bad image is inside a successful reply, whose parts are assigned to images by their order. Authentication
is in `adapters.cloud.google_login`.
"""

import json
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from adapters.answers import checked, inner, json_object, json_or_empty, objects, one_line, part_of, scored
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.cloud.google_login import GoogleLogin
from adapters.credentials import credentials_needed, secret
from adapters.http_adapter import HttpAdapter, KeyLogin, Login
from adapters.http_client import Call, Reply, failure_of, raw_answers, retry_after
from adapters.options import NamedOptions

_HOSTS = {"us": "us-vision.googleapis.com", "eu": "eu-vision.googleapis.com"}
_MOST_IMAGES = 16
_IMAGES_PER_SECOND = 30  # the quota is 1,800 images a minute
_HEADERS = ("x-request-id", "x-goog-request-id", "server-timing")
# gRPC codes of an image's error; any other is permanent.
_SLOWER = 8
_LATER = frozenset({1, 2, 4, 10, 13, 14})
_NOT_ALLOWED = frozenset({7, 16})
_MOODS = ("joy", "sorrow", "anger", "surprise", "underExposed", "blurred", "headwear")
_LIKELIHOODS = ("UNKNOWN", "VERY_UNLIKELY", "UNLIKELY", "POSSIBLE", "LIKELY", "VERY_LIKELY")
_FAR = 1_000_000  # pixels
_REMEDIES = {
    "SERVICE_DISABLED": "Enable the API in the project: gcloud services enable vision.googleapis.com",
    "BILLING_DISABLED": "Switch billing on for the project: console.cloud.google.com/billing",
    "API_KEY_SERVICE_BLOCKED": "Allow the key to use the Cloud Vision API: console.cloud.google.com/apis/credentials",
    "401": "Check the credentials: GOOGLE_API_KEY, or the account's key file in GOOGLE_APPLICATION_CREDENTIALS",
    "403": "Enable the Cloud Vision API in the project, and allow these credentials to use it",
    "404": "Check the options endpoint, project and region",
}
_SERVICE = Service(
    provider="Google Cloud Vision",
    host="vision.googleapis.com",
    retention="Images are processed in memory, neither stored nor used for training "
    "(cloud.google.com/vision/docs/data-usage)",
    version="cannot be pinned and is not reported; builtin/stable changes without notice, so changes show only in "
    "sentinel images",
    credentials=("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    rate=_IMAGES_PER_SECOND / _MOST_IMAGES,
    price=Price(
        1.50,
        as_of=date(2026, 5, 28),
        source="cloud.google.com/vision/pricing, as repeated by xscanhub",
        note="each feature is charged; 1,000 per month are free; above 5 million labels cost 1.00, faces 0.60",
    ),
)


class Google(HttpAdapter):
    """Google Cloud Vision: labels of the whole image; with ``faces`` also joy, headwear and the like.

    Since 2020, Google returns no gendered labels, and no gender or age of a face. The API key is read from
    GOOGLE_API_KEY. Without one, credentials come from the file in GOOGLE_APPLICATION_CREDENTIALS (a service account's
    key, or the output of `gcloud auth application-default login`), or from gcloud's default file; both need the extra
    ``google``. User credentials are billed to the project in GOOGLE_CLOUD_QUOTA_PROJECT, or in that file.

    The likelihoods of the largest face become labels: VERY_UNLIKELY 0, UNLIKELY 0.25, POSSIBLE 0.5, LIKELY 0.75,
    VERY_LIKELY 1. UNKNOWN is not returned.
    """

    class Options(NamedOptions):
        kind: ClassVar[str] = "google"
        max_results: int = Field(100, ge=1)
        """maximum number of labels per image."""
        faces: bool = False
        """also request faces, which is charged in addition."""
        model: Literal["builtin/stable", "builtin/latest"] = "builtin/stable"
        """builtin/stable, or builtin/latest."""
        region: Literal["", "us", "eu", "asia"] = ""
        """where the images are processed; default: Google's choice. asia needs project."""
        project: str = Field("", pattern=r"^[a-z0-9.:-]*$")
        """the id of the project to bill; default: the credentials' project."""
        batch: int = Field(_MOST_IMAGES, ge=1, le=_MOST_IMAGES)
        """images per call."""
        endpoint: str = ""
        """another URL than Google's, e.g. of a gateway."""

        @model_validator(mode="after")
        def _located(self) -> "Google.Options":
            if self.region == "asia" and not self.project:
                raise ValueError("option 'region': asia needs a project: give its id, project=...")
            return self

    capabilities = Capabilities(
        service=_SERVICE,
        scale="0-1",
        cut_off=0.5,  # not configurable; the lowest score in practice
        top_k=100,
        batch=_MOST_IMAGES,
        batch_bytes=7_300_000,  # 10 MB of JSON, in which base64 takes four characters for three bytes
        concurrency=8,
        limits=Limits(
            max_bytes=7_300_000, max_pixels=75_000_000, formats=("png", "jpeg", "webp", "bmp", "gif", "tiff")
        ),
    )

    def __init__(self, options: Options) -> None:
        super().__init__(
            options,
            options.endpoint or f"https://{_HOSTS.get(options.region, _SERVICE.host)}",
            service={"rate": _IMAGES_PER_SECOND / options.batch},
            features=("labels", "faces") if options.faces else ("labels",),
            top_k=options.max_results,
            batch=options.batch,
            concurrency=min(32, 128 // options.batch),
        )
        location = f"/locations/{options.region}" if options.region else ""
        parent = f"projects/{options.project}{location}/" if options.project else ""
        self._url = f"{self.endpoint}/v1/{parent}images:annotate"
        features = [{"type": "LABEL_DETECTION", "maxResults": options.max_results, "model": options.model}]
        if options.faces:
            features.append({"type": "FACE_DETECTION", "maxResults": 100, "model": options.model})
        self.model = f"v1 {options.model}"
        # Without the project, which decides who pays and does not affect answers.
        self.parameters = {"endpoint": self.endpoint, "region": options.region, "features": features}
        has_key = bool(os.environ.get("GOOGLE_API_KEY", "").strip()) or not credentials_needed()
        self._login: Login = (
            KeyLogin("X-Goog-Api-Key", secret("GOOGLE_API_KEY", adapter=self.name))
            if has_key
            else GoogleLogin(self.client)
        )

    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """See ``HttpAdapter.call``."""
        features = self.parameters["features"]
        requests = [{"image": {"content": b64encode(image).decode()}, "features": features} for image in images]
        headers = {"Content-Type": "application/json; charset=utf-8"}
        return self.logged_in(self._login, Call(self._url, json.dumps({"requests": requests}).encode(), headers))

    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """See ``HttpAdapter.outcomes``."""
        if (failed := _failed(reply)) is not None:
            return [failed] * count
        answers = raw_answers(reply, count, headers=_HEADERS)
        try:
            parts = objects(json_object(reply.body), "responses")
        except AnswerError:
            return [*answers]  # paid for, so stored; parsing it fails
        if len(parts) != count:
            reason = f"{len(parts)} responses came for {count} images: they cannot be assigned"
            return [NoAnswer(reason, billed=True, reply=answer) for answer in answers]
        errors = [part.get("error") for part in parts]
        if all(_code(error) in _NOT_ALLOWED for error in errors):
            raise AdapterError(f"Google refuses the calls: {one_line(inner(errors[0], 'message')) or 'not allowed'}")
        return [
            answer if error is None else _image_failed(error, answer, alone=count == 1)
            for error, answer in zip(errors, answers, strict=True)
        ]

    @staticmethod
    def parse(answer: RawAnswer) -> list[Label]:
        """Return the labels of one image; labels with the same name but different ids get the higher score."""
        part = part_of(answer, "responses")
        if "error" in part:
            message = one_line(inner(part, "error", "message"))
            raise AnswerError(f"the service failed on this image: {message or 'no reason'}")
        # Empty lists are omitted from replies.
        labels = list(scored(objects(part, "labelAnnotations", needed=False), "description", "score"))
        faces = objects(part, "faceAnnotations", needed=False)
        return checked([*labels, *(_face(max(faces, key=_area)) if faces else ())], repeats=True)


def _image_failed(error: object, answer: RawAnswer, *, alone: bool) -> NoAnswer:
    code, message = _code(error), one_line(inner(error, "message"))
    reason = f"{message or 'the service failed on this image'} (code {code})"
    if code == _SLOWER:
        return NoAnswer(reason, retry="slower", reply=answer)
    # "Bad image data" sometimes depends on the batch, so such an image is retried.
    again = code in _LATER or ("Bad image data" in message and not alone)
    return NoAnswer(reason, retry="later" if again else "never", reply=answer)


def _code(error: object) -> int | None:
    code = inner(error, "code")
    return code if isinstance(code, int) and 0 <= code <= 16 else None


def _failed(reply: Reply) -> NoAnswer | None:
    """Interpret a failed reply for all its images; None for success."""
    error = inner(json_or_empty(reply.body), "error")
    details = inner(error, "details")
    reasons = [one_line(inner(each, "reason"), most=60) for each in (details if isinstance(details, list) else ())]
    reason = next((found for found in reasons if found), "") or one_line(inner(error, "status"), most=60)
    message = one_line(inner(error, "message"))
    failed = failure_of(reply, reason, message)
    if failed is None:
        return None
    unknown = reason == "API_KEY_INVALID" or message.startswith(("API key not valid", "API key exp"))
    if reply.status == 400 and unknown:
        raise AdapterError(
            "Google does not know the API key in GOOGLE_API_KEY: copy it again from "
            "console.cloud.google.com/apis/credentials, and allow it to use the Cloud Vision API"
        )
    if reply.status == 403 and reason.startswith("RATE_LIMIT"):
        return replace(failed, retry="slower", wait=retry_after(reply.headers))
    if reply.status in (401, 403, 404):
        remedy = _REMEDIES.get(reason, _REMEDIES[str(reply.status)])
        raise AdapterError(f"Google refuses the calls ({failed.reason}). {remedy}")
    return failed


def _face(face: Mapping[str, Any]) -> list[tuple[object, object]]:
    pairs: list[tuple[object, object]] = [("face", face.get("detectionConfidence"))]
    for mood in _MOODS:
        likelihood = face.get(f"{mood}Likelihood", "UNKNOWN")
        if likelihood in _LIKELIHOODS:
            step = _LIKELIHOODS.index(likelihood)
        elif isinstance(likelihood, int) and not isinstance(likelihood, bool) and 0 <= likelihood < len(_LIKELIHOODS):
            step = likelihood
        else:
            raise AnswerError(f"the face's {mood}Likelihood is not one of Google's likelihoods")
        if step:
            pairs.append((f"face: {mood.replace('underExposed', 'under-exposed')}", (step - 1) / 4))
    return pairs


def _area(face: Mapping[str, Any]) -> float:
    box = face.get("boundingPoly")
    corners = objects(box, "vertices") if isinstance(box, dict) else []
    # Coordinates of 0 are omitted from replies.
    xs, ys = ([corner.get(axis, 0) for corner in corners] or [0] for axis in ("x", "y"))
    if not all(isinstance(value, int | float) and abs(value) < _FAR for value in (*xs, *ys)):
        raise AnswerError("a face's box has corners outside of any image")
    return float((max(xs) - min(xs)) * (max(ys) - min(ys)))
