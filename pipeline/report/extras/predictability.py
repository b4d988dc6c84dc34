"""Leakage and DPA, for the page: their tables, and the grid of known biases by which a figure can be read."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pipeline.report.charts import to_svg
from pipeline.report.extras.shape import Drawing, Extra, Part, Sheet, listed, things
from pipeline.report.heatmaps import bias_heatmap
from pipeline.run.formats import count, decimal, is_missing
from pipeline.run.text import visible

NAMES = {"dpa": "DPA", "leakage": "Leakage"}
METRICS = {"dpa": "dpa", "leakage": "leakage_amplification"}
ASKED = {
    "dpa": (
        "How much better is the task guessed from the attribute (or the attribute from the task) in the predictions "
        "than in labels made as wrong as they are? Directional predictability amplification: 0 says that they are "
        "guessed alike."
    ),
    "leakage": (
        "How much better is the attribute guessed from the predictions than from labels made as wrong as they are? "
        "Positive: the predictions give away more of it."
    ),
}
SOURCES = {
    "dpa": "After Tokas et al., directional predictability amplification.",
    "leakage": "After Wang et al., “Balanced Datasets Are Not Enough”, 2019.",
}


def predictability(name: str, frame: pd.DataFrame, grid: pd.DataFrame, about: Mapping[str, Any]) -> Extra:
    """The section of one of the two.

    Args:
        name: "dpa" or "leakage".
        frame: the result's ``to_frame``.
        grid: as ``statistics.bias_grid`` gives it, by the same rules.
        about: ``file``, ``attribute``, ``task``, ``quality``, ``equalise``.
    """
    heading = f"{listed(about['attribute'])} and {listed(about['task'])}, {visible(about['file'])}"
    return Extra(
        key=name,
        heading=f"{NAMES[name]}: what predictions give away",
        explanation=ASKED[name],
        parts=[Part(heading, _sentences(name, frame), [_heatmap(name, grid)], [_sheet(frame)])],
        caveats=[
            f"Made as wrong as the predictions by {visible(about['equalise'])}; quality of a guess: "
            f"{visible(about['quality'])}.",
            "The spread is over repeats (labels and rows drawn anew), not over other photos.",
            SOURCES[name],
        ],
    )


def _sentences(name: str, frame: pd.DataFrame) -> list[str]:
    wanted = "dpa" if name == "dpa" else "amplification"
    sentences = []
    for row in frame[frame["quantity"] == wanted].to_dict("records"):
        direction = f" {visible(row['direction'])}" if "direction" in row else ""
        spread = "" if is_missing(row["sd"]) else f", standard deviation {decimal(row['sd'])}"
        sentences.append(
            f"{NAMES[name]}{direction}: {decimal(row['value'], sign=True)} (mean of "
            f"{things(row['repeats'], 'repeat')}{spread})."
        )
    return sentences


def _heatmap(name: str, grid: pd.DataFrame) -> Drawing:
    metric = METRICS[name]
    low, high = float(grid[metric].min()), float(grid[metric].max())
    caption = (
        "To read a figure by: what the metric says of made-up data whose bias (the share of rows on which the task "
        "equals the attribute) is known, of the dataset upwards and of the model across. These are not this run's data."
    )
    svg = to_svg(
        bias_heatmap(grid, metric=metric),
        key=f"{name}-grid",
        title=f"{NAMES[name]} by the bias of a dataset and of a model",
        description=f"From {decimal(low, places=2)} to {decimal(high, places=2)}; 0 where both biases are the same.",
    )
    return Drawing(svg, caption)


def _sheet(frame: pd.DataFrame) -> Sheet:
    directed = "direction" in frame
    return Sheet(
        caption="All quantities",
        columns=("Quantity", *(["Direction"] if directed else []), "Mean", "Standard deviation", "Repeats"),
        rows=[
            (
                row["quantity"],
                *([row["direction"]] if directed else []),
                decimal(row["value"]),
                decimal(row["sd"]),
                count(row["repeats"]),
            )
            for row in frame.to_dict("records")
        ],
        texts=frozenset({1} if directed else ()),
    )
