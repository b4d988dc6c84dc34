"""Any REST service as a classifier by configuration; `json_labels` extracts the labels from its replies."""

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
from adapters.templates import filled, placeholders, variables_in

_SERVICE = Service(
    provider="whoever runs the address",
    host="the host of the option url",
    retention="not known: ask whoever runs it",
    version="as the option version_path finds it in the answers, or the option model names it",
)
_HEADERS = ("x-request-id", "request-id", "x-correlation-id", "x-model-version")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class HttpOptions(NamedOptions, JsonLabels):
    """The options of `Http`."""

    kind: ClassVar[str] = "http"
    url: str
    """the URL that images are sent to."""
    body: Literal["raw", "json", "multipart"] = "raw"
    """the image as raw bytes, in a JSON template, or in a multipart form."""
    template: dict[str, Any] | list[Any] | None = None
    """for json: any JSON; in its texts, {image} stands for the image in base64 and {type} for its media type, as in
    data:{type};base64,{image}."""
    field: str = "image"
    """for multipart: the name of the image's part."""
    fields: dict[str, str] = Field({})
    """for multipart: additional text parts."""
    content_type: str = ""
    """for raw: the Content-Type header; default: the image's media type."""
    headers: dict[str, str] = Field({})
    """additional headers."""
    query: dict[str, str] = Field({})
    """additional parameters of the URL, e.g. a key, which is then never shown."""
    method: Literal["POST", "PUT"] = "POST"
    """the HTTP method."""
    error_path: str | None = None
    """the path of an error message in replies with a status of success."""
    version_path: str | None = None
    """the path of the model's version in a reply; it is stored with the answer."""
    # The default is part of the key of stored answers.
    model: str = "version not told"
    """the model's version, if you know it; images are sent again when it changes."""
    retry_statuses: tuple[int, ...] = tuple(sorted(PASSING))
    """HTTP statuses of temporary errors, which are retried."""
    slower_statuses: tuple[int, ...] = (THROTTLED,)
    """HTTP statuses that mean too many requests."""
    stop_statuses: tuple[int, ...] = (401, 402, 403, 404, 405)
    """HTTP statuses that every further request would get, so that the run stops."""
    timeout: float = Field(60.0, gt=0)
    """seconds to wait for a reply."""
    most_bytes: int = Field(8_000_000, gt=0)
    """maximum size of a reply."""
    max_image_bytes: int | None = None
    """maximum size of an image; larger ones are not sent."""
    min_side: int | None = None
    """minimum side of an image in pixels; smaller ones are not sent."""
    cut_off: float | None = Field(None, ge=0, le=1)
    """the score (0-1) below which the service returns no label."""
    top_k: int | None = Field(None, ge=1)
    """maximum number of labels in a reply."""
    presence: Presence = 0.5

    @property
    def request(self) -> dict[str, Any]:
        """The request as plain JSON values, in which secrets appear only by their variables' names."""
        names = {"url", "method", "headers", "body", "template", "field", "fields", "content_type"}
        return self.model_dump(include=names | {"query"} if self.query else names)

    @property
    def variables(self) -> list[str]:
        """The environment variables in the request."""
        return variables_in([self.headers, self.query, self.template, self.fields])

    @model_validator(mode="after")
    def _consistent(self) -> "HttpOptions":
        check_path(self.error_path, option="error_path")
        check_path(self.version_path, option="version_path")
        query = parse_qsl(urlsplit(self.url).query)
        if variables_in(self.url) or any(sounds_secret(name) or name.lower() == "code" for name, _ in query):
            raise ValueError(
                "option 'url' must not contain a credential, because URLs are shown: use the options query or headers"
            )
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"option 'headers': {name!r} is not a header's name")
            if not value.isascii() or not value.isprintable():
                raise ValueError(f"option 'headers': {name!r} has a value that no header can carry")
        if self.body == "json" and not any(found["name"] == "image" for found in placeholders(self.template)):
            raise ValueError("option 'template' must contain {image}, which stands for the image in base64")
        for option, body in {"template": "json", "fields": "multipart", "content_type": "raw"}.items():
            if getattr(self, option) and self.body != body:
                raise ValueError(f"option {option!r} is for body = {body!r}, but body is {self.body!r}")
        if self.body == "multipart" and not self.field:
            raise ValueError("option 'field' is empty")
        for option in ("retry_statuses", "slower_statuses", "stop_statuses"):
            for status in getattr(self, option):
                if not 300 <= status <= 599:
                    raise ValueError(f"option {option!r}: {status} is not a status of failure (300-599)")
        if (self.cut_off or 0.0) > self.presence:
            raise ValueError("option 'cut_off' must not exceed option 'presence'")
        return self

    def call(self, image: bytes, variables: Mapping[str, str]) -> Call:
        """Build the call for one PNG or JPEG file (else ValueError); ``variables`` are the environment's values."""
        kind = media_type(image)
        if self.body == "raw":
            content, content_type = image, self.content_type or kind
        elif self.body == "json":
            fields = {"image": b64encode(image).decode(), "type": kind}
            content, content_type = json.dumps(filled(self.template, variables, fields)).encode(), "application/json"
        else:
            content, content_type = image_form(filled(self.fields, variables), self.field, image)
        headers = {"Accept": "application/json", "Content-Type": content_type, **filled(self.headers, variables)}
        query = filled(self.query, variables)
        return Call(self.url, content, headers, self.method, query=query, secrets=tuple(variables.values()))


class Http(HttpAdapter):
    """Any REST service by configuration: its URL, the request, and the paths of labels and scores in its replies.

    Secrets stay in environment variables: ``${MY_KEY}`` in a header, the query, the template or a form field is
    replaced when sending, and only the name is stored. Paths are JMESPath (jmespath.org): ``a.b`` is a member, ``"odd
    name"`` one with dots or spaces, ``[0]`` an item of a list, ``[*]`` all items, ``keys(@)`` and ``values(@)`` the
    names and values of an object.
    """

    Options = HttpOptions
    capabilities = Capabilities(service=_SERVICE, scale="as configured", concurrency=4)

    def __init__(self, options: HttpOptions) -> None:
        name, host = options.name, urlsplit(options.url).hostname or ""
        self._options, self._variables = options, {key: secret(key, adapter=name) for key in options.variables}
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
        """Interpret the status and the error message of a reply; see ``HttpAdapter.outcomes``."""
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
    """Return the text at a path; "" if there is none."""
    found = at(path, content)
    return one_line(found if isinstance(found, str) else json.dumps(found)) if found else ""
