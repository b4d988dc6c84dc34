"""The run record (``run.json``) as a typed model: provenance, options, state of the stages, and accounts of queries.

Records of older schema versions are upgraded when they are read.
"""

import json
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from adapters.base import Price
from pipeline.config.options import Settings
from pipeline.config.sources import upgraded
from pipeline.run.files import write_text

SCHEMA_VERSION = 2
PACKAGES = (
    "counterslope", "torch", "torchvision", "facenet-pytorch", "opencv-python-headless", "numpy", "scipy",
    "statsmodels", "pandas", "pyarrow", "pillow", "requests", "altair", "vl-convert-python",
)  # fmt: skip
# Version 1 did not record the types of columns. Columns of these names were text in all tables.
VERSION_1_TEXTS = """
    adapter attribute arm label reason direction stars photo name unit words family group other first second category
    task labels statistic metric objective null centre quantity attacker quality flips
"""

State = Literal["running", "done", "incomplete", "stopped", "interrupted"]


class RunError(Exception):
    """A run's folder cannot be used. The message says why and what to do."""


class _Part(BaseModel):
    model_config = ConfigDict(validate_assignment=True, extra="forbid", populate_by_name=True, defer_build=True)


class Stage(_Part):
    """A stage of a run.

    Attributes:
        fingerprint: a digest of everything that the result depends on.
        counts: planned, ok, failed, excluded and further counts.
        seconds: duration, summed over restarts.
        peak_mib: peak memory of the process and its workers at the end of the stage.
        outputs: file -> digest.
    """

    fingerprint: str
    state: State = "running"
    counts: dict[str, int] = {}
    seconds: float = 0.0
    peak_mib: float = 0.0
    finished: str | None = None
    outputs: dict[str, str] = {}


class ValidityCheck(_Part):
    """One row of the validity card."""

    name: str
    attribute: str
    figure: float | None
    unit: str
    threshold: float | None
    passed: bool | None
    words: str
    of_size: bool = False


class Service(_Part):
    """The service to which a remote adapter sends faces."""

    provider: str
    host: str
    retention: str
    version: str | None = None


class Prepared(_Part):
    """Images that had to be changed for a service: encoding -> number of versions, and excluded versions."""

    re_encoded: dict[str, int] = {}
    excluded: int = 0


class Tokens(_Part):
    """Tokens, as counted in the replies of a chat model."""

    sent: int = 0
    received: int = 0


class Billed(_Part):
    """Requests without an outcome that may have been billed, and their images."""

    intents: int = 0
    images: list[str] = []


class Drift(_Part):
    """Changes of a service that sentinel images detected."""

    sentinels: int
    answers: int
    changed: list[str] = []
    largest_score_change: float = 0.0
    versions: list[str] = []


class Reason(_Part):
    """A reason why versions have no labels, and their number."""

    reason: str
    count: int


class Account(_Part):
    """The account of queries to one adapter; fields that do not apply are None."""

    images: int
    known_before: int
    calls_planned: int
    features: int = 1
    rate_limit: float | None = None
    service: Service | None = None
    usd_expected: float | None = None
    price: Price | None = None
    answered_now: int = 0
    unreadable: int = Field(0, description="images whose answer holds no labels")
    failed: int = 0
    not_asked: int = 0
    waiting: int = Field(0, description="images in jobs that the service has not answered yet")
    calls: int = 0
    asked_again: int = 0
    throttled: int = 0
    stopped: str | None = None
    problem: str | None = None
    prepared: Prepared | None = None
    possibly_billed: Billed | None = None
    drift: Drift | None = None
    usd_so_far: float | None = None
    tokens: Tokens | None = None
    top_k: int | None = Field(None, description="largest number of labels that the adapter returns")
    cut_off: float | None = Field(None, description="score below which the adapter returns nothing")
    full: int = Field(0, description="versions with the largest number of labels, for which more may be missing")
    versions: str = Field("", description="fingerprint of the labelled versions")
    fingerprint: str = Field("", description="digest of everything that the labels depend on")
    ok: int = Field(0, description="versions with labels")
    without_labels: int = Field(0, description="planned versions without labels")
    reasons: list[Reason] = Field([], description="the most frequent reasons for missing labels")


class Artifact(_Part):
    """Tables that a command added to a run, with digests of their inputs.

    Attributes:
        tables: table -> digest of its file.
        files: input file in the run -> digest.
        elsewhere: path of another input file -> digest.
        options: option of the section ``statistics`` -> value.
        about: plain values for the report.
        written: time in ISO 8601.
    """

    tables: dict[str, str]
    files: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    options: dict[str, Any] = {}
    about: dict[str, Any] = {}
    written: str


