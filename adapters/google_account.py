"""Access tokens for a Google service account: its key signs a claim, which is exchanged for a token (RFC 7523).

What the tokens are for is not known here.
"""

from pathlib import Path
from time import time
from typing import Any
from urllib.parse import urlencode

from adapters.answers import inner, json_object
from adapters.base import AdapterError, AnswerError, NoAnswer
from adapters.calling import Call, Caller, Reply, unanswered, words
from adapters.credentials import checked_url
from adapters.tokens import KeptToken

_SCOPE = "https://www.googleapis.com/auth/cloud-vision"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFE = 3600  # seconds, the most that Google allows


class ServiceAccount:
    """Tokens of the account whose key file ``path`` is.

    Attributes:
        token: gives one that is valid now, or why there is none at the moment; raises AdapterError where Google does
            not accept the account.

    Raises:
        AdapterError: the file cannot be read or is no service account's key, or google-auth is not installed.
    """

    def __init__(self, path: Path, caller: Caller) -> None:
        self._caller = caller
        key = _key_file(path)
        self._email: str = key["client_email"]
        self._url = checked_url(key["token_uri"], adapter="google", option="token_uri", credential=True)
        self._signer = _signer(key, path)
        self.token = KeptToken(self._fetch)

    def _fetch(self) -> tuple[str, float] | NoAnswer:
        from google.auth import jwt

        now = int(time())
        claim = {"iss": self._email, "scope": _SCOPE, "aud": self._url, "iat": now, "exp": now + _LIFE}
        assertion = jwt.encode(self._signer, claim).decode()
        form = urlencode({"grant_type": _GRANT, "assertion": assertion}).encode()
        reply = self._caller(
            Call(self._url, form, {"Content-Type": "application/x-www-form-urlencoded"}, secrets=(assertion,))
        )
        if isinstance(reply, NoAnswer):
            return NoAnswer(f"no access token: {reply.reason}", retry=reply.retry, wait=reply.wait)
        return _token_of(reply)


def _token_of(reply: Reply) -> tuple[str, float] | NoAnswer:
    try:
        content = json_object(reply.body)
    except AnswerError:
        content = {}
    failed = unanswered(reply)
    if failed is not None and failed.retry != "never":
        return NoAnswer(f"no access token: {failed.reason}", retry=failed.retry, wait=failed.wait)
    token, seconds = content.get("access_token"), content.get("expires_in", _LIFE)
    usable = isinstance(token, str) and token.isascii() and token.isprintable() and isinstance(seconds, int | float)
    if failed is not None or not usable:
        said = words(inner(content, "error_description")) or words(inner(content, "error")) or f"HTTP {reply.status}"
        raise AdapterError(
            f"Google gives the service account of GOOGLE_APPLICATION_CREDENTIALS no access token ({said}): "
            "check that its key was not deleted, and this machine's clock"
        )
    return str(token), float(seconds)


def _key_file(path: Path) -> dict[str, Any]:
    place = f"the file {path} that GOOGLE_APPLICATION_CREDENTIALS names"
    try:
        key = json_object(path.read_bytes())
    except OSError as error:
        raise AdapterError(f"{place} cannot be read: {error.strerror}") from error
    except AnswerError:  # its text may quote the file
        raise AdapterError(f"{place} is not a key file: it is not a JSON object") from None
    if key.get("type") != "service_account":
        raise AdapterError(
            f"{place} holds {words(key.get('type')) or 'nothing'} credentials; a service account's key is needed: "
            "gcloud iam service-accounts keys create FILE --iam-account=..., or use an API key in GOOGLE_API_KEY"
        )
    for name in ("client_email", "private_key", "token_uri"):
        if not isinstance(key.get(name), str):
            raise AdapterError(f"{place} has no {name!r}: make a new key for the service account")
    return key


def _signer(key: dict[str, Any], path: Path) -> Any:
    try:
        from google.auth import crypt
    except ImportError as error:
        raise AdapterError(
            "the adapter 'google' needs google-auth for a service account: pip install 'google-auth>=2.35' "
            "(the extra `google`); an API key in GOOGLE_API_KEY works without"
        ) from error
    try:
        return crypt.RSASigner.from_service_account_info(key)
    except (ValueError, TypeError):  # its text may quote the key
        raise AdapterError(f"the private key in {path} cannot be read: make a new one for the account") from None
