"""Console output and input: runs, plans, tables, questions of consent, errors and exit codes."""

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
    """Print plain values as JSON."""
    typer.echo(json.dumps(content, indent=2, default=str))


def columns(*left: str, right: Sequence[str] = (), header: bool = True) -> "Table":
    """Return an empty terminal table without lines, with left-aligned and then right-aligned columns."""
    from rich.table import Table

    table = Table(*left, box=None, show_header=header, pad_edge=False, padding=(0, 2, 0, 0))
    for name in right:
        table.add_column(name, justify="right")
    return table


def show_run(folder: Path, *, as_json: bool) -> None:
    """Print the state and findings of a run.

    Raises:
        RunError: the folder holds no run.
    """
    from rich.console import Console
    from rich.markup import escape

    from pipeline.stages.status import summary

    content = summary(folder)
    if as_json:
        print_json(content)
        return
    console = Console(highlight=False, emoji=False)
    _print_stages(console, content["stages"])
    _print_accounts(console, content["query"], busy=content["running"])
    _print_validity(console, content["validity"])
    for warning in content["warnings"]:
        console.print(f"  [yellow]warning[/yellow] {escape(visible(warning))}", soft_wrap=True)
    _print_findings(console, content)
    if content["report"]:
        console.print(f"\nReport: [bold]{content['report']}[/bold]", soft_wrap=True)
    if content["copy"]:
        _print_line(console, f"Images and a copy of the run: {content['copy']}")


