"""The third stage: every version of every face, made and checked (``counterfactuals.parquet``, images and masks)."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from pipeline.run.files import digest
from pipeline.run.tables import COUNTERFACTUALS, read_frame
from pipeline.stages.base import Audit, PhotoChunks, Row, Step, decoding_options, make_table, photo_rows, read_photos

if TYPE_CHECKING:
    from pipeline.counterfactuals.files import Layout

CHUNK = 16


@dataclass(frozen=True)
class Destination:
    """Where versions go if not into the run's own folder.

    Attributes:
        splits: photo -> split.
        layout_of: the rows of a chunk (photo, sha256, split and what is known of the face) -> the layout of its files.
        fingerprint: names everything that the layout depends on next to the rows.
    """

    splits: Mapping[str, str]
    layout_of: "Callable[[Sequence[Row]], Layout]"
    fingerprint: str


def counterfactuals_stage(audit: Audit, upstream: str, *, destination: Destination | None = None) -> str:
    """Make every version of every face, and check it with the judge.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the faces.
        destination: of the files; the run's folder unless given. With one, the parts are kept, so that with other
            photos only the chunks that differ are made again.

    Returns:
        The stage's fingerprint.
    """
    from models.identity import find_weights
    from models.weights import record

    run, sweep, identity = audit.run, audit.settings.sweep, audit.settings.validity.identity_photos
    weights = [record(name).sha256 for name in ("fader", "parser", "judge", "estimator")]
    recogniser = find_weights() if identity else None
    depends = [sweep.model_dump(mode="json"), weights, [str(recogniser), identity]]
    depends += [destination.fingerprint] if destination else []
    # Parts know their photos' splits by their rows, the stage by all of them.
    fingerprint = digest(["counterfactuals", upstream, *depends, *([dict(destination.splits)] if destination else [])])
    if run.is_done("counterfactuals", fingerprint):
        return fingerprint
    from models.precision import network_dtype
    from pipeline.counterfactuals.files import RunLayout, remove_stale, write_metadata
    from pipeline.counterfactuals.make import load_networks, make_versions, subject_of, unmade

    faces = read_frame(run.path("faces.parquet"))
    photos = photo_rows(run).drop(columns="status")
    rows = faces[faces["status"] == "ok"].merge(photos, on="photo").sort_values("place")
    # By hash, so that a photo more or less changes no more than one other's part in it.
    identified = frozenset(rows.sort_values("sha256")["photo"].head(identity))
    rows["identified"] = rows["photo"].isin(identified)
    if destination is not None:
        rows["split"] = rows["photo"].map(destination.splits)
    networks = cache(lambda: load_networks(sweep, recogniser=recogniser))  # once the bar is there

    def work(rows: Sequence[Row], pool: ThreadPoolExecutor, step: Step) -> list[dict[str, Any]]:
        read, lost = read_photos(pool, rows, options=audit.settings.photos)
        made = make_versions(
            [subject_of(row, pixels) for row, pixels in read],
            networks=networks(),
            options=sweep,
            layout=RunLayout(run.folder) if destination is None else destination.layout_of(rows),
            pool=pool,
            identified=identified,
            advance=step,
        )
        for (row, reason), attribute, arm in product(lost, sweep.attributes, sweep.arms):
            made += unmade(str(row["photo"]), attribute, options=sweep, status="failed", reason=reason, arm=arm)
        return made

    def finish() -> None:
        if destination is None:
            write_metadata(run.path("counterfactuals.parquet"), run.path("images"))
            remove_stale(run.path("counterfactuals.parquet"), run.folder)

    # Pixels can differ in their last bit between processors: the record says which arithmetic made them.
    run.note(precision=str(network_dtype()).removeprefix("torch."))
    make_table(
        audit, "counterfactuals", PhotoChunks(rows, size=CHUNK),
        fingerprint=fingerprint, part_fingerprint=digest([*depends, decoding_options(audit.settings.photos)]),
        columns=COUNTERFACTUALS, planned=len(rows) * sweep.versions, work=work, finish=finish,
        keep_parts=destination is not None,
    )  # fmt: skip
    return fingerprint
