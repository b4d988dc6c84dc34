"""The dataset card, ``README.md``: what was changed, how well, in whose pictures, what for, and how to be left out.

Its head is what dataset hubs read; the texts from outside are escaped there and in the body.
"""

import json
import re
from collections.abc import Iterator, Sequence

from pipeline.config.options import NOT_STATED
from pipeline.dataset.facts import DatasetFacts
from pipeline.dataset.layout import MASKS
from pipeline.dataset.metadata import NAME
from pipeline.dataset.opt_out_file import OPT_OUT
from pipeline.report.card import CheckResult
from pipeline.report.words import poles_of
from pipeline.run.formats import plain
from pipeline.run.text import markdown_text, visible

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
COLUMN_WORDS = {
    "file_name": "the image, relative to the split's folder",
    "split": "all images of one photo are in the same",
    "photo": "the photo's file name",
    "photo_sha256": "of the photo that the image was made from; its first 16 digits name the files",
    "attribute": "what was changed",
    "arm": "`edit`, or the placebo: a change as large that is not the attribute's",
    "step": "1 to K along the sweep",
    "value": "the value *a* that the face was given; see below",
    "perceived": "an independent network's probability of the attribute's high end in this image",
    "mask": "the photo's mask, relative to this folder: where it is 0, no pixel was changed",
    "mask_share": "of the image's pixels that may have been changed",
    "seam": "gradient energy on the mask's edge over the photo's; 1: no seam",
    "sha256": "of the image's file",
}


def dataset_card(facts: DatasetFacts) -> str:
    """The whole file."""
    return "\n".join([*_head(facts), "", *_body(facts)]).rstrip("\n") + "\n"


def licence_id(licence: str) -> str | None:
    """The licence as hubs know it (``cc-by-4.0``), if it is such a name and not a sentence."""
    return licence.lower() if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", licence) else None


def _head(facts: DatasetFacts) -> Iterator[str]:
    """YAML; every text as JSON, which is YAML too."""
    licence = facts.options.licence
    known = licence_id(licence)
    yield "---"
    yield f"pretty_name: {json.dumps(facts.name)}"
    if licence == NOT_STATED:
        yield "license: unknown"
    elif known is None:
        yield from ("license: other", f"license_name: {json.dumps(licence)}")
    else:
        yield f"license: {json.dumps(known)}"
    yield "task_categories: [image-classification]"
    yield "annotations_creators: [machine-generated]"
    yield f"size_categories: [{next((name for most, name in SIZES if facts.images < most), 'n>1M')}]"
    yield "tags: [counterfactual, fairness, audit, faces, synthetic]"
    yield "configs:"
    yield "- config_name: default"
    yield "  data_files:"
    for split in facts.splits:
        yield from (f"  - split: {split}", f'    path: "{split}/**"')
    yield "---"


def _body(facts: DatasetFacts) -> Iterator[str]:
    yield from (f"# {markdown_text(facts.name)}", "", facts.description, "")
    yield from _changes(facts)
    yield from _content(facts)
    yield from _validity(facts.validity)
    yield from _sources(facts)
    yield from _use(facts)


def _changes(facts: DatasetFacts) -> Iterator[str]:
    sweep = facts.sweep
    yield from ("## What was changed", "")
    for attribute in sweep.attributes:
        poles = poles_of(attribute, sweep.chosen())
        values = sweep.values(attribute)
        yield (
            f"* **{attribute}**: {len(values)} values *a* from {plain(values[0])} ({poles.low.lower()}) to "
            f"{plain(values[-1])} ({poles.high.lower()}): {', '.join(plain(value) for value in values)}."
        )
    how = (
        "The change against the face's own estimated value was added to the photo"
        if sweep.mode == "delta"
        else "The network's own picture of the face was pasted into the photo"
    )
    jpeg = (
        "" if sweep.image_format == "png" else f", before the file was written as JPEG of quality {sweep.jpeg_quality}"
    )
    yield from (
        "",
        f"{how}, inside a feathered mask of {', '.join(sweep.region)}. Hair, clothes and background are the "
        f"photo's, and so is every pixel where the mask is 0{jpeg}.",
        "Each file says that it is synthetic, from which photo (sha256) and by which weights, in its XMP metadata "
        "(IPTC digital source type `compositeWithTrainedAlgorithmicMedia`).",
        "",
        f"Made by {facts.program} with these weights:",
        "",
        *(f"* {name}: sha256 `{sha256}`" for name, sha256 in facts.weights.items()),
        "",
    )  # fmt: skip
    if sweep.placebos:
        yield from (
            f"Placebos ({', '.join(sweep.placebos)}) are changes as large, through the same mask, that are not the "
            "attribute's: what a classifier shows for them too is not the attribute's effect.",
            "",
        )


