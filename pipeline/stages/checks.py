"""The stage after the versions: what is measured on a sample of their pictures together (``checks.parquet``)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.run.files import digest
from pipeline.run.folder import Run
from pipeline.run.tables import CHECKS, read_frame, to_table, write_table
from pipeline.stages.base import Audit, photo_rows, read_photos

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.counterfactuals.editors.base import Subject

TABLE = "checks.parquet"
VERSION_COLUMNS = ["attribute", "arm", "photo", "value", "status", "file"]


def checks_stage(audit: Audit, upstream: str, *, folder: Path | None = None) -> None:
    """Measure a sample of the run's pictures together, for the validity card.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the versions.
        folder: what the versions' files are relative to; the run's unless given.
    """
    from models.weights import record

    run, options = audit.run, audit.settings.validity
    depends = [options.picture_photos, options.smallest_group, [record(one).sha256 for one in ("judge", "estimator")]]
    fingerprint = digest(["checks", upstream, *depends])
    if run.is_done("checks", fingerprint):
        return
    swept = audit.settings.sweep.chosen()
    with run.stage("checks", fingerprint, outputs=[TABLE]), audit.watch("checks", total=len(swept) + 1) as advance:
        rows: list[dict[str, Any]] = []
        sample = _sample(audit)
        if len(sample):
            from pipeline.counterfactuals.make import load_networks
            from pipeline.counterfactuals.mask import crop_mask, patches_of
            from pipeline.counterfactuals.picture_measures import crops_of, figures, part_effects

            sweep, networks = audit.settings.sweep, load_networks(audit.settings.sweep)
            subjects = _subjects(audit, sample)
            versions = read_frame(run.path("counterfactuals.parquet"), columns=VERSION_COLUMNS)
            patches = patches_of(networks.parser, subjects, region=sweep.region, feather_share=sweep.feather)
            found = zip(subjects, patches, strict=True)
            masks = {s.photo: crop_mask(s, patch) for s, patch in found if patch is not None}
            judges = {"judge": networks.judge} | ({} if networks.second is None else {"second judge": networks.second})
            advance(1)
            for attribute in swept.values():
                classes = dict(zip(sample["photo"], attribute.classes_of(sample), strict=True))
                swept_rows = versions[(versions["attribute"] == attribute.name) & (versions["status"] == "ok")]
                crops = crops_of(swept_rows, subjects, masks, classes, folder=folder or run.folder)
                if crops is not None:
                    measured = [*figures(attribute, crops, judges, least=options.smallest_group)]
                    measured += part_effects(attribute, networks.editor, subjects, networks.judge)
                    photos = len(crops.photos)
                    rows += [{"attribute": attribute.name, "photos": photos} | one for one in measured]
                advance(1)
        write_table(to_table(rows, CHECKS), run.path(TABLE))


def pictures_of(run: Run) -> "pd.DataFrame | None":
    """What was measured on a run's pictures together; None of a run of an earlier version."""
    return read_frame(run.path(TABLE)) if run.path(TABLE).exists() else None


def _sample(audit: Audit) -> "pd.DataFrame":
    """The faces that are looked at: by hash, so that the choice does not depend on names."""
    faces = read_frame(audit.run.path("faces.parquet"))
    rows = faces[faces["status"] == "ok"].merge(photo_rows(audit.run).drop(columns="status"), on="photo")
    return rows.sort_values("sha256").head(audit.settings.validity.picture_photos)


def _subjects(audit: Audit, sample: "pd.DataFrame") -> "list[Subject]":
    """The faces whose photos can still be read."""
    from pipeline.counterfactuals.make import subject_of

    rows: list[Any] = sample.to_dict("records")
    read, _ = read_photos(rows, options=audit.settings.photos)
    return [subject_of(row, pixels) for row, pixels in read]
