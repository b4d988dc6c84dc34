"""Local bias of rows, wherever they come from: searched for, tested, and told in tables.

The rows are ``locating``'s, the search is in ``statistics.local_bias``.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline.analyses.predictions import InputError

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.local_rows import LocalRows
    from pipeline.statistics import LocalBias

CENTRES = ("group", "none")
TABLES = ("statistics", "clusters", "exemplars", "words")


@dataclass(frozen=True, eq=False)
class LocalFound:
    """What was found: the result, its tables by the names in ``TABLES`` (``words`` only of texts), and notes on it."""

    result: "LocalBias"
    tables: "dict[str, pd.DataFrame]"
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """What the tables show."""
        first, second = self.result.groups
        return f"Local bias of {self.result.metric}, {second} less {first}"


def search(
    rows: "LocalRows",
    *,
    centre: str = "none",
    metric: str | None = None,
    min_rows: int = 20,
    min_gap: float = 0.05,
    **options: Any,
) -> LocalFound:
    """Clusters of similar rows in which two groups fare differently, with permutation tests.

    Args:
        rows: what to search among.
        centre: "group" takes each group's mean from its features, so that clusters hold both groups; or "none".
        metric: of the gaps; "accuracy" unless given, "presence" where the truth is not known.
        min_rows: of each group that a cluster needs.
        min_gap: from which a cluster is called biased.
        options: the other ones of ``statistics.local_bias.local_bias``.

    Raises:
        ValueError: an option does not fit, or there are too few rows.
    """
    from pipeline.statistics import ClusterRules, centred_by_group, exemplars, local_bias, topic_words

    if centre not in CENTRES:
        raise InputError(f"there is no centre {centre!r}; there are {' and '.join(CENTRES)}")
    if centre == "group":
        rows = replace(rows, features=centred_by_group(rows.features, rows.groups))
    result = local_bias(
        rows.features,
        rows.groups,
        prediction=rows.prediction,
        truth=rows.truth,
        metric=metric or ("presence" if rows.truth is None else "accuracy"),
        rules=ClusterRules(min_rows=min_rows, min_gap=min_gap),
        **options,
    )
    nearest = exemplars(rows.features, result.labels, rows.groups)
    tables = {
        "statistics": result.to_frame(),
        "clusters": result.clusters_frame(),
        "exemplars": nearest.assign(row=[rows.names[row] for row in nearest["row"]]),
    }
    if rows.texts is not None:
        tables["words"] = topic_words(rows.texts, result.labels)
    return LocalFound(result, tables, (*rows.notes, *result.notes))