def _content(facts: DatasetFacts) -> Iterator[str]:
    yield from ("## What is in it", "", "| split | photos | images |", "| --- | --: | --: |")
    yield from (f"| {name} | {split.photos:,} | {split.images:,} |" for name, split in facts.splits.items())
    cluster, seed = facts.options.cluster, facts.options.seed
    yield ""
    if cluster is None:
        yield f"All images of one photo are in the same split, which the photo's bytes and the seed {seed} decide. "
        yield "Different photos of one person may be in different ones."
    else:
        yield f"All images of one photo, and of one {markdown_text(cluster)}, are in the same split, which that and "
        yield f"the seed {seed} decide."
    files = {
        f"SPLIT/{NAME}": "one row an image",
        f"SPLIT/ATTRIBUTE-stepK/*{facts.suffix}": "the images; each folder is a class",
        f"{MASKS}/*.png": "where a photo's images may differ from it: 0 nowhere, 255 fully",
        "croissant.json": "description for machines",
        OPT_OUT: "photos that were left out or withdrawn",
        "SHA256SUMS": "checksums: sha256sum -c SHA256SUMS",
    }
    yield from ("", "```", *(f"{file:<32}{words}" for file, words in files.items()), "```", "")
    yield from (
        "```python",
        "from datasets import load_dataset",
        'images = load_dataset("imagefolder", data_dir="DATASET")  # with every column of metadata.csv',
        "from torchvision.datasets import ImageFolder",
        'images = ImageFolder("DATASET/train")                     # the class is attribute and step',
        "```",
        "",
        "| column | |",
        "| --- | --- |",
        *(f"| `{column}` | {COLUMN_WORDS[column]} |" for column in facts.columns),
        "",
    )


def _validity(card: Sequence[CheckResult]) -> Iterator[str]:
    yield from (
        "## How well",
        "",
        "Whether the images changed in what they should, and in nothing else, as an independent network and plain "
        "image measures have it. A check that fails is a limit of this dataset.",
        "",
        "| attribute | check | figure | threshold | |",
        "| --- | --- | --: | --: | --- |",
    )  # fmt: skip
    for light in card:
        cells = (light.attribute, light.name, light.figure, light.threshold, f"{light.sign} {light.state}")
        yield f"| {' | '.join(cells)} |"
    yield ""


def _sources(facts: DatasetFacts) -> Iterator[str]:
    options = facts.options
    stated = {"Source": options.source, "Licence of the photos": options.licence, "Published by": options.creator}
    yield from ("## Source photos", "")
    yield from (f"* {what}: {visible(words)}" for what, words in stated.items())
    yield from (
        f"* Terms of the weights, which hold for the images too: {facts.terms}",
        f"* {facts.listed:,} photos were given, {facts.photos:,} used"
        + "".join(f"; {count:,} {reason}" for reason, count in facts.left_out.items()),
        "",
        "## Opting out",
        "",
        f"Ask to be left out: {visible(options.contact)}",
        "",
        f"{len(facts.opted_out):,} photos are on the opt-out list, `{OPT_OUT}`, by their sha256. They were never "
        "processed, or were withdrawn from later editions. If you hold an older edition, delete the files whose names "
        "begin with the first 16 digits of an entry.",
        "",
    )


def _use(facts: DatasetFacts) -> Iterator[str]:
    yield from (
        "## Intended use",
        "",
        "To find out how an image classifier's answers move when only the perceived "
        f"{' or '.join(facts.sweep.attributes)} of a face changes, and to train classifiers whose answers do not. "
        "Compare images of the same photo with each other.",
        "",
        "Not to train or test the recognition of gender, race or persons, not to sort people, and not as pictures of "
        "what anyone looks like. Do not try to find out who is shown.",
        "",
        "## Limits",
        "",
        "* Gender and race are what a viewer or a network perceives in a picture, in coarse words of the training "
        "data; they say nothing about a person.",
        "* The value *a* is a dial of the network, the same for all faces; what it does to a face differs. The column "
        "`perceived` tells it for each image.",
        "* What goes with the attribute in the training data may change a little with it; see the checks above.",
        "* The photos show the people of their source and no others; shares of groups are theirs.",
        "* No finding with these images is a proof that a classifier treats everybody alike.",
    )  # fmt: skip
