"""A heatmap of a metric over the bias of a dataset and of a model, as an Altair specification.

What is in its cells is computed by ``statistics.bias_grid``; how a chart becomes SVG is in ``charts``.
"""

from typing import Any

import altair as alt
import pandas as pd

from pipeline.report.charts import BLUE, FONT, INK, VERMILION, finish
from pipeline.run.formats import decimal

SIDE = 252
PAPER = "#f7f7f7"
LETTERS = {
    "labelFont": FONT, "titleFont": FONT, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
    "labelColor": INK, "titleColor": INK,
}  # fmt: skip
NAMES = {"dpa": "DPA, A->T", "leakage_amplification": "leakage amplification"}


def bias_heatmap(grid: pd.DataFrame, *, metric: str = "dpa") -> Any:
    """The metric in colour, vermilion below 0 and blue above, pale at 0; a cell without a value is left blank.

    Up to eleven biases a side the value is printed too, so that colour is not the only mark.

    Args:
        grid: as ``bias_grid`` gives it.
        metric: which of its columns.

    Raises:
        ValueError: the grid lacks a column, or has no value of the metric.
    """
    missing = {"dataset_bias", "model_bias", metric} - set(grid.columns)
    if missing:
        raise ValueError(f"the grid lacks the column {', '.join(sorted(missing))}")
    rows = grid.loc[grid[metric].notna(), ["dataset_bias", "model_bias", metric]].rename(columns={metric: "metric"})
    if rows.empty:
        raise ValueError(f"the grid has no value of {metric!r}")
    reach = max(float(rows["metric"].abs().max()), 1e-9)
    side = max(grid["dataset_bias"].nunique(), grid["model_bias"].nunique())
    rows = rows.assign(printed=[decimal(value, places=2) for value in rows["metric"]])
    values = [sorted(grid[name].unique()) for name in ("model_bias", "dataset_bias")]
    shown = [[value for place, value in enumerate(part) if place % max(1, len(part) // 5) == 0] for part in values]
    across = alt.Axis(title="bias of the model", values=shown[0], format=".2~f", labelAngle=0)
    x = alt.X("model_bias:O", sort=values[0], axis=across)
    upward = alt.Axis(title="bias of the dataset", values=shown[1], format=".2~f")
    y = alt.Y("dataset_bias:O", sort=values[1][::-1], axis=upward)
    color = alt.Color(
        "metric:Q",
        scale=alt.Scale(domain=[-reach, 0, reach], range=[VERMILION, PAPER, BLUE]),
        legend=alt.Legend(title=NAMES.get(metric, metric), format=".2f", gradientLength=SIDE // 2, **LETTERS),
    )
    base = alt.Chart(rows)
    layers = [base.mark_rect().encode(x=x, y=y, color=color)]
    if side <= 11:
        strong = alt.condition(f"abs(datum.metric) > {0.6 * reach}", alt.value("white"), alt.value(INK))
        layers.append(base.mark_text(fontSize=8).encode(x=x, y=y, text="printed:N", color=strong))
    return finish(alt.layer(*layers).properties(width=SIDE, height=SIDE))
