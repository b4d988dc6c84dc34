"""Bearer tokens that last for a while. How one is fetched is each service's file."""

from collections.abc import Callable
from threading import Lock
from time import monotonic

from adapters.base import NoAnswer

Fetch = Callable[[], tuple[str, float] | NoAnswer]


class KeptToken:
    """A token that is fetched when it is needed and kept for most of its life; for many threads.

    Args:
        fetch: gives a token and the seconds it is valid for, or why there is none at the moment.
        used: the share of its life for which a token is used.
    """

    def __init__(self, fetch: Fetch, *, used: float = 0.8) -> None:
        self._fetch = fetch
        self._used = used
        self._lock = Lock()
        self._token: str | None = None
        self._until = 0.0

    def __call__(self) -> str | NoAnswer:
        """A token that is valid now, or why there is none."""
        with self._lock:
            if self._token is None or monotonic() >= self._until:
                started = monotonic()
                fetched = self._fetch()
                if isinstance(fetched, NoAnswer):
                    return fetched
                self._token, self._until = fetched[0], started + self._used * fetched[1]
            return self._token

    def forget(self, token: str) -> None:
        """``token`` was refused: the next one is fetched anew, unless that has happened already."""
        with self._lock:
            if self._token == token:
                self._token = None
