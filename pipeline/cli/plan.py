"""``counterslope plan``: what asking would come to, before anything is made, sent or paid."""

import json
from dataclasses import asdict
from pathlib import Path

import typer

from pipeline.cli.options import (
    AdapterNames,
    AdapterOptions,
    AsJson,
    Attributes,
    Concurrencies,
    Config,
    GenderSteps,
    Photos,
    Prices,
    RaceSteps,
    Rates,
    Sentinels,
    Steps,
    inputs,
    query_options,
    refuse_old_steps,
    run_folder,
    sweep_options,
    user_errors,
)


def plan(
    photos: Photos = None,
    attribute: Attributes = None,
    adapter: AdapterNames = None,
    adapter_option: AdapterOptions = None,
    steps: Steps = None,
    gender_steps: GenderSteps = None,
    race_steps: RaceSteps = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    price: Prices = None,
    sentinels: Sentinels = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Calls, money, time, and where the faces would go: of a run (exact), or of photos (before it). Asks nobody."""
    from pipeline.cli.console import show_plan
    from pipeline.config.options import load_settings
    from pipeline.run.folder import Run, settings_of
    from pipeline.stages.audit import make_adapters, planned, planned_for_photos

    attributes = attribute or (None if photos else ["gender", "race"])
    refuse_old_steps(gender_steps, race_steps)
    given = sweep_options(attributes, None, steps, None, None)
    given["query"] = query_options(
        adapter, adapter_option, rate=rate, concurrency=concurrency, price=price, sentinels=sentinels
    )
    from adapters.credentials import without_credentials

    with user_errors(), without_credentials():
        run = run_folder(photos)
        if run is not None:
            settings = settings_of(Run(run), {"query": given["query"]})
            found = planned(Run(run), make_adapters(settings, run), settings)
        else:
            settings = load_settings(given=given, file=config)
            found = planned_for_photos(inputs(photos), make_adapters(settings, Path("runs")), settings)
        if as_json:
            rows = [
                asdict(one) | {"to_ask": one.to_send, "usd": one.usd, "seconds": one.seconds} for one in found.adapters
            ]
            content = {"exact": found.exact, "calls": found.calls, "usd": found.usd, "adapters": rows}
            typer.echo(json.dumps(content, indent=2, default=str))
        else:
            show_plan(found, error=False)
