"""The commands of ``counterslope``. They turn options into settings and call ``pipeline.stages``.

Heavy modules are imported inside the commands, so that --help stays fast.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipeline.cli.adapters import app as adapters
from pipeline.cli.analyses import add_analyses
from pipeline.cli.captions import captions
from pipeline.cli.collect import collect
from pipeline.cli.console import (
    CARD_FAILS,
    consent,
    harmless,
    print_json,
    print_plan,
    show_run,
    stop,
    stop_if_incomplete,
    user_errors,
    watch,
)
from pipeline.cli.generate import generate
from pipeline.cli.mask import mask
from pipeline.cli.options import (
    NOT_GIVEN,
    AsJson,
    Commands,
    Config,
    Drop,
    Given,
    NoReport,
    Only,
    Photos,
    Quiet,
    RunFolder,
    Strict,
    Verbose,
    Yes,
    default_out,
    inputs,
    run_folder,
    settings_of_command,
    with_options,
)
from pipeline.cli.results import compare_editors, figures, validity
from pipeline.cli.review import review
from pipeline.config.attributes import GROUPING
from pipeline.config.options import (
    EngineOptions,
    PhotoOptions,
    QueryOptions,
    Settings,
    StatisticsOptions,
    StorageOptions,
)
from pipeline.config.sweep_options import SweepOptions
from pipeline.run.formats import plain, pluralise

if TYPE_CHECKING:
    from pipeline.run.storage import Location

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Audit image classifiers with counterfactual faces: how each label changes with perceived gender or race.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"counterslope {version('counterslope')}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Audit image classifiers with counterfactual faces: how each label changes with perceived gender or race."""


@app.command(
    epilog="Examples: counterslope audit (the embedded sample) · counterslope audit portraits/ --attribute gender "
    "--adapter opencv --out runs/portraits · counterslope audit list.csv --adapter python:mine:classify"
)
@with_options(PhotoOptions, SweepOptions, QueryOptions, StatisticsOptions, StorageOptions, EngineOptions)
def audit(
    photos: Photos = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="The run's folder, or a URL (s3://, gs://, abfs://) for its images and copies of its files.",
            show_default="runs/NAME",
        ),
    ] = None,
    given: Given = NOT_GIVEN,
    yes: Yes = False,
    only: Only = False,
    drop: Drop = None,
    no_report: NoReport = False,
    config: Config = None,
    strict: Strict = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Audit classifiers: photos in, slopes and a report out. Repeat the command to continue an interrupted run."""
    with user_errors(verbose=verbose):
        chosen = inputs(photos)
        given = _for_sample(given) if not photos else given
        settings = settings_of_command(given, config)
        from pipeline.run.storage import location
        from pipeline.stages.audit import audit as perform

        _warn_of_few(chosen, settings)
        run = perform(
            chosen,
            location(out) if out else default_out(photos),
            settings=settings,
            given=given,
            watch=watch(quiet, as_json),
            consent=consent(yes),
            only=only,
            drop=drop or (),
            report=not no_report,
        )
        show_run(run.folder, as_json=as_json)
        stop_if_incomplete(run.folder)
        if strict and any(check.passed is False for check in run.record.validity):
            stop("the validity card fails (--strict)", code=CARD_FAILS)


app.command(
    epilog="Examples: counterslope generate portraits/ --attribute gender --out dataset · "
    "counterslope generate list.csv --cluster person --opt-out opted-out.txt --licence cc-by-nc-4.0"
)(generate)


app.command(
    epilog="Examples: counterslope mask list.csv --condition full --condition segment · "
    "counterslope mask photos/ --annotations instances.json --out runs/masked"
)(mask)


app.command(
    epilog="Examples: counterslope collect occupations --modifiers gender,race --contact me@example.org --out jobs · "
    "counterslope collect words.csv --source wikimedia --contact me@example.org --per-keyword 50 --out words"
)(collect)


@app.command(epilog="Example: counterslope query runs/portraits --adapter opencv --adapter python:mine:classify")
@with_options(QueryOptions, EngineOptions)
def query(
    run: RunFolder,
    given: Given = NOT_GIVEN,
    yes: Yes = False,
    only: Only = False,
    drop: Drop = None,
    retry: Annotated[
        Literal["failed", "unreadable"] | None,
        typer.Option(
            help="failed: resend all versions without labels; unreadable: only those whose answer held no labels.",
            show_default=False,
        ),
    ] = None,
    no_report: NoReport = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Send a run's versions to classifiers; versions already answered are skipped. Its other classifiers stay."""
    with user_errors(verbose=verbose):
        from pipeline.stages.audit import query_run

        query_run(
            run,
            changes=given,
            watch=watch(quiet, as_json),
            consent=consent(yes),
            only=only,
            drop=drop or (),
            retry=retry,
            report=not no_report,
        )
        show_run(run, as_json=as_json)
        stop_if_incomplete(run)


