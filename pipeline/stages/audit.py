"""A whole audit, from photos to report, and the parts of it that can be done again on a run's folder."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.options import Settings
from pipeline.querying.plan import Consent, Plan, PlanError, nobody, unconfirmed
from pipeline.run.folder import Run, settings_of
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError, provenance
from pipeline.run.tables import read_frame
from pipeline.stages.outputs import report_stage, tables_stage
from pipeline.stages.query import query_stage, versions_of
from pipeline.stages.stages import Audit, counterfactuals_stage, faces_stage, photos_stage

if TYPE_CHECKING:
    from adapters.base import Adapter


def audit(
    photos: Sequence[Path],
    out: Path,
    *,
    settings: Settings,
    given: Mapping[str, Any],
    adapters: "Sequence[Adapter] | None" = None,
    watch: Watch = unwatched,
    consent: Consent = nobody,
) -> Run:
    """Audit classifiers on photos; the same call on the same folder continues.

    Args:
        photos: a folder, files, or one manifest.
        out: the run's folder.
        settings: all options.
        given: the options as the user gave them, kept in the record beside the resolved ones.
        adapters: the classifiers, where they are made already; else those that ``settings`` name.
        watch: is told how far each stage is.
        consent: decides whether faces may leave this machine, where they would.

    Raises:
        NoUsablePhotos, RunError, AdapterError, PlanError: with what to do about it.
    """
    # Made before anything else, so that a misspelt name is not found out after an hour of editing.
    adapters = make_adapters(settings, out) if adapters is None else adapters
    run = Run(out)
    if consent is nobody and "query" not in run.record.stages:
        _refuse_remote(adapters)
    with run.locked():
        work = begun(run, photos, settings=settings, given=given, watch=watch, consent=consent)
        versions = _versions(work)
        _after_versions(work, versions, adapters)
    return run


def generate(
    photos: Sequence[Path], out: Path, *, settings: Settings, given: Mapping[str, Any], watch: Watch = unwatched
) -> Run:
    """Make the versions of photos, without asking any classifier."""
    run = Run(out)
    with run.locked():
        _versions(begun(run, photos, settings=settings, given=given, watch=watch))
    return run


def find_faces(
    photos: Sequence[Path], out: Path, *, settings: Settings, given: Mapping[str, Any], watch: Watch = unwatched
) -> Run:
    """Find the face of every photo and estimate how it is perceived, making no version and asking no classifier."""
    run = Run(out)
    with run.locked():
        work = begun(run, photos, settings=settings, given=given, watch=watch)
        faces_stage(work, photos_stage(work))
    return run


def ask_again(
    out: Path,
    *,
    changes: Mapping[str, Mapping[str, Any]],
    adapters: "Sequence[Adapter] | None" = None,
    watch: Watch = unwatched,
    consent: Consent = nobody,
) -> Run:
    """Ask further classifiers about the versions that a run has, and estimate and report anew.

    Args:
        out: the run's folder.
        changes: section -> option -> value, in place of what the run was made with.
        adapters: the classifiers, where they are made already; else those that the options name.
        watch: is told how far each stage is.
        consent: decides whether faces may leave this machine, where they would.

    Raises:
        RunError: the folder holds no run, or one whose versions are not complete.
        AdapterError, PlanError: nothing could be asked, or was to be.
    """
    run = Run(out)
    settings = settings_of(run, changes)
    adapters = make_adapters(settings, out) if adapters is None else adapters
    with run.locked():
        if not run.record.is_done("counterfactuals"):
            raise RunError(f"the versions in {out} are not complete: run the audit's own command again first")
        run.note(settings=settings)
        versions = run.record.stages["counterfactuals"].fingerprint
        _after_versions(Audit(run, settings, (), watch, consent), versions, adapters)
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
        if not run.record.presence_thresholds:
            raise RunError(f"no classifier has labelled the versions in {out}: ask one with `counterslope query`")
        _check_columns(Audit(run, settings, (), watch))
        run.note(settings=settings)
        run.path("report.html").unlink(missing_ok=True)
        _after_labels(Audit(run, settings, (), watch))
    return run


def make_adapters(settings: Settings, out: Path) -> "list[Adapter]":
    """The classifiers of a run by their specifications.

    Raises:
        AdapterError: one cannot be made.
        ConfigError: one is asked twice, or something is said of a classifier that is not asked.
    """
    settings.query.check_asked()
    return [make_adapter(spec, settings, out) for spec in settings.query.adapters]


def make_adapter(spec: str, settings: Settings, out: Path) -> "Adapter":
    """One classifier with its options; one that wants to know the run is told where it is.

    Raises:
        AdapterError: there is no such classifier, or an option does not fit.
    """
    from adapters.registry import create, option_names

    options = dict(settings.query.options.get(spec, {}))
    if "run" in option_names(spec):
        options.setdefault("run", out)
    return create(spec, options)


def planned(run: Run, adapters: "Sequence[Adapter]", settings: Settings) -> Plan:
    """What asking about a run's versions would come to, exactly, from what lies in its folder; nothing is written.

    Raises:
        RunError: its versions are not complete.
    """
    from pipeline.querying.plan import adapter_requests, plan_of
    from pipeline.querying.store import Store

    if not run.record.is_done("counterfactuals"):
        raise RunError(f"the versions in {run.folder} are not complete: plan from its photos, or finish the run")
    versions = versions_of(run, read_frame(run.path("counterfactuals.parquet")))
    store = run.path("responses.sqlite")
    with Store(store) if store.exists() else nullcontext() as known:
        folder = run.path("sent")
        return plan_of(adapter_requests(adapters, versions, settings.query, folder=folder, store=known, make=False))


def planned_for_photos(photos: Sequence[Path], adapters: "Sequence[Adapter]", settings: Settings) -> Plan:
    """What an audit of photos would come to: the usable photos times the steps of all sweeps.

    Raises:
        NoUsablePhotos: there is nothing to audit.
    """
    from pipeline.photos.listing import check_photos, find_photos
    from pipeline.querying.plan import estimated

    statuses = check_photos(find_photos(photos), options=settings.photos)["status"].to_pylist()
    return estimated(adapters, statuses.count("ok") * settings.sweep.versions, settings.query)


def _refuse_remote(adapters: "Sequence[Adapter]") -> None:
    """Nobody will be there to confirm: better said before an hour of editing than after it."""
    hosts = sorted({one.capabilities.service.host for one in adapters if one.capabilities.service is not None})
    if hosts:
        raise PlanError(unconfirmed(hosts))


def begun(
    run: Run,
    photos: Sequence[Path],
    *,
    settings: Settings,
    given: Mapping[str, Any],
    watch: Watch,
    consent: Consent = nobody,
) -> Audit:
    """The work on a run, noted in its record: from what, with which options, weights and versions.

    Raises:
        WeightsError: the chosen parser's file is not what it should be.
    """
    run.note(
        photos=[str(path) for path in photos],
        settings=settings,
        settings_given=dict(given),
        weights=_weights(settings),
        **provenance(),
    )
    return Audit(run, settings, tuple(photos), watch, consent)


def _versions(work: Audit) -> str:
    photos = photos_stage(work)
    _check_columns(work)
    return counterfactuals_stage(work, faces_stage(work, photos))


def _check_columns(work: Audit) -> None:
    """Columns that the statistics will want are looked for before an hour of editing, not after it."""
    options = work.settings.statistics
    if options.by is not None or options.cluster is not None:
        from pipeline.analyses.groups import FOLDER, PERCEIVED, check_column
        from pipeline.run.tables import read_frame

        photos = read_frame(work.run.path("photos.parquet"))
        if options.by is not None:
            check_column(photos, options.by, purpose="group", built_in=(PERCEIVED, FOLDER))
        if options.cluster is not None:
            check_column(photos, options.cluster, purpose="cluster")


def _after_versions(work: Audit, versions: str, adapters: "Sequence[Adapter]") -> None:
    query_stage(work, versions, adapters)
    # Kept, so that estimating again needs no classifier.
    work.run.note(presence_thresholds={adapter.name: adapter.capabilities.presence for adapter in adapters})
    _after_labels(work)


def _after_labels(work: Audit) -> None:
    threshold = work.settings.statistics.presence
    declared = work.run.record.presence_thresholds
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
