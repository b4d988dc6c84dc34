"""The complete audit, from photos to report, and the parts that can be repeated in a run's folder."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.base import AdapterError
from models.errors import DeviceError, WeightsError
from pipeline.analyses.inputs import InputError
from pipeline.config.options import ConfigError, Settings
from pipeline.photos.listing import NoUsablePhotos
from pipeline.querying.plan import Consent, PlanError, Retry, no_consent
from pipeline.querying.store import StoreError
from pipeline.run.checkpoint import RunCopy
from pipeline.run.engine import IN_PROCESS, Engine, alongside
from pipeline.run.folder import Run, folder_of, settings_of
from pipeline.run.locks import locked
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError, provenance
from pipeline.run.storage import Location, RemoteFile, location
from pipeline.run.tables import read_frame
from pipeline.stages.adapters import kept_adapters, make_adapter, make_adapters, with_kept
from pipeline.stages.base import Audit, check_outputs, started_engine
from pipeline.stages.checks import checks_stage
from pipeline.stages.counterfactuals import counterfactuals_stage
from pipeline.stages.faces import faces_stage
from pipeline.stages.photos import photos_stage
from pipeline.stages.plan import refuse_remote
from pipeline.stages.query import OUTPUTS, query_stage
from pipeline.stages.report import PAGE, report_stage
from pipeline.stages.tables import tables_stage

if TYPE_CHECKING:
    from adapters.base import Adapter
    from pipeline.analyses.base import Result
    from pipeline.stages.adapters import Classifier

LARGE = 1_000_000  # pixels of a photo above which concurrent classifiers and checks need too much memory
# Errors that a user can correct: the message of each says what is wrong and what to do.
USER_ERRORS: tuple[type[Exception], ...] = (
    AdapterError, ConfigError, DeviceError, InputError, NoUsablePhotos, PlanError, RunError, StoreError, WeightsError,
)  # fmt: skip


def audit(
    photos: Sequence[Location],
    out: Location,
    *,
    settings: Settings,
    given: Mapping[str, Any],
    adapters: "Sequence[Classifier] | None" = None,
    watch: Watch = unwatched,
    consent: Consent = no_consent,
    only: bool = False,
    drop: Sequence[str] = (),
    report: bool = True,
) -> Run:
    """Audit classifiers on photos. The same call on the same folder continues the run; further classifiers are added.

    Args:
        photos: a folder, files, or one manifest.
        out: the run's folder, or its URL in an object store; see ``opened_run``.
        settings: all options.
        given: the options as given by the user, stored in the record next to the resolved ones.
        adapters: the classifiers: names, functions or adapter objects. Default: those named in ``settings``.
        watch: opens the progress display of a stage.
        consent: decides whether faces may leave this machine.
        only: remove classifiers that are not named now from the run.
        drop: names of classifiers to remove from the run.
        report: also write ``report.html``.

    Raises:
        NoUsablePhotos, RunError, AdapterError, PlanError: the message says what to do.
    """
    run, settings = opened_run(out, settings)
    if adapters is None and run.record.query and "adapters" not in settings.query.model_fields_set:
        settings = with_kept(settings, run, keep=[name for name in run.record.query if name not in drop])
    made = make_adapters(settings, run.folder, adapters)
    keep = kept_adapters(run, made, only=only, drop=drop)
    settings = with_kept(settings, run, keep=keep, named=[adapter.name for adapter in made])
    if consent is no_consent and "query" not in run.record.stages:
        refuse_remote(made)
    with run.locked(), started_engine(settings.engine) as engine:
        work = start_run(run, photos, settings=settings, given=given, watch=watch, consent=consent, engine=engine)
        versions = _make_versions(work)
        # Checks come first if a user may be asked for consent, the folder is copied to a store, or large photos would
        # need too much memory for both. Otherwise they run during the queries.
        first = keep or any(adapter.capabilities.service is not None for adapter in made)
        first = first or isinstance(run.images.root, RemoteFile) or _largest(run) > LARGE
        faces = min(run.record.stages["faces"].counts["ok"], settings.validity.picture_photos)
        checks = alongside(IN_PROCESS if first else work.engine_for(faces), partial(checks_stage, work, versions))
        _query(work, versions, made, keep=keep, report=report, meanwhile=checks)
    return run


def find_faces(
    photos: Sequence[Location], out: Path, *, settings: Settings, given: Mapping[str, Any], watch: Watch = unwatched
) -> Run:
    """Find the face of every photo and estimate its attributes, without versions and classifiers; see ``audit``."""
    run = Run(out)
    with run.locked(), started_engine(settings.engine) as engine:
        work = start_run(run, photos, settings=settings, given=given, watch=watch, engine=engine)
        faces_stage(work, photos_stage(work))
    return run


def query_run(
    out: Path,
    *,
    changes: Mapping[str, Mapping[str, Any]],
    adapters: "Sequence[Adapter] | None" = None,
    watch: Watch = unwatched,
    consent: Consent = no_consent,
    only: bool = False,
    drop: Sequence[str] = (),
    retry: Retry | None = None,
    report: bool = True,
) -> Run:
    """Send the versions of a run to further classifiers, then estimate and report again; the others stay in the run.

    Args, in addition to those of ``audit``:
        changes: section -> option -> value, replacing options of the run.
        drop: names of classifiers to remove; if no classifier is named, nothing is sent.
        retry: "failed": also resend requests whose answers have no labels; "unreadable": resend only unreadable
            answers.

    Raises:
        RunError: the folder contains no run, its versions are incomplete, or a classifier to drop is not in it.
        AdapterError, PlanError: no classifier could be used, or nothing was sent; the message says what to do.
    """
    run = Run(out)
    settings = settings_of(run, changes)
    if drop and adapters is None and changes.get("query", {}).get("adapters") is None:
        adapters = ()
    adapters = make_adapters(settings, out) if adapters is None else adapters
    keep = kept_adapters(run, adapters, only=only, drop=drop)
    settings = with_kept(settings, run, keep=keep, named=[adapter.name for adapter in adapters])
    with run.locked(), started_engine(settings.engine) as engine:
        versions = _complete_versions(run)
        run.note(settings=settings)
        work = Audit(run, settings, watch=watch, consent=consent, engine=engine)
        _query(work, versions, adapters, keep=keep, retry=retry, report=report)
    return run


def label_run(
    out: Path, *, changes: Mapping[str, Mapping[str, Any]], watch: Watch = unwatched, report: bool = True
) -> Run:
    """Derive a run's labels again from its raw answers, then estimate and report; see ``query_run``. Nothing is sent.

    Raises:
        RunError: the folder contains no run, or one without answers.
        AdapterError: a classifier cannot be made.
        PlanError: there are no answers for the changed options.
    """
    from adapters.credentials import without_credentials

    run = Run(out)
    settings = settings_of(run, changes)
    if not run.record.query:
        raise RunError(f"there are no answers in {out}: send its versions with `counterslope query`")
    settings = with_kept(settings, run, keep=[], named=list(run.record.query))
    settings.query.check_adapters()
    adapters, keep = [], []
    for name in run.record.query:
        try:
            with without_credentials():
                adapters.append(make_adapter(name, settings, out))
        except AdapterError:
            if name in settings.query.options:
                raise
            keep.append(name)  # a Python function, whose answers already are its labels
    with run.locked():
        versions = _complete_versions(run)
        run.note(settings=settings)
        _query(Audit(run, settings, watch=watch), versions, adapters, keep=keep, send=False, report=report)
    return run


def estimate_run(out: Path, *, changes: Mapping[str, Mapping[str, Any]], watch: Watch = unwatched) -> Run:
    """Estimate and report again from a run's labels, without any classifier; see ``query_run``.

    Raises:
        RunError: the folder contains no run, or one without labels.
    """
    run = Run(out)
    settings = settings_of(run, changes)
    with run.locked():
        if not run.record.presence_thresholds:
            raise RunError(f"no classifier has labelled the versions in {out}: query one with `counterslope query`")
        work = Audit(run, settings, watch=watch)
        _check_columns(work)
        run.note(settings=settings)
        run.path(PAGE).unlink(missing_ok=True)
        _estimate(work)
    return run


def keep_result(out: Path, name: str, result: "Result", *, watch: Watch = unwatched) -> list[str]:
    """Store the tables of an analysis in a run, and update its report if it has one.

    Returns:
        The names of the tables; empty if the analysis stores none.

    Raises:
        RunError: another process is working on the run.
    """
    from pipeline.analyses.artifacts import add
    from pipeline.analyses.registry import analysis

    run, tables = Run(out), dict(result.tables if result.kept is None else result.kept())
    if tables:
        add(run, analysis(name).name, tables, inputs=result.inputs, about=result.about, by=result.by)
        if run.path(PAGE).exists():
            estimate_run(out, changes={}, watch=watch)
    return list(tables)


def opened_run(out: Location, settings: Settings) -> tuple[Run, Settings]:
    """Open a run's folder and adapt its options; fetch a run that another machine started in an object store.

    Args:
        out: the folder, or a URL for the images and copies of the run's own files, which are in ``runs/PROTOCOL/…``.
        settings: all options.

    Raises:
        RunError: the folder or the store contains something else.
        ConfigError: several processes would use the memory of one, or ``images_to`` names another store than ``out``.
    """
    if isinstance(out, RemoteFile):
        if settings.storage.images_to not in (None, out.url):
            raise ConfigError(f"the images are written to --out {out}, too: omit --images-to")
        storage = settings.storage.model_copy(update={"images_to": out.url})
        settings = settings.model_copy(update={"storage": storage})
        out = folder_of(out)
    if (source := settings.storage.images_to) is not None and isinstance(store := location(source), RemoteFile):
        if source.startswith("memory:") and settings.engine.workers != 1:
            raise ConfigError("memory:// is not shared between processes; use it with one worker")
        with locked(out):
            RunCopy(out, store).fetch()
    return Run(out), settings


def start_run(
    run: Run,
    photos: Sequence[Location],
    *,
    settings: Settings,
    given: Mapping[str, Any],
    watch: Watch = unwatched,
    consent: Consent = no_consent,
    engine: Engine = IN_PROCESS,
) -> Audit:
    """Write inputs, options, weights and versions to the run's record; see ``audit``.

    Raises:
        WeightsError: the file of the chosen parser is not the expected one.
    """
    run.note(
        photos=[str(path) for path in photos],
        settings=settings,
        settings_given=dict(given),
        weights=_weights(settings),
        **provenance(),
    )
    run.checkpoint()  # before any image is written there
    return Audit(run, settings, tuple(photos), watch, consent, engine)


def make_counterfactuals(work: Audit) -> str:
    """Run the stages up to the versions and their checks, without classifiers; return the versions' fingerprint."""
    versions = _make_versions(work)
    checks_stage(work, versions)
    return versions


