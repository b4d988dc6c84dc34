"""Imagga's tags, version 2 of its interface."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from adapters.answers import checked, inner, json_object, objects
from adapters.base import AdapterError, AnswerError, Capabilities, Label, NoAnswer, Price, RawAnswer, Service
from adapters.calling import Call, Caller, kept, unanswered, words
from adapters.credentials import checked_url, secret
from adapters.images import media_type
from adapters.multipart import form

ENDPOINT = "https://api.imagga.com"
KEY, SECRET = "IMAGGA_API_KEY", "IMAGGA_API_SECRET"

SERVICE = Service(
    provider="Imagga",
    host="api.imagga.com",
    retention="not known: read its terms",
    version="never told",
    credentials=(KEY, SECRET),
    rate=2.0,
    price=Price(
        1.1, date(2026, 11, 20), "a plan of US$ 79 for 70,000 images", "poorly known; about 1,000 a month are free"
    ),
)


class Imagga:
    """Imagga's tags: an open vocabulary of its own, all tags with any confidence.

    Args:
        endpoint: the address, up to before ``/v2/tags``.
        language: of the tags.

    Raises:
        AdapterError: no key, or credentials that would go over plain http.
    """

    capabilities = Capabilities(service=SERVICE, scale="0-100", cut_off=0.0, concurrency=3)

    def __init__(self, *, endpoint: str = ENDPOINT, language: str = "en") -> None:
        self.name = "imagga"
        self.model = "v2 tags, version not told"
        self._url = checked_url(endpoint, adapter=self.name, option="endpoint", credential=True)
        user, password = secret(KEY, adapter=self.name), secret(SECRET, adapter=self.name)
        pair = b64encode(f"{user}:{password}".encode()).decode()
        self._authorization, self._secrets = f"Basic {pair}", (user, password, pair)
        self._caller = Caller()
        self.parameters: Mapping[str, Any] = {
            "endpoint": self._url,
            "language": language,
            "limit": "-1",
            "threshold": "0",
        }
        self.capabilities = replace(
            Imagga.capabilities,
            service=replace(SERVICE, host=urlsplit(self._url).hostname or ""),
        )

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Ask about each image; see ``Adapter.send``."""
        return [self._ask(image) for image in images]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return labels_of(answer)

    def _ask(self, image: bytes) -> RawAnswer | NoAnswer:
        try:
            kind = media_type(image)
        except ValueError as error:
            return NoAnswer(str(error))
        texts = {name: self.parameters[name] for name in ("limit", "threshold", "language")}
        body, content_type = form(texts, {"image": (f"image.{kind.removeprefix('image/')}", image, kind)})
        headers = {"Authorization": self._authorization, "Content-Type": content_type, "Accept": "application/json"}
        reply = self._caller(Call(f"{self._url}/v2/tags", body, headers, secrets=self._secrets))
        if isinstance(reply, NoAnswer):
            return reply
        failed, said = _status(reply.body)
        if reply.status in (401, 402, 403, 404):
            cure = {402: "its quota is used up", 404: "check the option endpoint"}.get(
                reply.status, f"check {KEY} and {SECRET}"
            )
            raise AdapterError(f"the adapter 'imagga': HTTP {reply.status} {said!r}: {cure}")
        refusal = unanswered(reply, says=said)
        if refusal:
            return refusal
        answer = RawAnswer(reply.body, reply.status, kept(reply.headers, ("x-request-id",)))
        return NoAnswer(f"the service says {said!r}", reply=answer) if failed else answer


def labels_of(answer: RawAnswer) -> list[Label]:
    """The tags, in the language that they have; of a repeated tag, the higher score.

    Raises:
        AnswerError: the answer holds none, or an error.
    """
    failed, said = _status(answer.body)
    if failed:
        raise AnswerError(f"the service says {said!r}")
    result = json_object(answer.body).get("result")
    if not isinstance(result, dict):
        raise AnswerError("the answer has no 'result'")
    return checked(
        ((_word(entry), entry.get("confidence")) for entry in objects(result, "tags")), most=100, repeats=True
    )


def _word(entry: Mapping[str, Any]) -> object:
    """A tag is told as one word by language, ``{"en": "mountain"}``."""
    tag = entry.get("tag")
    return next(iter(tag.values()), None) if isinstance(tag, dict) else tag


def _status(body: bytes) -> tuple[bool, str]:
    """Whether a reply says that it is an error, and its words."""
    try:
        content = json_object(body)
    except AnswerError:
        return False, ""
    return inner(content, "status", "type") == "error", words(inner(content, "status", "text"))
