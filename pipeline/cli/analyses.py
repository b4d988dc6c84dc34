"""The commands of the analyses, generated from the registry: ``counterslope NAME SOURCE --option value``."""

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.analyses.base import Analysis, Options, Result
from pipeline.analyses.registry import KINDS, analyses, compute, compute_each
from pipeline.analyses.slopes import LAYOUT_ONLY
from pipeline.cli.console import print_text, stop, table_format, user_errors, watch
from pipeline.cli.options import (
    Config,
    Quiet,
    TableFile,
    TableFormat,
    default_out,
    inputs,
    local_path,
    run_folder,
    with_options,
)
from pipeline.run.formats import pluralise
from pipeline.run.progress import Watch, unwatched

OfRun = Annotated[
    Path | None,
    typer.Option(
        "--run",
        help="Store the tables in this run's folder, for its report.",
        parser=local_path,
        show_default=False,
    ),
]
Each = Annotated[
    str | None,
    typer.Option(help="Column of the file: analyse the rows of each value separately.", show_default=False),
]
PhotosOrRun = Annotated[
    list[str] | None,
    typer.Argument(help="Photos, as for audit; or a run's folder or URL, whose report then shows the result."),
]
RunOut = Annotated[
    Path | None, typer.Option("--out", help="The run's folder.", show_default="runs/NAME-representation")
]


def add_analyses(app: typer.Typer) -> None:
    """Add a command for every analysis in the registry."""
    for analysis in analyses().values():
        examples = "Example" + "s" * (len(analysis.examples) > 1) + ": " + " · ".join(analysis.examples)
        app.command(
            analysis.command or analysis.name,
            help=(analysis.__doc__ or "").strip(),
            epilog=examples if analysis.examples else None,
        )(_command(analysis))


def _command(analysis: Analysis[Any]) -> Callable[..., None]:
    """Return a command that takes the source, the options, and how to print and store the result."""
    of_photos = "photos" in analysis.reads
    parameters: dict[str, tuple[Any, Any]] = {
        "source": (PhotosOrRun, None) if of_photos else (_source(analysis), Parameter.empty),
        "options": (analysis.options, None),
    }
    parameters |= {"each": (Each, None), "run": (OfRun, None)} if "file" in analysis.reads else {}
    parameters |= {"config": (Config, None), "out": (RunOut, None)} if of_photos else {"out": (TableFile, None)}
    if len(analysis.tables) > 1:
        help = f"Print only one of {', '.join(analysis.tables)}."
        parameters["table"] = (Annotated[str | None, typer.Option("--table", help=help, show_default=False)], None)
    parameters |= {"format": (TableFormat, None), "quiet": (Quiet, False)}

    def command(**given: Any) -> None:
        _perform(analysis, **given)

    command.__name__ = analysis.command or analysis.name
    vars(command).update(
        renamed={_flag(old): _flag(new) for old, new in analysis.options.renamed.items()},
        __signature__=Signature(
            [
                Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
                for name, (annotation, default) in parameters.items()
            ]
        ),
    )
    return with_options(analysis.options)(command)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _source(analysis: Analysis[Any]) -> Any:
    kinds = ", or ".join(KINDS[kind] for kind in analysis.reads)
    ending = " (CSV, TSV or Parquet)" if "file" in analysis.reads else ""
    help = f"{kinds[:1].upper()}{kinds[1:]}{ending}."
    return Annotated[Path, typer.Argument(help=help, parser=local_path)]