def _make_versions(work: Audit) -> str:
    photos = photos_stage(work)
    _check_columns(work)
    return counterfactuals_stage(work, faces_stage(work, photos))


def _largest(run: Run) -> int:
    """Return the number of pixels of the largest usable photo, at its decoded size."""
    photos = read_frame(run.path("photos.parquet"), columns=["width", "height", "status"])
    used = photos[photos["status"] == "ok"]
    return int((used["width"].astype(int) * used["height"].astype(int)).max())


def _complete_versions(run: Run) -> str:
    """Return the fingerprint of a run's versions.

    Raises:
        RunError: they are incomplete, or their table is damaged.
    """
    if not run.record.is_done("counterfactuals"):
        raise RunError(f"the versions in {run.folder} are not complete: run the audit's own command again first")
    check_outputs(run, "counterfactuals")
    return run.record.stages["counterfactuals"].fingerprint


def _check_columns(work: Audit) -> None:
    """Check that the columns for the statistics exist, before the versions are made."""
    options = work.settings.statistics
    if options.by is None and options.cluster is None:
        return
    from pipeline.analyses.inputs import FOLDER, PERCEIVED, check_column

    photos = read_frame(work.run.path("photos.parquet"))
    if options.by is not None:
        check_column(photos, options.by, purpose="group", built_in=(PERCEIVED, FOLDER))
    if options.cluster is not None:
        check_column(photos, options.cluster, purpose="cluster")


