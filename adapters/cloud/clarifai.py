"""Clarifai, REST v2: the concepts of one version of one model, up to 128 images a call.

A reply's own status code decides, whatever HTTP's is; one reply can hold images that succeeded and images that failed.
"""

import json
import os
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, ClassVar, Literal
from urllib.parse import quote, urlsplit

from pydantic import Field

from adapters.answers import checked, inner, json_or_empty, objects, one_line, part_of, scored
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.credentials import checked_url, secret
from adapters.http_client import Call, HttpClient, Reply, failure_of, raw_answers, retry_after
from adapters.options import NamedOptions

_GENERAL = "general-image-recognition"
_GENERAL_VERSION = "aa7f35c01e0642fda5cf400f543e7c40"
_UNPINNED = "latest"
_ID = r"^[A-Za-z0-9_.-]+$"
_ID_OR_NONE = r"^[A-Za-z0-9_.-]*$"
_MOST_IMAGES = 128
_TOP = 200
_HEADERS = ("x-clarifai-request-id", "x-request-id")

# Codes come as numbers or as their names (docs.clarifai.com, status codes); here those that mean something special.
_NAMES = {
    "SUCCESS": 10000,
    "SUCCESS_WARNING_API_DEPRECATED": 10001,
    "SUCCESS_WARNING_CLIENT_DEPRECATED": 10002,
    "MIXED_STATUS": 10010,
    "FAILURE": 10020,
    "TRY_AGAIN": 10030,
    "CONN_ACCOUNT_ISSUES": 11000,
    "CONN_TOKEN_INVALID": 11001,
    "CONN_CREDENTIALS_INVALID": 11002,
    "CONN_EXCEED_HOURLY_LIMIT": 11003,
    "CONN_EXCEED_MONTHLY_LIMIT": 11004,
    "CONN_THROTTLED": 11005,
    "CONN_EXCEEDS_LIMITS": 11006,
    "CONN_INSUFFICIENT_SCOPES": 11007,
    "CONN_KEY_INVALID": 11008,
    "CONN_KEY_NOT_FOUND": 11009,
    "CONN_DOES_NOT_EXIST": 11101,
    "CONN_METHOD_NOT_ALLOWED": 11103,
    "CONN_NO_GDPR_CONSENT": 11104,
    "CONN_AUTH_METHOD_DISABLED": 11200,
    "MODEL_DOES_NOT_EXIST": 21200,
    "MODEL_PERMISSION_DENIED": 21201,
    "MODEL_INVALID_ARGUMENT": 21202,
    "MODEL_INVALID_REQUEST": 21203,
    "MODEL_DEPLOYING": 21351,
    "MODEL_NOT_DEPLOYED": 21353,
    "MODEL_BUSY_PLEASE_RETRY": 21354,
    "MODEL_LOADING": 21355,
    "RPC_REQUEST_QUEUE_FULL": 40030,
    "RPC_SERVER_UNAVAILABLE": 40031,
    "RPC_REQUEST_TIMEOUT": 40032,
}
_FINE = frozenset({10000, 10001, 10002})
_MIXED, _ALL_FAILED = 10010, 10020
_THROTTLED = 11005
_LATER = frozenset({10030, 11003, 21351, 21352, 21353, 21354, 21355, 40030, 40031, 40032, 41000, *range(98000, 99000)})
_KEY = "check CLARIFAI_PAT (clarifai.com/settings/security): a personal access token that may use this model"
_MODEL = "check the options model, version, user, app and concepts"
_STOPPING = {
    11000: "the account or its plan does not allow this: see clarifai.com/settings/billing",
    11004: "the month's allowance is used up: see clarifai.com/settings/billing",
    11006: "the account's limit is reached: see clarifai.com/settings/billing",
    **dict.fromkeys((11001, 11002, 11007, 11008, 11009, 11200), _KEY),
    11104: "the account has to agree to the terms on data protection first",
    **dict.fromkeys((11101, 11103), "check the options endpoint, model, version, user and app"),
    **dict.fromkeys((21200, 21201, 21202, 21203), _MODEL),
}

