"""What the command line says about a run: its stages, time and memory, its strongest slopes, where the report is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.audit import settings_of
from pipeline.config import Settings
from pipeline.records import plain_rows
from pipeline.run import Run

if TYPE_CHECKING:
    import pandas as pd

STRONGEST = 5


def summary(folder: Path) -> dict[str, Any]:
    """A run in plain values: its stages, validity card and findings, as far as they are there.

    Raises:
        RunError: the folder holds no run.
    """
    run = Run(folder)
    settings = settings_of(run)
    report = run.path("report.html")
    return {
        "run": str(folder),
        "race_pair": settings.sweep.race_pair,
        "stages": run.record["stages"],
        "validity": _plain(_frame(run, "validity")),
        "findings": _findings(run, settings),
        "report": str(report) if report.exists() else None,
    }


def tell(folder: Path) -> None:
    """Print a run for people."""
    from rich.console import Console

    console = Console(highlight=False)
    content = summary(folder)
    _tell_stages(console, content["stages"])
    _tell_validity(console, content["validity"])
    _tell_findings(console, content)
    if content["report"]:
        console.print(f"\nReport: [bold]{content['report']}[/bold]", soft_wrap=True)


def adapters_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the list of classifiers."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "what", "where", "labels", "options", box=None, pad_edge=False, padding=(0, 2))
    for row in rows:
        where = "?" if row["remote"] is None else "remote" if row["remote"] else "local"
        labels = "open" if row["labels"] is None else str(row["labels"])
        what = row["summary"] if row["problem"] is None else f"{row['summary']} (unusable: {row['problem']})"
        table.add_row(row["name"], escape(what), where, labels, escape(", ".join(row["options"])))
    Console().print(table)


def _tell_stages(console: Any, stages: Mapping[str, Mapping[str, Any]]) -> None:
    from rich.table import Table

    table = Table("stage", "state", "counts", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("seconds", justify="right")
    table.add_column("peak MiB", justify="right")
    for name, stage in stages.items():
        counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in stage["counts"].items() if count)
        table.add_row(name, stage["state"], counts, f"{stage['seconds']:.1f}", f"{stage['peak_mib']:.0f}")
    console.print(table)


def _tell_validity(console: Any, checks: Sequence[Mapping[str, Any]]) -> None:
    if not checks:
        return
    failed = [check for check in checks if check["passed"] is False]
    console.print(f"\nValidity card: {len(checks) - len(failed)} of {len(checks)} checks without failure.")
    for check in failed:
        console.print(
            f"  [red]failed[/red] {check['attribute']}, {check['name']}: {check['figure']:.3g} {check['unit']} "
            f"(threshold {check['threshold']:.3g})"
        )


def _tell_findings(console: Any, content: Mapping[str, Any]) -> None:
    from rich.markup import escape

    tables = content["stages"].get("tables", {"state": "missing"})
    if tables["state"] != "done":
        return
    from pipeline.report.words import finding, poles_of

    findings = content["findings"]
    console.print(f"\n{len(findings)} findings among {tables['counts']['estimable']} slopes that could be estimated.")
    for row in sorted(findings, key=lambda row: -abs(row["slope"]))[:STRONGEST]:
        poles = poles_of(row["attribute"], race_pair=content["race_pair"])
        console.print(f"  {escape(row['adapter'])}: {escape(finding(row, poles))}")


def _findings(run: Run, settings: Settings) -> list[dict[str, Any]]:
    from pipeline.statistics.findings import findings

    slopes = _frame(run, "slopes")
    if slopes is None:
        return []
    options = settings.statistics
    return _plain(findings(slopes, max_p=options.max_p, min_slope=options.min_slope))


def _frame(run: Run, table: str) -> "pd.DataFrame | None":
    """A table of the run, or None where it is not there yet."""
    from pipeline.report.tables import frame_from_csv

    path = run.path(f"tables/{table}.csv")
    return frame_from_csv(path.read_text(encoding="utf-8")) if path.exists() else None


def _plain(frame: "pd.DataFrame | None") -> list[dict[str, Any]]:
    return [] if frame is None else plain_rows(frame)
