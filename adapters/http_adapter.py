"""What the adapters of remote services share: a call for the images of a batch, and who makes it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from adapters.base import Capabilities, NoAnswer, RawAnswer
from adapters.credentials import checked_url, sounds_secret
from adapters.http_client import Call, HttpClient, Reply
from adapters.options import NamedOptions


class Login(ABC):
    """What identifies the caller to a service; for many threads."""

    @abstractmethod
    def headers(self) -> Mapping[str, str] | NoAnswer:
        """The headers that do so now, or why there are none at the moment; AdapterError where there never will be."""

    def forget(self, headers: Mapping[str, str]) -> bool:
        """These headers were refused; whether others may be had."""
        return False


@dataclass(frozen=True)
class KeyLogin(Login):
    """A key, always in the same header."""

    header: str
    key: str = field(repr=False)

    def headers(self) -> Mapping[str, str]:
        """See ``Login.headers``."""
        return {self.header: self.key}


class HttpAdapter(ABC):
    """An adapter of a remote service: one HTTP call for the images of a batch. A vendor adds the call and its meaning.

    Args:
        options: with the adapter's name.
        endpoint: the address of the service; none where the adapter has checked it already.
        client: makes the calls; one of its own unless given.
        service: what the options change of the declared service, by field.
        declared: what they change of the declared capabilities.

    Raises:
        AdapterError: an address that credentials must not be sent to.
    """

    capabilities: Capabilities
    model: str
    parameters: Mapping[str, Any]

    def __init__(
        self,
        options: NamedOptions,
        endpoint: str = "",
        *,
        client: HttpClient | None = None,
        service: Mapping[str, Any] | None = None,
        **declared: Any,
    ) -> None:
        self.name = options.name
        if endpoint:
            self.endpoint = checked_url(endpoint, adapter=self.name, option="endpoint", credential=True)
            service = {"host": urlsplit(self.endpoint).netloc, **(service or {})}
        self.client = client or HttpClient()
        usual = type(self).capabilities
        assert usual.service is not None  # noqa: S101 -- of a remote service
        self.capabilities = replace(usual, service=replace(usual.service, **(service or {})), **declared)

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Send the images in one call, or one a call where the service takes no more; see ``Adapter.send``."""
        if self.capabilities.batch == 1:
            return [outcome for image in images for outcome in self._sent([image])]
        return self._sent(images)

    @abstractmethod
    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """Make the call for some images; ValueError where they cannot be sent."""

    @abstractmethod
    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """What a reply means for each of ``count`` images; AdapterError where no further call can succeed."""

    def logged_in(self, login: Login, call: Call) -> Reply | NoAnswer:
        """Make a call with a login's headers; once more where they are refused (401) and others may be had."""
        for last in (False, True):
            identity = login.headers()
            if isinstance(identity, NoAnswer):
                return identity
            secrets = tuple(value.removeprefix("Bearer ") for name, value in identity.items() if sounds_secret(name))
            reply = self.client(replace(call, headers={**call.headers, **identity}, secrets=secrets))
            refused = isinstance(reply, Reply) and reply.status == 401
            if not refused or not login.forget(identity) or last:
                break
        return reply

    def _sent(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        try:
            reply = self.call(images)
        except ValueError as error:
            reply = NoAnswer(str(error))
        return [reply] * len(images) if isinstance(reply, NoAnswer) else self.outcomes(reply, len(images))


def meaning_of(code: str, meanings: Mapping[str, str], *, otherwise: str) -> str:
    """What an error's code means, by the first pattern that it fits as a whole."""
    return next((meaning for pattern, meaning in meanings.items() if re.fullmatch(pattern, code)), otherwise)
