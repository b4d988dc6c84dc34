"""What the command line prints, asks and ends with: a run, a plan, tables, errors, exit codes."""

import json
import logging
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from pipeline.run.formats import duration, pluralise
from pipeline.run.progress import Bars, Watch, unwatched
from pipeline.run.text import visible

if TYPE_CHECKING:
    from rich.table import Table

    from pipeline.querying.plan import Consent, Plan

BAD_INPUT = 2
CARD_FAILS = 3
FEW_ANSWERS = 4
STRONGEST = 5


def print_json(content: Any) -> None:
    """Print plain values for machines."""
    typer.echo(json.dumps(content, indent=2, default=str))


def columns(*left: str, right: Sequence[str] = (), header: bool = True) -> "Table":
    """A table without lines for a terminal: the columns aligned to the left, then those aligned to the right."""
    from rich.table import Table

    table = Table(*left, box=None, show_header=header, pad_edge=False, padding=(0, 2, 0, 0))
    for name in right:
        table.add_column(name, justify="right")
    return table


def show_run(folder: Path, *, as_json: bool) -> None:
    """Print a run, for people or machines.

    Raises:
        RunError: the folder holds no run.
    """
    from pipeline.stages.status import summary

    if as_json:
        print_json(summary(folder))
    else:
        print_run(folder)


def print_run(folder: Path) -> None:
    """Print a run for people.

    Raises:
        RunError: the folder holds no run.
    """
    from rich.console import Console
    from rich.markup import escape

    from pipeline.stages.status import summary

    console = Console(highlight=False, emoji=False)
    content = summary(folder)
    _print_stages(console, content["stages"])
    _print_accounts(console, content["query"], busy=content["running"])
    _print_validity(console, content["validity"])
    for warning in content["warnings"]:
        console.print(f"  [yellow]warning[/yellow] {escape(visible(warning))}", soft_wrap=True)
    _print_findings(console, content)
    if content["report"]:
        console.print(f"\nReport: [bold]{content['report']}[/bold]", soft_wrap=True)


def print_plan(plan: "Plan", *, error: bool = True) -> None:
    """Print what a query would come to, on standard error or on standard output."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=error, highlight=False, emoji=False)
    table = columns("classifier", right=("images", "known", "to send", "calls", "US$", "at least"))
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
    if plan.placebos:
        console.print(f"{pluralise(plan.placebos, 'image')} of these show placebos; --placebo none makes none.")
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
        if one.waiting:
            wait = f"{pluralise(one.waiting, 'image')} in jobs that were sent before"
            lines.append(f"  The answers to {wait} are fetched; these are not sent again.")
        if one.sentinels:
            portraits = pluralise(one.sentinels, "synthetic portrait")
            lines.append(f"  Calls and cost include {portraits}, to detect a service that changes.")
        for line in lines:
            console.print(escape(visible(line)), soft_wrap=True)


def _print_stages(console: Any, stages: Mapping[str, Mapping[str, Any]]) -> None:
    table = columns("stage", "state", "counts", right=("seconds", "peak MiB"))
    for name, stage in stages.items():
        counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in stage["counts"].items() if count)
        table.add_row(name, stage["state"], counts, f"{stage['seconds']:.1f}", f"{stage['peak_mib']:.0f}")
    console.print(table)


def _print_accounts(console: Any, query: Mapping[str, Mapping[str, Any]], *, busy: bool) -> None:
    from rich.markup import escape

    from pipeline.report.words import account_words

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
    from pipeline.run.folder import Run, settings_of

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


def watch(quiet: bool, as_json: bool) -> Watch:
    """Progress bars, where output is a terminal."""
    return unwatched if quiet or as_json else Bars()


def consent(yes: bool) -> "Consent":
    """Show what would be sent where, and ask on a terminal unless ``yes`` answers; without a terminal: no."""
    from pipeline.querying.plan import no_consent

    def shown(plan: Any) -> bool:
        print_plan(plan)
        return True

    def confirmed(plan: Any) -> bool:
        print_plan(plan)
        return typer.confirm("Send these faces?", err=True)

    if yes:
        return shown
    return confirmed if sys.stdin.isatty() and sys.stderr.isatty() else no_consent


def table_format(format: str | None, out: Path | None) -> str:
    """The format of a table by option or file; ends the program where there is none, or no place for the file."""
    from pipeline.report.markup import chosen_format

    if out is not None and not out.parent.is_dir():
        stop(f"--out {out}: there is no folder {out.parent}")
    try:
        return chosen_format(format, out)
    except ValueError as error:
        stop(str(error))


def print_text(text: str, out: Path | None) -> None:
    """Put a whole text on standard output or in a file."""
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from pipeline.run.files import write_text

    write_text(out, text)
    typer.echo(f"Written: {out}", err=True)


def stop_if_incomplete(folder: Path) -> None:
    """End with exit code 2 where a classifier stopped early or labelled nothing, with 4 where it labelled little."""
    from pipeline.stages.status import few_labels, stop_reasons

    few = few_labels(folder)
    if reasons := [*stop_reasons(folder), *(words for words, share in few if not share)]:
        stop("\n".join(reasons))
    if few:
        stop("\n".join(words for words, _ in few), code=FEW_ANSWERS)


@contextmanager
def user_errors(*also: type[Exception], verbose: bool = False) -> Iterator[None]:
    """Errors that a user can correct, and those of ``also``, end with their message and exit code 2, no traceback."""
    from pipeline.stages.audit import USER_ERRORS

    if verbose:
        _log_to_stderr()
    try:
        yield
    except (*USER_ERRORS, *also) as error:
        stop(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        stop(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        stop("stopped; the same command continues where it was", code=130)


def stop(message: str, *, code: int = BAD_INPUT) -> NoReturn:
    """End with a message on standard error."""
    typer.echo(f"counterslope: {harmless(message)}", err=True)
    sys.exit(code)


def _log_to_stderr() -> None:
    class Harmless(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return harmless(super().format(record))

    logger = logging.getLogger("counterslope")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(Harmless("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def harmless(message: str) -> str:
    """A text without the environment's credentials or control characters: some of it may come from a service."""
    from pipeline.config.redaction import environment_redactor
    from pipeline.run.text import visible

    redacted = environment_redactor().text(message)
    return "\n".join(visible(line) for line in redacted.splitlines())
