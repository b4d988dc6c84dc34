"""What a finished run has to show, read back from its folder: its tables, its findings laid out, its figures.

Nothing is estimated here and nothing in the folder changes; ``auditing`` does that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.folder import Run, settings_of
from pipeline.run.record import RunError
from pipeline.run.tables import plain_rows

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.report.figures import Figure
    from pipeline.report.tables import FindingTable

NOT_THERE = "there is no {what} {name!r} in {folder}; there are {known}"
ENOUGH = 0.95  # of the versions; with labels of fewer, a command ends with an exit code of its own
ESTIMATED = ("slopes", "curves", "validity", "effectiveness", "lightness", "photo_failures")


def is_estimated(run: Run) -> bool:
    """Whether all tables of the run's current options are there."""
    return run.record.is_done("tables") and all(run.path(f"tables/{name}.csv").is_file() for name in ESTIMATED)


def findings_of(
    run: Run,
    *,
    adapters: Sequence[str] = (),
    attributes: Sequence[str] = (),
    max_p: float | None = None,
    min_slope: float | None = None,
    slopes: "pd.DataFrame | None" = None,
) -> "tuple[FindingTable, ...]":
    """The findings of every adapter and attribute of a run, in the published layout.

    Args:
        run: a finished one.
        adapters, attributes: only these; all unless given.
        max_p, min_slope: the rule for findings; the run's own unless given.
        slopes: estimated with other options; the run's own unless given.

    Raises:
        RunError: the run has no slopes, or not what was named.
    """
    from pipeline.report.card import check_results
    from pipeline.report.tables import slope_tables

    settings = settings_of(run)
    slopes = run.read_csv("slopes") if slopes is None else slopes
    slopes = _chosen(slopes, run, adapters=adapters, attributes=attributes)
    return slope_tables(
        slopes,
        max_p=settings.statistics.max_p if max_p is None else max_p,
        min_slope=settings.statistics.min_slope if min_slope is None else min_slope,
        swept=settings.sweep.chosen(),
        card=check_results(run.read_csv("validity").to_dict("records")),
    )


def figures_of(
    run: Run, *, adapters: Sequence[str] = (), attributes: Sequence[str] = (), labels: Sequence[str] = ()
) -> "tuple[Figure, ...]":
    """The figures of a run: for every adapter and attribute curves and intervals, for every attribute the judge's
    probability and the lightness.

    Args:
        run: a finished one.
        adapters, attributes: only these; all unless given.
        labels: whose curves are drawn; unless given, those of the strongest findings.

    Raises:
        RunError: the run has no slopes, or not what was named.
    """
    from pipeline.report.figures import attribute_figures, finding_figures

    tables = findings_of(run, adapters=adapters, attributes=attributes)
    swept = settings_of(run).sweep.chosen()
    slopes, curves = run.read_csv("slopes"), run.read_csv("curves")
    known = set(curves.loc[curves["z"].notna(), "label"])
    for label in labels:
        if label not in known:
            raise RunError(_not_there("label with a curve", label, run, known))
    found = [
        figure
        for table in tables
        for figure in finding_figures(table, slopes=_of(slopes, table), curves=_of(curves, table), labels=labels)
    ]
    shown = dict.fromkeys(table.attribute for table in tables)
    effectiveness, lightness = run.read_csv("effectiveness"), run.read_csv("lightness")
    for attribute in shown:
        found += attribute_figures(
            attribute,
            effectiveness=effectiveness[_edits(effectiveness, attribute)],
            lightness=lightness[_edits(lightness, attribute)],
            swept=swept,
        )
    return tuple(found)


def write_figures(figures: "Sequence[Figure]", folder: Path, *, format: str) -> list[Path]:
    """Draw figures into a folder, a text file with the caption beside each; the files, the captions' after their own.

    Raises:
        ValueError: there is no such format.
    """
    from pipeline.report.figures import draw
    from pipeline.run.files import write_bytes, write_text

    written: list[Path] = []
    for figure in figures:
        files = folder / f"{figure.name}.{format}", folder / f"{figure.name}.txt"
        write_bytes(files[0], draw(figure.chart, format))
        write_text(files[1], figure.caption + "\n")
        written += files
    return written


