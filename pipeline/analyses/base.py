"""Base classes of analyses: options, inputs, tables, and sections of the report.

An analysis is a subclass of ``Analysis`` in its own file, and a row of the table in ``registry``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipeline.analyses.artifacts import ANSWERED, Inputs
from pipeline.config.attributes import Attribute, attribute_of
from pipeline.config.flags import Flag, listed_unless
from pipeline.config.options import ConfigError, Response, StatisticsOptions
from pipeline.config.sources import problems
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.inputs import RunSweeps
    from pipeline.analyses.sections import Section

Source = Literal["run", "file", "photos"]
RESAMPLES: int = StatisticsOptions.model_fields["resamples"].default


def option_of_run(name: str, description: str | None = None) -> Any:
    """A field that overrides an option of the run's section ``statistics``; None keeps the run's value."""
    text = description or StatisticsOptions.model_fields[name].description
    return Field(None, description=f"{text}; default: the run's own", json_schema_extra={"of_run": True})


def one_or_more(values: object) -> object:
    """Wrap a single value in a tuple."""
    return values if isinstance(values, Sequence) and not isinstance(values, str) else (values,)


Names = Annotated[tuple[str, ...], BeforeValidator(one_or_more), Flag(metavar="COLUMN", parse=list)]
Family = Annotated[
    tuple[Literal["adapter", "attribute"], ...] | None,
    Flag(("--family",), metavar="COLUMNS", parse=listed_unless("all")),
]


class Options(BaseModel):
    """The options of an analysis, for the command line, for Python and for the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    renamed: ClassVar[Mapping[str, str]] = {}  # former name of an option -> its present name

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Validate options.

        Raises:
            ConfigError: a name is unknown or was renamed, or a value is invalid; the message names the option.
        """
        for name in given:
            if name in cls.renamed:
                raise ConfigError(f"the option {name} is now {cls.renamed[name]}")
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise ConfigError("\n".join(problems(error, cls))) from error

    def changes(self) -> dict[str, Any]:
        """The given options that override the run's section ``statistics``."""
        return {name: value for name, value in self._of_run() if value is not None}

    def unchanged(self) -> list[str]:
        """The options of that section that could be overridden but are not given."""
        return [name for name, value in self._of_run() if value is None]

    def _of_run(self) -> list[tuple[str, Any]]:
        fields = type(self).model_fields
        return [(name, value) for name, value in self if fields[name].json_schema_extra == {"of_run": True}]


class RunOptions(Options):
    """Options of estimates for this command only; by default the run's."""

    response: Response | None = option_of_run("response")
    cluster: str | None = option_of_run("cluster")
    min_count: float | None = option_of_run("min_count")


class FamilyOptions(RunOptions):
    """Options of estimates that are tested together, for this command only."""

    family: Family = option_of_run("family")


class ResamplingOptions(Options):
    """Options of the bootstrap over the rows of a file."""

    cluster: str | None = Field(None, description="column of dependent rows, which are resampled together")
    resamples: int = Field(RESAMPLES, description="bootstrap resamples; 0 for no intervals", ge=0)
    seed: int = Field(0, description="seed of all random draws")


@dataclass(frozen=True, eq=False)
class Result:
    """Result of an analysis."""

    title: str
    tables: "Mapping[str, pd.DataFrame]"  # by name, the most important first
    notes: Sequence[str] = ()  # on how to read the tables
    printed: "Mapping[str, pd.DataFrame]" = field(default_factory=dict)  # tables in a shorter form for the terminal
    shown: Sequence[str] = ()  # tables printed by default; all if empty
    kept: "Callable[[], Mapping[str, pd.DataFrame]] | None" = None  # makes the tables stored in a run; default: tables
    about: Mapping[str, Any] = field(default_factory=dict)  # plain values that the report needs next to the tables
    inputs: Inputs = field(default_factory=Inputs)  # files and options that the tables depend on
    by: Sequence[str] = ()  # key columns of the stored tables; earlier rows with other keys are kept

    @property
    def value(self) -> "pd.DataFrame | dict[str, pd.DataFrame]":
        """The table, or a dict if there are several; their ``attrs`` hold the notes."""
        for table in self.tables.values():
            table.attrs["notes"] = tuple(self.notes)
        return next(iter(self.tables.values())) if len(self.tables) == 1 else dict(self.tables)


@dataclass(frozen=True, eq=False)
class Kept:
    """Stored results that the report's sections are made from."""

    tables: "Mapping[str, pd.DataFrame]"  # of all analyses, if current and not empty
    about: Mapping[str, Any]  # of this analysis; empty if the run has none
    swept: Mapping[str, Attribute]  # with the poles of this run

    def attribute(self, name: str) -> Attribute:
        """Look up an attribute."""
        return attribute_of(name, self.swept)


Chosen = TypeVar("Chosen", bound=Options)


class Analysis(ABC, Generic[Chosen]):
    """An analysis; the first line of a subclass's docstring is its help text."""

    name: ClassVar[str]  # of its result in a run and in the report
    command: ClassVar[str] = ""  # on the command line and in Python; default: name
    reads: ClassVar[tuple[Source, ...]] = ("run",)  # accepted kinds of source
    examples: ClassVar[tuple[str, ...]] = ()  # for the help of the command
    tables: ClassVar[tuple[str, ...]] = ()  # names of its tables if it has several
    shows: ClassVar[tuple[str, ...]] = ()  # its section needs one of these tables; default: name
    # Options of the run's section ``statistics`` that its tables depend on, besides those that ``options`` override.
    uses: ClassVar[tuple[str, ...]] = ("presence_threshold",)
    options: type[Chosen]

    @abstractmethod
    def compute(self, source: Path, options: Chosen, *, watch: Watch = unwatched) -> Result:
        """Analyse a run's folder or a file, without writing anything.

        Raises:
            RunError: the folder holds no run, or an incomplete one.
            ConfigError, InputError: an invalid option, file or column; the message says what to do.
            ValueError: values that the measure cannot take.
        """

    def sections(self, kept: Kept) -> "Sequence[Section]":
        """Sections of the report."""
        return ()

    def of_every_run(self, known: "RunSweeps", watch: Watch = unwatched) -> "Mapping[str, pd.DataFrame]":
        """Tables, by name, that are estimated together with the slopes of every run."""
        return {}

    def inputs(
        self, options: Chosen, *, files: Sequence[str] = ANSWERED, elsewhere: Sequence[Path | None] = ()
    ) -> Inputs:
        """Inputs of tables: files in the run and elsewhere, and options of the run that are not overridden."""
        own = (*self.uses, *options.unchanged())
        return Inputs(files=files, elsewhere=[path for path in elsewhere if path is not None], options=own)
