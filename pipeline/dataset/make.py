"""Making of a dataset: the stages of an audit up to the versions, then the description.

Published files are in the dataset's folder. The run's tables, which contain local paths, are next to it in
``NAME.run``. A repeated call continues, and redoes only what changes of the photos or the opt-out list require.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pipeline.config.options import ConfigError, Settings
from pipeline.dataset.description import DESCRIBED, describe
from pipeline.dataset.facts import DatasetFacts
from pipeline.dataset.files import CHECKSUMS, withdraw
from pipeline.dataset.layout import DatasetLayout, id_of, keys_of, shard_digits, split_of
from pipeline.dataset.metadata import check_manifest_columns
from pipeline.photos.listing import find_photos, opt_outs
from pipeline.run.checkpoint import SCRATCH
from pipeline.run.files import digest
from pipeline.run.folder import SHARDS, Run
from pipeline.run.image_store import ImageStore
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.storage import Location, RemoteFile, absolute
from pipeline.run.tables import read_frame
from pipeline.stages.audit import opened_run, start_run
from pipeline.stages.base import Audit, started_engine
from pipeline.stages.checks import checks_stage
from pipeline.stages.counterfactuals import Destination, counterfactuals_stage
from pipeline.stages.faces import faces_stage
from pipeline.stages.photos import photos_stage

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Dataset:
    """A finished dataset, its run, the facts on its card, and the entries of the opt-out list that match no photo."""

    folder: Location
    run: Run
    facts: DatasetFacts
    unmatched: Sequence[str]


def make_dataset(
    photos: Sequence[Location], out: Location, *, settings: Settings, given: Mapping[str, Any], watch: Watch = unwatched
) -> Dataset:
    """Make a publishable dataset of counterfactual versions of photos. Placebos are made only on request.

    Args:
        photos: a folder, files, or one manifest.
        out: the dataset's folder. For a URL, the run's tables are in the local folder ``runs/PROTOCOL/…``, with copies
            in ``OUT.run``.
        settings: all options.
        given: the options as the user gave them.
        watch: opens the progress display of a stage.

    Raises:
        NoUsablePhotos, RunError, ConfigError, WeightsError: the message says what to do.
    """
    shards = SHARDS[settings.storage.images]
    if settings.storage.images_to is not None:
        raise ConfigError("a dataset's images are in its folder: omit --images-to; --out may be a URL")
    if shards and settings.dataset.originals:
        raise ConfigError("originals are not written into shards: omit --originals or --images")
    if "placebos" not in settings.sweep.model_fields_set:  # an audit's default
        settings = settings.model_copy(update={"sweep": settings.sweep.model_copy(update={"placebos": ()})})
    folder = absolute(out)
    run, settings = opened_run(run_folder(folder), settings)
    images = ImageStore(folder, scratch=run.path(SCRATCH).absolute())
    _check_folder(folder, run, photos)
    with run.locked(), started_engine(settings.engine) as engine:
        work = start_run(run, photos, settings=settings, given=given, watch=watch, engine=engine)
        if not _has_files(folder):  # new, or deleted by the user
            run.note(stages={})
            run.drop_parts("counterfactuals")
        found = find_photos(photos)
        opt_out = opt_outs(found, options=settings.photos).with_hashes_of(found.names, found.paths)
        if ids := {id_of(sha256) for sha256 in opt_out.hashes}:
            withdraw(run, images, ids, described=DESCRIBED)
        checked = photos_stage(work)
        table = read_frame(run.path("photos.parquet"))
        check_manifest_columns(table, settings.dataset.columns)
        destination = _destination(work, replace(images, shards=shards), table)
        versions = counterfactuals_stage(work, faces_stage(work, checked, keep_parts=True), destination=destination)
        checks_stage(work, versions, images=images)
        facts = describe(work, images, table, upstream=versions, opted_out=sorted(opt_out.hashes))
    return Dataset(out, run, facts, opt_out.unmatched(table["photo"].tolist(), table["sha256"].tolist()))


def run_folder(dataset: Location) -> Location:
    """Return the folder of a dataset's run."""
    return dataset.parent / f"{dataset.name}.run"


def _has_files(folder: Location) -> bool:
    return folder.exists() and (isinstance(folder, RemoteFile) or any(folder.iterdir()))


def _check_folder(folder: Location, run: Run, photos: Sequence[Location]) -> None:
    for path in photos:
        if PurePosixPath(str(folder)).is_relative_to(str(absolute(path))):
            raise RunError(f"{folder} is inside the folder of the photos, {path}: choose another --out")
    if folder.is_file() or (_has_files(folder) and not run.path("run.json").exists()):
        raise RunError(f"{folder} exists, but its run {run.folder} does not: choose another --out")


def _destination(work: Audit, images: ImageStore, photos: "pd.DataFrame") -> Destination:
    options, sweep = work.settings.dataset, work.settings.sweep
    keys = keys_of(photos[photos["status"] == "ok"], cluster=options.cluster)
    # By the whole list, so that excluding a photo later does not move the files of others.
    digits = shard_digits(len(photos))
    weights = work.run.record.weights.get(sweep.editor)

    def layout_of(rows: Sequence[Mapping[str, Any]]) -> DatasetLayout:
        # The checksums are outdated from the first new image on.
        images.remove([CHECKSUMS])
        return DatasetLayout(
            hashes={row["photo"]: row["sha256"] for row in rows},
            splits={row["photo"]: row["split"] for row in rows},
            digits=digits,
            steps=dict(sweep.steps),
            editor=sweep.editor,
            weights=weights,
            shards=images.shards,
        )

    return Destination(
        images=images,
        splits={photo: split_of(key, shares=options.split, seed=options.seed) for photo, key in keys.items()},
        layout_of=layout_of,
        fingerprint=digest(["dataset", images.shards or digits, weights or sweep.editor]),
    )
