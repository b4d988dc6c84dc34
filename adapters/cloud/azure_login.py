"""Authentication to Azure with tokens of Entra ID, from the environment or for a service principal."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import environ
from threading import Lock
from time import monotonic
from urllib.parse import quote, urlencode

from adapters.answers import json_or_empty, one_line
from adapters.base import AdapterError, NoAnswer
from adapters.credentials import checked_url, secret
from adapters.http_adapter import Login
from adapters.http_client import Call, HttpClient, failure_of

PRINCIPAL = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
_AUTHORITY = "AZURE_AUTHORITY_HOST"
_SCOPE = "https://cognitiveservices.azure.com/.default"
_EARLY = 120.0  # seconds before its expiry at which a token is replaced


@dataclass(frozen=True)
class TokenLogin(Login):
    """A token in an environment variable, which is read for each call because tokens expire after an hour."""

    variable: str
    adapter: str

    def headers(self) -> Mapping[str, str]:
        """See ``Login.headers``."""
        return {"Authorization": f"Bearer {secret(self.variable, adapter=self.adapter)}"}


class PrincipalLogin(Login):
    """Tokens of a service principal by the client-credentials flow; reads the variables ``PRINCIPAL``.

    Args:
        client: sends the requests for tokens.
        adapter: the adapter's name, for messages.

    Raises:
        AdapterError: a variable is missing, or the authority's URL is not valid.
    """

    def __init__(self, client: HttpClient, *, adapter: str) -> None:
        tenant, self._id, self._secret = (secret(name, adapter=adapter) for name in PRINCIPAL)
        authority = environ.get(_AUTHORITY, "").strip() or "https://login.microsoftonline.com"
        authority = checked_url(authority, adapter=adapter, option=_AUTHORITY, credential=True)
        self._url = f"{authority}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        self._client, self._lock = client, Lock()
        self._token, self._until = "", 0.0

    def headers(self) -> Mapping[str, str] | NoAnswer:
        """See ``Login.headers``."""
        with self._lock:
            if monotonic() >= self._until and (failed := self._fetch()) is not None:
                return failed
            return {"Authorization": f"Bearer {self._token}"}

    def forget(self, headers: Mapping[str, str]) -> bool:
        """See ``Login.forget``."""
        with self._lock:
            if headers["Authorization"].endswith(f" {self._token}"):
                self._until = 0.0
        return True

    def _fetch(self) -> NoAnswer | None:
        """Fetch a token; return why there is none at the moment, if it failed."""
        form = {"grant_type": "client_credentials", "client_id": self._id, "client_secret": self._secret}
        body = urlencode(form | {"scope": _SCOPE}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        reply = self._client(Call(self._url, body, headers, secrets=(self._secret,)))
        if isinstance(reply, NoAnswer):
            return replace(reply, reason=f"no access token: {reply.reason}", billed=False)
        content = json_or_empty(reply.body)
        reason = one_line(content.get("error_description")) or one_line(content.get("error"))
        failed = failure_of(reply, reason)
        if failed is not None and failed.retry != "never":
            return replace(failed, reason=f"no access token: {failed.reason}", reply=None)
        token, seconds = content.get("access_token"), content.get("expires_in")
        usable = isinstance(token, str) and token.isascii() and token.isprintable()
        if failed is not None or not usable or not isinstance(seconds, int | float):
            raise AdapterError(
                f"Entra ID gives no access token ({failed.reason if failed else 'its reply has no token'}): check "
                f"{', '.join(PRINCIPAL)}, and that the principal has the role Cognitive Services User on the resource"
            )
        self._token, self._until = str(token), monotonic() + max(0.0, seconds - _EARLY)
        return None
