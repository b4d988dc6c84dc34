"""A whole audit, from photos to report, and the parts of it that can be done again on a run's folder."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.options import Settings
from pipeline.querying.plan import Consent, Plan, PlanError, Retry, called_host, nobody, unconfirmed
from pipeline.run.folder import Run, settings_of
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError, provenance
from pipeline.run.tables import read_frame
from pipeline.stages.base import Audit
from pipeline.stages.counterfactuals import counterfactuals_stage
from pipeline.stages.faces import faces_stage
from pipeline.stages.outputs import report_stage, tables_stage
from pipeline.stages.photos import photos_stage
from pipeline.stages.query import OUTPUTS, query_stage, versions_of

if TYPE_CHECKING:
    from adapters.base import Adapter
    from pipeline.analyses.base import Result


def audit(
    photos: Sequence[Path],
    out: Path,
    *,
    settings: Settings,
    given: Mapping[str, Any],
    adapters: "Sequence[Adapter] | None" = None,
    watch: Watch = unwatched,
    consent: Consent = nobody,
    only: bool = False,
    drop: Sequence[str] = (),
    report: bool = True,
) -> Run:
    """Audit classifiers on photos; the same call on the same folder continues, another classifier is added.

    Args:
        photos: a folder, files, or one manifest.
        out: the run's folder.
        settings: all options.
        given: the options as the user gave them, kept in the record beside the resolved ones.
        adapters: the classifiers, where they are made already; else those that ``settings`` name.
        watch: is told how far each stage is.
        consent: decides whether faces may leave this machine, where they would.
        only: classifiers that are not named now leave the run.
        drop: names of classifiers that leave the run.
        report: write ``report.html``, too.

    Raises:
        NoUsablePhotos, RunError, AdapterError, PlanError: with what to do about it.
    """
    run = Run(out)
    if adapters is None and run.record.query and "adapters" not in settings.query.model_fields_set:
        settings = _with_kept(settings, run, keep=[name for name in run.record.query if name not in drop])
    # Made before anything else, so that a misspelt name is not found out after an hour of editing.
    adapters = make_adapters(settings, out) if adapters is None else adapters
    keep = _kept(run, adapters, only=only, drop=drop)
    settings = _with_kept(settings, run, keep=keep, named=[adapter.name for adapter in adapters])
    if consent is nobody and "query" not in run.record.stages:
        _refuse_remote(adapters)
    with run.locked():
        work = begun(run, photos, settings=settings, given=given, watch=watch, consent=consent)
        versions = _versions(work)
        _after_versions(work, versions, adapters, keep=keep, report=report)
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
    only: bool = False,
    drop: Sequence[str] = (),
    retry: Retry | None = None,
    report: bool = True,
) -> Run:
    """Send further classifiers the versions that a run has, and estimate and report anew; the others stay in the run.

    Args:
        out: the run's folder.
        changes: section -> option -> value, in place of what the run was made with.
        adapters: the classifiers, where they are made already; else those that the options name.
        watch: shows how far each stage is.
        consent: decides whether faces may leave this machine, where they would.
        only: classifiers that are not named now leave the run.
        drop: names of classifiers that leave the run; without any that are named now, nothing is sent.
        retry: "failed": also send again what was answered without labels; "unreadable": nothing else.
        report: write ``report.html``, too.

    Raises:
        RunError: the folder holds no run, one whose versions are not complete, or none of the classifiers to drop.
        AdapterError, PlanError: no classifier could be used, or nothing was sent; with what to do.
    """
    run = Run(out)
    settings = settings_of(run, changes)
    if drop and adapters is None and changes.get("query", {}).get("adapters") is None:
        adapters = ()
    adapters = make_adapters(settings, out) if adapters is None else adapters
    keep = _kept(run, adapters, only=only, drop=drop)
    settings = _with_kept(settings, run, keep=keep, named=[adapter.name for adapter in adapters])
    with run.locked():
        versions = _complete_versions(run)
        run.note(settings=settings)
        work = Audit(run, settings, (), watch, consent)
        _after_versions(work, versions, adapters, keep=keep, retry=retry, report=report)
    return run


def label_again(
    out: Path, *, changes: Mapping[str, Mapping[str, Any]], watch: Watch = unwatched, report: bool = True
) -> Run:
    """Derive a run's labels anew from its raw answers, and estimate and report anew; nothing is sent.

    Args:
        out: the run's folder.
        changes: section -> option -> value, in place of what the run was made with.
        watch: shows how far each stage is.
        report: write ``report.html``, too.

    Raises:
        RunError: the folder holds no run, or one without answers.
        AdapterError: a classifier cannot be made.
        PlanError: the changed options are not those that the answers were given to.
    """
    from adapters.base import AdapterError
    from adapters.credentials import without_credentials

    run = Run(out)
    settings = settings_of(run, changes)
    if not run.record.query:
        raise RunError(f"there are no answers in {out}: send its versions with `counterslope query`")
    settings = _with_kept(settings, run, keep=[], named=list(run.record.query))
    settings.query.check_adapters()
    adapters, keep = [], []
    for name in run.record.query:
        try:
            with without_credentials():
                adapters.append(make_adapter(name, settings, out))
        except AdapterError:
            if name in settings.query.options:
                raise
            keep.append(name)  # a function of a Python program: its answers hold its labels
    with run.locked():
        versions = _complete_versions(run)
        run.note(settings=settings)
        work = Audit(run, settings, (), watch)
        _after_versions(work, versions, adapters, keep=keep, send=False, report=report)
    return run


def _kept(run: Run, adapters: "Sequence[Adapter]", *, only: bool, drop: Sequence[str]) -> list[str]:
    """The classifiers of a run that stay in it next to ``adapters``.

    Raises:
        RunError: the run has none of a name to drop, or would have none left.
    """
    for name in drop:
        if name not in run.record.query:
            raise RunError(
                f"{run.folder} has no adapter {name} to drop; it has {', '.join(run.record.query) or 'none'}"
            )
    named = {adapter.name for adapter in adapters}
    keep = [] if only else [name for name in run.record.query if name not in (*named, *drop)]
    if not adapters and not keep:
        raise RunError(f"{run.folder} would have no adapter left: name another with --adapter")
    return keep


def _with_kept(settings: Settings, run: Run, *, keep: Sequence[str], named: Sequence[str] = ()) -> Settings:
    """The settings with the classifiers that stay in a run, and with its options for them."""
    changes: dict[str, Any] = {"adapters": (*keep, *named)}
    if run.record.settings is not None:
        for table in ("options", "rate", "concurrency", "price"):
            before: Mapping[str, Any] = getattr(run.record.settings.query, table)
            changes[table] = {n: v for n, v in before.items() if n in keep} | getattr(settings.query, table)
    return settings.model_copy(update={"query": settings.query.model_copy(update=changes)})


def _complete_versions(run: Run) -> str:
    """The fingerprint of a run's versions.

    Raises:
        RunError: they are not complete.
    """
    if not run.record.is_done("counterfactuals"):
        raise RunError(f"the versions in {run.folder} are not complete: run the audit's own command again first")
    return run.record.stages["counterfactuals"].fingerprint


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


def keep_result(out: Path, name: str, result: "Result") -> list[str]:
    """Leave what an analysis found in a run, and write its report anew if it has one.

    Args:
        out: the run's folder.
        name: the analysis, or its command.
        result: what it found.

    Returns:
        The names of the tables; none where the analysis leaves none.

    Raises:
        RunError: another process is working on the run.
    """
    from pipeline.analyses.artifacts import add
    from pipeline.analyses.registry import analysis

    run, tables = Run(out), dict(result.tables if result.kept is None else result.kept())
    if tables:
        add(run, analysis(name).name, tables, inputs=result.inputs, about=result.about, by=result.by)
        if run.path("report.html").exists():
            estimate_again(out, changes={})
    return list(tables)


def make_adapters(settings: Settings, out: Path) -> "list[Adapter]":
    """The classifiers of a run by their specifications.

    Raises:
        AdapterError: one cannot be made.
        ConfigError: one is asked twice, or something is said of a classifier that is not asked.
    """
    settings.query.check_adapters()
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
    hosts = sorted({called_host(one) for one in adapters if one.capabilities.remote})
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
        from pipeline.analyses.inputs import FOLDER, PERCEIVED, check_column
        from pipeline.run.tables import read_frame

        photos = read_frame(work.run.path("photos.parquet"))
        if options.by is not None:
            check_column(photos, options.by, purpose="group", built_in=(PERCEIVED, FOLDER))
        if options.cluster is not None:
            check_column(photos, options.cluster, purpose="cluster")


def _after_versions(
    work: Audit,
    versions: str,
    adapters: "Sequence[Adapter]",
    *,
    keep: Sequence[str] = (),
    retry: Retry | None = None,
    send: bool = True,
    report: bool = True,
) -> None:
    run = work.run
    tables = all(run.path(name).exists() for name in OUTPUTS) and not run.damaged("query")
    stale = [name for name in keep if not tables or run.record.query[name].versions != versions]
    adapters = [*adapters, *(make_adapter(name, work.settings, run.folder) for name in stale)]
    keep = [name for name in keep if name not in stale]
    query_stage(work, versions, adapters, keep=keep, retry=retry, send=send)
    # Kept, so that estimating again needs no classifier.
    declared = {name: run.record.presence_thresholds[name] for name in keep}
    declared |= {adapter.name: adapter.capabilities.presence for adapter in adapters}
    run.note(presence_thresholds=declared)
    _after_labels(work, report=report)


def _after_labels(work: Audit, *, report: bool = True) -> None:
    tables = tables_stage(work)
    if report:
        report_stage(work, tables)
    else:  # one that is there would show what was estimated before
        work.run.path("report.html").unlink(missing_ok=True)


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
