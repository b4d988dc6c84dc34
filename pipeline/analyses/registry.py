"""The table of analyses, used by the command line, the Python API, the stage of tables and the report."""

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pipeline.analyses.base import Analysis, Kept, Options, Result
from pipeline.analyses.inputs import InputError, columns_of, read_predictions
from pipeline.config.flags import flag_of
from pipeline.config.options import ConfigError
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.inputs import RunSweeps
    from pipeline.analyses.sections import Section
    from pipeline.config.attributes import Attribute

# Name -> module and object, in the order of the report's sections.
ANALYSES: dict[str, str] = {
    "slopes": "pipeline.analyses.slopes:SLOPES",
    "comparison": "pipeline.analyses.comparison:COMPARISON",
    "interactions": "pipeline.analyses.interactions:INTERACTIONS",
    "edit_size": "pipeline.analyses.edit_size:EDIT_SIZE",
    "subgroups": "pipeline.analyses.subgroups:SUBGROUPS",
    "amplification": "pipeline.analyses.amplification:AMPLIFICATION",
    "local": "pipeline.analyses.local_bias:LOCAL",
    "dpa": "pipeline.analyses.predictability:DPA",
    "leakage": "pipeline.analyses.predictability:LEAKAGE",
    "representation": "pipeline.analyses.representation:REPRESENTATION",
    "review": "pipeline.analyses.review:REVIEW",
    "attribution": "pipeline.analyses.attribution:ATTRIBUTION",
    "power": "pipeline.analyses.power:POWER",
}
NOT_SHOWN = "{name}: {reason}; run counterslope {command} again."
WRONG_SOURCE = "{command} reads {kinds}, but {source} is {kind}"
KINDS = {"run": "a run's folder", "file": "a file with one row a photo", "photos": "photos"}


def analyses() -> dict[str, Analysis[Any]]:
    """Import all analyses: name -> analysis, in the order of the table."""
    places = {name: place.split(":") for name, place in ANALYSES.items()}
    return {name: getattr(import_module(module), attribute) for name, (module, attribute) in places.items()}


def analysis(name: str) -> Analysis[Any]:
    """Look up an analysis by its name or command; ConfigError if it is unknown."""
    known = analyses()
    for each in known.values():
        if name in (each.name, each.command):
            return each
    raise ConfigError(f"there is no analysis {name!r}; the analyses are {', '.join(known)}")


def analysis_names() -> set[str]:
    """Names of the analyses and of their commands."""
    return {name for each in analyses().values() for name in (each.name, each.command) if name}


def compute(name: str, source: Path, given: Mapping[str, Any] | Options, *, watch: Watch = unwatched) -> Result:
    """Run an analysis without writing anything.

    Args:
        name: the analysis, or its command.
        source: a run's folder, or a file with a row per photo.
        given: option -> value, or validated options.
        watch: receives the progress.

    Raises:
        ConfigError, InputError, RunError: an invalid option, file or run; the message says what to do.
        ValueError: values that the measure cannot take.
    """
    chosen = analysis(name)
    kind = "run" if source.is_dir() else "file"
    if kind not in chosen.reads:
        kinds, command = " or ".join(KINDS[each] for each in chosen.reads), chosen.command or chosen.name
        raise InputError(WRONG_SOURCE.format(command=command, kinds=kinds, source=source, kind=KINDS[kind]))
    return chosen.compute(source, given if isinstance(given, Options) else chosen.options.of(given), watch=watch)


def compute_each(
    name: str, source: Path, given: Mapping[str, Any] | Options, *, column: str, watch: Watch = unwatched
) -> Result:
    """Run an analysis of a file separately for each value of a column, such as the condition of a photo.

    Args:
        name: the analysis, or its command.
        source: a file with a row per photo.
        given: as for ``compute``.
        column: of the file; the first column of the joint tables.
        watch: receives the progress.

    Raises:
        InputError: the column is missing or incomplete, or the rows of a value cannot be analysed.
        ConfigError, ValueError: as ``compute``.
    """
    import pandas as pd

    values = columns_of(frame := read_predictions(source), [column], table=str(source))[column]
    results: dict[Any, Result] = {}
    with TemporaryDirectory() as folder:
        for number, value in enumerate(values.unique()):
            part = Path(folder, f"{number}.parquet")
            frame[values == value].to_parquet(part, index=False)
            try:
                results[value] = compute(name, part, given, watch=watch)
            except ValueError as error:
                raise InputError(f"{column} {value!r} of {source}: {error}") from error

    def joined(parts: "Mapping[Any, pd.DataFrame]") -> "pd.DataFrame":
        named = [part.assign(**{column: value})[[column, *part.columns]] for value, part in parts.items()]
        return pd.concat(named, ignore_index=True)

    first, *_ = results.values()
    return Result(
        title=f"{first.title}, by {column}",
        tables={each: joined({value: one.tables[each] for value, one in results.items()}) for each in first.tables},
        printed={each: joined({value: one.printed[each] for value, one in results.items()}) for each in first.printed},
        shown=first.shown,
        notes=[f"{value}: {note}" for value, one in results.items() for note in one.notes],
    )


def method_of(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function whose arguments are the options of an analysis; it calls ``call(name, source, **options)``."""
    chosen = analysis(name)
    fields = chosen.options.model_fields
    source = Parameter("source", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="str | Path | None")
    options = [
        Parameter(option, Parameter.KEYWORD_ONLY, default=Parameter.empty if field.is_required() else field.default)
        for option, field in fields.items()
    ]

    def method(source: str | Path | None = None, **given: Any) -> Any:
        positional = [
            option for option, field in fields.items() if (flag := flag_of(field)) is not None and flag.argument
        ]
        if positional and source is not None and "file" not in chosen.reads:
            given, source = {positional[0]: source, **given}, None
        return call(name, source, **given)

    lines = [f"    {option}: {field.description}." for option, field in fields.items()]
    method.__name__ = name
    method.__doc__ = "\n".join([(chosen.__doc__ or "").partition("\n")[0], "", "Args:", *lines])
    method.__signature__ = Signature([source, *options])  # type: ignore[attr-defined]
    return method


def stage_tables(known: "RunSweeps", watch: Watch = unwatched) -> "dict[str, pd.DataFrame]":
    """Tables, by name, that are estimated with every run."""
    return {name: table for each in analyses().values() for name, table in each.of_every_run(known, watch).items()}


def sections(
    tables: "Mapping[str, pd.DataFrame]",
    *,
    about: Mapping[str, Mapping[str, Any]],
    stale: Mapping[str, str],
    swept: "Mapping[str, Attribute]",
) -> "list[Section]":
    """Make the report's sections from the tables that are not empty.

    Args:
        tables: name -> table, of the run's stages and of analyses.
        about: analysis -> plain values that its section needs.
        stale: analysis -> why its tables are not shown.
        swept: attribute -> its record, with the poles of this run.
    """
    from pipeline.analyses.sections import Section, Subsection

    known = analyses()
    filled = {name: table for name, table in tables.items() if len(table)}
    found = [
        section
        for name, each in known.items()
        if not filled.keys().isdisjoint(each.shows or (name,))
        for section in each.sections(Kept(filled, about.get(name, {}), swept))
    ]
    if stale:
        lines = [
            NOT_SHOWN.format(name=name, reason=reason, command=known[name].command or name if name in known else name)
            for name, reason in stale.items()
        ]
        explanation = "The inputs of these results have changed since, so their tables would mislead."
        found.append(Section("not-shown", "Results that are not shown", explanation, [Subsection("", lines)]))
    return found
