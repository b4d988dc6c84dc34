"""Any REST service as a classifier, from configuration alone.

What is sent is in `adapters.http_request`, where labels are found in `adapters.json_labels`; here is what comes back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlsplit

from adapters.base import AdapterError, Capabilities, Label, Limits, NoAnswer, RawAnswer, Service
from adapters.calling import PASSING, THROTTLED, Caller, Reply, kept, retry_after, words
from adapters.credentials import checked_url, secret
from adapters.http_request import Body, HttpRequest
from adapters.json_labels import Scale, json_labels, option_path
from adapters.paths import MISSING, JsonPath

SERVICE = Service(
    provider="whoever runs the address",
    host="the host of the option url",
    retention="not known: ask whoever runs it",
    version="as the option version_path finds it in the answers, or the option model says it",
)
_HEADERS = ("x-request-id", "request-id", "x-correlation-id", "x-model-version")


class Http:
    """Any REST service from configuration: its address, what to send, and where its answer has labels and scores.

    Secrets stay in environment variables: ``${MY_KEY}`` in a header, the template or a form field is filled when
    sending, and only the name is kept. In a path, ``a.b`` is a member, ``["odd name"]`` one with dots or spaces,
    ``[0]`` an item of a list, ``[*]`` all of them, and an empty path the thing itself.

    Args:
        target: a name of your own, to have several services in one run: ``http:clinic``.
        url: where images are sent.
        label: the path of a label's name.
        score: the path of its score; null if the service tells no scores (each label then has 1).
        items: the path of the list of labels, which ``label`` and ``score`` then start from. An object is taken as
            the list of its pairs: ``[0]`` is the name, ``[1]`` the value.
        may_lack_items: an answer without that list has no labels, rather than being faulty.
        scale: what the scores span.
        body: the image "raw", in a "json" template, or in a "multipart" form.
        template: for "json": any JSON in whose texts ``{image}`` stands for the image in base64 and ``{type}`` for
            its media type, as in ``data:{type};base64,{image}``.
        field: for "multipart": the name of the part that is the image.
        fields: for "multipart": further text parts.
        content_type: for "raw": the image's own type unless given.
        headers: further headers.
        method: POST or PUT.
        error_path: the path of the words for an error that comes with a status of success.
        version_path: the path of the model's version in an answer; it is kept beside it.
        model: what you know of the model's version; another text asks again.
        retry_statuses: those that may pass, so that asking again makes sense.
        slower_statuses: those that mean too many requests.
        stop_statuses: those that no further request would escape.
        timeout: seconds to wait for an answer.
        most_bytes: of an answer.
        max_image_bytes: images with more are not sent.
        min_side: images with fewer pixels on a side are not sent.
        cut_off: the score (0-1) below which the service returns nothing.
        top_k: how many labels it returns at most.
        presence: the score (0-1) from which a label counts as present.

    Raises:
        AdapterError: an option that does not fit, by its name, or a variable that is not set.
    """

    capabilities = Capabilities(service=SERVICE, scale="as configured", concurrency=4)

    def __init__(
        self,
        target: str = "",
        *,
        url: str,
        label: str,
        score: str | None = None,
        items: str | None = None,
        may_lack_items: bool = False,
        scale: Scale = "0-1",
        body: Body = "raw",
        template: dict[str, Any] | list[Any] | None = None,
        field: str = "image",
        fields: dict[str, str] | None = None,
        content_type: str = "",
        headers: dict[str, str] | None = None,
        method: Literal["POST", "PUT"] = "POST",
        error_path: str | None = None,
        version_path: str | None = None,
        model: str = "version not told",
        retry_statuses: tuple[int, ...] = tuple(sorted(PASSING)),
        slower_statuses: tuple[int, ...] = (THROTTLED,),
        stop_statuses: tuple[int, ...] = (401, 402, 403, 404, 405),
        timeout: float = 60.0,
        most_bytes: int = 8_000_000,
        max_image_bytes: int | None = None,
        min_side: int | None = None,
        cut_off: float | None = None,
        top_k: int | None = None,
        presence: float = 0.5,
    ) -> None:
        self.name = f"http:{target}" if target else "http"
        self.model = model
        self._request = HttpRequest(url, method, headers or {}, body, template, field, fields or {}, content_type)
        self._labels = json_labels(
            items=items, label=label, score=score, scale=scale, may_lack_items=may_lack_items, adapter=self.name
        )
        self._error = self._path("error_path", error_path)
        self._version = self._path("version_path", version_path)
        self._statuses = {"retry": retry_statuses, "slower": slower_statuses, "stop": stop_statuses}
        self._check_numbers(timeout=timeout, most_bytes=most_bytes)
        if not 0 <= (cut_off or 0.0) <= presence <= 1:
            raise AdapterError(
                f"the adapter {self.name!r}: options 'cut_off' and 'presence' must be in 0-1, in this order"
            )
        self._request.check(self.name)
        self._variables = {name: secret(name, adapter=self.name) for name in self._request.variables}
        checked_url(url, adapter=self.name, option="url", credential=bool(self._variables), query=True)
        self._caller = Caller(timeout=(10.0, timeout), most_bytes=most_bytes)
        self.parameters: Mapping[str, Any] = self._request.parameters
        host = urlsplit(url).hostname or ""
        self.capabilities = Capabilities(
            service=replace(SERVICE, provider=host, host=host, credentials=tuple(self._variables)),
            scale=scale,
            cut_off=cut_off,
            presence=presence,
            top_k=top_k,
            concurrency=Http.capabilities.concurrency,
            limits=Limits(max_bytes=max_image_bytes, min_side=min_side),
        )

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Ask about each image; see ``Adapter.send``."""
        return [self._ask(image) for image in images]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return self._labels.labels_of(answer.body)

    def _ask(self, image: bytes) -> RawAnswer | NoAnswer:
        try:
            call = self._request.call(image, self._variables)
        except ValueError as error:
            return NoAnswer(str(error))
        reply = self._caller(call)
        return reply if isinstance(reply, NoAnswer) else self._outcome(reply)

    def _outcome(self, reply: Reply) -> RawAnswer | NoAnswer:
        """What a reply means by its status and by what it says of errors.

        Raises:
            AdapterError: its status is one that no further request would escape.
        """
        answer = RawAnswer(reply.body, reply.status, kept(reply.headers, _HEADERS))
        content = _content(reply.body)
        said = _text(content, self._error)
        reason = f"HTTP {reply.status}{f': {said}' if said else ''}"
        if reply.status in self._statuses["stop"]:
            names = " or ".join(self._variables)
            cure = (
                f"check {names}" if names and reply.status in (401, 403) else "check the options url, method, headers"
            )
            raise AdapterError(f"the adapter {self.name!r}: {reason}: {cure}")
        if reply.status in self._statuses["slower"]:
            return NoAnswer(reason, retry="slower", wait=retry_after(reply.headers), reply=answer)
        if reply.status in self._statuses["retry"]:
            return NoAnswer(reason, retry="later", wait=retry_after(reply.headers), reply=answer)
        if said or not 200 <= reply.status < 300:
            return NoAnswer(reason, reply=answer)
        version = _text(content, self._version)
        return replace(answer, headers={**answer.headers, "version": version}) if version else answer

    def _path(self, option: str, text: str | None) -> JsonPath | None:
        return None if text is None else option_path(text, option=option, adapter=self.name)

    def _check_numbers(self, **numbers: float) -> None:
        for option, number in numbers.items():
            if not number > 0:
                raise AdapterError(f"the adapter {self.name!r}: option {option!r} must be more than 0, not {number}")
        for kind, statuses in self._statuses.items():
            for status in statuses:
                if not 300 <= status <= 599:
                    raise AdapterError(f"the adapter {self.name!r}: option '{kind}_statuses': {status} is no failure")


def _content(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return MISSING


def _text(content: Any, path: JsonPath | None) -> str:
    """What is said at a path, "" if nothing is."""
    found = MISSING if path is None or content is MISSING else path.one(content)
    if found is MISSING or not found:
        return ""
    return words(found if isinstance(found, str) else json.dumps(found))