def _query(
    work: Audit,
    versions: str,
    adapters: "Sequence[Adapter]",
    *,
    keep: Sequence[str],
    retry: Retry | None = None,
    send: bool = True,
    report: bool = True,
    meanwhile: AbstractContextManager[None] | None = None,
) -> None:
    run = work.run
    tables = all(run.path(name).exists() for name in OUTPUTS) and not run.damaged("query")
    stale = [name for name in keep if not tables or run.record.query[name].versions != versions]
    adapters = [*adapters, *(make_adapter(name, work.settings, run.folder) for name in stale)]
    keep = [name for name in keep if name not in stale]
    before = run.record.stages.get("query")
    with meanwhile or nullcontext():
        try:
            query_stage(work, versions, adapters, keep=keep, retry=retry, send=send)
        except PlanError:  # nothing was sent, so the previous state of the stage is still valid
            if before is not None:
                run.note(stages=run.record.stages | {"query": before})
            raise
    work.engine.close()  # frees the networks' memory for tables and report
    # Stored, so that estimating again needs no classifier.
    declared = {name: run.record.presence_thresholds[name] for name in keep}
    declared |= {adapter.name: adapter.capabilities.presence for adapter in adapters}
    run.note(presence_thresholds=declared)
    _estimate(work, report=report)


def _estimate(work: Audit, *, report: bool = True) -> None:
    tables = tables_stage(work)
    if report:
        report_stage(work, tables)
    else:  # an existing page would show earlier estimates
        work.run.path(PAGE).unlink(missing_ok=True)


def _weights(settings: Settings) -> dict[str, str]:
    """Return the networks of a run with the sha256 of their files.

    Raises:
        WeightsError: the file of the chosen parser is not the expected one; this is checked before any work.
    """
    from models.identity import find_weights
    from models.weights import EDITORS, RECORDS, public_bisenet

    unused = {name for editor, names in EDITORS.items() if editor != settings.sweep.editor for name in names}
    found = {name: record.sha256 for name, record in RECORDS.items() if name not in unused}
    if settings.sweep.parser_weights is not None:
        found["parser"] = sha256(public_bisenet(settings.sweep.parser_weights)).hexdigest()
    recogniser = find_weights() if settings.validity.identity_photos else None
    if recogniser is not None:
        found["recogniser"] = sha256(recogniser.read_bytes()).hexdigest()
    return found
