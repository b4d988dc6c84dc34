"""A Ray cluster of two nodes on this machine, with one core each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STARTS = 3


@contextmanager
def two_nodes() -> Iterator[Any]:
    """The cluster, until the context ends. A start is retried, as a busy machine may exceed Ray's limit of 30 s."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster()
    try:
        for _ in range(2):
            _add_node(cluster)
        yield cluster
    finally:
        cluster.shutdown()


def _add_node(cluster: Any) -> None:
    for attempt in range(1, STARTS + 1):
        try:
            cluster.add_node(num_cpus=1, include_dashboard=False)
        except Exception:  # Ray raises nothing more specific
            if attempt == STARTS:
                raise
        else:
            return
