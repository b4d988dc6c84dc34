"""How a classifier is asked: how fast, how many calls at once, how long, with which sentinels."""

from dataclasses import dataclass, field

from adapters.base import Adapter
from pipeline.querying.breaker import BreakerPolicy
from pipeline.querying.budget import Budget
from pipeline.querying.questions import ImageRef
from pipeline.querying.retrying import RetryPolicy


@dataclass(frozen=True)
class CallPolicy:
    """How a classifier is asked.

    Attributes:
        rate: requests per second; None: what the service allows by its own word, without limit on this machine.
        concurrency: calls at once; None: what the classifier allows.
        patience: how long an image is tried.
        tolerance: when a service counts as failing.
        panel: sentinel images that are asked at the start, in the middle and at the end.
        usd: what asking about one image is expected to cost.
        budget: what may be spent, shared with the other classifiers of the run.
    """

    rate: float | None = None
    concurrency: int | None = None
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    tolerance: BreakerPolicy = field(default_factory=BreakerPolicy)
    panel: tuple[ImageRef, ...] = ()
    usd: float = 0.0
    budget: Budget = field(default_factory=Budget)

    def rate_for(self, adapter: Adapter) -> float | None:
        """Requests per second for this classifier; None: no limit."""
        service = adapter.capabilities.service
        return self.rate if self.rate is not None or service is None else service.rate

    def concurrency_for(self, adapter: Adapter) -> int:
        """Calls at once for this classifier.

        Where the user knows a faster rate than the service declares, as many as it takes if a call lasts a second.
        """
        declared = adapter.capabilities.concurrency
        if self.concurrency is not None:
            return self.concurrency
        service = adapter.capabilities.service
        if service is None or self.rate is None or self.rate <= service.rate:
            return declared
        return max(declared, round(self.rate))
