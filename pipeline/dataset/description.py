"""Description of a dataset: tables, card, Croissant file, opt-out list and checksums.

The texts of the card and the Croissant file are in ``templates``, which escape untrusted text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from pipeline.config.dataset_options import NOT_STATED
from pipeline.counterfactuals.files import METADATA, files_of
from pipeline.dataset.content import ORIGINAL, DatasetContent
from pipeline.dataset.facts import DatasetFacts, facts_of
from pipeline.dataset.files import CHECKSUMS, IMAGE_FOLDERS, OPT_OUT, one_of, opt_out_text, write_checksums
from pipeline.dataset.layout import SPLITS
from pipeline.dataset.metadata import write_dataset_metadata
from pipeline.run.files import digest, write_text
from pipeline.run.formats import count, plain
from pipeline.run.image_store import ImageStore
from pipeline.run.tables import read_frame
from pipeline.run.text import markdown_text, visible
from pipeline.stages.base import Audit

if TYPE_CHECKING:
    import pandas as pd

CARD, CROISSANT = "README.md", "croissant.json"
# Removed while the dataset does not match them.
DESCRIBED = (CHECKSUMS, CARD, CROISSANT, *(f"{split}/{METADATA}" for split in SPLITS))
PASSES = 4  # over the rows of the images
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True)
class Licence:
    """The licence of the images: its text, and its identifier on dataset hubs, such as ``cc-by-nc-4.0``."""

    words: str

    @property
    def id(self) -> str | None:
        """The identifier, or None if the text is a sentence."""
        return self.words.lower() if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", self.words) else None

    @property
    def limits(self) -> frozenset[str] | None:
        """Its conditions (by, nc, nd, sa), or None if they are unknown."""
        if "non-commercial" in self.words:
            return frozenset({"nc"})
        if self.id is None or not self.id.startswith("cc"):
            return None
        return frozenset(self.id.split("-")) & {"by", "nc", "nd", "sa"}

    def implied_by(self, other: "Licence") -> bool:
        """Return whether the other licence has all conditions of this one, and more."""
        return self.limits is not None and other.limits is not None and self.limits < other.limits


def licence_of(facts: DatasetFacts) -> Licence:
    """Return the combined licence of dataset, source photos and weights, without those that another implies.

    Thus the images never seem less restricted than the photos and the weights.
    """
    stated = {"dataset": facts.options.licence, "source photos": facts.options.source_licence, "weights": facts.terms}
    words = [f"licence of the {of} not stated" if text == NOT_STATED else text for of, text in stated.items()]
    licences = [Licence(text) for text in dict.fromkeys(words)]
    kept = [licence for licence in licences if not any(licence.implied_by(other) for other in licences)]
    return Licence("; ".join(licence.words for licence in kept))


def dataset_card(facts: DatasetFacts) -> str:
    """Return the text of ``README.md``, the dataset card."""
    size = next((name for most, name in SIZES if facts.images < most), "n>1M")
    return _rendered("README.md.j2", facts, size=size, attributes=list(facts.sweep.chosen().values()))


def croissant(facts: DatasetFacts) -> str:
    """Return the text of ``croissant.json``, by which tools load the records.

    Source: the Croissant format specification 1.0 and its responsible-AI vocabulary (MLCommons).
    """
    return json.dumps(json.loads(_rendered("croissant.json.j2", facts)), indent=2, ensure_ascii=False) + "\n"


def describe(
    work: Audit, images: ImageStore, photos: "pd.DataFrame", *, upstream: str, opted_out: Sequence[str]
) -> DatasetFacts:
    """Remove files that no longer belong to the dataset, and write its description.

    Args:
        work: an audit whose versions are complete.
        images: the dataset's files.
        photos: the run's photos table.
        upstream: the fingerprint of the versions.
        opted_out: sha256 of the photos on the opt-out list.
    """
    run = work.run
    content = DatasetContent(run, work.settings, images, photos, read_frame(run.path("faces.parquet")))
    options = work.settings.dataset.model_dump(mode="json")
    name, validity = images.root.name, work.settings.validity.model_dump()
    fingerprint = digest(["dataset", upstream, options, validity, name, opted_out])
    if run.is_done("dataset", fingerprint) and images.file(CHECKSUMS).exists():
        return facts_of(content, opted_out)
    total = PASSES * run.record.stages["counterfactuals"].counts["ok"] + 1
    with run.stage("dataset", fingerprint) as counts, work.watch("dataset", total=total) as advance:
        content = replace(content, advance=advance)
        images.remove([CHECKSUMS])
        if work.settings.dataset.originals:
            content.write_originals()
        images.prune(IMAGE_FOLDERS, keep=one_of(map(files_of, content.frames())))
        advance(1)
        with images.writing(METADATA) as writing:
            counts |= write_dataset_metadata(content.frames(), writing.folder, list(content.columns))
        facts = facts_of(content, opted_out)
        with images.writing(CARD) as writing:
            write_text(writing.folder / CARD, dataset_card(facts))
            write_text(writing.folder / CROISSANT, croissant(facts))
            write_text(writing.folder / OPT_OUT, opt_out_text(opted_out))
        write_checksums(images, _sums(content, facts))
    return facts


def _rendered(template: str, facts: DatasetFacts, **more: object) -> str:
    environment = Environment(  # noqa: S701 - Markdown and JSON, escaped by the filters below
        loader=PackageLoader("pipeline.dataset"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "json": json.dumps, "markdown": markdown_text, "visible": visible, "plain": plain, "count": count,
        "code": _as_code, "slug": lambda name: re.sub(r"[^A-Za-z0-9_.-]", "-", name),
    }  # fmt: skip
    return environment.get_template(template).render(facts=facts, licence=licence_of(facts), **more)


def _as_code(text: str) -> str:
    """Return a name as code for a cell of a Markdown table."""
    return "`" + visible(text).replace("`", "'").replace("|", "\\|") + "`"


def _sums(content: DatasetContent, facts: DatasetFacts) -> Iterator[tuple[str, str]]:
    """Yield every file of the dataset and its sha256: the descriptions, then masks and images."""

    described = [CARD, CROISSANT, OPT_OUT, *(f"{split}/{METADATA}" for split in facts.splits)]
    yield from content.images.sums(described).items()
    before: set[str] = set()
    for frame in content.frames():
        if facts.shards:
            files = files_of(frame)  # a shard's images may be in two frames
            yield from content.images.sums(sorted(files - before)).items()
            before = files
            continue
        # Each attribute may have its own mask.
        yield from content.images.sums(frame.loc[frame["attribute"] != ORIGINAL, "mask"].unique()).items()
        yield from zip(frame["file"], frame["sha256"], strict=True)
