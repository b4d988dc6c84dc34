"""Frames, records and pages for the report's tests."""

import pandas as pd

from pipeline.report.page import render
from pipeline.run.record import RunRecord, Stage
from pipeline.statistics.slopes import SLOPE_COLUMNS

NAN = float("nan")
TEXTS_AND_COUNTS = {
    *(
        "adapter",
        "attribute",
        "arm",
        "label",
        "photos",
        "count_centre",
        "y_c",
        "estimable",
        "reason",
        "family",
        "tested",
    )
}
NUMBERS = [name for name in SLOPE_COLUMNS if name not in TEXTS_AND_COUNTS]


def slope_row(label, slope=NAN, *, width=0.02, p=1e-6, reason="", adapter="clarity", attribute="gender", arm="edit"):
    """A row of the table of slopes; not estimable if ``reason`` is given."""
    row = dict.fromkeys(NUMBERS, NAN)
    if not reason:
        row |= {name: p for name in NUMBERS if name.endswith("p")} | {"q": 2 * p}
        for name in ("slope", "rd_slope", "inner_slope"):
            row[name] = slope
        for name in ("slope", "rd", "inner", "bootstrap"):
            row[f"{name}_low"], row[f"{name}_high"] = slope - width, slope + width
    return row | {
        "adapter": adapter, "attribute": attribute, "arm": arm, "label": label, "photos": 400,
        "count_centre": 100.0, "y_c": 0.25, "estimable": not reason, "reason": reason,
        "family": f"arm {arm}", "tested": 5,
    }  # fmt: skip


def slopes_frame(*rows):
    return pd.DataFrame(list(rows), columns=list(SLOPE_COLUMNS))


def curves_frame(slopes, *, values=(-2, -1, 0, 1, 2)):
    """The straight curves of the estimable rows of a table of slopes."""
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


CARD_COLUMNS = ["name", "attribute", "figure", "unit", "threshold", "passed", "words"]
EFFECTIVENESS = pd.DataFrame(
    {"attribute": "gender", "value": [-2, 0, 2], "mean": [0.1, 0.5, 0.9], "low": 0.0, "high": 1.0}
)


def render_page(slopes, *, curves=None, card=(), exclusions=(), record=None, **options):
    """The HTML of a report; ``curves`` are straight by default, ``card`` and ``exclusions`` are rows."""
    return render(
        slopes=slopes,
        curves=curves_frame(slopes) if curves is None else curves,
        card=pd.DataFrame(list(card), columns=CARD_COLUMNS),
        record=record or RunRecord(),
        exclusions=pd.DataFrame(list(exclusions), columns=["photo", "reason"]),
        **options,
    )


# Texts that break markup, scripts, spreadsheets, LaTeX or the direction of writing.
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


# The record itself refuses text that is not valid Unicode.
WORDS = [text.encode("utf-8", "ignore").decode() for text in HOSTILE]
HOSTILE_RECORD = RunRecord(
    settings_given={WORDS[0]: {WORDS[1]: WORDS[2]}},
    stages={WORDS[1]: Stage(fingerprint=WORDS[0], state="done")},
    weights={WORDS[3]: WORDS[0]},
    platform=WORDS[2],
    packages={"counterslope": WORDS[4]},
    git_commit=WORDS[1],
)
