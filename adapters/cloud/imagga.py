"""Imagga's tags, API version 2."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import date
from typing import ClassVar

from adapters.answers import checked, inner, json_object, json_or_empty, objects, one_line
from adapters.base import AdapterError, AnswerError, Capabilities, Label, NoAnswer, Price, RawAnswer, Service
from adapters.credentials import secret
from adapters.http_adapter import HttpAdapter
from adapters.http_client import Call, Reply, failure_of, image_form, raw_answers
from adapters.options import NamedOptions

KEY, SECRET = "IMAGGA_API_KEY", "IMAGGA_API_SECRET"
_SERVICE = Service(
    provider="Imagga",
    host="api.imagga.com",
    retention="not known: read its terms",
    version="never reported",
    credentials=(KEY, SECRET),
    rate=2.0,
    price=Price(
        1.1, date(2026, 11, 20), "a plan of US$ 79 for 70,000 images", "uncertain; about 1,000 per month are free"
    ),
)


class Imagga(HttpAdapter):
    """Imagga's tags: an open vocabulary; all tags with any confidence are requested."""

    class Options(NamedOptions):
        kind: ClassVar[str] = "imagga"
        endpoint: str = "https://api.imagga.com"
        """the service's URL without /v2/tags."""
        language: str = "en"
        """language of the tags."""

    model = "v2 tags, version not told"  # part of the key of stored answers; must not change
    capabilities = Capabilities(service=_SERVICE, scale="0-100", cut_off=0.0, concurrency=3)

    def __init__(self, options: Options) -> None:
        super().__init__(options, options.endpoint)
        user, password = secret(KEY, adapter=self.name), secret(SECRET, adapter=self.name)
        pair = b64encode(f"{user}:{password}".encode()).decode()
        self._authorization, self._secrets = f"Basic {pair}", (user, password, pair)
        self._texts = {"limit": "-1", "threshold": "0", "language": options.language}
        self.parameters = {"endpoint": self.endpoint, **self._texts}

    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """See ``HttpAdapter.call``."""
        body, content_type = image_form(self._texts, "image", images[0])
        headers = {"Authorization": self._authorization, "Content-Type": content_type, "Accept": "application/json"}
        return self.client(Call(f"{self.endpoint}/v2/tags", body, headers, secrets=self._secrets))

    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """See ``HttpAdapter.outcomes``."""
        failed, message = _status(reply.body)
        if reply.status in (401, 402, 403, 404):
            remedies = {402: "its quota is used up", 404: "check the option endpoint"}
            remedy = remedies.get(reply.status, f"check {KEY} and {SECRET}")
            raise AdapterError(f"Imagga refuses the calls (HTTP {reply.status} {message!r}): {remedy}")
        if (failure := failure_of(reply, message)) is not None:
            return [failure] * count
        answers = raw_answers(reply, count, headers=("x-request-id",))
        if failed:
            return [NoAnswer(f"the service reports {message!r}", reply=answer) for answer in answers]
        return [*answers]

    @staticmethod
    def parse(answer: RawAnswer) -> list[Label]:
        """Return the tags in whatever language they have; repeated tags get the highest score."""
        failed, message = _status(answer.body)
        if failed:
            raise AnswerError(f"the service reports {message!r}")
        result = json_object(answer.body).get("result")
        if not isinstance(result, dict):
            raise AnswerError("the answer has no 'result'")
        pairs = []
        for entry in objects(result, "tags"):
            tag = entry.get("tag")  # one word by its language, {"en": "mountain"}
            name = next(iter(tag.values()), None) if isinstance(tag, dict) else tag
            pairs.append((name, entry.get("confidence")))
        return checked(pairs, most=100, repeats=True)


def _status(body: bytes) -> tuple[bool, str]:
    """Return whether a reply is an error, and its message."""
    content = json_or_empty(body)
    return inner(content, "status", "type") == "error", one_line(inner(content, "status", "text"))
