"""The cost of querying before anything is sent: exact for a run, an upper bound for photos."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from adapters.base import Price, Service
from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import Settings
from pipeline.config.sweep_options import SweepOptions
from pipeline.querying.plan import AdapterPlan, Plan, PlanError, called_host, unconfirmed
from pipeline.run.folder import Run
from pipeline.run.record import RunError
from pipeline.run.storage import Location
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import pandas as pd

    from adapters.base import Adapter, Landmarks
    from pipeline.querying.requests import ImageRef


def plan_of_run(run: Run, adapters: "Sequence[Adapter]", settings: Settings) -> Plan:
    """Plan the query of a run's versions from the files in its folder; nothing is written.

    Raises:
        RunError: its versions are incomplete.
    """
    from pipeline.querying.plan import adapter_requests, plan_of
    from pipeline.querying.store import Store

    if not run.record.is_done("counterfactuals"):
        raise RunError(f"the versions in {run.folder} are not complete: plan from its photos, or finish the run")
    table = read_frame(run.path("counterfactuals.parquet"))
    versions = versions_of(run, table)
    store = run.path("responses.sqlite")
    with Store(store) if store.exists() else nullcontext() as known:
        folder = run.path("sent")
        requests = adapter_requests(adapters, versions, settings.query, folder=folder, store=known, make=False)
        return replace(plan_of(requests), placebos=placebo_images(table))


def plan_of_photos(photos: Sequence[Location], adapters: "Sequence[Adapter]", settings: Settings) -> Plan:
    """Plan an audit of photos: the usable photos times the steps of all sweeps.

    Raises:
        NoUsablePhotos: there is nothing to audit.
    """
    from pipeline.photos.listing import check_photos, find_photos, opt_outs
    from pipeline.querying.plan import estimated

    found, options = find_photos(photos), settings.photos
    statuses = check_photos(found, options=options, opt_out=opt_outs(found, options=options))["status"].to_pylist()
    usable, sweep = statuses.count("ok"), settings.sweep
    plan = estimated(adapters, usable * sweep.versions, settings.query)
    edits = editor_plan(sweep, usable)
    return replace(
        plan, adapters=(*([edits] if edits else []), *plan.adapters), placebos=usable * sweep.placebo_versions
    )


def editor_plan(sweep: SweepOptions, photos: int, *, kept: int = 0) -> AdapterPlan | None:
    """Plan the requests to an editing service; None if the editor is local.

    Args:
        sweep: options that name the editor.
        photos: number of photos with a face.
        kept: number of images received before.
    """
    if sweep.own_editor:
        return None
    from pipeline.counterfactuals.editors.sources import remote_host

    host = remote_host(sweep.editor)
    if host is None:
        return None
    images = photos * (sweep.versions - sweep.placebo_versions)
    return AdapterPlan(
        adapter=f"the editor {sweep.editor}",
        service=Service(provider=host, host=host, retention="not known", version="not known"),
        images=images,
        known=min(kept, images),
        calls=max(images - kept, 0),
        host=host,
        price=None if sweep.editor_price is None else Price(sweep.editor_price, date.today(), "given by you"),
    )


def placebo_images(table: "pd.DataFrame") -> int:
    """Count the distinct images of a table of counterfactuals that only placebos use."""
    made = table[table["status"] == "ok"]
    edits = made["arm"] == EDIT_ARM
    return len({*made.loc[~edits, "sha256"]} - {*made.loc[edits, "sha256"]})


def refuse_remote(adapters: "Sequence[Adapter]") -> None:
    """Refuse remote classifiers if nobody can consent, before the versions are made.

    Raises:
        PlanError: there is a remote classifier.
    """
    hosts = sorted({called_host(adapter) for adapter in adapters if adapter.capabilities.remote})
    if hosts:
        raise PlanError(unconfirmed(hosts))


def landmarks_of(run: Run) -> "dict[str, Landmarks]":
    """Return the five landmarks of each photo's face, in pixels of the photo and of its versions."""
    table = read_frame(run.path("faces.parquet"), columns=["photo", "status", "landmarks"])
    rows = table[table["status"] == "ok"]
    return {
        photo: tuple((float(x), float(y)) for x, y in zip(flat[::2], flat[1::2], strict=True))
        for photo, flat in zip(rows["photo"], rows["landmarks"], strict=True)
    }


def versions_of(run: Run, table: "pd.DataFrame", *, faces: bool = False) -> "list[ImageRef]":
    """List the successful versions of a table of counterfactuals, with ``faces`` also the photo's landmarks."""
    from pipeline.querying.requests import ImageRef

    made, images = table[table["status"] == "ok"], run.images
    found = landmarks_of(run) if faces else {}
    return [
        ImageRef(sha, images.file(file), photo, found.get(photo))
        for photo, sha, file in zip(made["photo"], made["sha256"], made["file"], strict=True)
    ]
