"""Microsoft Azure AI Vision, Image Analysis 4.0: tags, and the words of a caption; one image per call."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from os import environ
from typing import ClassVar
from urllib.parse import urlencode

from pydantic import Field, model_validator

from adapters.answers import checked, inner, json_object, json_or_empty, objects, one_line, scored
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.cloud.azure_login import PRINCIPAL, PrincipalLogin, TokenLogin
from adapters.credentials import credentials_needed, secret
from adapters.http_adapter import HttpAdapter, KeyLogin, Login
from adapters.http_client import Call, Reply, failure_of, raw_answers
from adapters.options import NamedOptions

_API = "2024-02-01"
_HEADERS = ("apim-request-id", "x-ms-region", "csp-billing-usage")
_WAIT = re.compile(r"retry after ([0-9]{1,6}) (second|minute)", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_REMEDIES = {
    401: "check VISION_KEY, VISION_TOKEN (a token lasts an hour) or the principal's role, and that VISION_ENDPOINT is "
    "the same resource's (a key of another region is refused too)",
    403: "the quota is used up, or the resource's network rules refuse this machine: see the Azure portal",
    404: "check VISION_ENDPOINT: https://NAME.cognitiveservices.azure.com, without a path",
}
_SERVICE = Service(
    provider="Microsoft Azure AI Vision",
    host="RESOURCE.cognitiveservices.azure.com",
    retention="see Microsoft's page 'Data and privacy for Image Analysis' (learn.microsoft.com) before sending faces",
    version="reported in each reply as modelVersion; pinned by the option model_version",
    lifecycle="ends",
    ends=date(2028, 9, 25),
    credentials=("VISION_KEY", "VISION_TOKEN", "VISION_ENDPOINT", *PRINCIPAL),
    rate=10.0,
    price=Price(
        1.00,
        as_of=date(2023, 12, 1),
        source="Azure's price page, as quoted in MicrosoftDocs/azure-docs#118279",
        note="each feature is charged; the free tier allows 20 calls per minute; cheaper above a million per month",
    ),
)


class Azure(HttpAdapter):
    """Azure Image Analysis 4.0: tags; with ``captions`` also each word of the image's caption.

    Authentication: the key in VISION_KEY; else a token of Entra ID in VISION_TOKEN (az account get-access-token
    --scope https://cognitiveservices.azure.com/.default), which lasts an hour; else the service principal in
    AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET.

    ``gender_neutral`` applies to captions only; tags may still be gendered words. Microsoft ends the service on 25
    September 2028.

    "latest" is the version that Microsoft serves at the time; each raw answer records it. To keep it from changing
    during a run, set ``model_version`` to the date in ``modelVersion`` of a reply.

    Captions rarely repeat, so their words become labels, "caption: woman", each with the caption's score. The sentence
    stays in the raw answer.
    """

    class Options(NamedOptions):
        kind: ClassVar[str] = "azure"
        endpoint: str = ""
        """the resource's URL, https://NAME.cognitiveservices.azure.com; default: VISION_ENDPOINT."""
        model_version: str = Field("latest", pattern=r"^(latest|\d{4}-\d\d-\d\d(-preview)?)$")
        """latest, or a date such as 2023-10-01."""
        captions: bool = False
        """also request a caption, which is charged in addition and not offered in every region."""
        gender_neutral: bool = False
        """request captions without gendered words."""
        language: str = Field("en", pattern=r"^[A-Za-z-]{2,10}$")
        """language of the tags: en, es, ja, pt or zh."""

        @model_validator(mode="after")
        def _captions_first(self) -> "Azure.Options":
            if self.gender_neutral and not self.captions:
                raise ValueError("option 'gender_neutral' applies to captions only; set captions too")
            return self

    capabilities = Capabilities(
        service=_SERVICE,
        scale="0-1",
        cut_off=None,  # not documented and not configurable
        concurrency=32,
        limits=Limits(
            max_bytes=20_971_520, min_side=51, max_side=15_999,  # more than 50, less than 16,000
            formats=("png", "jpeg", "webp", "bmp", "gif", "tiff"),
        ),
    )  # fmt: skip

    def __init__(self, options: Options) -> None:
        endpoint = options.endpoint or environ.get("VISION_ENDPOINT", "").strip()
        if not endpoint and credentials_needed():
            raise AdapterError(
                "the adapter 'azure' needs the URL of your resource: "
                "export VISION_ENDPOINT=https://NAME.cognitiveservices.azure.com, or option endpoint"
            )
        features = ("tags", "captions") if options.captions else ("tags",)
        super().__init__(options, endpoint or f"https://{_SERVICE.host}", features=features)
        query = {
            "api-version": _API,
            "features": "tags,caption" if options.captions else "tags",
            "language": options.language,
            "model-version": options.model_version,
            **({"gender-neutral-caption": "true"} if options.gender_neutral else {}),
        }
        self._url = f"{self.endpoint}/computervision/imageanalysis:analyze?{urlencode(query)}"
        self.model = f"image analysis {_API}, model {options.model_version}"
        self.parameters = {"endpoint": self.endpoint, "query": query}
        self._login = self._login_of()

    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """See ``HttpAdapter.call``."""
        return self.logged_in(self._login, Call(self._url, images[0], {"Content-Type": "application/octet-stream"}))

    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """See ``HttpAdapter.outcomes``."""
        answers = raw_answers(reply, count, headers=_HEADERS)
        error = inner(json_or_empty(reply.body), "error")
        code = one_line(inner(error, "innererror", "code"), most=60) or one_line(inner(error, "code"), most=60)
        message = one_line(inner(error, "innererror", "message")) or one_line(inner(error, "message"))
        failed = failure_of(reply, code, message)
        if failed is None:
            return [*answers]
        if reply.status in _REMEDIES or code.startswith("NotSupported"):
            remedy = _REMEDIES.get(reply.status, "change the option named there, or use a resource in another region")
            raise AdapterError(f"Azure refuses the calls ({failed.reason}): {remedy}")
        if failed.wait is None and (asked := _WAIT.search(one_line(inner(error, "message"), most=2000))):
            failed = replace(failed, wait=float(asked[1]) * (60 if asked[2].lower() == "minute" else 1))
        return [replace(failed, reply=answer) for answer in answers]

    @staticmethod
    def parse(answer: RawAnswer) -> list[Label]:
        """Return the tags, and the words of the caption if there is one; repeated tags get the highest score."""
        content = json_object(answer.body)
        tags = content.get("tagsResult")
        if not isinstance(tags, dict):
            raise AnswerError("the answer has no 'tagsResult'")
        pairs = list(scored(objects(tags, "values"), "name", "confidence"))
        if (caption := content.get("captionResult")) is not None:
            text, score = inner(caption, "text"), inner(caption, "confidence")
            if not isinstance(text, str):
                raise AnswerError("the answer's caption has no text")
            pairs += [(f"caption: {word}", score) for word in dict.fromkeys(_WORD.findall(text.lower()))]
        return checked(pairs, repeats=True)

    def _login_of(self) -> Login:
        """Choose the first authentication in the environment: key, token, service principal."""
        if not environ.get("VISION_KEY", "").strip():
            if environ.get("VISION_TOKEN", "").strip():
                return TokenLogin("VISION_TOKEN", self.name)
            if any(environ.get(name, "").strip() for name in PRINCIPAL):
                return PrincipalLogin(self.client, adapter=self.name)
        hint = "(Azure portal, your resource, Keys and Endpoint), or a token in VISION_TOKEN"
        return KeyLogin("Ocp-Apim-Subscription-Key", secret("VISION_KEY", adapter=self.name, hint=hint))
