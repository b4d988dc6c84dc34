"""Everything that stands beside a dataset's images: tables, card, Croissant description, opt-out list, checksums."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.attributes import EDIT_ARM
from pipeline.dataset import checksums, metadata
from pipeline.dataset.card import dataset_card
from pipeline.dataset.croissant import croissant
from pipeline.dataset.facts import DatasetFacts, SplitFacts
from pipeline.dataset.opt_out_file import OPT_OUT, opt_out_text
from pipeline.dataset.pruning import SPLITS, one_of, prune
from pipeline.run.files import digest, write_text
from pipeline.run.tables import COUNTERFACTUALS, plain_rows, read_frame
from pipeline.stages.base import Audit

if TYPE_CHECKING:
    import pandas as pd

CARD, CROISSANT = "README.md", "croissant.json"
# Gone while a dataset is not what they say.
DESCRIBED = (checksums.NAME, CARD, CROISSANT, *(f"{split}/{metadata.NAME}" for split in SPLITS))


@dataclass(frozen=True, eq=False)
class _Content:
    """A dataset's versions as its run has them; ``photos`` is the run's table of that name."""

    work: Audit
    folder: Path
    photos: "pd.DataFrame"

    @property
    def columns(self) -> list[str]:
        """Of metadata.csv."""
        names = self.work.settings.dataset.photo_names
        return [*metadata.DATASET_COLUMNS, *([metadata.PHOTO_NAME] if names else [])]

    @property
    def hashes(self) -> Mapping[str, str]:
        """Photo -> sha256."""
        return dict(zip(self.photos["photo"].astype(str), self.photos["sha256"], strict=True))

    def frames(self) -> "Iterator[pd.DataFrame]":
        """The versions that were made, some at a time."""
        versions = self.work.run.path("counterfactuals.parquet")
        return metadata.dataset_frames(versions, hashes=self.hashes, swept=self.work.settings.sweep.chosen())

    def first_versions(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """One row a photo."""
        attribute = self.work.settings.sweep.attributes[0]
        return frame[(frame["attribute"] == attribute) & (frame["arm"] == EDIT_ARM) & (frame["step"] == 1)]


def describe(
    work: Audit, folder: Path, photos: "pd.DataFrame", *, upstream: str, opted_out: Sequence[str]
) -> DatasetFacts:
    """Remove what is not the dataset's (any more) and write all that describes it.

    Args:
        work: whose versions are complete.
        folder: the dataset's.
        photos: the run's table of that name.
        upstream: the fingerprint of the versions.
        opted_out: sha256 of the photos on the opt-out list.
    """
    run, content = work.run, _Content(work, folder, photos)
    options = work.settings.dataset.model_dump(mode="json")
    fingerprint = digest(["dataset", upstream, options, work.settings.validity.model_dump(), folder.name, opted_out])
    sums = folder / checksums.NAME
    if run.is_done("dataset", fingerprint) and sums.exists():
        return _facts(content, opted_out)
    with run.stage("dataset", fingerprint) as counts, work.watch("dataset", total=3) as advance:
        sums.unlink(missing_ok=True)
        prune(folder, keep=one_of([*frame["file"], *frame["mask"]] for frame in content.frames()))
        advance(1)
        counts |= metadata.write_dataset_metadata(content.frames(), folder, content.columns)
        facts = _facts(content, opted_out)
        for name, text in {
            CARD: dataset_card(facts),
            CROISSANT: croissant(facts),
            OPT_OUT: opt_out_text(opted_out),
        }.items():
            write_text(folder / name, text)
        advance(1)
        checksums.write_checksums(folder, _sums(content, facts))
        advance(1)
    return facts


def _facts(content: _Content, opted_out: Sequence[str]) -> DatasetFacts:
    from models.weights import TERMS
    from pipeline.config.attributes import source_groups
    from pipeline.counterfactuals.validity import validity_card
    from pipeline.report.card import check_results

    run, settings = content.work.run, content.work.settings
    used: Counter[str] = Counter()
    images: Counter[str] = Counter()
    for frame in content.frames():
        used.update(content.first_versions(frame)["split"])
        images.update(frame["split"])
    faces = read_frame(run.path("faces.parquet"))
    # Without the names and sums of the files, most of the table.
    needed = [name for name in COUNTERFACTUALS if name not in ("file", "mask", "sha256")]
    versions = read_frame(run.path("counterfactuals.parquet"), columns=needed)
    groups, mode = source_groups(faces), settings.sweep.mode
    card = validity_card(
        versions, race_pair=settings.sweep.race_pair, groups=groups, options=settings.validity, mode=mode
    )
    run.note(validity=plain_rows(card))
    lost = [table[table["status"] != "ok"].drop_duplicates("photo") for table in (content.photos, faces, versions)]
    reasons = Counter(str(reason).partition(":")[0] for table in lost for reason in table["reason"])
    return DatasetFacts(
        name=settings.dataset.name or content.folder.name,
        splits={
            split: SplitFacts(used[split], images[split], checksums.sha256_of(content.folder / split / metadata.NAME))
            for split in SPLITS
            if images[split]
        },
        listed=len(content.photos),
        left_out=dict(sorted(reasons.items())),
        opted_out=opted_out,
        columns=content.columns,
        sweep=settings.sweep,
        options=settings.dataset,
        weights=run.record.weights,
        terms=TERMS,
        validity=check_results(card.to_dict("records")),
        published=str(settings.dataset.published or run.record.created[:10]),
        program=f"Counterslope {version('counterslope')}",
    )


def _sums(content: _Content, facts: DatasetFacts) -> Iterator[tuple[str, str]]:
    """Every file of the dataset and its sha256: the descriptions, then the photos' masks and images."""

    def of(name: str) -> tuple[str, str]:
        return name, checksums.sha256_of(content.folder / name)

    yield from map(of, (CARD, CROISSANT, OPT_OUT, *(f"{split}/{metadata.NAME}" for split in facts.splits)))
    for frame in content.frames():
        yield from map(of, content.first_versions(frame)["mask"])
        yield from zip(frame["file"], frame["sha256"], strict=True)
