"""Small made-up tables of analyses, for the tests of the report's sections."""

import pandas as pd

from pipeline.statistics.amplification.counterfactual import COUNTERFACTUAL_COLUMNS as AMPLIFICATION_COLUMNS
from pipeline.statistics.comparison import COMPARISON_COLUMNS
from pipeline.statistics.representation import REPRESENTATION_COLUMNS

NAN = float("nan")


def amplification_frame(*tasks, arm="edit", adapter="clarity", overall=(0.03, 0.01, 0.05)):
    """Rows of (task, value, low, high); a value of NaN is a task that the base data lack."""
    rows = [("", *overall), *tasks]
    columns = {
        "adapter": adapter,
        "attribute": "gender",
        "arm": arm,
        "photos": 90,
        "value_low": -2.0,
        "value_high": 2.0,
    }
    return pd.DataFrame(
        [
            columns
            | {
                "task": task, "labels": task, "rate_low": 0.2, "rate_high": 0.3, "sign": 1, "amplification": value,
                "low": low, "high": high, "reason": "not in the base" if task and value != value else "",
            }
            for task, value, low, high in rows
        ],
        columns=list(AMPLIFICATION_COLUMNS),
    )  # fmt: skip


def comparison_rows(*labels, first="opencv", second="mine"):
    """Rows of (label, difference, half-width of its interval, q); a difference of NaN is not estimable."""
    return pd.DataFrame(
        [
            {
                "attribute": "gender", "arm": "edit", "first": first, "second": second, "label": label, "photos": 90,
                "first_slope": 0.1 + difference, "second_slope": 0.1, "difference": difference,
                "difference_low": difference - width, "difference_high": difference + width, "p": q / 2, "q": q,
                "estimable": difference == difference, "reason": "", "tested": len(labels),
            }
            for label, difference, width, q in labels
        ],
        columns=list(COMPARISON_COLUMNS),
    )  # fmt: skip


def representation_rows(*groups, corrected=True):
    """Rows of (group, share of feminine faces), of 40 photos each."""
    return pd.DataFrame(
        [
            {
                "group": group, "attribute": "gender", "category": category, "photos": 40, "count": round(40 * share),
                "share": share, "share_low": max(share - 0.1, 0), "share_high": min(share + 0.1, 1),
                "corrected": share if corrected else NAN, "corrected_low": max(share - 0.2, 0) if corrected else NAN,
                "corrected_high": min(share + 0.2, 1) if corrected else NAN,
            }
            for group, feminine in groups
            for category, share in (("feminine", feminine), ("masculine", 1 - feminine))
        ],
        columns=list(REPRESENTATION_COLUMNS),
    )  # fmt: skip


def local_frames(*clusters, adapter="clarity", label="smile", null="rerun"):
    """Statistics, clusters and exemplars, from clusters of (gap, p, reported)."""
    keys = {"adapter": adapter, "label": label}
    statistics = pd.DataFrame([keys | {"statistic": "max_gap", "min_rows": 20, "permutations": 199, "null": null}])
    rows = [
        keys
        | {
            "cluster": number, "rows": 60, "first_rows": 30, "second_rows": 30, "first_rate": 0.2,
            "second_rate": 0.2 + gap,
            "gap": gap, "reported": reported, "biased": gap > 0.05, "p": p, "first": "feminine", "second": "masculine",
        }
        for number, (gap, p, reported) in enumerate(clusters)
    ]  # fmt: skip
    exemplars = [
        keys | {"cluster": number, "group": group, "rank": rank, "photo": f"{group}-{rank}.jpg", "distance": 0.1 * rank}
        for number in range(len(clusters))
        for group in ("feminine", "masculine")
        for rank in (1, 2)
    ]
    return statistics, pd.DataFrame(rows), pd.DataFrame(exemplars)
