"""What the command line prints: of a run its stages, accounts, validity card and findings; of a plan calls and cost."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.report.words import account_words
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import duration, pluralise
from pipeline.run.text import visible

if TYPE_CHECKING:
    from pipeline.querying.plan import Plan

STRONGEST = 5


def print_run(folder: Path) -> None:
    """Print a run for people.

    Raises:
        RunError: the folder holds no run.
    """
    from rich.console import Console

    from pipeline.stages.status import summary

    console = Console(highlight=False)
    content = summary(folder)
    _print_stages(console, content["stages"])
    _print_accounts(console, content["query"], busy=content["running"])
    _print_validity(console, content["validity"])
    _print_findings(console, content)
    if content["report"]:
        console.print(f"\nReport: [bold]{content['report']}[/bold]", soft_wrap=True)


def print_plan(plan: "Plan", *, error: bool = True) -> None:
    """Print what a query would come to, on standard error or on standard output."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(stderr=error, highlight=False)
    table = Table("classifier", box=None, pad_edge=False, padding=(0, 2))
    for column in ("images", "known", "to send", "calls", "US$", "at least"):
        table.add_column(column, justify="right")
    for one in plan.adapters:
        usd = "unknown" if one.usd is None else f"{one.usd:,.2f}" if one.service is not None else "–"
        numbers = [f"{number:,}" for number in (one.images, one.known, one.to_send, one.calls)]
        table.add_row(
            escape(visible(one.adapter)), *numbers, usd, "–" if one.seconds is None else duration(one.seconds)
        )
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
            "  Price: not known; give it with --price."
            if price is None
            else f"  Price: US$ {price.usd_per_1000:g} per 1,000 images and feature ({one.features}), as of "
            f"{price.as_of}, {price.source}{f'; {price.note}' if price.note else ''}. An estimate, not a promise.",
        ]
        if one.sentinels:
            portraits = pluralise(one.sentinels, "portrait")
            lines.append(f"  Calls and cost include {portraits} of nobody, to see whether the service changes.")
        for line in lines:
            console.print(escape(visible(line)), soft_wrap=True)


def _print_stages(console: Any, stages: Mapping[str, Mapping[str, Any]]) -> None:
    from rich.table import Table

    table = Table("stage", "state", "counts", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("seconds", justify="right")
    table.add_column("peak MiB", justify="right")
    for name, stage in stages.items():
        counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in stage["counts"].items() if count)
        table.add_row(name, stage["state"], counts, f"{stage['seconds']:.1f}", f"{stage['peak_mib']:.0f}")
    console.print(table)


def _print_accounts(console: Any, query: Mapping[str, Mapping[str, Any]], *, busy: bool) -> None:
    from rich.markup import escape

    for name, facts in query.items():
        parts = account_words(facts)
        if facts.get("without_labels"):
            parts.append(f"{pluralise(facts['without_labels'], 'version')} without labels")
        if busy and facts.get("seconds_left"):
            parts.append(f"{facts['answers_last_minute']} in the last minute, {duration(facts['seconds_left'])} left")
        if not busy and facts.get("without_outcome") and "possibly_billed" not in facts:
            parts.append(f"{pluralise(facts['without_outcome'], 'request')} without outcome, possibly billed")
        console.print(escape(visible(f"{name}: {', '.join(parts)}")), soft_wrap=True)
        for one in facts.get("reasons", []):
            console.print(escape(visible(f"  {pluralise(one['count'], 'time')}: {one['reason']}")), soft_wrap=True)


def _print_validity(console: Any, checks: Sequence[Mapping[Hashable, Any]]) -> None:
    if not checks:
        return
    from pipeline.report.card import card_title, check_results

    results = check_results(checks)
    console.print(f"\n{card_title(results)}.")
    for result in results:
        if result.state == "fails":
            console.print(
                f"  [red]failed[/red] {result.attribute}, {result.name}: {result.figure} (threshold {result.threshold})"
            )


def _print_findings(console: Any, content: Mapping[str, Any]) -> None:
    from rich.markup import escape

    tables = content["stages"].get("tables", {"state": "missing"})
    if tables["state"] != "done":
        return
    from pipeline.report.words import finding, poles_of

    findings = sorted(content["findings"], key=lambda row: -abs(row["slope"]))
    estimated = pluralise(tables["counts"]["estimable"], "slope")
    console.print(f"\n{pluralise(len(findings), 'finding')} among {estimated} that could be estimated.")
    for line in content["no_slopes"]:
        console.print(f"  {escape(visible(line))}", soft_wrap=True)
    swept = settings_of(Run(Path(content["run"]))).sweep.chosen()
    for row in findings[:STRONGEST]:
        sentence = finding(row, poles_of(row["attribute"], swept))
        console.print(f"  {escape(visible(row['adapter']))}: {escape(visible(sentence))}", soft_wrap=True)
    if len(findings) > STRONGEST:
        console.print(f"  {pluralise(len(findings) - STRONGEST, 'more finding')} in the report.")
