"""HTTP replies that must be whole by a deadline, however slowly their bytes come. What is asked is not known here.

A read timeout alone bounds the pause between two bytes: a server that sends one a minute could hold a call for days.
"""

import io
import socket
from http.client import HTTPResponse
from time import monotonic
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection


class PromptAdapter(HTTPAdapter):
    """Requests' adapter, but for one thing: a reply has ``longest`` seconds from its status line to its last byte."""

    def __init__(self, *, longest: float, **options: Any) -> None:
        self._classes = _pool_classes(longest)
        super().__init__(**options)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """See ``HTTPAdapter``."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._classes

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """See ``HTTPAdapter``."""
        manager = super().proxy_manager_for(proxy, **options)
        if not proxy.lower().startswith("socks"):  # those have connections of their own kind
            manager.pool_classes_by_scheme = self._classes
        return manager


class _Until(io.RawIOBase):
    """A socket's bytes until a moment (monotonic seconds); then TimeoutError."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, end: float) -> None:
        self._raw, self._sock, self._end = raw, sock, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - monotonic()
        if left <= 0:
            raise TimeoutError("the reply took too long")
        usual = self._sock.gettimeout()
        if usual is not None and usual <= left:
            return self._raw.readinto(buffer)
        self._sock.settimeout(left)
        try:
            return self._raw.readinto(buffer)
        finally:
            self._sock.settimeout(usual)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _pool_classes(longest: float) -> dict[str, type[HTTPConnectionPool]]:
    """Urllib3's pools, whose connections read replies that way."""

    class Response(HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
            super().__init__(sock, *args, **options)
            self.fp = io.BufferedReader(_Until(self.fp.detach(), sock, monotonic() + longest))

    class Plain(HTTPConnection):
        response_class = Response

    class Secure(HTTPSConnection):
        response_class = Response

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