def _perform(
    analysis: Analysis[Any],
    *,
    source: Any,
    options: Options,
    table: str | None = None,
    format: str | None,
    out: Path | None,
    each: str | None = None,
    run: Path | None = None,
    config: Path | None = None,
    quiet: bool,
) -> None:
    of_photos, of_slopes = "photos" in analysis.reads, analysis.name == "slopes"
    printed, shown = table_format(format, None if of_photos else out), watch(quiet, format is not None)
    with user_errors(ValueError):
        folder = _folder_of_photos(source, options, out=out, config=config, shown=shown) if of_photos else source
        if of_slopes and not set(options.changes()) - LAYOUT_ONLY:
            _estimate_first(folder, shown)
        if each is None:
            result = compute(analysis.name, folder, options, watch=shown)
        elif folder.is_dir() or run is not None:
            stop("--each needs a file and no --run, because the report shows the measures of all rows")
        else:
            result = compute_each(analysis.name, folder, options, column=each, watch=shown)
        for note in result.notes:
            typer.echo(note, err=True)
        parts = _published(folder, options, result, printed) if of_slopes else _parts(result, printed)
        if table is not None and table not in parts:
            stop(f"there is no table {table!r}; choose from {', '.join(parts)}")
        names = [table] if table else result.shown or list(parts)
        print_text(_joined(parts, names, printed), None if of_photos else out)
        left_out = sum(len(result.tables[n]) - len(result.printed[n]) for n in names if n in result.printed)
        if left_out and printed not in ("csv", "json"):
            rows = pluralise(left_out, "more row")
            typer.echo(f"{rows} of placebos and of labels that cannot be estimated; see --format csv", err=True)
        target = run or (folder if folder.is_dir() else None)
        if target is not None:
            _keep(target, analysis.name, result, shown)


def _folder_of_photos(
    photos: list[str] | None, options: Options, *, out: Path | None, config: Path | None, shown: Watch
) -> Path:
    """Return a run's folder; for photos, first find their faces in a new run."""
    folder = run_folder(photos)
    if folder is not None:
        if out is not None or config is not None:
            stop("--out and --config cannot be used with a run's folder")
        return folder
    from pipeline.config.sources import load_settings
    from pipeline.stages.audit import find_faces

    statistics = {"statistics": options.changes()}
    settings = load_settings(given=statistics, file=config)
    folder = out or default_out(photos, ending="-representation")
    return find_faces(inputs(photos), folder, settings=settings, given=statistics, watch=shown).folder


def _estimate_first(folder: Path, shown: Watch) -> None:
    """Write the tables of a run that has answers but no tables yet."""
    from pipeline.stages.audit import estimate_run
    from pipeline.stages.run_view import RunView

    if not RunView(folder).is_estimated:
        estimate_run(folder, changes={}, watch=shown)


def _published(folder: Path, options: Options, result: Result, format: str) -> dict[str, Callable[[], str]]:
    """Return the findings in the layout of the published tables, and the other tables of the result."""
    from pipeline.report.tables import RENDERERS
    from pipeline.stages.run_view import RunView

    def findings() -> str:
        _estimate_first(folder, unwatched)
        rule = {name: value for name, value in options.changes().items() if name in LAYOUT_ONLY}
        return RENDERERS[format](RunView(folder).finding_tables(slopes=result.tables["slopes"], **rule))

    others = {name: part for name, part in _parts(result, format).items() if name != "slopes"}
    return {"findings": findings, **others}


def _parts(result: Result, format: str) -> dict[str, Callable[[], str]]:
    """Return name -> a function that renders the table."""
    from pipeline.report.markup import render_frame

    def part(name: str) -> Callable[[], str]:
        title = f"{result.title}: {name.replace('_', ' ')}" if len(result.tables) > 1 else result.title
        return lambda: render_frame(result.tables[name], format, title=title, printed=result.printed.get(name))

    return {name: part(name) for name in result.tables}


def _joined(parts: Mapping[str, Callable[[], str]], names: Sequence[str], format: str) -> str:
    """Return tables one after the other; in JSON one object, in CSV only the first table."""
    if len(names) == 1 or format == "csv":
        return parts[names[0]]()
    if format == "json":
        return json.dumps({name: json.loads(parts[name]()) for name in names}, indent=2)
    return "\n".join(parts[name]() for name in names)


def _keep(folder: Path, name: str, result: Result, shown: Watch) -> None:
    """Store the tables in a run and print where."""
    from pipeline.stages.audit import keep_result

    tables = keep_result(folder, name, result, watch=shown)
    if tables:
        written = ", ".join(str(Path("tables") / f"{table}.csv") for table in tables)
        report = "; report.html shows it" if (folder / "report.html").exists() else ""
        typer.echo(f"Kept in {folder}: {written}{report}.", err=True)
