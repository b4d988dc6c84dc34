"""The run record (``run.json``) as a typed model: what made a run, how far it is, what was spent.

Records of older schema versions are upgraded when they are read; the next write keeps them in the current version.
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

from pipeline.config.options import Settings
from pipeline.config.sources import upgraded
from pipeline.run.files import write_text

SCHEMA_VERSION = 2
PACKAGES = (
    "counterslope", "torch", "torchvision", "facenet-pytorch", "opencv-python-headless", "numpy", "scipy",
    "statsmodels", "pandas", "pyarrow", "pillow", "requests", "altair", "vl-convert-python",
)  # fmt: skip
# Version 1 did not record the types of columns: these were text, in whatever table.
VERSION_1_TEXTS = """
    adapter attribute arm label reason direction stars photo name unit words family group other first second category
    task labels statistic metric objective null centre quantity attacker quality flips
"""

State = Literal["running", "done", "incomplete", "stopped", "interrupted"]


class RunError(Exception):
    """A run's folder cannot be used; the message says why and what to do."""


class _Part(BaseModel):
    model_config = ConfigDict(validate_assignment=True, extra="forbid", populate_by_name=True, defer_build=True)


class Stage(_Part):
    """One stage of a run.

    ``fingerprint`` names everything its result depends on; ``counts`` holds planned, ok, failed, excluded and whatever
    else the stage counts; ``seconds`` adds up over restarts; ``peak_mib`` is the process's peak memory at its end;
    ``outputs`` are the files that it wrote, with their digests.
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
    """Where the faces of a remote adapter go."""

    provider: str
    host: str
    retention: str
    version: str | None = None


class PriceFacts(_Part):
    """A price with its date and source."""

    usd_per_1000: float
    as_of: str
    source: str
    note: str = ""
    tokens: tuple[float, float] | None = None
    calls: float = 1.0
    jobs: float = 1.0


class Prepared(_Part):
    """What was done to images that a service does not take as they are: way -> versions, and versions left out."""

    re_encoded: dict[str, int] = {}
    excluded: int = 0


class Tokens(_Part):
    """What the replies of a chat model counted."""

    sent: int = 0
    received: int = 0


class Billed(_Part):
    """Requests without an outcome that may have been billed, and their images."""

    intents: int = 0
    images: list[str] = []


class Drift(_Part):
    """What the sentinel images showed of changes of a service."""

    sentinels: int
    answers: int
    changed: list[str] = []
    largest_score_change: float = 0.0
    versions: list[str] = []


class Reason(_Part):
    """Why versions have no labels, and how many."""

    reason: str
    count: int


class Account(_Part):
    """What became of querying one adapter; parts that do not apply are None."""

    images: int
    known_before: int
    calls_planned: int
    features: int = 1
    rate_limit: float | None = None
    service: Service | None = None
    usd_expected: float | None = None
    price: PriceFacts | None = None
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
    top_k: int | None = Field(None, description="labels that the adapter returns at most")
    cut_off: float | None = Field(None, description="score below which the adapter returns nothing")
    full: int = Field(0, description="versions with as many labels as the adapter returns at most: more may be missing")
    versions: str = Field("", description="fingerprint of the versions that the labels are of")
    fingerprint: str = Field("", description="names everything that the labels depend on")
    ok: int = Field(0, description="versions with labels")
    without_labels: int = Field(0, description="versions that were to have labels and have none")
    reasons: list[Reason] = Field([], description="the most frequent reasons for that")


class Artifact(_Part):
    """Tables that a command added to a run, with the digests of what they were made from.

    Attributes:
        tables: table -> digest of its file.
        files: file of the run -> digest.
        elsewhere: path of another file -> digest.
        options: option of the section ``statistics`` -> value.
        about: plain values that the report needs next to the tables.
        written: when, in ISO 8601.
    """

    tables: dict[str, str]
    files: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    options: dict[str, Any] = {}
    about: dict[str, Any] = {}
    written: str


# In the order in which a record holds them, whichever of two that are under way at once was first.
STAGES = ("photos", "faces", "counterfactuals", "checks", "query", "tables", "report")


class RunRecord(_Part):
    """A run: its input and options, what made it, its stages and their results in short."""

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
    spent: dict[str, float] = Field({}, description="adapter -> US$ so far, of those that were dropped, too")
    presence_thresholds: dict[str, float] = Field({}, description="adapter -> score from which a label is present")
    validity: list[ValidityCheck] = []
    artifacts: dict[str, Artifact] = {}
    tables: dict[str, dict[str, str]] = Field({}, description="table in ``tables/`` -> column -> type; * is any other")

    def plain(self) -> dict[str, Any]:
        """The record in the plain values that stand in ``run.json``."""
        plain: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        plain["query"] = {name: one.model_dump(mode="json", exclude_none=True) for name, one in self.query.items()}
        return plain

    def without_times(self) -> dict[str, Any]:
        """The record in plain values, but for what differs between two runs of the same input: times and memory.

        So that the same run gives the same report to the byte; the times are in ``run.json``.
        """
        plain = self.plain()
        stages = {
            name: {part: value for part, value in stage.items() if part in ("fingerprint", "state", "counts")}
            for name, stage in plain["stages"].items()
        }
        left_out = {"created", "updated", "artifacts", "tables"}
        return {name: part for name, part in plain.items() if name not in left_out} | {"stages": stages}

    def is_done(self, stage: str) -> bool:
        """Whether a stage was finished, from whatever inputs."""
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
    """Write ``run.json``, whole or not at all."""
    write_text(path, json.dumps(record.plain(), indent=2, default=str) + "\n")


def upgrade(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of schema version 1 as version 2 has it: renamed options and parts have their new names."""
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
    """What made the run: versions of the code, Python and packages."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": versions, **_git_state()}


def now() -> str:
    """This moment in UTC, ISO 8601, to the second."""
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
