"""Options of the analysis of amplification."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pipeline.analyses.base import Names, ResamplingOptions, option_of_run
from pipeline.analyses.inputs import InputError, by_name, share_table
from pipeline.config.flags import Flag
from pipeline.config.options import Response


def _mapping(given: object) -> object:
    """Parse LABEL=TASK texts, and files with the columns label and task, to label -> task."""
    if given is None or isinstance(given, Mapping):
        return given
    mapping: dict[str, str] = {}
    for text in given if isinstance(given, list | tuple) else [given]:
        label, equals, task = str(text).rpartition("=")
        if equals and label and task:
            mapping[label.strip()] = task.strip()
        else:
            mapping |= {str(name): str(value) for name, value in by_name(Path(str(text)), "label", "task").items()}
    return mapping or None


def _pairs(given: object) -> object:
    """Parse LOW,HIGH texts to pairs of numbers."""

    def pair(text: object) -> object:
        try:
            return tuple(float(part) for part in text.split(",")) if isinstance(text, str) else text
        except ValueError:
            raise ValueError("--values takes LOW,HIGH such as -1,1") from None

    return tuple(map(pair, given)) if isinstance(given, list | tuple) else given


class AmplificationOptions(ResamplingOptions):
    """Columns of a file or of a run's manifest, the base of the signs, thresholds, and the bootstrap."""

    renamed: ClassVar[Mapping[str, str]] = {"predicted_task": "prediction", "tasks": "map", "show": "table"}

    attribute: Names = Field((), description="column of the groups' names, or columns of 0 and 1")
    task: Names = Field((), description="column of the tasks' names, or columns of 0 and 1")
    prediction: Names = Field((), description="column of predicted tasks, in the order of --task, for A->T")
    predicted_attribute: Names = Field(
        (), description="column of predicted groups, in the order of --attribute, for T->A; with both, also MALS"
    )
    train: Path | None = Field(None, description="file of training labels with the same columns: the base of the signs")
    base: Path | Mapping[str, float] | None = Field(
        None, description="table of a group's share in each task: the base instead; in Python also task -> share"
    )
    base_columns: str | None = Field(None, description="TASK,SHARE,GROUP: two columns, and the group of the shares")
    base_rates: bool = Field(False, description="compare predictions with the shares of --base instead of labels")
    base_weights: str | None = Field(
        None, description="with --base-rates: its column with the frequency of each task, such as employees"
    )
    base_group: str | None = Field(None, description="the group of the shares, if --base-columns does not name it")
    threshold: float | None = Field(
        None, description="scores from this value count as 1; by default scores are averaged"
    )
    over: Literal["scores", "ranks"] | None = Field(None, description="average over all thresholds: scores or ranks")
    validation: Path | None = Field(None, description="file with the same columns to calibrate thresholds on")
    rule: Literal["code", "paper"] = Field(
        "code", description="rules where they differ: of the published code or the paper"
    )
    sets: Literal["code", "paper"] | None = Field(
        None, description="also sets of tasks (Multi), by the rule of the published code or the paper"
    )
    map: Annotated[Mapping[str, str] | None, BeforeValidator(_mapping), Flag(metavar="LABEL=TASK", parse=list)] = Field(
        None, description="of a run: LABEL=TASK, or a file with the columns label and task"
    )
    values: Annotated[
        tuple[tuple[float, float], ...], BeforeValidator(_pairs), Flag(metavar="LOW,HIGH", parse=list)
    ] = Field((), description="of a run: LOW,HIGH values of the attribute to compare; default: the ends of the sweep")
    response: Response | None = option_of_run("response")
    cluster: str | None = option_of_run("cluster", "column of dependent rows or photos, such as person")
    level: float = Field(0.95, description="confidence level of the intervals", gt=0, lt=1)

    @property
    def drawing(self) -> dict[str, Any]:
        """Options of the bootstrap."""
        return {"resamples": self.resamples, "seed": self.seed, "level": self.level}

    def shares(self) -> tuple[Mapping[str, float], str] | None:
        """Read task -> share, and the group of the shares; None without a base.

        Raises:
            InputError: the table's columns or the group are not named.
        """
        if self.base is None:
            return None
        task, share, group, *_ = [part.strip() for part in (self.base_columns or "").split(",")] + [""] * 3
        group = group or self.base_group or ""
        if isinstance(self.base, Mapping):
            shares = self.base
        elif task and share and group:
            shares = share_table(self.base, task=task, share=share)
        else:
            raise InputError("--base needs --base-columns TASK,SHARE,GROUP, such as occupation,bls_pct_female,female")
        if not group:
            raise InputError("name the group of the shares with base_group")
        return shares, group

    def base_words(self) -> str:
        """Describe the source of the signs, for the report."""
        shares = self.shares()
        if shares is None:
            return f"the manifest's columns {', '.join(self.attribute)} and {', '.join(self.task)}"
        return f"the shares of {shares[1]} in {self.base.name if isinstance(self.base, Path) else 'a given table'}"
