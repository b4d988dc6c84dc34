"""``counterslope collect``: downloads photos by keyword from a search service, with licences and a manifest."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipeline.cli.console import harmless, on_terminal, stop, user_errors, watch
from pipeline.cli.options import AsJson, Quiet
from pipeline.config.flags import listed
from pipeline.run.formats import duration, pluralise

if TYPE_CHECKING:
    from pipeline.collection.collect import Collected
    from pipeline.collection.plan import CollectionPlan, Consent


def collect(
    keywords: Annotated[
        str, typer.Argument(help="A CSV file with the column keyword; occupations: the embedded 129 job titles.")
    ],
    out: Annotated[Path, typer.Option(help="The collection's folder; repeat the command to continue.")],
    source: Annotated[
        Literal["openverse", "wikimedia", "google", "http", "folder"],
        typer.Option(help="The search service; http: a REST service described by --from; folder: your own photos."),
    ] = "openverse",
    per_keyword: Annotated[int, typer.Option(min=1, help="Photos per keyword and modifier.")] = 250,
    modifiers: Annotated[
        str, typer.Option(help="none (the keyword alone), gender, race, or your own words, separated by commas.")
    ] = "none",
    licence: Annotated[
        str, typer.Option(help="open, commercial, modification, codes such as cc0,by, or any (even unstated).")
    ] = "open",
    origin: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="For http: a TOML file that describes the search. For folder: a folder with a subfolder per keyword.",
            show_default=False,
        ),
    ] = None,
    contact: Annotated[
        str, typer.Option(help="Your e-mail or web address, sent to services and hosts.", show_default=False)
    ] = "",
    near_duplicates: Annotated[
        int, typer.Option(help="Largest Hamming distance (of 64 bits) of near-duplicates' hashes; -1: keep duplicates.")
    ] = 2,
    max_bytes: Annotated[int, typer.Option(min=1000, help="Size of the largest file to download.")] = 20_000_000,
    host_rate: Annotated[float, typer.Option(min=0.01, max=20, help="Downloads per second from one host.")] = 2.0,
    endpoint: Annotated[
        str | None, typer.Option(help="Another address with the service's protocol.", show_default=False)
    ] = None,
    allow_host: Annotated[
        str,
        typer.Option(
            help="HOST:PORT to allow although its address is private; others are refused.", show_default=False
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to the plan (for scripts).")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Collect photos by keyword from openly licensed sources, with a manifest for audit and represent."""
    with user_errors():
        from pipeline.collection.collect import collect as perform
        from pipeline.collection.download import DownloadLimits
        from pipeline.collection.keywords import queries_of
        from pipeline.collection.licences import wanted_licences
        from pipeline.collection.plan import CollectionRequest
        from pipeline.collection.sources import search_of

        of_folder = source == "folder"
        request = CollectionRequest(
            queries=queries_of(keywords, listed([modifiers])),
            search=None if of_folder else search_of(source, config=origin, endpoint=endpoint),
            source=source,
            per_keyword=per_keyword,
            licences=() if of_folder else wanted_licences(listed([licence])),
            near=near_duplicates,
            folder=origin if of_folder else None,
            contact=contact,
            limits=DownloadLimits(max_bytes, per_second=host_rate, private=frozenset(listed([allow_host.lower()]))),
        )
        found = perform(request, out, consent=_consent(yes, request.licences), watch=watch(quiet, as_json))
        if as_json:
            counts = [{"status": status, "reason": why, "results": n} for (status, why), n in found.counts.items()]
            manifest = str(out / "manifest.csv")
            typer.echo(json.dumps({"manifest": manifest, "photos": found.photos, "counts": counts}, indent=2))
        else:
            _print(found)
        if found.stopped:
            stop(found.stopped)


def _consent(yes: bool, licences: tuple[str, ...]) -> "Consent":
    """Return a function that shows the plan and asks for consent unless ``yes``. Without a terminal it refuses."""

    def agreed(plan: "CollectionPlan") -> bool:
        for line in _plan_lines(plan, licences):
            typer.echo(harmless(line), err=True)
        if yes or not plan.photos:
            return True
        return on_terminal() and typer.confirm("Search and download?", err=True)

    return agreed


def _plan_lines(plan: "CollectionPlan", licences: tuple[str, ...]) -> list[str]:
    facts = asdict(plan)
    calls = "{calls:,}" if plan.calls == plan.most_calls else "{calls:,} to {most_calls:,}"
    ends = dict.fromkeys(f"{usd:,.2f}" for usd in (plan.usd, plan.most_usd))
    cost = f", US$ {' to '.join(ends)}" if plan.most_usd else ", free of charge"
    days = f"; at the daily limit {pluralise(plan.days, 'day')}" if plan.days > 1 else ""
    return [
        f"{pluralise(plan.queries, 'search term')}, at most {plan.photos:,} photos.",
        f"{plan.host}: {calls.format(**facts)} searches to make ({plan.known:,} known){cost}, "
        f"{duration(plan.seconds)} or more{days}.",
        *([f"  {plan.note}."] if plan.note else []),
        f"  Licences: {', '.join(licences) or 'any, even unstated'}. Images come from the hosts of the results.",
    ]


def _print(found: "Collected") -> None:
    lines = [f"{found.folder / 'manifest.csv'}: {pluralise(found.photos, 'photo')}; credits: ATTRIBUTION.md"]
    lines += [
        f"  {status}: {count:,} {reason}"
        for (status, reason), count in sorted(found.counts.items(), key=lambda item: -item[1])
        if reason
    ]
    if found.short:
        lines.append(f"{pluralise(found.short, 'search term')} found fewer photos than --per-keyword.")
    typer.echo("\n".join(harmless(line) for line in lines))
