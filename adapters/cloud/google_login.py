"""Authentication to Google with credentials from a file, by google-auth; its requests go through `HttpClient`."""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

from adapters.answers import json_object, one_line
from adapters.base import AdapterError, AnswerError, NoAnswer
from adapters.credentials import checked_url
from adapters.http_adapter import Login
from adapters.http_client import Call, HttpClient
from adapters.packages import needed

_SCOPES = ("https://www.googleapis.com/auth/cloud-vision",)
_FIELDS = ("client_email", "private_key", "token_uri", "client_id", "client_secret", "refresh_token")
_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"


class GoogleLogin(Login):
    """Authentication with the credentials in a file. Thread-safe.

    Args:
        client: sends the requests for tokens.

    Raises:
        AdapterError: there is no usable file of credentials, or google-auth is not installed.
    """

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._lock = Lock()
        self._place, path = _credentials_file()
        self._credentials = _read(path, self._place)

    def headers(self) -> dict[str, str] | NoAnswer:
        """See ``Login.headers``."""
        from google.auth.exceptions import GoogleAuthError

        with self._lock:
            try:
                if not self._credentials.valid:
                    self._credentials.refresh(self._request)
                headers: dict[str, str] = {}
                self._credentials.apply(headers)
            except GoogleAuthError as error:
                reason = one_line(str(error.args[0]) if error.args else "")
                if error.retryable:
                    return NoAnswer(f"no access token: {reason}", retry="later")
                raise AdapterError(self._refused(reason)) from None
            except (TypeError, ValueError, KeyError, AttributeError):  # a reply of another structure
                raise AdapterError(self._refused("its reply has no token")) from None
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise AdapterError(self._refused("its reply has no token"))
        return headers

    def forget(self, headers: Mapping[str, str]) -> bool:
        """Discard the token, unless it was replaced already; see ``Login.forget``."""
        with self._lock:
            if headers["authorization"].endswith(f" {self._credentials.token}"):
                self._credentials.token = None
        return True

    def _refused(self, reason: str) -> str:
        return (
            f"Google gives no access token for {self._place} ({reason}): check that the key was not deleted or the "
            "login revoked, and this machine's clock"
        )

    def _request(
        self, url: str, method: str = "GET", body: bytes | None = None, headers: Any = None, **_: Any
    ) -> SimpleNamespace:
        """The transport that google-auth calls."""
        from google.auth.exceptions import TransportError

        address = checked_url(url, adapter="google", option="token_uri", credential=True, query=True)
        verb: Any = method
        reply = self._client(Call(address, body or b"", dict(headers or {}), verb))
        if isinstance(reply, NoAnswer):
            raise TransportError(reply.reason, retryable=reply.retry != "never")
        return SimpleNamespace(status=reply.status, headers=reply.headers, data=reply.body)


def _credentials_file() -> tuple[str, Path]:
    """Return a description of the credentials file, for messages, and its path: the variable's, else gcloud's."""
    named = os.environ.get(_VARIABLE, "").strip()
    if named:
        return f"the file {named} (from {_VARIABLE})", Path(named)
    folder = os.environ.get("CLOUDSDK_CONFIG", "").strip() or Path.home() / ".config" / "gcloud"
    found = Path(folder, "application_default_credentials.json")
    if not found.is_file():
        raise AdapterError(
            "the adapter 'google' needs an API key, export GOOGLE_API_KEY=... "
            "(console.cloud.google.com/apis/credentials), or a file of credentials: a service account's key, "
            f"export {_VARIABLE}=/path/key.json, or your own by `gcloud auth application-default login`"
        )
    return f"gcloud's file {found}", found


def _read(path: Path, place: str) -> Any:
    """Read the credentials in a file; google-auth's messages are not passed on, because they may quote it."""
    try:
        content = json_object(path.read_bytes())
    except OSError as error:
        raise AdapterError(f"{place} cannot be read: {error.strerror}") from error
    except AnswerError:
        raise AdapterError(f"{place} is not a file of credentials: it is not a JSON object") from None
    if isinstance(address := content.get("token_uri"), str):
        checked_url(address, adapter="google", option="token_uri", credential=True)
    with needed("google", hint="an API key in GOOGLE_API_KEY works without it"):
        from google.oauth2 import credentials, service_account
    try:
        if content.get("type") == "service_account":
            found = service_account.Credentials.from_service_account_info(content, scopes=_SCOPES)
        elif content.get("type") == "authorized_user":
            found = credentials.Credentials.from_authorized_user_info(content)
        else:
            raise AdapterError(
                f"{place} has {one_line(content.get('type')) or 'no'} credentials; a service account's key "
                "(gcloud iam service-accounts keys create FILE --iam-account=...) or your own "
                "(gcloud auth application-default login) are needed, or an API key in GOOGLE_API_KEY"
            )
    except (ValueError, TypeError, KeyError) as error:
        missing = [name for name in _FIELDS if name in str(error) and name not in content]
        what = f"has no {missing[0]!r}" if missing else "has a private key that cannot be read"
        raise AdapterError(f"{place} {what}: create a new file") from None
    project = os.environ.get("GOOGLE_CLOUD_QUOTA_PROJECT", "").strip()
    return found.with_quota_project(project) if project else found
