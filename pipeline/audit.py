"""A whole audit, from photos to report, and the parts of it that can be done again on a run's folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import Settings
from pipeline.outputs import report_stage, tables_stage
from pipeline.progress import Watch, unwatched
from pipeline.run import Run, RunError, provenance
from pipeline.stages import Audit, counterfactuals_stage, faces_stage, photos_stage, query_stage

if TYPE_CHECKING:
    from adapters.base import Adapter

SAMPLE = Path(__file__).parent / "sample" / "manifest.csv"


def audit(
    photos: Sequence[Path], out: Path, *, settings: Settings, given: Mapping[str, Any], watch: Watch = unwatched
) -> Run:
    """Audit classifiers on photos; the same call on the same folder continues.

    Args:
        photos: a folder, files, or one manifest.
        out: the run's folder.
        given: the options as the user gave them, kept in the record beside the resolved ones.

    Raises:
        NoUsablePhotos, RunError, AdapterError: with what to do about it.
    """
    # Made before anything else, so that a misspelt name is not found out after an hour of editing.
    adapters = make_adapters(settings, out)
    run = Run(out)
    with run.locked():
        work = _open(run, photos, settings=settings, given=given, watch=watch)
        versions = _versions(work)
        _after_versions(work, versions, adapters)
    return run


def generate(
    photos: Sequence[Path], out: Path, *, settings: Settings, given: Mapping[str, Any], watch: Watch = unwatched
) -> Run:
    """Make the versions of photos, without asking any classifier."""
    run = Run(out)
    with run.locked():
        _versions(_open(run, photos, settings=settings, given=given, watch=watch))
    return run


def again(out: Path, *, changes: Mapping[str, Mapping[str, Any]], watch: Watch = unwatched) -> Run:
    """Ask further classifiers, or estimate and report with other options, on the versions that a run has.

    Args:
        changes: section -> option -> value, in place of what the run was made with.
    """
    run = Run(out)
    settings = settings_of(run, changes)
    adapters = make_adapters(settings, out)
    with run.locked():
        run.note(settings=settings.model_dump(mode="json"))
        work = Audit(run, settings, (), watch)
        kept = run.record["stages"].get("counterfactuals", {})
        if kept.get("state") != "done":
            raise RunError(f"the versions in {out} are not complete: run the audit's own command again first")
        _after_versions(work, kept["fingerprint"], adapters)
    return run


def settings_of(run: Run, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """The options a run was made with, some of them changed.

    Raises:
        RunError: the folder holds no run.
    """
    if "settings" not in run.record:
        raise RunError(f"{run.folder} holds no run (there is no run.json): make one with `counterslope audit`")
    kept = dict(run.record["settings"])
    for section, options in (changes or {}).items():
        kept[section] = {**kept.get(section, {}), **{name: v for name, v in options.items() if v is not None}}
    return Settings.model_validate(kept)


def make_adapters(settings: Settings, out: Path) -> "list[Adapter]":
    """The classifiers of a run by their specifications; one that wants to know the run is told where it is."""
    from adapters.registry import create, option_names

    made = []
    for spec in settings.query.adapters:
        options = dict(settings.query.options.get(spec, {}))
        if "run" in option_names(spec):
            options.setdefault("run", out)
        made.append(create(spec, options))
    return made


def _open(run: Run, photos: Sequence[Path], *, settings: Settings, given: Mapping[str, Any], watch: Watch) -> Audit:
    run.note(
        photos=[str(path) for path in photos],
        settings=settings.model_dump(mode="json"),
        settings_given=dict(given),
        made_with=provenance(),
        weights=_weights(),
    )
    return Audit(run, settings, tuple(photos), watch)


def _versions(work: Audit) -> str:
    return counterfactuals_stage(work, faces_stage(work, photos_stage(work)))


def _after_versions(work: Audit, versions: str, adapters: "Sequence[Adapter]") -> None:
    asked = query_stage(work, versions, adapters)
    threshold = work.settings.statistics.presence
    presence = {a.name: a.capabilities.presence if threshold is None else threshold for a in adapters}
    tables = tables_stage(work, asked, presence=presence)
    report_stage(work, tables)


def _weights() -> dict[str, str]:
    from models.weights import RECORDS

    return {name: record.sha256 for name, record in RECORDS.items()}
