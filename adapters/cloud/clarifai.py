"""Clarifai, REST v2: the concepts of one version of one model, up to 128 images a call.

A reply's own status code decides, whatever HTTP's is; one reply can hold images that succeeded and images that failed.
"""

import json
import os
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import Field

from adapters.answers import checked, inner, json_or_empty, objects, one_line, part_of, scored
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.credentials import secret
from adapters.http_adapter import HttpAdapter
from adapters.http_client import Call, HttpClient, Reply, failure_of, raw_answers, retry_after
from adapters.options import NamedOptions

_GENERAL = "general-image-recognition"
_GENERAL_VERSION = "aa7f35c01e0642fda5cf400f543e7c40"
_UNPINNED = "latest"
_ID = r"^[A-Za-z0-9_.-]+$"
_ID_OR_NONE = r"^[A-Za-z0-9_.-]*$"
_TOP = 200
_HEADERS = ("x-clarifai-request-id", "x-request-id")

_ACCOUNT = "the account or its plan does not allow this: see clarifai.com/settings/billing"
_ALLOWANCE = "the month's allowance is used up: see clarifai.com/settings/billing"
_LIMIT = "the account's limit is reached: see clarifai.com/settings/billing"
_KEY = "check CLARIFAI_PAT (clarifai.com/settings/security): a personal access token that may use this model"
_TERMS = "the account has to agree to the terms on data protection first"
_PLACE = "check the options endpoint, model, version, user and app"
_MODEL = "check the options model, version, user, app and concepts"
# The codes that mean something special (docs.clarifai.com, status codes), which come as numbers or as names: "" is
# fine, "later" and "slower" say whether to ask again, anything else stops the run and is what to do.
_CODES = {
    10000: ("SUCCESS", ""),
    10001: ("SUCCESS_WARNING_API_DEPRECATED", ""),
    10002: ("SUCCESS_WARNING_CLIENT_DEPRECATED", ""),
    10010: ("MIXED_STATUS", "some"),
    10020: ("FAILURE", "all"),
    10030: ("TRY_AGAIN", "later"),
    11000: ("CONN_ACCOUNT_ISSUES", _ACCOUNT),
    11001: ("CONN_TOKEN_INVALID", _KEY),
    11002: ("CONN_CREDENTIALS_INVALID", _KEY),
    11003: ("CONN_EXCEED_HOURLY_LIMIT", "later"),
    11004: ("CONN_EXCEED_MONTHLY_LIMIT", _ALLOWANCE),
    11005: ("CONN_THROTTLED", "slower"),
    11006: ("CONN_EXCEEDS_LIMITS", _LIMIT),
    11007: ("CONN_INSUFFICIENT_SCOPES", _KEY),
    11008: ("CONN_KEY_INVALID", _KEY),
    11009: ("CONN_KEY_NOT_FOUND", _KEY),
    11101: ("CONN_DOES_NOT_EXIST", _PLACE),
    11103: ("CONN_METHOD_NOT_ALLOWED", _PLACE),
    11104: ("CONN_NO_GDPR_CONSENT", _TERMS),
    11200: ("CONN_AUTH_METHOD_DISABLED", _KEY),
    21200: ("MODEL_DOES_NOT_EXIST", _MODEL),
    21201: ("MODEL_PERMISSION_DENIED", _MODEL),
    21202: ("MODEL_INVALID_ARGUMENT", _MODEL),
    21203: ("MODEL_INVALID_REQUEST", _MODEL),
    21351: ("MODEL_DEPLOYING", "later"),
    21352: ("21352", "later"),
    21353: ("MODEL_NOT_DEPLOYED", "later"),
    21354: ("MODEL_BUSY_PLEASE_RETRY", "later"),
    21355: ("MODEL_LOADING", "later"),
    40030: ("RPC_REQUEST_QUEUE_FULL", "later"),
    40031: ("RPC_SERVER_UNAVAILABLE", "later"),
    40032: ("RPC_REQUEST_TIMEOUT", "later"),
    41000: ("41000", "later"),
}
_NUMBERS = {name: code for code, (name, _) in _CODES.items()}
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


