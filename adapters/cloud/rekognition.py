"""Amazon Rekognition Image: DetectLabels, or attributes that DetectFaces perceives in a face.

Requests are signed in `adapters.cloud.aws_signing`. Errors are interpreted by their code, because throttling has HTTP
status 400.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Any, ClassVar

from annotated_types import Len
from pydantic import model_validator

from adapters.answers import checked, inner, json_object, json_or_empty, objects, one_line, scored
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.cloud.aws_signing import AwsSigner, endpoint_from_environment
from adapters.http_adapter import HttpAdapter, meaning_of
from adapters.http_client import Call, Reply, failure_of, raw_answers, retry_after
from adapters.options import NamedOptions

Names = Annotated[tuple[Annotated[str, Len(1, 50)], ...], Len(0, 100)]
_MOST = 100.0  # its scores are percentages
_FLAGS = ("Smile", "Eyeglasses", "Sunglasses", "Beard", "Mustache", "EyesOpen", "MouthOpen", "FaceOccluded")
_AGES = (20, 30, 40, 50, 60, 70)

# Meanings of error codes: "slower" and "later" as in ``NoAnswer.retry``, "expired" credentials are looked up again; any
# other text stops the run and says what to do.
_MEANINGS = {
    r"ProvisionedThroughputExceededException|Throttl(ing|ingException|edException)": "slower",
    r"TooManyRequestsException|RequestLimitExceeded": "slower",
    r"InternalServerError|InternalFailure|ServiceUnavailable(Exception)?": "later",
    r"ExpiredToken(Exception)?": "expired",
    r"AccessDeniedException": "allow the action rekognition:{operation} to this user or role (AWS IAM)",
    r"UnrecognizedClientException|InvalidClientTokenId": (
        "the access key is unknown: check AWS_ACCESS_KEY_ID or the profile in AWS_PROFILE"
    ),
    r"InvalidSignatureException|SignatureDoesNotMatch": (
        "check AWS_SECRET_ACCESS_KEY, and this machine's clock (it may be off by 5 minutes at most)"
    ),
    r"RequestExpired": "set this machine's clock",
    r"MissingAuthenticationToken(Exception)?": "no signature arrived: check the option endpoint",
    r"IncompleteSignatureException": "the signature arrived incomplete: check the option endpoint",
    r"OptInRequired": "the account has not opted in to the region or the service",
    r"SubscriptionRequiredException": "the account has no subscription to the service",
    r"UnknownOperationException": "this endpoint is not Rekognition's: check the option endpoint",
}

_SERVICE = Service(
    provider="Amazon Rekognition",
    host="rekognition.REGION.amazonaws.com",
    retention="AWS may keep images and use them, possibly in another region, to improve its services, unless the "
    "organisation has opted out (AI services opt-out policy of AWS Organizations): opt out before sending faces",
    version="cannot be pinned; DetectLabels reports LabelModelVersion in each reply, DetectFaces none",
    credentials=(
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
    ),
    rate=5.0,
    price=Price(
        1.00,
        as_of=date(2026, 10, 7),
        source="aws.amazon.com/rekognition/pricing (us-east-1), as read by api-evangelist",
        note="1,000 per month are free for 12 months; 0.80 and 0.60 for larger volumes (limits not confirmed)",
    ),
)


class Rekognition(HttpAdapter):
    """Amazon Rekognition: DetectLabels, or with ``faces`` DetectFaces (perceived gender, smile, ...).

    Credentials are looked up as by all AWS tools (environment, profile, shared files, roles); needs the extra ``aws``.
    All labels are requested (MinConfidence 0, up to 1,000). The ancestors of a label are returned as labels, too, so
    scores are not independent of each other. According to AWS, gendered labels describe appearance, not identity.

    With ``faces``, the face nearest to the image's centre counts. ``Confidence`` c refers to the returned value, so the
    score of a label is c if it was returned and 1 - c if its opposite was: "Female" and "Male", "Smile", "Beard" and so
    on. Each emotion has its own confidence. The score of "age 30+" is the share of the age range above 30.
    """

    class Options(NamedOptions):
        kind: ClassVar[str] = "rekognition"
        region: str = ""
        """AWS region; default: AWS_REGION, AWS_DEFAULT_REGION or the profile's."""
        faces: bool = False
        """call DetectFaces instead of DetectLabels."""
        include: Names = ()
        """return only these labels."""
        exclude: Names = ()
        """return all labels except these."""
        include_categories: Names = ()
        """return only labels of these categories."""
        exclude_categories: Names = ()
        """return all labels except those of these categories."""
        endpoint: str = ""
        """another URL than the region's; default: AWS_ENDPOINT_URL_REKOGNITION or AWS_ENDPOINT_URL."""

        @property
        def filters(self) -> dict[str, Any]:
            """The filters by label and category, as members of the request."""
            lists = {
                "LabelInclusionFilters": self.include,
                "LabelExclusionFilters": self.exclude,
                "LabelCategoryInclusionFilters": self.include_categories,
                "LabelCategoryExclusionFilters": self.exclude_categories,
            }
            given = {name: list(items) for name, items in lists.items() if items}
            return {"Features": ["GENERAL_LABELS"], "Settings": {"GeneralLabels": given}} if given else {}

        @model_validator(mode="after")
        def _consistent(self) -> "Rekognition.Options":
            if self.faces and self.filters:
                raise ValueError("labels cannot be filtered if option 'faces' is set")
            return self

    capabilities = Capabilities(
        service=_SERVICE,
        scale="0-100",
        cut_off=0.0,
        top_k=1000,
        concurrency=32,
        limits=Limits(max_bytes=5_242_880, min_side=80, max_side=10_000, formats=("png", "jpeg")),
    )

    def __init__(self, options: Options) -> None:
        faces = options.faces
        self._signer = AwsSigner("rekognition", adapter=options.name, region=options.region)
        region = self._signer.region
        if not re.fullmatch(r"[a-z0-9-]+", region):
            raise AdapterError(f"the adapter rekognition: {region!r} is not an AWS region such as eu-west-1")
        usual = endpoint_from_environment("rekognition") or f"https://rekognition.{region}.amazonaws.com"
        super().__init__(
            options,
            options.endpoint or usual,
            features=("faces",) if faces else ("labels",),
            top_k=None if faces else 1000,
            cut_off=None if faces else 0.0,
        )
        self._operation = "DetectFaces" if faces else "DetectLabels"
        self._request = {"Attributes": ["ALL"]} if faces else {"MaxLabels": 1000, "MinConfidence": 0, **options.filters}
        self.model = f"2016-06-27 {self._operation}"
        self.parameters = {"endpoint": self.endpoint, "region": region, "request": self._request}

    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """See ``HttpAdapter.call``; expired credentials are looked up again once."""
        body = json.dumps({"Image": {"Bytes": b64encode(images[0]).decode()}, **self._request}).encode()
        reply, used = self._signed_call(body)
        if isinstance(reply, Reply) and _meaning(reply) == "expired" and self._signer.renewed(used):
            reply, _ = self._signed_call(body)
        return reply

    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """See ``HttpAdapter.outcomes``."""
        content, code = json_or_empty(reply.body), _code(reply)
        message = one_line(content.get("Message")) or one_line(content.get("message"))
        failed = failure_of(reply, code, message)
        answers = raw_answers(reply, count, headers=("x-amzn-requestid",))
        if failed is None:
            return [*answers]
        meaning = _meaning(reply)
        if meaning == "expired":
            raise AdapterError(
                "the AWS credentials have expired: renew the temporary credentials (e.g. aws sso login) and run the "
                "same command again"
            )
        if " " in meaning or (reply.status in (401, 403, 404) and meaning != "slower"):
            remedy = meaning if " " in meaning else "check the credentials, the region and the option endpoint"
            raise AdapterError(f"AWS refuses the calls ({failed.reason}): {remedy.format(operation=self._operation)}")
        if meaning == "slower":
            failed = replace(failed, retry="slower", wait=retry_after(reply.headers))
        elif meaning == "later":
            failed = replace(failed, retry="later")
        return [replace(failed, reply=answer) for answer in answers]

    @staticmethod
    def parse(answer: RawAnswer) -> list[Label]:
        """Return the labels of a reply of DetectLabels or DetectFaces; repeated names get the highest score."""
        content = json_object(answer.body)
        if "FaceDetails" in content:
            faces = objects(content, "FaceDetails")
            return checked(_face(min(faces, key=_off_centre)) if faces else (), most=_MOST, repeats=True)
        return checked(scored(objects(content, "Labels"), "Name", "Confidence"), most=_MOST, repeats=True)

    def _signed_call(self, body: bytes) -> tuple[Reply | NoAnswer, object]:
        """Sign and send a request; return the reply and the credentials used."""
        target = f"RekognitionService.{self._operation}"
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
        url = f"{self.endpoint}/"
        signed = self._signer.signed(url, body, headers)
        return self.client(Call(url, body, signed.headers, secrets=signed.secrets)), signed.credentials


