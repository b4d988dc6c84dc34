"""What the command line says: of a run its stages, how far its classifiers are, its strongest slopes, its report; of a
plan what it would come to.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.options import Settings
from pipeline.report.words import account_words
from pipeline.run.folder import Run, settings_of
from pipeline.run.tables import plain_rows
from pipeline.run.text import visible

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.querying.plan import Plan

STRONGEST = 5
ENOUGH = 0.95  # of the versions; with labels of fewer, a command ends with an exit code of its own


def summary(folder: Path) -> dict[str, Any]:
    """A run in plain values: its stages, validity card and findings, as far as they are there.

    Raises:
        RunError: the folder holds no run.
    """
    run = Run(folder)
    settings = settings_of(run)
    report = run.path("report.html")
    busy = run.busy()
    return {
        "run": str(folder),
        "running": busy,
        "poles": {name: attribute.poles for name, attribute in settings.sweep.chosen().items()},
        "stages": {
            name: stage.model_dump() | {"state": _state(stage.state, busy)} for name, stage in run.record.stages.items()
        },
        "query": _asking(run),
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
    _tell_asking(console, content["query"], busy=content["running"])
    _tell_validity(console, content["validity"])
    _tell_findings(console, content)
    if content["report"]:
        console.print(f"\nReport: [bold]{content['report']}[/bold]", soft_wrap=True)


def stopped(folder: Path) -> list[str]:
    """Why classifiers of a run stopped before everything was asked."""
    return [account.stopped for account in Run(folder).record.query.values() if account.stopped is not None]


def few_labels(folder: Path) -> list[tuple[str, float]]:
    """Classifiers of a run that labelled fewer versions than `ENOUGH`, in words with the reasons, and the share."""
    few = []
    for name, account in Run(folder).record.query.items():
        wanted = account.ok + account.without_labels
        if wanted and account.ok < ENOUGH * wanted:
            lines = [f"{name}: {account.ok:,} of {wanted:,} versions have labels; the others have none because:"]
            lines += [f"  {one.count:,} times: {one.reason}" for one in account.reasons]
            few.append(("\n".join(lines), account.ok / wanted))
    return few


def show_plan(plan: "Plan", *, error: bool = True) -> None:
    """Print what asking would come to, on standard error or on standard output."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(stderr=error, highlight=False)
    table = Table("classifier", box=None, pad_edge=False, padding=(0, 2))
    for column in ("images", "known", "to ask", "calls", "US$", "at least"):
        table.add_column(column, justify="right")
    for one in plan.adapters:
        usd = "unknown" if one.usd is None else f"{one.usd:,.2f}" if one.service is not None else "–"
        numbers = [f"{number:,}" for number in (one.images, one.known, one.to_send, one.calls)]
        table.add_row(escape(visible(one.adapter)), *numbers, usd, "–" if one.seconds is None else _time(one.seconds))
    about = "" if plan.exact else "at most "
    total = f"Together {about}{plan.calls:,} calls, {about}US$ {plan.usd:,.2f} as far as prices are known."
    console.print(table)
    console.print(total if plan.exact else f"{total} The versions are not made yet.")
    for one in plan.adapters:
        if one.service is None:
            continue
        service, price = one.service, one.price
        lines = [
            f"{one.adapter}: faces go to {one.host} ({service.provider}). Kept there: {service.retention}.",
            "  Price: not known; say it with --price."
            if price is None
            else f"  Price: US$ {price.usd_per_1000:g} per 1,000 images and feature ({one.features}), as of "
            f"{price.as_of}, {price.source}{f'; {price.note}' if price.note else ''}. An estimate, not a promise.",
        ]
        if one.sentinels:
            lines.append(f"  {one.sentinels} of the calls' images are portraits of nobody, to see whether it changes.")
        for line in lines:
            console.print(escape(visible(line)), soft_wrap=True)


def _tell_stages(console: Any, stages: Mapping[str, Mapping[str, Any]]) -> None:
    from rich.table import Table

    table = Table("stage", "state", "counts", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("seconds", justify="right")
    table.add_column("peak MiB", justify="right")
    for name, stage in stages.items():
        counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in stage["counts"].items() if count)
        table.add_row(name, stage["state"], counts, f"{stage['seconds']:.1f}", f"{stage['peak_mib']:.0f}")
    console.print(table)


def _state(state: str, busy: bool) -> str:
    """A stage that was running when its process died says so for ever."""
    return "interrupted" if state == "running" and not busy else state


def _asking(run: Run) -> dict[str, dict[str, Any]]:
    """The account of each classifier, and how far the answers on disk are by now."""
    from pipeline.querying.account import LATELY, tallies

    account = {name: facts.model_dump(mode="json", exclude_none=True) for name, facts in run.record.query.items()}
    for tally in tallies(run.path("responses.sqlite")):
        facts = account.get(tally.adapter)
        if facts is None:
            continue
        images, answered = facts["images"], min(tally.answered, facts["images"])
        rate = tally.lately / LATELY.total_seconds() or facts.get("rate_limit")
        facts |= {
            "answered": answered,
            "without_outcome": tally.unresolved,
            "answers_last_minute": tally.lately,
            "seconds_left": round((images - answered) / rate, 1) if rate and answered < images else None,
        }
    return account


def _tell_asking(console: Any, query: Mapping[str, Mapping[str, Any]], *, busy: bool) -> None:
    from rich.markup import escape

    for name, facts in query.items():
        parts = account_words(facts)
        if facts.get("without_labels"):
            parts.append(f"{facts['without_labels']:,} versions without labels")
        if busy and facts.get("seconds_left"):
            parts.append(f"{facts['answers_last_minute']} in the last minute, {_time(facts['seconds_left'])} left")
        if not busy and facts.get("without_outcome") and "possibly_billed" not in facts:
            parts.append(f"{facts['without_outcome']} requests without outcome, possibly billed")
        console.print(escape(visible(f"{name}: {', '.join(parts)}")), soft_wrap=True)
        for one in facts.get("reasons", []):
            console.print(escape(visible(f"  {one['count']:,} times: {one['reason']}")), soft_wrap=True)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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
    attributes = settings_of(Run(Path(content["run"]))).sweep.chosen()
    for row in sorted(findings, key=lambda row: -abs(row["slope"]))[:STRONGEST]:
        poles = poles_of(row["attribute"], attributes)
        console.print(f"  {escape(visible(row['adapter']))}: {escape(visible(finding(row, poles)))}", soft_wrap=True)


def _findings(run: Run, settings: Settings) -> list[dict[str, Any]]:
    from pipeline.statistics import findings

    slopes = _frame(run, "slopes")
    if slopes is None:
        return []
    options = settings.statistics
    return _plain(findings(slopes, max_p=options.max_p, min_slope=options.min_slope))


def _frame(run: Run, table: str) -> "pd.DataFrame | None":
    """A table of the run, or None where it is not there yet."""
    return run.read_csv(table) if run.csv_path(table).exists() else None


def _plain(frame: "pd.DataFrame | None") -> list[dict[str, Any]]:
    return [] if frame is None else plain_rows(frame)