def print_plan(plan: "Plan", *, error: bool = True) -> None:
    """Print the calls, cost and destinations of a query, on standard error or standard output."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=error, highlight=False, emoji=False)
    table = columns("classifier", right=("images", "known", "to send", "calls", "US$", "at least"))
    for row in plan.adapters:
        usd = "unknown" if row.usd is None else f"{row.usd:,.2f}" if row.service is not None else "–"
        numbers = [f"{number:,}" for number in (row.images, row.known, row.to_send, row.calls)]
        table.add_row(
            escape(visible(row.adapter)), *numbers, usd, "–" if row.seconds is None else duration(row.seconds)
        )
    bound = "" if plan.exact else "at most "
    total = f"In total {bound}{plan.calls:,} calls and {bound}US$ {plan.usd:,.2f}, as far as prices are known."
    console.print(table)
    console.print(total if plan.exact else f"{total} The versions do not exist yet.")
    if plan.placebos:
        console.print(f"{pluralise(plan.placebos, 'image')} of these are placebos; --placebo none omits them.")
    for row in plan.adapters:
        if row.service is None:
            continue
        service, price = row.service, row.price
        lines = [
            f"{row.adapter}: faces are sent to {row.host} ({service.provider}). Retention: {service.retention}.",
            "  Price: unknown; state it with --price."
            if price is None
            else f"  Price: US$ {price.usd_per_1000:g} per 1,000 images and feature ({row.features}), as of "
            f"{price.as_of}, {price.source}{f'; {price.note}' if price.note else ''}. This is an estimate.",
        ]
        if row.waiting:
            lines.append(
                f"  {pluralise(row.waiting, 'image')} of earlier jobs: answers are fetched, nothing is resent."
            )
        if row.sentinels:
            portraits = pluralise(row.sentinels, "synthetic portrait")
            lines.append(f"  Calls and cost include {portraits}, which detect a change of the service.")
        for line in lines:
            _print_line(console, line)


def _print_line(console: Any, text: str) -> None:
    """Print a text that may come from outside, without wrapping it."""
    from rich.markup import escape

    console.print(escape(visible(text)), soft_wrap=True)


def _print_stages(console: Any, stages: Mapping[str, Mapping[str, Any]]) -> None:
    table = columns("stage", "state", "counts", right=("seconds", "peak MiB"))
    for name, stage in stages.items():
        counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in stage["counts"].items() if count)
        table.add_row(name, stage["state"], counts, f"{stage['seconds']:.1f}", f"{stage['peak_mib']:.0f}")
    console.print(table)


def _print_accounts(console: Any, query: Mapping[str, Mapping[str, Any]], *, busy: bool) -> None:

    from pipeline.report.words import account_words

    for name, facts in query.items():
        parts = account_words(facts)
        if facts.get("without_labels"):
            parts.append(f"{pluralise(facts['without_labels'], 'version')} without labels")
        if busy and facts.get("seconds_left"):
            parts.append(f"{facts['answers_last_minute']} in the last minute, {duration(facts['seconds_left'])} left")
        if not busy and facts.get("without_outcome") and "possibly_billed" not in facts:
            parts.append(f"{pluralise(facts['without_outcome'], 'request')} without outcome, possibly billed")
        _print_line(console, f"{name}: {', '.join(parts)}")
        for failure in facts.get("reasons", []):
            line = f"  {pluralise(failure['count'], 'time')}: {failure['reason']}"
            _print_line(console, line)


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

    tables = content["stages"].get("tables", {"state": "missing"})
    if tables["state"] != "done":
        return
    from pipeline.report.words import finding, poles_of
    from pipeline.run.folder import Run, settings_of

    findings = sorted(content["findings"], key=lambda row: -abs(row["slope"]))
    estimated = pluralise(tables["counts"]["estimable"], "slope")
    console.print(f"\n{pluralise(len(findings), 'finding')} among {estimated} that could be estimated.")
    for line in content["no_slopes"]:
        _print_line(console, f"  {line}")
    swept = settings_of(Run(Path(content["run"]))).sweep.chosen()
    for row in findings[:STRONGEST]:
        sentence = finding(row, poles_of(row["attribute"], swept))
        _print_line(console, f"  {row['adapter']}: {sentence}")
    if len(findings) > STRONGEST:
        console.print(f"  {pluralise(len(findings) - STRONGEST, 'more finding')} in the report.")


def watch(quiet: bool, as_json: bool) -> Watch:
    """Return progress bars, or nothing for quiet and machine-readable output."""
    return unwatched if quiet or as_json else Bars()


def consent(yes: bool) -> "Consent":
    """Return a function that shows the plan and asks for consent unless ``yes``. Without a terminal it refuses."""
    from pipeline.querying.plan import no_consent

    def shown(plan: Any) -> bool:
        print_plan(plan)
        return True

    def confirmed(plan: Any) -> bool:
        print_plan(plan)
        return typer.confirm("Send these faces?", err=True)

    if yes:
        return shown
    return confirmed if on_terminal() else no_consent


def on_terminal() -> bool:
    """Return whether the user can answer questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def table_format(format: str | None, out: Path | None) -> str:
    """Return the format of a table, from the option or the file's name; exit if it is unknown or ``out`` unusable."""
    from pipeline.report.markup import chosen_format

    check_folder(out)
    try:
        return chosen_format(format, out)
    except ValueError as error:
        stop(str(error))


def check_folder(out: Path | None) -> None:
    """Exit if the folder of an output file does not exist."""
    if out is not None and not out.parent.is_dir():
        stop(f"--out {out}: there is no folder {out.parent}")


def print_text(text: str, out: Path | None) -> None:
    """Print a text or write it to a file."""
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from pipeline.run.files import write_text

    write_text(out, text)
    typer.echo(f"Written: {out}", err=True)


def stop_if_incomplete(folder: Path) -> None:
    """Exit with code 2 if a classifier stopped early or labelled nothing, or with 4 if it labelled few versions."""
    from pipeline.stages.status import few_labels, stop_reasons

    few = few_labels(folder)
    if reasons := [*stop_reasons(folder), *(words for words, share in few if not share)]:
        stop("\n".join(reasons))
    if few:
        stop("\n".join(words for words, _ in few), code=FEW_ANSWERS)


@contextmanager
def user_errors(*also: type[Exception], verbose: bool = False) -> Iterator[None]:
    """On an error that a user can correct, or one of ``also``, print its message and exit with code 2."""
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
    """Print a message on standard error and exit."""
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
    """Return a text, parts of which may come from a service, without credentials and control characters."""
    from pipeline.config.redaction import environment_redactor
    from pipeline.run.text import visible

    redacted = environment_redactor().text(message)
    return "\n".join(visible(line) for line in redacted.splitlines())