def _meaning(reply: Reply) -> str:
    return meaning_of(_code(reply), _MEANINGS, otherwise="")


def _code(reply: Reply) -> str:
    """Return the code of an error without the affixes that it may have (``com.amazon#ThrottlingException:http://...``)."""
    if 200 <= reply.status < 300:
        return ""
    types = (json_or_empty(reply.body).get("__type"), reply.headers.get("x-amzn-errortype"))
    kind = next(filter(None, (one_line(text, most=120) for text in types)), "")
    return kind.rpartition("#")[2].partition(":")[0]


def _face(face: Mapping[str, Any]) -> Iterator[tuple[object, object]]:
    yield "face", face.get("Confidence")
    if "Gender" in face:
        value = inner(face, "Gender", "Value")
        if value not in ("Female", "Male"):
            raise AnswerError("a face's Gender has another value than Female or Male")
        sure = _percent(face, "Gender")
        yield "Female", sure if value == "Female" else _MOST - sure
        yield "Male", sure if value == "Male" else _MOST - sure
    for name in _FLAGS:
        if name in face:
            value = inner(face, name, "Value")
            if not isinstance(value, bool):
                raise AnswerError(f"a face's {name} is neither true nor false")
            sure = _percent(face, name)
            yield name, sure if value else _MOST - sure
    yield from scored(objects(face, "Emotions", needed=False), "Type", "Confidence")
    if "AgeRange" in face:
        low, high = (_number(inner(face, "AgeRange", end)) for end in ("Low", "High"))
        for age in _AGES:
            above = (high - age) / (high - low) if high > low else float(low >= age)
            yield f"age {age}+", _MOST * min(1.0, max(0.0, above))


def _percent(face: Mapping[str, Any], name: str) -> float:
    return _MOST * checked([(name, inner(face, name, "Confidence"))], most=_MOST)[0].score


def _off_centre(face: Mapping[str, Any]) -> float:
    """Return the distance of a face's centre from the image's centre, in fractions of the image's sides."""
    left, top, width, height = (
        _number(inner(face, "BoundingBox", side)) for side in ("Left", "Top", "Width", "Height")
    )
    return float(((left + width / 2 - 0.5) ** 2 + (top + height / 2 - 0.5) ** 2) ** 0.5)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e6:
        raise AnswerError("a face's box or age range is not a number")
    return float(value)
