"""``counterslope adapters``: lists the classifiers, shows the details of one, and diagnoses one."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.console import columns, harmless, on_terminal, print_json, stop, user_errors
from pipeline.cli.options import NOT_GIVEN, AsJson, Given, Yes, check_adapter_name, with_options
from pipeline.config.options import QueryOptions
from pipeline.photos import SAMPLE

if TYPE_CHECKING:
    from adapters.base import Limits, Service
    from adapters.doctor import Check
    from adapters.registry import Description

PORTRAIT = SAMPLE / "female-asian-30-3.jpg"

app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich", help="The classifiers that can be audited.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A classifier, named as for --adapter.")]


@app.callback(epilog="Examples: counterslope adapters --json · counterslope adapters info google")
def listing(context: typer.Context, as_json: AsJson = False) -> None:
    """List the classifiers that can be audited; info and doctor give details of one."""
    if context.invoked_subcommand is not None:
        return
    from adapters.registry import describe_all

    rows = [_row(one) for one in describe_all()]
    if as_json:
        print_json(rows)
    else:
        _print_list(rows)


@app.command(epilog="Example: counterslope adapters info rekognition")
def info(name: Name, as_json: AsJson = False) -> None:
    """Show a classifier's properties: where images are sent, limits, price, version, options. Needs no credentials."""
    from adapters.base import AdapterError
    from adapters.registry import describe

    try:
        found = describe(name)
    except AdapterError as error:
        stop(str(error))
    if as_json:
        print_json(asdict(found))
    else:
        _print_details(found)


@app.command(epilog="Examples: counterslope adapters doctor opencv · counterslope adapters doctor google --yes")
@with_options(QueryOptions, only=("options",))
def doctor(name: Name, given: Given = NOT_GIVEN, yes: Yes = False, as_json: AsJson = False) -> None:
    """Check packages, credentials, host, clock and limits, then send one sample portrait (one billed call).

    Exits with 0 if an audit can start, otherwise with 1. Each problem is shown with a remedy.
    """
    from rich.console import Console

    from adapters.doctor import examine

    options = given.get("query", {}).get("options", {})
    if others := [other for other in options if other != name]:
        stop(f"--adapter-option {others[0]}.… does not belong to {name!r}: write {name}.OPTION=VALUE")
    checks: list[Check] = []
    with user_errors():
        check_adapter_name(name)
        console = Console(highlight=False, emoji=False)
        for check in examine(
            name, options.get(name, {}), portrait=PORTRAIT, agreed=(lambda *_: True) if yes else _agreed
        ):
            # The text may come from a service, so credentials and control characters are removed.
            checks.append(replace(check, finding=harmless(check.finding), fix=harmless(check.fix)))
            if not as_json:
                _print_check(console, checks[-1])
    failed = [check for check in checks if check.state == "failed"]
    if as_json:
        print_json({"adapter": name, "usable": not failed, "checks": [asdict(check) for check in checks]})
    raise typer.Exit(1 if failed else 0)


def _agreed(service: "Service", price: str) -> bool:
    if not on_terminal():
        return False
    typer.echo(f"One sample portrait would be sent to {service.host} ({service.provider}); {price}.", err=True)
    typer.echo(f"Retention: {service.retention}", err=True)
    return typer.confirm("Send it?", err=True)


def _row(found: "Description") -> "dict[str, Any]":
    """Return an adapter's row of the list; None for what is unknown."""
    from adapters.registry import lifecycle

    declared = found.capabilities
    service = declared.service if declared else None
    return {
        "name": found.name,
        "summary": found.summary,
        "remote": declared.remote if declared else None,
        "labels": len(declared.labels) if declared and declared.labels is not None else None,
        "options": [option.name for option in found.options],
        "lifecycle": lifecycle(service) if service else None,
        "usd_per_1000": service.price.usd_per_1000 if service and service.price else None,
        "problem": found.problem,
    }


def _print_list(rows: Iterable[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape

    table = columns("name", "what", "where", "state", right=("US$/1,000",))
    for row in rows:
        where = "?" if row["remote"] is None else "remote" if row["remote"] else "local"
        what = row["summary"] if row["problem"] is None else f"{row['summary']} (unusable: {row['problem']})"
        price = "" if row["usd_per_1000"] is None else f"{row['usd_per_1000']:.2f}"
        table.add_row(row["name"], escape(what), where, row["lifecycle"] or "", price)
    Console(emoji=False).print(table)
    typer.echo("\ncounterslope adapters info NAME shows the details of one; doctor NAME checks it.")


def _print_details(found: "Description") -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, emoji=False)
    console.print(f"[bold]{escape(found.usage)}[/bold]\n\n{escape(found.about)}\n", soft_wrap=False)
    table = columns("", "", header=False)
    for what, says in _facts(found):
        table.add_row(f"[bold]{what}[/bold]", escape(says))
    console.print(table)
    if found.options:
        console.print("\n[bold]options[/bold]")
        table = columns("name", "takes", "default", "what")
        for option in found.options:
            default = "needed" if option.default is None else option.default
            table.add_row(option.name, escape(option.kind), escape(default), escape(option.help))
        console.print(table)
        place = found.usage.partition("[")[0]
        console.print(f"\nGiven as --adapter-option '{escape(place)}.OPTION=VALUE'", soft_wrap=True)


def _facts(found: "Description") -> Iterator[tuple[str, str]]:
    from adapters.base import Capabilities
    from adapters.registry import lifecycle

    declared = found.capabilities or Capabilities()
    if found.target:
        yield "target", found.target
    if service := declared.service:
        yield "provider", service.provider
        yield "where", f"remote: images are sent to {service.host}"
        yield "state", lifecycle(service)
        yield "retention", service.retention
        yield "credentials", ", ".join(service.credentials) or "none"
        yield "version", service.version
        yield "rate", f"{service.rate:g} requests per second; change it with --rate"
        if price := service.price:
            known = f"US$ {price.usd_per_1000:g} per 1,000 images and feature ({price.as_of}, {price.source})"
            yield "price", f"{known}; {price.note}" if price.note else known
        else:
            yield "price", "unknown; state it with --price NAME=USD"
    else:
        yield "where", "local: no image leaves this machine"
    yield "features", ", ".join(declared.features)
    yield "labels", "open" if declared.labels is None else ", ".join(declared.labels)
    yield "scores", f"{declared.scale}, stored as 0-1; a label is present from {declared.presence:g}"
    if declared.cut_off is not None:
        yield "cut-off", f"scores below {declared.cut_off:g} are not returned"
    if declared.top_k is not None:
        yield "at most", f"{declared.top_k} labels per image"
    most = "one image each" if declared.batch == 1 else f"up to {declared.batch} images each"
    yield "calls", f"{most}, {declared.concurrency} at a time"
    yield "images", _limits(declared.limits)


def _limits(limits: "Limits") -> str:
    bounds = {
        "up to {:,} bytes": limits.max_bytes,
        "up to {:,} pixels": limits.max_pixels,
        "sides of at least {:,} pixels": limits.min_side,
        "sides of at most {:,} pixels": limits.max_side,
    }
    stated = [words.format(bound) for words, bound in bounds.items() if bound is not None]
    return "; ".join([*stated, ", ".join(limits.formats)])


def _print_check(console: Any, check: "Check") -> None:
    from rich.markup import escape

    colour = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}[check.state]
    console.print(f"[{colour}]{check.state:<8}[/{colour}] {check.name}: {escape(check.finding)}", soft_wrap=True)
    if check.fix:
        console.print(f"         → {escape(check.fix)}", soft_wrap=True)
