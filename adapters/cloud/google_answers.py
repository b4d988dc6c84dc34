"""What replies of Google Cloud Vision mean. Pure: sends nothing.

A bad image's error lies within a successful reply, whose parts belong to the images by their order alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from adapters.answers import checked, inner, json_object, json_or_empty, objects, one_line, part_of, scored
from adapters.base import AdapterError, AnswerError, Label, NoAnswer, RawAnswer
from adapters.http_client import Reply, failure_of, raw_answers, retry_after

_HEADERS = ("x-request-id", "x-goog-request-id", "server-timing")

# gRPC codes of one image's error; every other one stays as it is.
_SLOWER = 8
_LATER = frozenset({1, 2, 4, 10, 13, 14})
_NOT_ALLOWED = frozenset({7, 16})

_MOODS = {
    "joyLikelihood": "face: joy",
    "sorrowLikelihood": "face: sorrow",
    "angerLikelihood": "face: anger",
    "surpriseLikelihood": "face: surprise",
    "underExposedLikelihood": "face: under-exposed",
    "blurredLikelihood": "face: blurred",
    "headwearLikelihood": "face: headwear",
}
_LIKELIHOODS = ("UNKNOWN", "VERY_UNLIKELY", "UNLIKELY", "POSSIBLE", "LIKELY", "VERY_LIKELY")

_FAR = 1_000_000  # pixels


def labels_of(answer: RawAnswer) -> list[Label]:
    """The labels of one image, in the part of the reply at ``answer.position``.

    Two labels of one name (Google tells things of the same name apart by an id) are one, with the higher score.

    Raises:
        AnswerError: the reply, or that part of it, does not hold labels.
    """
    part = part_of(answer, "responses")
    if "error" in part:
        raise AnswerError(
            f"the service failed on this image: {one_line(inner(part, 'error', 'message')) or 'no reason'}"
        )
    # What is empty is left out: no labels, no list.
    labels = list(scored(objects(part, "labelAnnotations", needed=False), "description", "score"))
    faces = objects(part, "faceAnnotations", needed=False)
    return checked([*labels, *(_face(max(faces, key=_area)) if faces else ())], repeats=True)


def outcomes(reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
    """What a reply means for each of the ``count`` images that were sent.

    Raises:
        AdapterError: no further call can succeed.
    """
    failed = _failed(reply)
    if failed is not None:
        return [failed] * count
    answers = raw_answers(reply, count, headers=_HEADERS)
    try:
        parts = objects(json_object(reply.body), "responses")
    except AnswerError:
        return [*answers]  # it was paid for: kept, and it fails when it is parsed
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


def _image_failed(error: object, answer: RawAnswer, *, alone: bool) -> NoAnswer:
    code, message = _code(error), one_line(inner(error, "message"))
    reason = f"{message or 'the service failed on this image'} (code {code})"
    if code == _SLOWER:
        return NoAnswer(reason, retry="slower", reply=answer)
    # "Bad image data" has been seen to come and go with the batch: such an image is worth a second try.
    again = code in _LATER or ("Bad image data" in message and not alone)
    return NoAnswer(reason, retry="later" if again else "never", reply=answer)


def _code(error: object) -> int | None:
    code = inner(error, "code")
    return code if isinstance(code, int) and 0 <= code <= 16 else None


def _failed(reply: Reply) -> NoAnswer | None:
    content = json_or_empty(reply.body)
    message = one_line(inner(content, "error", "message"))
    reason = _reason(content) or one_line(inner(content, "error", "status"), most=60)
    failed = failure_of(reply, message=": ".join(part for part in (reason, message) if part))
    if failed is None:
        return None
    if reply.status == 400 and (
        reason == "API_KEY_INVALID" or message.startswith(("API key not valid", "API key exp"))
    ):
        raise AdapterError(
            "Google does not know the API key in GOOGLE_API_KEY: copy it again from "
            "console.cloud.google.com/apis/credentials, and allow it to use the Cloud Vision API"
        )
    if reply.status == 403 and reason.startswith("RATE_LIMIT"):
        return replace(failed, retry="slower", wait=retry_after(reply.headers))
    if reply.status in (401, 403, 404):
        raise AdapterError(
            f"Google refuses the calls ({failed.reason}). {_REMEDIES.get(reason, _REMEDIES[str(reply.status)])}"
        )
    return failed


_REMEDIES = {
    "SERVICE_DISABLED": "Enable the API in the project: gcloud services enable vision.googleapis.com",
    "BILLING_DISABLED": "Switch billing on for the project: console.cloud.google.com/billing",
    "API_KEY_SERVICE_BLOCKED": "Allow the key to use the Cloud Vision API: console.cloud.google.com/apis/credentials",
    "401": "Check the credentials: GOOGLE_API_KEY, or the account's key file in GOOGLE_APPLICATION_CREDENTIALS",
    "403": "Enable the Cloud Vision API in the project, and allow these credentials to use it",
    "404": "Check the options endpoint, project and region",
}


def _reason(content: object) -> str:
    details = inner(content, "error", "details")
    found = (one_line(inner(detail, "reason"), most=60) for detail in (details if isinstance(details, list) else ()))
    return next((reason for reason in found if reason), "")


def _face(face: Mapping[str, Any]) -> list[tuple[object, object]]:
    pairs: list[tuple[object, object]] = [("face", face.get("detectionConfidence"))]
    for field, name in _MOODS.items():
        likelihood = face.get(field, "UNKNOWN")
        if likelihood in _LIKELIHOODS:
            step = _LIKELIHOODS.index(likelihood)
        elif isinstance(likelihood, int) and not isinstance(likelihood, bool) and 0 <= likelihood < len(_LIKELIHOODS):
            step = likelihood
        else:
            raise AnswerError(f"the face's {field} is none of Google's likelihoods")
        if step:
            pairs.append((name, (step - 1) / 4))
    return pairs


def _area(face: Mapping[str, Any]) -> float:
    box = face.get("boundingPoly")
    corners = objects(box, "vertices") if isinstance(box, dict) else []
    # A coordinate of 0 is left out.
    places = [[corner.get(axis, 0) for corner in corners] or [0] for axis in ("x", "y")]
    if not all(isinstance(place, int | float) and abs(place) < _FAR for axis in places for place in axis):
        raise AnswerError("a face's box has corners that are no places in an image")
    return float((max(places[0]) - min(places[0])) * (max(places[1]) - min(places[1])))
