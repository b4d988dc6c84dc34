"""Signing of requests to AWS (Signature Version 4) and lookup of credentials, both by botocore.

Calls are not sent by botocore's client, which retries on its own, and each retry is charged.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from adapters.base import AdapterError
from adapters.credentials import credentials_needed
from adapters.packages import needed


@dataclass(frozen=True)
class Signed:
    """The headers of a signed request, the credentials that signed it, and their secret values, to be redacted."""

    headers: Mapping[str, str] = field(repr=False)
    credentials: Any = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


class AwsSigner:
    """Signs requests for one service.

    Args:
        service: AWS's name of the service.
        adapter: the adapter's name, for messages.
        region: AWS region; default: AWS_REGION, AWS_DEFAULT_REGION or the profile's.

    Raises:
        AdapterError: there are no credentials or no region, or botocore is not installed.
    """

    def __init__(self, service: str, *, adapter: str, region: str = "") -> None:
        self._service, self._adapter, self._lock = service, adapter, Lock()
        with self._errors("the AWS configuration cannot be read"):
            self.region = str(
                region or os.environ.get("AWS_REGION", "") or self._session().get_config_variable("region") or ""
            )
        if not self.region and credentials_needed():
            raise AdapterError(
                f"the adapter {adapter!r} needs an AWS region: export AWS_REGION=eu-west-1, or option region"
            )
        self.region = self.region or "us-east-1"
        self._credentials: Any = self._found() if credentials_needed() else None
        # In debug mode the signer would log the session token.
        logging.getLogger("botocore.auth").setLevel(logging.INFO)

    def signed(self, url: str, body: bytes, headers: Mapping[str, str]) -> Signed:
        """Sign a POST request; AdapterError if the credentials cannot be refreshed."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        frozen = self._frozen()
        request = AWSRequest(method="POST", url=url, data=body, headers=dict(headers))
        SigV4Auth(frozen, self._service, self.region).add_auth(request)
        secrets = tuple(value for value in (frozen.access_key, frozen.secret_key, frozen.token) if value)
        return Signed(dict(request.headers.items()), frozen, secrets)

    def renewed(self, expired: object) -> bool:
        """Look up the credentials again; return whether they differ from the ``expired`` ones."""
        with self._lock:
            if self._frozen() == expired:
                self._credentials = self._found()
            return bool(self._frozen() != expired)

    def _session(self) -> Any:
        with needed(self._adapter):
            from botocore.session import Session
        return Session()

    def _found(self) -> Any:
        with self._errors("the AWS credentials cannot be read"):
            found = self._session().get_credentials()
        if found is None:
            raise AdapterError(
                f"the adapter {self._adapter!r} finds no AWS credentials: export AWS_ACCESS_KEY_ID=... and "
                "AWS_SECRET_ACCESS_KEY=..., or AWS_PROFILE=... after `aws configure`"
            )
        return found

    def _frozen(self) -> Any:
        with self._errors("the AWS credentials cannot be refreshed"):
            return self._credentials.get_frozen_credentials()

    @contextmanager
    def _errors(self, problem: str) -> Iterator[None]:
        with needed(self._adapter):
            from botocore.exceptions import BotoCoreError
        try:
            yield
        except BotoCoreError as error:
            raise AdapterError(f"the adapter {self._adapter!r}: {problem}: {error}") from error


def endpoint_from_environment(service: str) -> str:
    """Return the endpoint that AWS's environment variables set for a service; empty if they set none."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return ""
    return os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}", "") or os.environ.get("AWS_ENDPOINT_URL", "")
