"""How many calls a run may still make: the last line of defence, after the plan. Prices are not known here."""

import threading


class Budget:
    """Counts calls of all classifiers of a run.

    Args:
        calls: that may be made at most; None: any number.
    """

    def __init__(self, calls: int | None = None) -> None:
        self._most = calls
        self._left = calls
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take one call; False: there is none left."""
        with self._lock:
            if self._left is None:
                return True
            self._left -= 1
            return self._left >= 0

    @property
    def exhausted(self) -> str:
        """Why nothing more is asked."""
        return f"the {self._most} calls that were allowed are made (--max-calls); the same command with more continues"
