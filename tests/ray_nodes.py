"""Two Ray nodes of this machine, with a core each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STARTS = 3


@contextmanager
def two_nodes() -> Iterator[Any]:
    """The cluster; it ends with the context. Ray gives a node 30 seconds to start, which a busy machine may pass."""
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
