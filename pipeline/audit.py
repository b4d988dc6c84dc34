"""A whole audit, from photos to report, and the parts of it that can be done again on a run's folder."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
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


def ask_again(out: Path, *, changes: Mapping[str, Mapping[str, Any]], watch: Watch = unwatched) -> Run:
    """Ask further classifiers about the versions that a run has, and estimate and report anew.

    Args:
        out: the run's folder.
        changes: section -> option -> value, in place of what the run was made with.
        watch: is told how far each stage is.

    Raises:
        RunError: the folder holds no run, or one whose versions are not complete.
    """
    run = Run(out)
    settings = settings_of(run, changes)
    adapters = make_adapters(settings, out)
    with run.locked():
        kept = run.record["stages"].get("counterfactuals", {})
        if kept.get("state") != "done":
            raise RunError(f"the versions in {out} are not complete: run the audit's own command again first")
        run.note(settings=settings.model_dump(mode="json"))
        _after_versions(Audit(run, settings, (), watch), kept["fingerprint"], adapters)
    return run


def estimate_again(out: Path, *, changes: Mapping[str, Mapping[str, Any]], watch: Watch = unwatched) -> Run:
    """Estimate and report anew from the labels that a run has; no classifier is loaded, let alone asked.

    Args:
        out: the run's folder.
        changes: section -> option -> value, in place of what the run was made with.
        watch: is told how far each stage is.

    Raises:
        RunError: the folder holds no run, or one without labels.
    """
    run = Run(out)
    settings = settings_of(run, changes)
    with run.locked():
        if "presence" not in run.record:
            raise RunError(f"no classifier has labelled the versions in {out}: ask one with `counterslope query`")
        run.note(settings=settings.model_dump(mode="json"))
        run.path("report.html").unlink(missing_ok=True)
        _after_labels(Audit(run, settings, (), watch))
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
        weights=_weights(settings),
        **provenance(),
    )
    return Audit(run, settings, tuple(photos), watch)


def _versions(work: Audit) -> str:
    return counterfactuals_stage(work, faces_stage(work, photos_stage(work)))


def _after_versions(work: Audit, versions: str, adapters: "Sequence[Adapter]") -> None:
    query_stage(work, versions, adapters)
    # Kept, so that estimating again needs no classifier.
    work.run.note(presence={adapter.name: adapter.capabilities.presence for adapter in adapters})
    _after_labels(work)


def _after_labels(work: Audit) -> None:
    threshold = work.settings.statistics.presence
    declared = work.run.record["presence"]
    report_stage(
        work, tables_stage(work, presence={n: d if threshold is None else threshold for n, d in declared.items()})
    )


def _weights(settings: Settings) -> dict[str, str]:
    """The networks that a run uses, with the sha256 of their files.

    Raises:
        WeightsError: the chosen parser's file is not what it should be; found out before any work is done.
    """
    from models.identity import find_weights
    from models.weights import RECORDS, public_bisenet

    found = {name: record.sha256 for name, record in RECORDS.items()}
    if settings.sweep.parser_weights is not None:
        found["parser"] = sha256(public_bisenet(settings.sweep.parser_weights)).hexdigest()
    recogniser = find_weights() if settings.validity.identity_photos else None
    if recogniser is not None:
        found["recogniser"] = sha256(recogniser.read_bytes()).hexdigest()
    return found
