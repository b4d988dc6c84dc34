"""The contract of an analysis: what it reads, its options, its tables, what makes these stale, its part of the report.

An analysis is one subclass of ``Analysis`` in one file, and one row of the table in ``registry``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipeline.analyses.artifacts import ANSWERED, Inputs
from pipeline.config.attributes import Attribute, attribute_of
from pipeline.config.flags import Flag, families
from pipeline.config.options import ConfigError, StatisticsOptions
from pipeline.config.sources import problems
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.inputs import RunSweeps
    from pipeline.analyses.sections import Section

Source = Literal["run", "file", "photos"]
RESAMPLES: int = StatisticsOptions.model_fields["resamples"].default  # one default for every analysis


def option_of_run(name: str, description: str | None = None) -> Any:
    """A field with which a command overrides an option of the run's section ``statistics``; None keeps the run's."""
    text = description or StatisticsOptions.model_fields[name].description
    return Field(None, description=f"{text}; the run's own unless given", json_schema_extra={"of_run": True})


def one_or_more(values: object) -> object:
    """One value in place of several."""
    return values if isinstance(values, Sequence) and not isinstance(values, str) else (values,)


Names = Annotated[tuple[str, ...], BeforeValidator(one_or_more), Flag(metavar="COLUMN", parse=list)]
Family = Annotated[
    tuple[Literal["adapter", "attribute"], ...] | None, Flag(("--family",), metavar="COLUMNS", parse=families)
]


class Options(BaseModel):
    """The options of an analysis, declared once for the command line, for Python and for the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    renamed: ClassVar[Mapping[str, str]] = {}  # name that an option had -> its name today

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Options from values by name.

        Raises:
            ConfigError: a name is unknown or was renamed, or a value does not fit; the message names the option.
        """
        for name in given:
            if name in cls.renamed:
                raise ConfigError(f"the option {name} is now {cls.renamed[name]}")
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise ConfigError("\n".join(problems(error, cls))) from error

    def changes(self) -> dict[str, Any]:
        """The options of the run's section ``statistics`` that were given in place of the run's own."""
        extras = {name: field.json_schema_extra for name, field in type(self).model_fields.items()}
        return {name: value for name, value in self if value is not None and extras[name] == {"of_run": True}}


@dataclass(frozen=True, eq=False)
class Result:
    """What an analysis found; tables by their names."""

    title: str  # what the tables show
    tables: "Mapping[str, pd.DataFrame]"  # the most important first
    notes: Sequence[str] = ()  # what a reader must know about them
    printed: "Mapping[str, pd.DataFrame]" = field(default_factory=dict)  # fewer columns, another order, for people
    shown: Sequence[str] = ()  # the tables that are printed unless one is named; all unless given
    kept: "Callable[[], Mapping[str, pd.DataFrame]] | None" = None  # makes what a run keeps; the tables unless given
    about: Mapping[str, Any] = field(default_factory=dict)  # plain values that the report needs next to the tables
    inputs: Inputs = field(default_factory=Inputs)  # what the tables were made from
    by: Sequence[str] = ()  # columns of every kept table; rows of an earlier result that differ in them stay

    @property
    def value(self) -> "pd.DataFrame | dict[str, pd.DataFrame]":
        """The table, or where there are several, name -> table; the notes are their ``attrs``."""
        for table in self.tables.values():
            table.attrs["notes"] = tuple(self.notes)
        return next(iter(self.tables.values())) if len(self.tables) == 1 else dict(self.tables)


@dataclass(frozen=True, eq=False)
class Kept:
    """What a run holds of an analysis, for its sections of the report."""

    tables: "Mapping[str, pd.DataFrame]"  # of all analyses, those that are current and not empty
    about: Mapping[str, Any]  # the result's own; empty where the run has none
    swept: Mapping[str, Attribute]  # with the poles of this run

    def attribute(self, name: str) -> Attribute:
        """An attribute's record by its name."""
        return attribute_of(name, self.swept)


Chosen = TypeVar("Chosen", bound=Options)


class Analysis(ABC, Generic[Chosen]):
    """One analysis; the first line of a subclass's docstring is its help text."""

    name: ClassVar[str]  # of its result in a run and in the report
    command: ClassVar[str] = ""  # on the command line and in Python; its name unless given
    reads: ClassVar[tuple[Source, ...]] = ("run",)  # the kinds of source it takes
    examples: ClassVar[tuple[str, ...]] = ()  # of the command, for its help
    tables: ClassVar[tuple[str, ...]] = ()  # names of its tables, where it has several
    shows: ClassVar[
        tuple[str, ...]
    ] = ()  # tables without any of which it has no section; that of its name unless given
    uses: ClassVar[tuple[str, ...]] = ()  # options of the run's section ``statistics`` that its tables depend on
    options: type[Chosen]

    @abstractmethod
    def compute(self, source: Path, options: Chosen, *, watch: Watch = unwatched) -> Result:
        """The result from a run's folder or a file; nothing is written.

        Raises:
            RunError: the folder holds no run, or not what is needed.
            ConfigError, InputError: an option, a file or a column does not fit; the message says what to do.
            ValueError: values that the measure cannot take.
        """

    def sections(self, kept: Kept) -> "Sequence[Section]":
        """Its sections of the report."""
        return ()

    def of_every_run(self, known: "RunSweeps", watch: Watch = unwatched) -> "Mapping[str, pd.DataFrame]":
        """Tables that are estimated with the slopes of every run: name -> table."""
        return {}

    def inputs(
        self, options: Chosen, *, files: Sequence[str] = ANSWERED, elsewhere: Sequence[Path | None] = ()
    ) -> Inputs:
        """What tables of a run depend on: files there and elsewhere, and the run's own options where none was given."""
        own = [name for name in self.uses if getattr(options, name, None) is None]
        return Inputs(files=files, elsewhere=[path for path in elsewhere if path is not None], options=own)
