"""Clarifai, REST v2: the concepts of one version of a model, up to 128 images per call.

The status code in a reply's body takes precedence over HTTP's. One reply can hold images that succeeded and images that
failed.
"""

import json
import os
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
from adapters.http_adapter import HttpAdapter, meaning_of
from adapters.http_client import Call, HttpClient, Reply, failure_of, raw_answers, retry_after
from adapters.options import NamedOptions

_GENERAL = "general-image-recognition"
_GENERAL_VERSION = "aa7f35c01e0642fda5cf400f543e7c40"
_UNPINNED = "latest"
_ID = r"^[A-Za-z0-9_.-]+$"
_ID_OR_NONE = r"^[A-Za-z0-9_.-]*$"
_TOP = 200
_HEADERS = ("x-clarifai-request-id", "x-request-id")

# Codes come as numbers or names (docs.clarifai.com, status codes). Meanings: "" success, "some" or "all" images failed,
# "later" and "slower" as in ``NoAnswer.retry``; any other text stops the run and says what to do.
_KEY = "check CLARIFAI_PAT (clarifai.com/settings/security): a personal access token that may use this model"
_MEANINGS = {
    r"1000[012]|SUCCESS(_WARNING_(API|CLIENT)_DEPRECATED)?": "",
    r"10010|MIXED_STATUS": "some",
    r"10020|FAILURE": "all",
    r"11005|CONN_THROTTLED": "slower",
    r"10030|11003|TRY_AGAIN|CONN_EXCEED_HOURLY_LIMIT": "later",
    r"2135[1-5]|MODEL_(DEPLOYING|NOT_DEPLOYED|BUSY_PLEASE_RETRY|LOADING)": "later",
    r"4003[0-2]|41000|98\d{3}|RPC_(REQUEST_QUEUE_FULL|SERVER_UNAVAILABLE|REQUEST_TIMEOUT)": "later",
    r"11000|CONN_ACCOUNT_ISSUES": "the account or its plan does not allow this: see clarifai.com/settings/billing",
    r"11004|CONN_EXCEED_MONTHLY_LIMIT": "the monthly limit is reached: see clarifai.com/settings/billing",
    r"11006|CONN_EXCEEDS_LIMITS": "the account's limit is reached: see clarifai.com/settings/billing",
    r"1100[12]|CONN_(TOKEN|CREDENTIALS)_INVALID": _KEY,
    r"1100[789]|11200|CONN_(INSUFFICIENT_SCOPES|KEY_INVALID|KEY_NOT_FOUND|AUTH_METHOD_DISABLED)": _KEY,
    r"11104|CONN_NO_GDPR_CONSENT": "the account must first agree to the terms on data protection",
    r"1110[13]|CONN_(DOES_NOT_EXIST|METHOD_NOT_ALLOWED)": "check the options endpoint, model, version, user and app",
    r"2120[0-3]|MODEL_(DOES_NOT_EXIST|PERMISSION_DENIED|INVALID_(ARGUMENT|REQUEST))": (
        "check the options model, version, user, app and concepts"
    ),
}
_SERVICE = Service(
    provider="Clarifai",
    host="api.clarifai.com",
    retention="Images are stored by default, visible to the account, and not used for training unless shared "
    "(docs.clarifai.com/resources/privacy-security): set the account's retention before sending faces",
    version="pinned in the URL; each reply reports the model's version",
    credentials=("CLARIFAI_PAT", "CLARIFAI_USER_ID", "CLARIFAI_APP_ID"),
    rate=15.0,
    price=Price(
        1.50,
        as_of=date(2026, 11, 20),
        source="docs.visionati.com, a reseller; Clarifai's own page could not be read",
        note="uncertain (1.2-1.5); each image of a batch and each model is charged separately",
    ),
)


