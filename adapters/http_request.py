"""What the adapter `http` sends, from its options: checked before anything is sent, filled for each image. Pure."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from adapters.base import AdapterError
from adapters.calling import Call
from adapters.images import media_type
from adapters.multipart import form
from adapters.templates import filled, takes_image, variables_in

Body = Literal["raw", "json", "multipart"]

_CREDENTIAL = re.compile(
    r"auth|key|token|secret|cookie|passw|pwd|credential|signature|^(x[-_])?(sig|code|pat|pass)$", re.IGNORECASE
)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True)
class HttpRequest:
    """The options that say what is sent; see `adapters.http.Http` for what each of them means."""

    url: str
    method: Literal["POST", "PUT"]
    headers: Mapping[str, str]
    body: Body
    template: Any
    field: str
    fields: Mapping[str, str]
    content_type: str

    @property
    def parameters(self) -> dict[str, Any]:
        """All of it, as plain JSON values; a secret is there only by its variable's name."""
        return asdict(self)

    @property
    def variables(self) -> list[str]:
        """The environment variables that are sent."""
        return sorted(variables_in([dict(self.headers), self.template, dict(self.fields)]))

    def check(self, adapter: str) -> None:
        """Whether these options go together.

        Raises:
            AdapterError: they do not; the message names the option.
        """
        place = f"the adapter {adapter!r}: option"
        if variables_in(self.url) or any(_CREDENTIAL.search(name) for name, _ in parse_qsl(urlsplit(self.url).query)):
            raise AdapterError(
                f"{place} 'url' must hold no credential, since addresses are shown: use the option headers"
            )
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name):
                raise AdapterError(f"{place} 'headers': {name!r} is not a header's name")
            if not value.isascii() or not value.isprintable():
                raise AdapterError(f"{place} 'headers': {name!r} has a value that no header can carry")
        for option, texts in {"headers": self.headers, "fields": self.fields}.items():
            for name, value in texts.items():
                if _CREDENTIAL.search(name) and not variables_in(value):
                    raise AdapterError(
                        f"{place} {option!r}: {name!r} is for a credential, which belongs into the environment: "
                        f'write {{"{name}" = "${{MY_KEY}}"}} and export MY_KEY=...'
                    )
        if self.body == "json" and not takes_image(self.template):
            raise AdapterError(f"{place} 'template' must hold {{image}} where the image belongs, in base64")
        for option, kind in {"template": "json", "fields": "multipart", "content_type": "raw"}.items():
            if getattr(self, option) and self.body != kind:
                raise AdapterError(f"{place} {option!r} is for body = {kind!r}, but body is {self.body!r}")
        if self.body == "multipart" and not self.field:
            raise AdapterError(f"{place} 'field' is empty")

    def call(self, image: bytes, variables: Mapping[str, str]) -> Call:
        """The call for one image.

        Args:
            image: encoded.
            variables: the value of each of ``self.variables``.

        Raises:
            ValueError: the image is neither PNG nor JPEG.
        """
        kind = media_type(image)
        if self.body == "raw":
            content, content_type = image, self.content_type or kind
        elif self.body == "json":
            gaps = {**variables, "image": b64encode(image).decode(), "type": kind}
            content, content_type = json.dumps(filled(self.template, gaps)).encode(), "application/json"
        else:
            file = (f"image.{kind.removeprefix('image/')}", image, kind)
            content, content_type = form(filled(dict(self.fields), variables), {self.field: file})
        headers = {"Accept": "application/json", "Content-Type": content_type, **filled(dict(self.headers), variables)}
        return Call(self.url, content, headers, self.method, secrets=tuple(variables.values()))
