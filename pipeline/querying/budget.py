"""What a run may still spend, in calls and in US$: the last line of defence, after the plan. Knows no service."""

import threading

_ROUNDING = 1e-9  # US$; sums of many small prices are not exact


class Budget:
    """Counts the calls of all classifiers of a run, and what they may cost.

    Args:
        calls: that may be made at most; None: any number.
        usd: that may be charged at most; None: any amount.
    """

    def __init__(self, calls: int | None = None, usd: float | None = None) -> None:
        self._calls, self._usd = calls, usd
        self._made, self._spent = 0, 0.0
        self._lock = threading.Lock()

    def take(self, usd: float = 0.0) -> bool:
        """Take one call that may be charged ``usd``; False: it would pass a limit."""
        with self._lock:
            if self._calls is not None and self._made >= self._calls:
                return False
            if self._usd is not None and self._spent + usd > self._usd + _ROUNDING:
                return False
            self._made, self._spent = self._made + 1, self._spent + usd
            return True

    def give_back(self, usd: float) -> None:
        """So much of what was taken is not charged."""
        with self._lock:
            self._spent -= usd

    @property
    def exhausted(self) -> str:
        """Why nothing more is asked."""
        if self._calls is not None and self._made >= self._calls:
            limit = f"the {self._calls:,} calls that were allowed are made (--max-calls)"
        else:
            limit = f"the US$ {self._usd:,.4f} that were allowed are spent, lost answers included (--max-cost)"
        return f"{limit}; the same command with more continues"