# The order of stages in a record, whichever of two concurrent stages began first.
STAGES = ("photos", "faces", "counterfactuals", "checks", "query", "tables", "report")


class RunRecord(_Part):
    """A run: its input and options, provenance, stages, and summaries of their results."""

    schema_version: Literal[2] = Field(2, alias="schema")
    created: str = Field(default_factory=lambda: now())
    updated: str | None = None
    photos: list[str] = []
    settings: Settings | None = None
    settings_given: dict[str, Any] = {}
    weights: dict[str, str] = {}
    python: str | None = None
    platform: str | None = None
    packages: dict[str, str] = {}
    git_commit: str | None = None
    git_dirty: bool | None = None
    precision: str | None = None
    stages: dict[str, Stage] = {}
    query: dict[str, Account] = {}
    spent: dict[str, float] = Field({}, description="adapter -> US$ so far, including removed adapters")
    presence_thresholds: dict[str, float] = Field({}, description="adapter -> smallest score of a present label")
    validity: list[ValidityCheck] = []
    artifacts: dict[str, Artifact] = {}
    tables: dict[str, dict[str, str]] = Field({}, description="table in ``tables/`` -> column -> type; *: other tables")

    def plain(self) -> dict[str, Any]:
        """Return the record as the plain values of ``run.json``."""
        plain: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        plain["query"] = {
            name: account.model_dump(mode="json", exclude_none=True) for name, account in self.query.items()
        }
        return plain

    def without_times(self) -> dict[str, Any]:
        """Return the record as plain values without times and memory, so that equal runs have identical reports."""
        plain = self.plain()
        stages = {
            name: {part: value for part, value in stage.items() if part in ("fingerprint", "state", "counts")}
            for name, stage in plain["stages"].items()
        }
        left_out = {"created", "updated", "artifacts", "tables"}
        return {name: part for name, part in plain.items() if name not in left_out} | {"stages": stages}

    def is_done(self, stage: str) -> bool:
        """Return whether a stage was finished, with any inputs."""
        return stage in self.stages and self.stages[stage].state == "done"


def read_record(path: Path) -> RunRecord:
    """Read ``run.json``.

    Raises:
        RunError: the file cannot be read, is damaged, or was written by a newer program.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}): restore it, or name another folder with --out") from error
    found = content.get("schema") if isinstance(content, dict) else None
    if found not in (1, SCHEMA_VERSION):
        raise RunError(
            f"{path.parent} was written in schema {found!r}, this program reads up to {SCHEMA_VERSION}: "
            "update counterslope, or name another folder with --out"
        )
    try:
        return RunRecord.model_validate(upgrade(content) if found == 1 else content)
    except ValidationError as error:
        damage = _first_problem(error)
        raise RunError(f"{path} is damaged ({damage}): restore it, or name another folder with --out") from error


def write_record(record: RunRecord, path: Path) -> None:
    """Write ``run.json`` atomically."""
    write_text(path, json.dumps(record.plain(), indent=2, default=str) + "\n")


def upgrade(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of schema version 1 in version 2, with renamed options and parts."""
    texts = dict.fromkeys(VERSION_1_TEXTS.split(), "string")
    renamed = {"presence": "presence_thresholds", "additions": "artifacts"}
    found = {renamed.get(name, name): part for name, part in record.items()} | {
        "schema": SCHEMA_VERSION,
        "tables": {"*": texts},
    }
    settings = found.get("settings")
    if isinstance(settings, Mapping) and all(isinstance(section, Mapping) for section in settings.values()):
        found["settings"] = upgraded(settings)
    return found


def provenance() -> dict[str, Any]:
    """Return the versions of the code, Python and packages."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": versions, **_git_state()}


def now() -> str:
    """Return the time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def _git_state() -> dict[str, Any]:
    source = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(  # noqa: S603 - fixed words, no user input
                ["git", "-C", str(source), *arguments],  # noqa: S607 - git is where the user has it
                capture_output=True, text=True, timeout=10, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    if not (source / ".git").exists():
        return {"git_commit": None, "git_dirty": None}
    changes = git("status", "--porcelain")
    return {"git_commit": git("rev-parse", "HEAD"), "git_dirty": None if changes is None else bool(changes)}
