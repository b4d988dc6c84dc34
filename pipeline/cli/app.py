"""The command line, counterslope. Options become settings here; the work is in pipeline.stages.audit.

Heavy modules are imported inside the commands, so that --help stays fast.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.adapters import app as adapters
from pipeline.cli.amplification import amplification
from pipeline.cli.compare import compare
from pipeline.cli.figures import figures
from pipeline.cli.generate import generate
from pipeline.cli.local import local
from pipeline.cli.options import (
    CARD_FAILS,
    AdapterNames,
    AdapterOptions,
    AsJson,
    Attributes,
    Cluster,
    Concurrencies,
    Confidence,
    Config,
    Drop,
    GenderSteps,
    ImageFormat,
    MaxCalls,
    MaxCost,
    MaxP,
    MinSlope,
    Mode,
    NoReport,
    Only,
    ParserName,
    ParserWeights,
    Patience,
    Photos,
    Placebos,
    Prices,
    Quiet,
    RacePair,
    RaceSteps,
    Rates,
    Retry,
    RunFolder,
    Sentinels,
    Steps,
    Strict,
    Verbose,
    Yes,
    adapter_options,
    consent,
    default_out,
    inputs,
    query_options,
    refuse_old_steps,
    split,
    stop,
    stop_if_incomplete,
    sweep_options,
    tell,
    user_errors,
    watch,
)
from pipeline.cli.plan import plan
from pipeline.cli.power import power
from pipeline.cli.predictability import dpa, leakage
from pipeline.cli.represent import represent
from pipeline.cli.slopes import slopes
from pipeline.cli.validity import validity

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Audit image classifiers with counterfactual faces: how every label moves with perceived gender or race.",
)


@app.command(
    epilog="Examples: counterslope audit (the embedded sample) · counterslope audit portraits/ --attribute gender "
    "--adapter opencv --out runs/portraits · counterslope audit list.csv --adapter python:mine:classify"
)
def audit(
    photos: Photos = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.", show_default="runs/NAME")] = None,
    attribute: Attributes = None,
    adapter: AdapterNames = None,
    adapter_option: AdapterOptions = None,
    mode: Mode = None,
    placebo: Placebos = None,
    parser: ParserName = None,
    weights: ParserWeights = None,
    steps: Steps = None,
    gender_steps: GenderSteps = None,
    race_steps: RaceSteps = None,
    race_pair: RacePair = None,
    image_format: ImageFormat = None,
    max_p: MaxP = None,
    min_slope: MinSlope = None,
    confidence: Confidence = None,
    cluster: Cluster = None,
    yes: Yes = False,
    max_calls: MaxCalls = None,
    max_cost: MaxCost = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    price: Prices = None,
    sentinels: Sentinels = None,
    patience: Patience = None,
    only: Only = False,
    drop: Drop = None,
    no_report: NoReport = False,
    config: Config = None,
    strict: Strict = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """From photos to slopes and a report. The same command again continues the same run."""
    from pipeline.config.options import load_settings
    from pipeline.stages.audit import audit as perform

    attributes = attribute or (None if photos else ["gender", "race"])
    refuse_old_steps(gender_steps, race_steps)
    given = sweep_options(attributes, mode, steps, race_pair, image_format, split(placebo), parser, weights)
    given["query"] = query_options(
        adapter,
        adapter_option,
        max_calls=max_calls,
        max_cost=max_cost,
        rate=rate,
        concurrency=concurrency,
        price=price,
        sentinels=sentinels,
        patience=patience,
    )
    given["statistics"] = {"max_p": max_p, "min_slope": min_slope, "confidence": confidence, "cluster": cluster}
    with user_errors(verbose=verbose):
        settings = load_settings(given=given, file=config)
        run = perform(
            inputs(photos),
            out or default_out(photos),
            settings=settings,
            given=_as_given(given),
            watch=watch(quiet, as_json),
            consent=consent(yes),
            only=only,
            drop=drop or (),
            report=not no_report,
        )
        tell(run.folder, as_json=as_json)
        stop_if_incomplete(run.folder)
        if strict and any(check.passed is False for check in run.record.validity):
            stop("the validity card fails (--strict)", code=CARD_FAILS)


app.command(
    epilog="Examples: counterslope generate portraits/ --attribute gender --out dataset · "
    "counterslope generate list.csv --cluster person --opt-out opted-out.txt --licence cc-by-4.0"
)(generate)


@app.command(epilog="Example: counterslope query runs/portraits --adapter opencv --adapter python:mine:classify")
def query(
    run: RunFolder,
    adapter: AdapterNames = None,
    adapter_option: AdapterOptions = None,
    yes: Yes = False,
    max_calls: MaxCalls = None,
    max_cost: MaxCost = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    price: Prices = None,
    sentinels: Sentinels = None,
    patience: Patience = None,
    only: Only = False,
    drop: Drop = None,
    retry: Retry = None,
    no_report: NoReport = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Send classifiers the versions that a run has, but for those that they answered; others of the run stay in it."""
    if retry not in (None, "failed", "unreadable"):
        stop(f"--retry is failed or unreadable, not {retry!r}")
    options = query_options(
        adapter,
        adapter_option,
        max_calls=max_calls,
        max_cost=max_cost,
        rate=rate,
        concurrency=concurrency,
        price=price,
        sentinels=sentinels,
        patience=patience,
    )
    with user_errors(verbose=verbose):
        from pipeline.stages.audit import ask_again

        ask_again(
            run,
            changes={"query": options},
            watch=watch(quiet, as_json),
            consent=consent(yes),
            only=only,
            drop=drop or (),
            retry="failed" if retry == "failed" else "unreadable" if retry else None,
            report=not no_report,
        )
        tell(run, as_json=as_json)
        stop_if_incomplete(run)


