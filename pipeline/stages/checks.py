"""The stage after the versions: joint measurements of a sample of their pictures (``checks.parquet``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import Attribute
from pipeline.config.options import PhotoOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.run.engine import Step, for_each
from pipeline.run.files import digest
from pipeline.run.folder import Run
from pipeline.run.image_store import ImageStore
from pipeline.run.tables import CHECKS, read_frame, to_table, write_table
from pipeline.stages.base import Audit, Row, photo_rows, read_photos
from pipeline.stages.counterfactuals import CHUNK, networks_of

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.counterfactuals.editors.base import Subject
    from pipeline.counterfactuals.picture_measures import Face

TABLE = "checks.parquet"
VERSION_COLUMNS = ["attribute", "arm", "photo", "value", "status", "file"]


@dataclass(frozen=True, eq=False)
class MeasurePictures:
    """The job of measuring a sample's pictures of one attribute; see ``checks_stage``.

    ``sample`` has rows of the faces, ``classes`` the perceived class of each, ``versions`` the attribute's successful
    rows of the counterfactuals table, whose files are in ``images``.
    """

    attribute: Attribute
    sample: Sequence[Row]
    classes: Mapping[str, str]
    versions: "pd.DataFrame"
    images: ImageStore
    edits: Path
    sweep: SweepOptions
    decoding: PhotoOptions
    least: int
    device: str

    def __call__(self, step: Step) -> list[dict[str, Any]]:
        """Return rows of the table of checks."""
        from pipeline.counterfactuals.make import subject_of
        from pipeline.counterfactuals.picture_measures import (
            SPLIT_PHOTOS,
            crops_of,
            faces_of,
            figures,
            part_effects,
            reduced,
        )

        networks = networks_of(self.sweep, device=self.device, edits=self.edits)
        faces: list[Face] = []
        subjects: list[Subject] = []  # for switching off the parts of the edit in turn
        for start in range(0, len(self.sample), CHUNK):  # the same batches as when the versions were made
            for read, _ in read_photos(self.sample[start : start + CHUNK], options=self.decoding):
                chunk = [subject_of(row, pixels) for row, pixels in read]  # photos that can still be read
                faces += faces_of(networks.parser, chunk, region=self.sweep.region, feather=self.sweep.feather)
                subjects += [reduced(subject) for subject in chunk[: max(0, SPLIT_PHOTOS - len(subjects))]]
        crops = crops_of(self.versions, faces, self.classes, images=self.images)
        if crops is None:
            return []
        judges = {"judge": networks.judge} | ({} if networks.second is None else {"second judge": networks.second})
        rows = [*figures(self.attribute, crops, judges, least=self.least)]
        rows += part_effects(self.attribute, networks.editor, subjects, networks.judge)
        return [{"attribute": self.attribute.name, "photos": len(crops.photos)} | row for row in rows]


def checks_stage(audit: Audit, upstream: str, *, images: ImageStore | None = None) -> None:
    """Measure a sample of the run's pictures jointly, for the validity card.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the versions.
        images: store of the versions' files. Default: the run's.
    """
    run, options, settings = audit.run, audit.settings.validity, audit.settings
    fingerprint = digest(["checks", upstream, options.picture_photos, options.smallest_group])
    if run.is_done("checks", fingerprint):
        return
    sample = _sample(audit)
    # Edits of an intersection are measured in their own sweeps.
    swept = {name: one for name, one in settings.sweep.chosen().items() if one.given is None and len(sample)}
    engine = audit.engine_for(len(sample))
    with (
        run.stage("checks", fingerprint, outputs=[TABLE], engine=engine),
        audit.watch("checks", total=len(swept)) as advance,
    ):
        versions = read_frame(run.path("counterfactuals.parquet"), columns=VERSION_COLUMNS)
        measured: dict[str, list[dict[str, Any]]] = {}
        rows: list[Any] = sample.to_dict("records")

        def measure(attribute: Attribute) -> None:
            job = MeasurePictures(
                attribute,
                sample=rows,
                classes=dict(zip(sample["photo"], attribute.classes_of(sample), strict=True)),
                versions=versions[(versions["attribute"] == attribute.name) & (versions["status"] == "ok")],
                images=images or run.images,
                edits=run.path("edits"),
                sweep=settings.sweep,
                decoding=settings.photos,
                least=options.smallest_group,
                device=settings.engine.device,
            )
            measured[attribute.name] = engine.call(job)
            advance(1)

        for_each(engine, swept.values(), measure)
        write_table(to_table((row for name in swept for row in measured[name]), CHECKS), run.path(TABLE))


def pictures_of(run: Run) -> "pd.DataFrame | None":
    """Read the joint measurements of a run's pictures; None for a run of an earlier version."""
    return read_frame(run.path(TABLE)) if run.path(TABLE).exists() else None


def _sample(audit: Audit) -> "pd.DataFrame":
    """Select the faces to measure by hash, so that the choice does not depend on names."""
    faces = read_frame(audit.run.path("faces.parquet"))
    rows = faces[faces["status"] == "ok"].merge(photo_rows(audit.run).drop(columns="status"), on="photo")
    return rows.sort_values("sha256").head(audit.settings.validity.picture_photos)
