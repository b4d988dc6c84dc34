"""Any REST service as a classifier, from configuration alone; where its replies hold labels is in `json_labels`."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, model_validator

from adapters.answers import one_line
from adapters.base import AdapterError, Capabilities, Label, Limits, NoAnswer, RawAnswer, Service
from adapters.credentials import checked_url, secret, sounds_secret
from adapters.http_adapter import HttpAdapter
from adapters.http_client import (
    PASSING,
    THROTTLED,
    Call,
    HttpClient,
    Reply,
    image_form,
    kept_headers,
    media_type,
    retry_after,
)
from adapters.json_labels import JsonLabels, at, check_path
from adapters.options import NamedOptions, Presence

_SERVICE = Service(
    provider="whoever runs the address",
    host="the host of the option url",
    retention="not known: ask whoever runs it",
    version="as the option version_path finds it in the answers, or the option model names it",
)
_HEADERS = ("x-request-id", "request-id", "x-correlation-id", "x-model-version")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_GAP = re.compile(r"\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<image>\{(?:image|type)\})")


class HttpOptions(NamedOptions, JsonLabels):
    """The options of `Http`."""

    kind: ClassVar[str] = "http"
    url: str
    """where images are sent."""
    body: Literal["raw", "json", "multipart"] = "raw"
    """the image as it is, in a JSON template, or in a multipart form."""
    template: dict[str, Any] | list[Any] | None = None
    """for json: any JSON with texts in which {image} stands for the image in base64 and {type} for its media type, as
    in data:{type};base64,{image}."""
    field: str = "image"
    """for multipart: the name of the part that is the image."""
    fields: dict[str, str] = Field({})
    """for multipart: further text parts."""
    content_type: str = ""
    """for raw: the image's own type unless given."""
    headers: dict[str, str] = Field({})
    """further headers."""
    query: dict[str, str] = Field({})
    """further parameters of the address, e.g. a key, which is then shown nowhere."""
    method: Literal["POST", "PUT"] = "POST"
    """the HTTP method."""
    error_path: str | None = None
    """the path of the words for an error that comes with a status of success."""
    version_path: str | None = None
    """the path of the model's version in an answer; it is kept with it."""
    # Its words are part of the key of stored answers.
    model: str = "version not told"
    """the model's version, if you know it; another text asks again."""
    retry_statuses: tuple[int, ...] = tuple(sorted(PASSING))
    """those that may pass, so that asking again makes sense."""
    slower_statuses: tuple[int, ...] = (THROTTLED,)
    """those that mean too many requests."""
    stop_statuses: tuple[int, ...] = (401, 402, 403, 404, 405)
    """those that every further request would meet."""
    timeout: float = Field(60.0, gt=0)
    """seconds to wait for an answer."""
    most_bytes: int = Field(8_000_000, gt=0)
    """of an answer."""
    max_image_bytes: int | None = None
    """images with more are not sent."""
    min_side: int | None = None
    """images with fewer pixels on a side are not sent."""
    cut_off: float | None = Field(None, ge=0, le=1)
    """the score (0-1) below which the service returns nothing."""
    top_k: int | None = Field(None, ge=1)
    """how many labels it returns at most."""
    presence: Presence = 0.5

    @property
    def request(self) -> dict[str, Any]:
        """What is sent, as plain JSON values; a secret is there only by its variable's name."""
        names = {"url", "method", "headers", "body", "template", "field", "fields", "content_type"}
        return self.model_dump(include=names | {"query"} if self.query else names)

    @property
    def variables(self) -> list[str]:
        """The environment variables that are sent."""
        return sorted(_variables_in([self.headers, self.query, self.template, self.fields]))

    @model_validator(mode="after")
    def _consistent(self) -> "HttpOptions":
        check_path(self.error_path, option="error_path")
        check_path(self.version_path, option="version_path")
        query = parse_qsl(urlsplit(self.url).query)
        if _variables_in(self.url) or any(sounds_secret(name) or name.lower() == "code" for name, _ in query):
            raise ValueError(
                "option 'url' must hold no credential, since addresses are shown: use the options query or headers"
            )
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"option 'headers': {name!r} is not a header's name")
            if not value.isascii() or not value.isprintable():
                raise ValueError(f"option 'headers': {name!r} has a value that no header can carry")
        if self.body == "json" and not any(found["image"] == "{image}" for found in _gaps(self.template)):
            raise ValueError("option 'template' must hold {image} where the image belongs, in base64")
        for option, body in {"template": "json", "fields": "multipart", "content_type": "raw"}.items():
            if getattr(self, option) and self.body != body:
                raise ValueError(f"option {option!r} is for body = {body!r}, but body is {self.body!r}")
        if self.body == "multipart" and not self.field:
            raise ValueError("option 'field' is empty")
        for option in ("retry_statuses", "slower_statuses", "stop_statuses"):
            for status in getattr(self, option):
                if not 300 <= status <= 599:
                    raise ValueError(f"option {option!r}: {status} is no failure")
        if (self.cut_off or 0.0) > self.presence:
            raise ValueError("options 'cut_off' and 'presence' must be in this order")
        return self

    def call(self, image: bytes, variables: Mapping[str, str]) -> Call:
        """The call for one PNG or JPEG file (else ValueError), with the value of each of ``self.variables``."""
        kind = media_type(image)
        if self.body == "raw":
            content, content_type = image, self.content_type or kind
        elif self.body == "json":
            gaps = {**variables, "image": b64encode(image).decode(), "type": kind}
            content, content_type = json.dumps(_filled(self.template, gaps)).encode(), "application/json"
        else:
            content, content_type = image_form(_filled(self.fields, variables), self.field, image)
        headers = {"Accept": "application/json", "Content-Type": content_type, **_filled(self.headers, variables)}
        query = _filled(self.query, variables)
        return Call(self.url, content, headers, self.method, query=query, secrets=tuple(variables.values()))


