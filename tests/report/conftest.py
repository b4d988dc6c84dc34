"""Small frames for the report's tests."""

import pandas as pd
import pytest

from pipeline.run.record import RunRecord, Stage
from pipeline.statistics.slopes import SLOPE_COLUMNS

NAN = float("nan")
NUMBERS = [
    name
    for name in SLOPE_COLUMNS
    if name
    not in {
        *("adapter", "attribute", "arm", "label", "photos", "count_centre", "y_c", "estimable", "reason"),
        *("family", "tested"),
    }
]


def slope_row(label, slope=NAN, *, width=0.02, p=1e-6, reason="", adapter="clarity", attribute="gender", arm="edit"):
    """A row of the slopes frame; not estimable where a reason is given."""
    row = dict.fromkeys(NUMBERS, NAN)
    if not reason:
        row |= {name: p for name in NUMBERS if name.endswith("p")} | {"q": 2 * p}
        for name in ("slope", "rd_slope", "inner_slope"):
            row[name] = slope
        for low, high in (
            ("slope_low", "slope_high"),
            ("rd_low", "rd_high"),
            ("inner_low", "inner_high"),
            ("bootstrap_low", "bootstrap_high"),
        ):
            row[low], row[high] = slope - width, slope + width
    return row | {
        "adapter": adapter, "attribute": attribute, "arm": arm, "label": label, "photos": 400,
        "count_centre": 100.0, "y_c": 0.25, "estimable": not reason, "reason": reason,
        "family": f"arm {arm}", "tested": 5,
    }  # fmt: skip


def slopes_frame(*rows):
    return pd.DataFrame(list(rows), columns=list(SLOPE_COLUMNS))


def curves_frame(slopes, *, values=(-2, -1, 0, 1, 2)):
    """Straight curves that fit the estimable rows of a slopes frame."""
    return pd.DataFrame(
        [
            {
                "adapter": row.adapter, "attribute": row.attribute, "arm": row.arm, "label": row.label,
                "value": float(a), "y": 0.25 * (1 + row.slope * a), "z": 1 + row.slope * a,
                "z_low": 1 + row.slope_low * a, "z_high": 1 + row.slope_high * a,
            }
            for row in slopes[slopes["estimable"]].itertuples()
            for a in values
        ],
        columns=["adapter", "attribute", "arm", "label", "value", "y", "z", "z_low", "z_high"],
    )  # fmt: skip


@pytest.fixture(scope="session")
def row():
    return slope_row


@pytest.fixture(scope="session")
def frame():
    return slopes_frame


@pytest.fixture(scope="session")
def straight():
    return curves_frame


@pytest.fixture
def slopes():
    """Two findings on one side, one on the other, one that is too small, one unsure, two without a slope."""
    return slopes_frame(
        slope_row("smile", -0.12),
        slope_row("long hair", -0.31),
        slope_row("beard", 0.25, p=0.0004),
        slope_row("tie", 0.02, width=0.01),
        slope_row("hat", 0.01, width=0.06, p=0.6),
        slope_row("sceptre", reason="too rare"),
        slope_row("person", reason="constant"),
    )


HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></svg><style>*{display:none}</style>",
    "]]>&amp;&lt;{{ 7*7 }}{% raw %}",
    "javascript:alert(1) https://example.org/x.js",
    "a\u202eb\u2066c\u0000d\x1b[31m\ne\u2028f\ufffe",
    "=1+1|cmd!A1",
    "@SUM(A1)",
    "+49",
    "-x-y--z",
    "\t=2",
    "＝cmd",
    r"\input{/etc/passwd}&%$#_{}~^\\",
    "[0pt] * | ` \\verb|x|",
    "中文 ﷽ é ß œ Ł naïve",
)


@pytest.fixture(scope="session")
def hostile():
    return HOSTILE


@pytest.fixture(scope="session")
def hostile_record(hostile):
    """A record with these names wherever names are free; the model itself refuses what is no Unicode text."""
    words = [text.encode("utf-8", "ignore").decode() for text in hostile]
    return RunRecord(
        settings_given={words[0]: {words[1]: words[2]}},
        stages={words[1]: Stage(fingerprint=words[0], state="done")},
        weights={words[3]: words[0]},
        platform=words[2],
        packages={"counterslope": words[4]},
        git_commit=words[1],
    )