@app.command(epilog="Example: counterslope labels runs/portraits --adapter-option http.score=score")
def labels(
    run: RunFolder,
    adapter_option: AdapterOptions = None,
    no_report: NoReport = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Derive a run's labels anew from its raw answers, with other options of how they are read; nothing is sent."""
    with user_errors():
        from pipeline.stages.audit import label_again

        changes = {"query": {"options": adapter_options(adapter_option)}}
        label_again(run, changes=changes, watch=watch(quiet, as_json), report=not no_report)
        tell(run, as_json=as_json)
        stop_if_incomplete(run)


app.command(
    epilog="Examples: counterslope slopes runs/portraits --max-p 0.01 --format latex · "
    "counterslope slopes runs/portraits --by perceived --cluster person --family adapter,attribute"
)(slopes)
app.command(epilog="Example: counterslope validity runs/portraits --out validity.tex")(validity)
app.command(
    epilog="Examples: counterslope figures runs/portraits · "
    "counterslope figures runs/portraits --format svg --adapter opencv --label smile --out paper"
)(figures)


@app.command(epilog="Example: counterslope report runs/portraits")
def report(run: RunFolder, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Write a run's report.html anew."""
    _estimate_again(run, {}, quiet=quiet, as_json=as_json)


app.command(
    epilog="Examples: counterslope amplification predictions.csv --attribute gender --task cooking "
    "--predicted-task cooking_score · counterslope amplification runs/portraits --base occupations.tsv "
    "--base-columns occupation,bls_pct_female,female"
)(amplification)
app.command(epilog="Example: counterslope power runs/pilot --width 0.05")(power)
app.command(
    epilog="Examples: counterslope compare runs/may runs/june · "
    "counterslope compare runs/may --adapters google,rekognition"
)(compare)
app.command(epilog="Example: counterslope represent results.csv --by keyword --out runs/results")(represent)
app.command(
    epilog="Example: counterslope leakage predictions.csv --attribute gender --task cooking --prediction guess"
)(leakage)
app.command(
    epilog="Example: counterslope dpa predictions.csv --attribute gender --task cooking --task-prediction guess"
)(dpa)
app.command(
    epilog="Examples: counterslope local runs/portraits --adapter opencv --label smile · "
    "counterslope local toxic.csv --group group --prediction guess --truth toxic --text text --features bert.npy"
)(local)


@app.command(epilog="Example: counterslope status runs/portraits")
def status(run: RunFolder, as_json: AsJson = False) -> None:
    """What a run has done so far, whether it is running, stopped or complete."""
    with user_errors():
        tell(run, as_json=as_json)


app.command(epilog="Examples: counterslope plan portraits/ --adapter google · counterslope plan runs/portraits")(plan)
app.add_typer(adapters, name="adapters")


def main() -> None:
    """The program's entry point."""
    app()


def _as_given(given: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {s: {n: v for n, v in o.items() if v is not None} for s, o in given.items()}


def _estimate_again(run: Path, changes: dict[str, dict[str, Any]], *, quiet: bool, as_json: bool) -> None:
    with user_errors():
        from pipeline.stages.audit import estimate_again

        estimate_again(run, changes=changes, watch=watch(quiet, as_json))
        tell(run, as_json=as_json)


if __name__ == "__main__":
    main()