class Http(HttpAdapter):
    """Any REST service from configuration: its address, what to send, and where its answer has labels and scores.

    Secrets stay in environment variables: ``${MY_KEY}`` in a header, the query, the template or a form field is filled
    when sending, and only the name is kept. Paths are JMESPath (jmespath.org): ``a.b`` is a member, ``"odd name"`` one
    with dots or spaces, ``[0]`` an item of a list, ``[*]`` all of them, ``keys(@)`` and ``values(@)`` an object's.
    """

    Options = HttpOptions
    capabilities = Capabilities(service=_SERVICE, scale="as configured", concurrency=4)

    def __init__(self, options: HttpOptions) -> None:
        name, host = options.name, urlsplit(options.url).hostname or ""
        self._options, self._variables = options, {one: secret(one, adapter=name) for one in options.variables}
        checked_url(options.url, adapter=name, option="url", credential=bool(self._variables), query=True)
        super().__init__(
            options,
            client=HttpClient(timeout=(10.0, options.timeout), most_bytes=options.most_bytes),
            service={"provider": host, "host": host, "credentials": tuple(self._variables)},
            scale=options.scale,
            cut_off=options.cut_off,
            presence=options.presence,
            top_k=options.top_k,
            limits=Limits(max_bytes=options.max_image_bytes, min_side=options.min_side),
        )
        self.model, self.parameters = options.model, options.request

    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """See ``HttpAdapter.call``."""
        return self.client(self._options.call(images[0], self._variables))

    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """What a reply means by its status and by its own words about errors; see ``HttpAdapter.outcomes``."""
        return [self._outcome(reply)] * count

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return self._options.labels_of(answer.body)

    def _outcome(self, reply: Reply) -> RawAnswer | NoAnswer:
        answer = RawAnswer(reply.body, reply.status, kept_headers(reply.headers, _HEADERS))
        try:
            content = json.loads(reply.body)
        except (ValueError, RecursionError):
            content = None
        message = _text_at(self._options.error_path, content)
        reason = f"HTTP {reply.status}{f': {message}' if message else ''}"
        if reply.status in self._options.stop_statuses:
            keys = " or ".join(self._variables) if reply.status in (401, 403) else ""
            place = keys or "the options url, method, headers"
            raise AdapterError(f"the adapter {self.name!r}: {reason}: check {place}")
        if reply.status in self._options.slower_statuses:
            return NoAnswer(reason, retry="slower", wait=retry_after(reply.headers), reply=answer)
        if reply.status in self._options.retry_statuses:
            return NoAnswer(reason, retry="later", wait=retry_after(reply.headers), reply=answer)
        if message or not 200 <= reply.status < 300:
            return NoAnswer(reason, reply=answer)
        version = _text_at(self._options.version_path, content)
        return replace(answer, headers={**answer.headers, "version": version}) if version else answer


def _text_at(path: str | None, content: Any) -> str:
    """The text at a path, "" if there is none."""
    found = at(path, content)
    return one_line(found if isinstance(found, str) else json.dumps(found)) if found else ""


def _variables_in(template: Any) -> set[str]:
    return {found["variable"] for found in _gaps(template) if found["variable"]}


def _gaps(template: Any) -> list[re.Match[str]]:
    """The gaps in texts anywhere in JSON: ``${MY_KEY}`` for an environment variable, ``{image}`` and ``{type}``."""
    if isinstance(template, str):
        return list(_GAP.finditer(template))
    inner = template.values() if isinstance(template, dict) else template if isinstance(template, list) else ()
    return [gap for value in inner for gap in _gaps(value)]


def _filled(template: Any, values: Mapping[str, str]) -> Any:
    """The template with its gaps filled, except where ``values`` has nothing; what was filled in has no gaps."""
    if isinstance(template, str):
        return _GAP.sub(lambda found: values.get(found["variable"] or found["image"][1:-1], found[0]), template)
    if isinstance(template, dict):
        return {name: _filled(value, values) for name, value in template.items()}
    return [_filled(value, values) for value in template] if isinstance(template, list) else template