def _chosen(slopes: "pd.DataFrame", run: Run, *, adapters: Sequence[str], attributes: Sequence[str]) -> "pd.DataFrame":
    for column, wanted in (("adapter", adapters), ("attribute", attributes)):
        known = set(slopes[column])
        for name in wanted:
            if name not in known:
                raise RunError(_not_there(column, name, run, known))
        if wanted:
            slopes = slopes[slopes[column].isin(list(wanted))]
    return slopes


def _not_there(what: str, name: str, run: Run, known: set[str]) -> str:
    return NOT_THERE.format(what=what, name=name, folder=run.folder, known=", ".join(sorted(known)) or "none")


def _of(frame: "pd.DataFrame", table: "FindingTable") -> "pd.DataFrame":
    own = (frame["adapter"] == table.adapter) & (frame["attribute"] == table.attribute) & (frame["arm"] == table.arm)
    return frame[own]


def _edits(frame: "pd.DataFrame", attribute: str) -> "pd.Series[bool]":
    return (frame["attribute"] == attribute) & (frame["arm"] == EDIT_ARM)


def summary(folder: Path) -> dict[str, Any]:
    """A run in plain values: its stages, accounts, validity card and findings, as far as they are there.

    Raises:
        RunError: the folder holds no run.
    """
    from pipeline.statistics import findings

    run = Run(folder)
    settings, busy = settings_of(run), run.busy()
    tables = {name: run.read_csv(name) for name in ("validity", "slopes") if run.csv_path(name).exists()}
    found = tables.get("slopes")
    if found is not None:
        found = findings(found, max_p=settings.statistics.max_p, min_slope=settings.statistics.min_slope)
    stages = {name: stage.model_dump() for name, stage in run.record.stages.items()}
    for stage in stages.values():  # a stage that was running when its process died has that state for ever
        if stage["state"] == "running" and not busy:
            stage["state"] = "interrupted"
    report = run.path("report.html")
    return {
        "run": str(folder),
        "running": busy,
        "poles": {name: attribute.poles for name, attribute in settings.sweep.chosen().items()},
        "stages": stages,
        "query": _accounts(run),
        "validity": plain_rows(tables["validity"]) if "validity" in tables else [],
        "findings": [] if found is None else plain_rows(found),
        "report": str(report) if report.exists() else None,
    }


def stop_reasons(folder: Path) -> list[str]:
    """Why classifiers of a run stopped before all images were sent."""
    return [account.stopped for account in Run(folder).record.query.values() if account.stopped is not None]


def few_labels(folder: Path) -> list[tuple[str, float]]:
    """Classifiers of a run that labelled fewer versions than ``ENOUGH``, in words with the reasons, and the share."""
    few = []
    for name, account in Run(folder).record.query.items():
        wanted = account.ok + account.without_labels
        if wanted and account.ok < ENOUGH * wanted:
            lines = [f"{name}: {account.ok:,} of {wanted:,} versions have labels; the others have none because:"]
            lines += [f"  {one.count:,} times: {one.reason}" for one in account.reasons]
            few.append(("\n".join(lines), account.ok / wanted))
    return few


def _accounts(run: Run) -> dict[str, dict[str, Any]]:
    """The account of each classifier, and how far the answers on disk are by now."""
    from pipeline.querying.account import LATELY, tallies

    accounts = {name: facts.model_dump(mode="json", exclude_none=True) for name, facts in run.record.query.items()}
    for tally in tallies(run.path("responses.sqlite")):
        account = accounts.get(tally.adapter)
        if account is None:
            continue
        images, answered = account["images"], min(tally.answered - account.get("unreadable", 0), account["images"])
        rate = tally.lately / LATELY.total_seconds() or account.get("rate_limit")
        account |= {
            "answered": answered,
            "without_outcome": tally.unresolved,
            "answers_last_minute": tally.lately,
            "seconds_left": round((images - answered) / rate, 1) if rate and answered < images else None,
        }
    return accounts