_SERVICE = Service(
    provider="Clarifai",
    host="api.clarifai.com",
    retention="What is sent is stored by default, for the account to look at again, and not trained on unless shared "
    "(docs.clarifai.com/resources/privacy-security): set the account's retention before sending faces",
    version="pinned in the address; each reply reports the model's version",
    credentials=("CLARIFAI_PAT", "CLARIFAI_USER_ID", "CLARIFAI_APP_ID"),
    rate=15.0,
    price=Price(
        1.50,
        as_of=date(2026, 11, 20),
        source="docs.visionati.com, a reseller; Clarifai's own page could not be read",
        note="poorly known (1.2-1.5); each image of a batch is charged, and so are models apart",
    ),
)


class Clarifai:
    """Clarifai: the 200 likeliest concepts of its general model, or of another one; always one pinned version.

    Needs a personal access token in CLARIFAI_PAT.

    Raises:
        AdapterError: there is no token, or an option does not fit.
    """

    class Options(NamedOptions):
        kind: ClassVar[str] = "clarifai"
        model: str = Field(_GENERAL, pattern=_ID)
        """the model's id."""
        version: str = Field("", pattern=_ID_OR_NONE)
        """the version's id; the general model's of 2018 unless given. latest pins none."""
        user: str = Field("clarifai", pattern=_ID)
        """the id of the user who owns the model."""
        app: str = Field("main", pattern=_ID)
        """the id of the app that the model is in."""
        own: bool = False
        """the model is yours: user and app are read from CLARIFAI_USER_ID and CLARIFAI_APP_ID."""
        concepts: tuple[str, ...] = ()
        """return the scores of these concepts alone, by their exact names, however low."""
        batch: int = Field(32, ge=1, le=_MOST_IMAGES)
        """images per call; each is charged."""
        endpoint: str = ""
        """another address than Clarifai's; CLARIFAI_API_BASE unless given."""

    capabilities = Capabilities(
        service=_SERVICE,
        scale="0-1",
        cut_off=0.0,
        top_k=_TOP,
        batch=32,
        batch_bytes=60_000_000,
        concurrency=4,
        limits=Limits(
            max_bytes=20_000_000, max_pixels=85_000_000, formats=("png", "jpeg", "webp", "bmp", "gif", "tiff")
        ),
    )

    def __init__(self, options: Options) -> None:
        self.name, model, user, app = options.name, options.model, options.user, options.app
        if options.own:
            user = quote(secret("CLARIFAI_USER_ID", adapter=self.name), safe="")
            app = quote(secret("CLARIFAI_APP_ID", adapter=self.name), safe="")
        if not options.version and (model, user, app) != (_GENERAL, "clarifai", "main"):
            raise AdapterError(
                f"the adapter clarifai: pin the version of {model}, version=... (the model's page shows it), "
                f"or write version={_UNPINNED} if its answers may change under way"
            )
        version, concepts, batch = options.version or _GENERAL_VERSION, options.concepts, options.batch
        base = options.endpoint or os.environ.get("CLARIFAI_API_BASE", "") or f"https://{_SERVICE.host}"
        base = checked_url(base, adapter=self.name, option="endpoint", credential=True)
        pinned = "" if version == _UNPINNED else f"/versions/{version}"
        self._url = f"{base}/v2/users/{user}/apps/{app}/models/{model}{pinned}/outputs"
        self._wanted: dict[str, Any] = {"max_concepts": _TOP, "min_value": 0.0}
        if concepts:
            self._wanted["select_concepts"] = [{"name": name} for name in concepts]
        self.model = f"{user}/{app}/{model} {version}"
        self.parameters: Mapping[str, Any] = {"endpoint": base, "output_config": self._wanted}
        self.capabilities = replace(
            type(self).capabilities,
            service=replace(_SERVICE, host=urlsplit(base).netloc),
            labels=tuple(concepts) or None,
            top_k=None if concepts else _TOP,
            batch=batch,
            concurrency=min(32, max(2, 128 // batch)),
        )
        self._client = HttpClient(most_bytes=128_000_000)
        self._key = secret("CLARIFAI_PAT", adapter=self.name, hint="(clarifai.com/settings/security)")

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Send up to 128 images in one call; see ``Adapter.send``."""
        content = {
            "inputs": [{"data": {"image": {"base64": b64encode(image).decode()}}} for image in images],
            "model": {"output_info": {"output_config": self._wanted}},
        }
        headers = {"Content-Type": "application/json", "Authorization": f"Key {self._key}"}
        reply = self._client(Call(self._url, json.dumps(content).encode(), headers, secrets=(self._key,)))
        return [reply] * len(images) if isinstance(reply, NoAnswer) else outcomes(reply, len(images))

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return labels_of(answer)


def labels_of(answer: RawAnswer) -> list[Label]:
    """The concepts of one image, in the output at ``answer.position``.

    Two concepts of one name (Clarifai tells them apart by an id) are one label, with the higher score.

    Raises:
        AnswerError: the reply, or that output of it, does not hold concepts.
    """
    output = part_of(answer, "outputs")
    if _code(output) not in {*_FINE, _MIXED}:
        raise AnswerError(f"the service failed on this image: {_message(output)}")
    data = output.get("data")
    if not isinstance(data, dict):
        raise AnswerError("the output holds no data")
    return checked(scored(objects(data, "concepts"), "name", "value"), repeats=True)


def outcomes(reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
    """What a reply means for each of the ``count`` images that were sent.

    Raises:
        AdapterError: no further call can succeed.
    """
    answers = raw_answers(reply, count, headers=_HEADERS)
    content = json_or_empty(reply.body)
    code = _code(content)
    outputs = content.get("outputs")
    complete = isinstance(outputs, list) and len(outputs) == count
    if code in _FINE and not complete and isinstance(outputs, list):
        reason = f"{len(outputs)} outputs came for {count} images: they cannot be assigned"
        return [NoAnswer(reason, billed=True, reply=answer) for answer in answers]
    if isinstance(outputs, list) and complete and code in {*_FINE, _MIXED, _ALL_FAILED}:
        stopping = [code for output in outputs if (code := _code(output)) in _STOPPING]
        if stopping and len(stopping) == count:
            raise AdapterError(f"Clarifai refuses the calls ({_message(outputs[0])}): {_STOPPING[stopping[0]]}")
        return [_image(output, answer) for output, answer in zip(outputs, answers, strict=True)]
    failed = _failed(reply, content, code)
    # Anything else that HTTP calls a success was paid for: kept, and it fails when it is parsed.
    return [*answers] if failed is None else [replace(failed, reply=answer) for answer in answers]


def _image(output: object, answer: RawAnswer) -> RawAnswer | NoAnswer:
    code = _code(output)
    if code is None or code in {*_FINE, _MIXED}:
        return answer
    return NoAnswer(_message(output), retry=_again(code), reply=answer)


def _failed(reply: Reply, content: object, code: int | None) -> NoAnswer | None:
    message = _message(content)
    if code in _STOPPING:
        raise AdapterError(f"Clarifai refuses the calls ({message}): {_STOPPING[code]}")
    failed = failure_of(reply, message=message if code else "")
    if code is None:
        if reply.status in (401, 403):
            raise AdapterError(f"Clarifai refuses the calls (HTTP {reply.status}): {_KEY}")
        if reply.status == 404:
            raise AdapterError("Clarifai knows no such address (HTTP 404): check the option endpoint")
        return failed
    if code in _FINE:
        return failed
    retry = _again(code) if failed is None or failed.retry == "never" else failed.retry
    return NoAnswer(message, retry="slower" if code == _THROTTLED else retry, wait=retry_after(reply.headers))


def _again(code: int) -> Literal["never", "later", "slower"]:
    if code == _THROTTLED:
        return "slower"
    return "later" if code in _LATER else "never"


def _code(content: object) -> int | None:
    """The status code of a reply or an output, which is a number or its name; None where there is neither."""
    code = inner(content, "status", "code")
    if isinstance(code, str):
        return _NAMES.get(code, int(code) if re.fullmatch(r"[0-9]{5}", code) else -1)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _message(content: object) -> str:
    parts = [one_line(inner(content, "status", name)) for name in ("description", "details")]
    found = ": ".join(part for part in parts if part) or "no reason given"
    return f"{found} (code {_short_code(content)})"


def _short_code(content: object) -> str:
    code = inner(content, "status", "code")
    return one_line(code, most=60) if isinstance(code, str) else str(_code(content))