class Clarifai(HttpAdapter):
    """Clarifai: the 200 likeliest concepts of its general model, or of another one; always one pinned version.

    Needs a personal access token in CLARIFAI_PAT.
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
        batch: int = Field(32, ge=1, le=128)
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
        super().__init__(
            options,
            options.endpoint or os.environ.get("CLARIFAI_API_BASE", "") or f"https://{_SERVICE.host}",
            client=HttpClient(most_bytes=128_000_000),
            labels=options.concepts or None,
            top_k=None if options.concepts else _TOP,
            batch=options.batch,
            concurrency=min(32, max(2, 128 // options.batch)),
        )
        model, user, app = options.model, options.user, options.app
        if options.own:
            user = quote(secret("CLARIFAI_USER_ID", adapter=self.name), safe="")
            app = quote(secret("CLARIFAI_APP_ID", adapter=self.name), safe="")
        if not options.version and (model, user, app) != (_GENERAL, "clarifai", "main"):
            raise AdapterError(
                f"the adapter clarifai: pin the version of {model}, version=... (the model's page shows it), "
                f"or write version={_UNPINNED} if its answers may change under way"
            )
        version = options.version or _GENERAL_VERSION
        pinned = "" if version == _UNPINNED else f"/versions/{version}"
        self._url = f"{self.endpoint}/v2/users/{user}/apps/{app}/models/{model}{pinned}/outputs"
        self._wanted: dict[str, Any] = {"max_concepts": _TOP, "min_value": 0.0}
        if options.concepts:
            self._wanted["select_concepts"] = [{"name": name} for name in options.concepts]
        self.model = f"{user}/{app}/{model} {version}"
        self.parameters = {"endpoint": self.endpoint, "output_config": self._wanted}
        self._key = secret("CLARIFAI_PAT", adapter=self.name, hint="(clarifai.com/settings/security)")

    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """See ``HttpAdapter.call``."""
        content = {
            "inputs": [{"data": {"image": {"base64": b64encode(image).decode()}}} for image in images],
            "model": {"output_info": {"output_config": self._wanted}},
        }
        headers = {"Content-Type": "application/json", "Authorization": f"Key {self._key}"}
        return self.client(Call(self._url, json.dumps(content).encode(), headers, secrets=(self._key,)))

    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """See ``HttpAdapter.outcomes``."""
        answers = raw_answers(reply, count, headers=_HEADERS)
        content = json_or_empty(reply.body)
        code, outputs = _code(content), content.get("outputs")
        if isinstance(outputs, list) and len(outputs) == count and _meaning(code) in ("", "some", "all"):
            stopping = [output for output in outputs if _remedy(_code(output))]
            if stopping and len(stopping) == count:
                raise AdapterError(f"Clarifai refuses the calls ({_message(outputs[0])}): {_remedy(_code(outputs[0]))}")
            return [_image(output, answer) for output, answer in zip(outputs, answers, strict=True)]
        if isinstance(outputs, list) and _meaning(code) == "":
            reason = f"{len(outputs)} outputs came for {count} images: they cannot be assigned"
            return [NoAnswer(reason, billed=True, reply=answer) for answer in answers]
        failed = _failed(reply, content, code)
        # Anything else that HTTP calls a success was paid for: kept, and it fails when it is parsed.
        return [*answers] if failed is None else [replace(failed, reply=answer) for answer in answers]

    @staticmethod
    def parse(answer: RawAnswer) -> list[Label]:
        """The concepts of one image; of two with one name (Clarifai tells them apart by an id), the higher score."""
        output = part_of(answer, "outputs")
        if _meaning(_code(output)) not in ("", "some"):
            raise AnswerError(f"the service failed on this image: {_message(output)}")
        data = output.get("data")
        if not isinstance(data, dict):
            raise AnswerError("the output holds no data")
        return checked(scored(objects(data, "concepts"), "name", "value"), repeats=True)


def _image(output: object, answer: RawAnswer) -> RawAnswer | NoAnswer:
    code = _code(output)
    if code is None or _meaning(code) in ("", "some"):
        return answer
    return NoAnswer(_message(output), retry=_again(code), reply=answer)


def _failed(reply: Reply, content: object, code: int | None) -> NoAnswer | None:
    """What a reply without outputs for the images means as a whole."""
    message = _message(content)
    if remedy := _remedy(code):
        raise AdapterError(f"Clarifai refuses the calls ({message}): {remedy}")
    failed = failure_of(reply, message=message if code else "")
    if code is None and reply.status in (401, 403):
        raise AdapterError(f"Clarifai refuses the calls (HTTP {reply.status}): {_KEY}")
    if code is None and reply.status == 404:
        raise AdapterError("Clarifai refuses the calls (HTTP 404): check the option endpoint")
    if code is None or _meaning(code) == "":
        return failed
    again = _again(code)
    retry = again if failed is None or failed.retry == "never" or again == "slower" else failed.retry
    return NoAnswer(message, retry=retry, wait=retry_after(reply.headers))


def _code(content: object) -> int | None:
    """The status code of a reply or an output, which is a number or its name; None where there is neither."""
    code = inner(content, "status", "code")
    if isinstance(code, str):
        return _NUMBERS.get(code, int(code) if re.fullmatch(r"[0-9]{5}", code) else -1)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _meaning(code: int | None) -> str:
    """What a code says, as `_CODES` has it; "never" where it says nothing special."""
    if code is not None and 98000 <= code < 99000:
        return "later"
    return _CODES[code][1] if code in _CODES else "never"


def _again(code: int) -> Literal["never", "later", "slower"]:
    found = _meaning(code)
    return "later" if found == "later" else "slower" if found == "slower" else "never"


def _remedy(code: int | None) -> str:
    """What to do about a code that every further call would meet; "" for any other."""
    return found if " " in (found := _meaning(code)) else ""


def _message(content: object) -> str:
    parts = [one_line(inner(content, "status", name)) for name in ("description", "details")]
    found = ": ".join(part for part in parts if part) or "no reason given"
    code = inner(content, "status", "code")
    return f"{found} (code {one_line(code, most=60) if isinstance(code, str) else _code(content)})"
