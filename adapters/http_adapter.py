"""Base class of adapters of remote services: one HTTP call per batch of images, and logins."""

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
    """Authentication to a service. Thread-safe."""

    @abstractmethod
    def headers(self) -> Mapping[str, str] | NoAnswer:
        """Return the headers, or why there are none at the moment; AdapterError if there never will be."""

    def forget(self, headers: Mapping[str, str]) -> bool:
        """Discard headers that the service refused; return whether new ones can be obtained."""
        return False


@dataclass(frozen=True)
class KeyLogin(Login):
    """Authentication by a fixed key in a header."""

    header: str
    key: str = field(repr=False)

    def headers(self) -> Mapping[str, str]:
        """See ``Login.headers``."""
        return {self.header: self.key}


class HttpAdapter(ABC):
    """An adapter of a remote service. Subclasses add the call and the interpretation of its reply.

    Args:
        options: the adapter's options, which give its name.
        endpoint: the service's URL; empty if the subclass has checked it already.
        client: sends the calls; default: a new one.
        service: fields of the declared service that the options change.
        declared: fields of the declared capabilities that the options change.

    Raises:
        AdapterError: credentials must not be sent to the endpoint.
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
        assert usual.service is not None  # noqa: S101 -- every subclass declares one
        self.capabilities = replace(usual, service=replace(usual.service, **(service or {})), **declared)

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Send the images in one call, or in one call each if the service takes single images; see ``Adapter.send``."""
        if self.capabilities.batch == 1:
            return [outcome for image in images for outcome in self._sent([image])]
        return self._sent(images)

    @abstractmethod
    def call(self, images: Sequence[bytes]) -> Reply | NoAnswer:
        """Send the call for a batch of images; ValueError if they cannot be sent."""

    @abstractmethod
    def outcomes(self, reply: Reply, count: int) -> list[RawAnswer | NoAnswer]:
        """Interpret a reply for each of ``count`` images; AdapterError if no further call can succeed."""

    def logged_in(self, login: Login, call: Call) -> Reply | NoAnswer:
        """Send a call with a login's headers, and once more if they are refused (401) and new ones can be obtained."""
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
    """Return the meaning of the first pattern that matches an error's whole code."""
    return next((meaning for pattern, meaning in meanings.items() if re.fullmatch(pattern, code)), otherwise)
