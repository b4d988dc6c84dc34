"""The third stage: make and check every version of every face (``counterfactuals.parquet``, images and masks)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from pipeline.config.options import PhotoOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.querying.plan import Plan, check_consent
from pipeline.run.checkpoint import SCRATCH
from pipeline.run.engine import Step
from pipeline.run.files import digest
from pipeline.run.folder import part_key
from pipeline.run.image_store import ImageStore
from pipeline.run.tables import COUNTERFACTUALS, read_frame
from pipeline.stages.base import Audit, PhotoChunks, Row, decoding_options, make_table, photo_rows, read_photos
from pipeline.stages.plan import editor_plan

if TYPE_CHECKING:
    from pipeline.counterfactuals.files import Layout
    from pipeline.counterfactuals.make import Networks

CHUNK = 16
FACTS = ("attribute", "arm", "step", "value", "sha256")  # columns of an image in a Parquet shard


@dataclass(frozen=True)
class Destination:
    """Destination of versions outside the run's folder.

    Attributes:
        images: store of the files.
        splits: photo -> split.
        layout_of: maps the rows of a chunk (photo, sha256, split and the face's columns) to the layout of its files.
        fingerprint: covers everything on which the layout depends, except the rows.
    """

    images: ImageStore
    splits: Mapping[str, str]
    layout_of: "Callable[[Sequence[Row]], Layout]"
    fingerprint: str


@dataclass(frozen=True)
class MakeVersions:
    """The job of making the versions of a chunk's faces, with files in ``images``; see ``counterfactuals_stage``."""

    rows: Sequence[Row]
    sweep: SweepOptions
    decoding: PhotoOptions
    layout: "Layout"
    images: ImageStore
    key: str
    recogniser: Path | None
    device: str
    edits: Path

    def __call__(self, step: Step) -> list[dict[str, Any]]:
        """Return rows of the table of counterfactuals."""
        from pipeline.counterfactuals.make import make_versions, subject_of, unmade

        made: list[dict[str, Any]] = []
        unread: list[tuple[Row, str]] = []
        with self.images.writing(self.key) as writing:
            for read, lost in read_photos(self.rows, options=self.decoding):
                made += make_versions(
                    [subject_of(row, pixels) for row, pixels in read],
                    networks=networks_of(self.sweep, device=self.device, recogniser=self.recogniser, edits=self.edits),
                    options=self.sweep,
                    layout=self.layout,
                    folder=writing.folder,
                    identified=frozenset(row["photo"] for row in self.rows if row["identified"]),
                    advance=step,
                )
                unread += lost
            writing.facts.update({row["file"]: {name: row[name] for name in FACTS} for row in made if row.get("file")})
        for version in made if writing.names else ():
            version |= {kind: writing.names[name] for kind in ("file", "mask") if (name := version.get(kind))}
        for (row, reason), attribute, arm in product(unread, self.sweep.chosen(), self.sweep.arms):
            made += unmade(str(row["photo"]), attribute, options=self.sweep, status="failed", reason=reason, arm=arm)
        return made


def counterfactuals_stage(audit: Audit, upstream: str, *, destination: Destination | None = None) -> str:
    """Make every version of every face and check it with the judges; return the fingerprint of the stage.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the faces.
        destination: destination of the files. Default: the run's folder. With a destination the parts are kept, so
            that with other photos only changed chunks are made again.
    """
    from models.identity import find_weights
    from models.weights import EDITORS, record

    run, sweep, identity = audit.run, audit.settings.sweep, audit.settings.validity.identity_photos
    networks = (*EDITORS.get(sweep.editor, ()), "parser", "estimator", "judge", "grey-judge")
    weights = [record(name).sha256 for name in networks]
    recogniser = find_weights() if identity else None
    depends = [sweep.model_dump(mode="json"), weights, [str(recogniser), identity]]
    depends += [destination.fingerprint] if destination else [audit.settings.storage.model_dump()]
    # A part depends on the splits of its rows, the stage on those of all rows.
    if not sweep.own_editor:
        from pipeline.counterfactuals.editors.sources import source_of

        depends.append(source_of(sweep.editor, timeout=sweep.editor_timeout).fingerprint)
    fingerprint = digest(["counterfactuals", upstream, *depends, *([dict(destination.splits)] if destination else [])])
    failed = run.record.stages["counterfactuals"].counts.get("failed") if "counterfactuals" in run.record.stages else 0
    # External editors may succeed on a later attempt; their successful images are kept.
    if run.is_done("counterfactuals", fingerprint) and (sweep.own_editor or not failed):
        return fingerprint
    from pipeline.counterfactuals.files import IMAGES, MASKS, RunLayout, ShardLayout, remove_stale, write_metadata

    faces = read_frame(run.path("faces.parquet"))
    photos = photo_rows(run).drop(columns="status")
    rows = faces[faces["status"] == "ok"].merge(photos, on="photo").sort_values("place")
    # Selected by hash, so that adding or removing a photo changes the selection of at most one other.
    rows["identified"] = rows["photo"].isin(rows.sort_values("sha256")["photo"].head(identity))
    if destination is not None:
        rows["split"] = rows["photo"].map(destination.splits)

    edits = run.path("edits")
    if (sent := editor_plan(sweep, len(rows), kept=sum(1 for _ in edits.glob("*.png")))) is not None:
        check_consent(Plan((sent,)), consent=audit.consent)

    part_fingerprint = digest([*depends, decoding_options(audit.settings.photos)])
    images = run.images if destination is None else destination.images

    def job(rows: Sequence[Row]) -> MakeVersions:
        layout = destination.layout_of(rows) if destination else ShardLayout() if images.shards else RunLayout()
        key, device = part_key(part_fingerprint, rows), audit.settings.engine.device
        return MakeVersions(rows, sweep, audit.settings.photos, layout, images, key, recogniser, device, edits)

    def finish() -> None:
        if destination is None:
            write_metadata(run.path("counterfactuals.parquet"), images)
            remove_stale(run.path("counterfactuals.parquet"), images)
            if images.root != run.folder.absolute():  # images written to the run's folder before
                ImageStore(run.folder).prune((IMAGES, MASKS), keep=lambda name: False)
        rmtree(run.path(SCRATCH), ignore_errors=True)

    # Pixels can differ in their last bit between processors, so the arithmetic is stored in the record.
    run.note(precision=audit.engine_for(len(rows)).call(partial(_precision, device=audit.settings.engine.device)))
    make_table(
        audit, "counterfactuals", PhotoChunks(rows, size=CHUNK),
        fingerprint=fingerprint, part_fingerprint=part_fingerprint,
        columns=COUNTERFACTUALS, planned=len(rows) * sweep.versions, job=job, finish=finish,
        keep_parts=destination is not None,
    )  # fmt: skip
    return fingerprint


def _precision(step: Step, *, device: str) -> str:
    """The job of naming data type and device of the networks."""
    from models.precision import choose_device, network_dtype

    chosen = choose_device(device)
    return str(network_dtype(chosen)).removeprefix("torch.") + ("" if chosen == "cpu" else f" on {chosen}")


def networks_of(
    sweep: SweepOptions, *, device: str, recogniser: Path | None = None, edits: Path | None = None
) -> "Networks":
    """Load the networks of a sweep; the last ones are cached."""
    return _networks(sweep.model_dump_json(), device, recogniser, edits)


@lru_cache(maxsize=1)
def _networks(sweep: str, device: str, recogniser: Path | None, edits: Path | None) -> "Networks":
    from models.precision import choose_device
    from pipeline.counterfactuals.make import load_networks

    options = SweepOptions.model_validate_json(sweep)
    return load_networks(options, recogniser=recogniser, device=choose_device(device), edits=edits)