class Clarifai(HttpAdapter):
    """Clarifai: the 200 most likely concepts of its general model, or of another model, at a pinned version.

    Needs a personal access token in CLARIFAI_PAT.
    """

    class Options(NamedOptions):
        kind: ClassVar[str] = "clarifai"
        model: str = Field(_GENERAL, pattern=_ID)
        """the model's id."""
        version: str = Field("", pattern=_ID_OR_NONE)
        """the version's id, or latest for an unpinned version; default: the general model's version of 2018."""
        user: str = Field("clarifai", pattern=_ID)
        """the id of the model's owner."""
        app: str = Field("main", pattern=_ID)
        """the id of the model's app."""
        own: bool = False
        """the model is yours: user and app are read from CLARIFAI_USER_ID and CLARIFAI_APP_ID."""
        concepts: tuple[str, ...] = ()
        """return only these concepts, by their exact names, with any score."""
        batch: int = Field(32, ge=1, le=128)
        """images per call; each image is charged."""
        endpoint: str = ""
        """another URL than Clarifai's; default: CLARIFAI_API_BASE."""

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
                f"the adapter clarifai: pin the version of {model} with version=... (the model's page shows it), "
                f"or set version={_UNPINNED} if its answers may change during the run"
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
        meaning, outputs = _meaning(content), content.get("outputs")
        if isinstance(outputs, list) and len(outputs) == count and meaning in ("", "some", "all"):
            if all(" " in _meaning(output) for output in outputs):
                raise AdapterError(f"Clarifai refuses the calls ({_message(outputs[0])}): {_meaning(outputs[0])}")
            return [
                answer
                if _code(output) == "" or _meaning(output) in ("", "some")
                else NoAnswer(_message(output), retry=_again(_meaning(output)), reply=answer)
                for output, answer in zip(outputs, answers, strict=True)
            ]
        if isinstance(outputs, list) and meaning == "":
            reason = f"{len(outputs)} outputs came for {count} images: they cannot be assigned"
            return [NoAnswer(reason, billed=True, reply=answer) for answer in answers]
        failed = _failed(reply, content, meaning)
        # Any other reply with a status of success was paid for, so it is stored; parsing it fails.
        return [*answers] if failed is None else [replace(failed, reply=answer) for answer in answers]

    @staticmethod
    def parse(answer: RawAnswer) -> list[Label]:
        """Return the concepts of one image; concepts with the same name but different ids get the higher score."""
        output = part_of(answer, "outputs")
        if _meaning(output) not in ("", "some"):
            raise AnswerError(f"the service failed on this image: {_message(output)}")
        data = output.get("data")
        if not isinstance(data, dict):
            raise AnswerError("the output holds no data")
        return checked(scored(objects(data, "concepts"), "name", "value"), repeats=True)


def _failed(reply: Reply, content: object, meaning: str) -> NoAnswer | None:
    """Interpret a reply without outputs for the images."""
    code, message = _code(content), _message(content)
    if " " in meaning:
        raise AdapterError(f"Clarifai refuses the calls ({message}): {meaning}")
    failed = failure_of(reply, message if code else "")
    if not code and reply.status in (401, 403, 404):
        remedy = _KEY if reply.status != 404 else "check the option endpoint"
        raise AdapterError(f"Clarifai refuses the calls (HTTP {reply.status}): {remedy}")
    if not code or meaning == "":
        return failed
    again = _again(meaning)
    retry = again if failed is None or failed.retry == "never" or again == "slower" else failed.retry
    return NoAnswer(message, retry=retry, wait=retry_after(reply.headers))


def _code(content: object) -> str:
    """Return the status code (a number or a name) of a reply or an output; "" if there is none."""
    code = inner(content, "status", "code")
    return one_line(str(code), most=60) if isinstance(code, int | str) and not isinstance(code, bool) else ""


def _meaning(content: object) -> str:
    """Return the meaning in `_MEANINGS` of a reply's or an output's code, "never" by default."""
    return meaning_of(_code(content), _MEANINGS, otherwise="never")


def _again(meaning: str) -> Literal["never", "later", "slower"]:
    return "later" if meaning == "later" else "slower" if meaning == "slower" else "never"


def _message(content: object) -> str:
    parts = [one_line(inner(content, "status", name)) for name in ("description", "details")]
    return f"{': '.join(part for part in parts if part) or 'no reason given'} (code {_code(content) or None})"