@app.command(epilog="Example: counterslope labels runs/portraits --adapter-option http.score=score")
@with_options(QueryOptions, only=("options",))
def labels(
    run: RunFolder,
    given: Given = NOT_GIVEN,
    no_report: NoReport = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Derive a run's labels again from its raw answers, with changed options of the adapters. Sends nothing."""
    with user_errors():
        from pipeline.stages.audit import label_run

        label_run(run, changes=given, watch=watch(quiet, as_json), report=not no_report)
        show_run(run, as_json=as_json)
        stop_if_incomplete(run)


add_analyses(app)
app.command(
    epilog="Example: counterslope captions captions.csv --column human,model --groups woman,man --out table.csv"
)(captions)
app.command(epilog="Example: counterslope review runs/portraits --reviewer anna --unsure 60 --pairs 30")(review)
app.command(epilog="Example: counterslope validity runs/portraits --out validity.tex")(validity)
app.command("compare-editors", epilog="Example: counterslope compare-editors runs/may runs/june")(compare_editors)
app.command(
    epilog="Examples: counterslope figures runs/portraits · "
    "counterslope figures runs/portraits --format svg --adapter opencv --label smile --out paper · "
    "counterslope figures runs/portraits --photo female-white-18-1.jpg --columns 2"
)(figures)


@app.command(
    epilog="Examples: counterslope report runs/portraits · "
    "counterslope report runs/portraits --by perceived --cluster person --family adapter,attribute"
)
@with_options(StatisticsOptions)
def report(run: RunFolder, given: Given = NOT_GIVEN, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Rewrite a run's tables and report.html. Options given here become the run's."""
    with user_errors():
        from pipeline.stages.audit import estimate_run

        estimate_run(run, changes=given, watch=watch(quiet, as_json))
        show_run(run, as_json=as_json)


@app.command(epilog="Example: counterslope status runs/portraits")
def status(run: RunFolder, as_json: AsJson = False) -> None:
    """Show what a run has done, and whether it is running, stopped or complete."""
    with user_errors():
        show_run(run, as_json=as_json)


@app.command(epilog="Example: counterslope repair runs/portraits")
def repair(run: RunFolder) -> None:
    """Check a run's answers and tables, save the answers that can be read, and say how to recreate the rest."""
    with user_errors():
        from pipeline.stages.repair import repair_run

        for line in repair_run(run):
            typer.echo(harmless(line))


@app.command(epilog="Examples: counterslope plan portraits/ --adapter google · counterslope plan runs/portraits")
@with_options(PhotoOptions, SweepOptions, QueryOptions)
def plan(photos: Photos = None, given: Given = NOT_GIVEN, config: Config = None, as_json: AsJson = False) -> None:
    """Estimate calls, cost, time and destinations of a query: exact for a run, an upper bound for photos.

    Sends nothing.
    """
    from adapters.credentials import without_credentials

    with user_errors(), without_credentials():
        from pipeline.run.folder import Run, settings_of

        folder = run_folder(photos)
        if folder is not None:
            settings = settings_of(Run(folder), {"query": given.get("query", {})})
        else:
            chosen = inputs(photos)
            settings = settings_of_command(given if photos else _for_sample(given), config)
        from pipeline.stages.adapters import make_adapters
        from pipeline.stages.plan import plan_of_photos, plan_of_run

        if folder is not None:
            found = plan_of_run(Run(folder), make_adapters(settings, folder), settings)
        else:
            found = plan_of_photos(chosen, make_adapters(settings, Path("runs")), settings)
        if as_json:
            rows = [
                asdict(row) | {"to_ask": row.to_send, "usd": row.usd, "seconds": row.seconds} for row in found.adapters
            ]
            totals = {name: getattr(found, name) for name in ("exact", "calls", "usd", "placebos")}
            print_json(totals | {"adapters": rows})
        else:
            print_plan(found, error=False)


app.add_typer(adapters, name="adapters")


def main() -> None:
    """Run the program."""
    app()


def _warn_of_few(photos: "list[Location]", settings: Settings) -> None:
    """Warn in advance if there are too few photos for any slope."""
    from pipeline.photos.listing import find_photos

    listed, needed = len(find_photos(photos).names), settings.statistics.min_count
    if listed < needed:
        typer.echo(
            f"{pluralise(listed, 'photo')}, but a slope needs {plain(needed)} photos with the label at a = 0, so there "
            "will be none. Add photos, or lower --min-count for a first look.",
            err=True,
        )


def _for_sample(given: Given) -> Given:
    """Return the options for the embedded sample. Default attributes: those that name its groups."""
    return {**given, "sweep": {"attributes": list(GROUPING), **given.get("sweep", {})}}
