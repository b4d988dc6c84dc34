"""The findings of a run in the published layout, and its figures: curves, intervals, effects of the edit, faces.

Rendering is in ``pipeline.report``; ``RunView`` offers both to Python and to the command line.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.folder import Run, settings_of
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.report.figures import Figure
    from pipeline.report.tables import FindingTable

NOT_THERE = "there is no {what} {name!r} in {folder}; there are {known}"


def finding_tables(
    run: Run,
    *,
    adapters: Sequence[str] = (),
    attributes: Sequence[str] = (),
    max_p: float | None = None,
    min_slope: float | None = None,
    slopes: "pd.DataFrame | None" = None,
) -> "tuple[FindingTable, ...]":
    """Collect the findings of every adapter and attribute; arguments and errors as of ``RunView.finding_tables``."""
    from pipeline.report.card import check_results
    from pipeline.report.tables import slope_tables

    settings = settings_of(run)
    slopes = run.read_csv("slopes") if slopes is None else slopes
    for column, wanted in (("adapter", adapters), ("attribute", attributes)):
        _check_known(run, column, wanted, set(slopes[column]))
        slopes = slopes[slopes[column].isin(list(wanted))] if wanted else slopes
    return slope_tables(
        slopes,
        max_p=settings.statistics.max_p if max_p is None else max_p,
        min_slope=settings.statistics.min_slope if min_slope is None else min_slope,
        swept=settings.sweep.chosen(),
        card=check_results(run.read_csv("validity").to_dict("records")),
    )


def chart_figures(
    run: Run, *, adapters: Sequence[str], attributes: Sequence[str], labels: Sequence[str]
) -> "list[Figure]":
    """Make curves and intervals of the findings, and charts of each edit's effects on the faces."""
    from pipeline.report.figures import attribute_figures, finding_figures

    tables = finding_tables(run, adapters=adapters, attributes=attributes)
    read = {name: run.read_csv(name) for name in ("slopes", "curves", "effectiveness", "lightness")}
    curves = read["curves"]
    _check_known(run, "label with a curve", labels, set(curves.loc[curves["z"].notna(), "label"]))
    found: list[Figure] = []
    for table in tables:
        own = {"adapter": table.adapter, "attribute": table.attribute, "arm": table.arm}
        found += finding_figures(table, slopes=_where(read["slopes"], own), curves=_where(curves, own), labels=labels)
    for attribute in dict.fromkeys(table.attribute for table in tables):
        edits = {"attribute": attribute, "arm": EDIT_ARM}
        found += attribute_figures(
            attribute,
            effectiveness=_where(read["effectiveness"], edits),
            lightness=_where(read["lightness"], edits),
            swept=settings_of(run).sweep.chosen(),
        )
    return found


def sheets(run: Run, *, adapters: Sequence[str], attributes: Sequence[str], photos: Sequence[str]) -> "list[Figure]":
    """Make sheets of diverse faces at every step, or only the sweeps of ``photos``, with the classifiers' scores."""
    from pipeline.report.sheets import sheet_figures

    tables = finding_tables(run, adapters=adapters, attributes=attributes)
    slopes = run.read_csv("slopes")
    return sheet_figures(
        run,
        list(dict.fromkeys(table.attribute for table in tables)),
        slopes=slopes[slopes["adapter"].isin([table.adapter for table in tables])],
        failures=run.read_csv("photo_failures"),
        photos=photos,
        swept=settings_of(run).sweep.chosen(),
    )


def analysis_figures(run: Run) -> "list[Figure]":
    """Make the charts of analyses whose tables are stored in the run and current."""
    from pipeline.analyses.artifacts import artifacts_of
    from pipeline.analyses.registry import sections
    from pipeline.report.charts import chart_of
    from pipeline.report.figures import Figure
    from pipeline.report.tables import slug

    left = artifacts_of(run)
    return [
        Figure(
            f"{slug(section.key)}-{slug(part.heading)}-{number}",
            chart_of(chart),
            f"{chart.caption} {chart.description}",
        )
        for section in sections(left.tables, about=left.about, stale={}, swept=settings_of(run).sweep.chosen())
        for part in section.parts
        for number, chart in enumerate(part.charts, start=1)
    ]


def write_figures(
    figures: "Sequence[Figure]", folder: Path, *, format: str, columns: int, watch: Watch = unwatched
) -> list[Path]:
    """Draw figures into a folder, each with its caption in a text file; return the files, captions after figures."""
    from pipeline.report.figures import draw
    from pipeline.run.files import write_bytes, write_text

    folder.mkdir(parents=True, exist_ok=True)  # before any drawing
    written: list[Path] = []
    with watch("figures", total=len(figures)) as advance:
        for figure in figures:
            files = folder / f"{figure.name}.{format}", folder / f"{figure.name}.txt"
            write_bytes(files[0], draw(figure.chart, format, columns=columns))
            write_text(files[1], figure.caption + "\n")
            written += files
            advance(1)
    return written


def _where(frame: "pd.DataFrame", values: Mapping[str, str]) -> "pd.DataFrame":
    """Select the rows with these values."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    return frame


def _check_known(run: Run, what: str, names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise RunError(NOT_THERE.format(what=what, name=name, folder=run.folder, known=there))
