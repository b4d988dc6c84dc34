"""From faces to written, checked versions: one chunk of photos at a time, networks in batches, files in threads."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.attributes import RACES
from models.fader import Fader
from models.identity import load_recogniser, similarity
from models.image_metrics import psnr, ssim
from models.judge import Classifier
from models.parser import BiSeNet, SmallParser
from models.precision import autocast, unit_batch
from models.weights import load_fader, load_judge, load_parser
from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import SweepOptions
from pipeline.counterfactuals.compositing import Patch
from pipeline.counterfactuals.files import Layout
from pipeline.counterfactuals.placebos import colour_placebo, random_placebo
from pipeline.counterfactuals.rendering import ImageFile, Version, render
from pipeline.counterfactuals.sweep import (
    CROP,
    Edit,
    Encoded,
    Subject,
    crop_mask,
    crops_of,
    edit_of,
    encode,
    null_cycles,
    patches_of,
    to_levels,
)
from pipeline.photos.faces import own_attributes

NO_REGION = "no pixel of the face belongs to the region that may change"
CYCLES = 10


@dataclass(frozen=True)
class Networks:
    """What making versions needs: the editor, the parser that says where, the judge that checks, and, where its
    weights are on the disk, the network that recognises people."""

    fader: Fader
    parser: SmallParser | BiSeNet
    judge: Classifier
    recogniser: nn.Module | None = None


def load_networks(options: SweepOptions, *, recogniser: Path | None = None) -> Networks:
    """The networks that make and check the versions of a sweep.

    Args:
        options: say which parser is used.
        recogniser: the file of the recognition network's weights; without it nobody is recognised.
    """
    networks = Networks(
        fader=load_fader(),
        parser=load_parser(options.parser, weights=options.parser_weights),
        judge=load_judge("judge"),
        recogniser=None if recogniser is None else load_recogniser(recogniser),
    )
    for network in (networks.fader, networks.parser, networks.judge):
        network.to(memory_format=torch.channels_last)
    return networks


def subject_of(row: Mapping[str, Any], pixels: NDArray[np.uint8]) -> Subject:
    """The face to edit, from its row of the faces table and the ``(H, W, 3)`` pixels of its photo."""
    landmarks = np.array(row["landmarks"], dtype=np.float64).reshape(5, 2)
    return Subject(photo=str(row["photo"]), pixels=pixels, landmarks=landmarks, own=own_attributes(row))


@dataclass(frozen=True)
class _Faces:
    """A chunk's faces: where each may change (in its photo and in its crop), and what was found out about it."""

    subjects: Sequence[Subject]
    patches: Sequence[Patch | None]
    encoded: Encoded
    masks: NDArray[np.float32]
    facts: Sequence[Mapping[str, float]]


def make_versions(
    subjects: Sequence[Subject],
    *,
    networks: Networks,
    options: SweepOptions,
    layout: Layout,
    pool: ThreadPoolExecutor,
    identified: frozenset[str] = frozenset(),
) -> list[dict[str, Any]]:
    """Edit, composite, write and judge every version of some photos, and of their placebos.

    Args:
        subjects: the faces.
        networks: what edits and checks them.
        options: what is to be made.
        layout: where the files go.
        pool: writes them.
        identified: the photos whose versions are shown to the recognition network too.

    Returns:
        Rows of the counterfactuals table, K for each photo, attribute and arm.
    """
    if not subjects:
        return []
    faces = _prepare(subjects, networks=networks, options=options)
    rows: list[dict[str, Any]] = []
    # One attribute at a time: what a run of gender alone would write must not depend on race being swept too.
    for attribute in options.attributes:
        for edit in _edits(faces, attribute, networks=networks, options=options):
            rows += _write(
                faces, edit, networks=networks, options=options, layout=layout, pool=pool, identified=identified
            )
    return rows


def unmade(
    photo: str, attribute: str, *, options: SweepOptions, status: str, reason: str, arm: str = EDIT_ARM
) -> Iterator[dict[str, Any]]:
    """The rows of a photo's sweep that could not be made."""
    for step, value in enumerate(options.values(attribute), start=1):
        yield {
            "attribute": attribute,
            "arm": arm,
            "photo": photo,
            "step": step,
            "value": float(value),
            "status": status,
            "reason": reason,
        }


def _prepare(subjects: Sequence[Subject], *, networks: Networks, options: SweepOptions) -> _Faces:
    pasted = options.mode == "reconstruction"
    patches = patches_of(
        networks.parser, subjects, region=options.region, feather_share=options.feather, within_crop=pasted
    )
    crops, own = crops_of(subjects), torch.from_numpy(np.stack([subject.own for subject in subjects]))
    encoded = encode(networks.fader, crops, own)
    empty = np.zeros((CROP, CROP), dtype=np.float32)
    masks = np.stack(
        [empty if patch is None else crop_mask(s, patch) for s, patch in zip(subjects, patches, strict=True)]
    )
    facts = _null_errors("null", encoded.crops, encoded.null, masks)
    if pasted:
        cycled = null_cycles(networks.fader, encoded, torch.from_numpy(masks)[:, None], cycles=CYCLES)
        later = _null_errors("cycles", encoded.crops, cycled, masks)
        facts = [one | other for one, other in zip(facts, later, strict=True)]
    return _Faces(subjects, patches, encoded, masks, facts)


def _null_errors(name: str, crops: Tensor, results: Tensor, masks: NDArray[np.float32]) -> list[dict[str, float]]:
    """How far null edits are from the crops inside their masks, one row a face."""
    pairs = zip(to_levels(crops) + 127.5, to_levels(results) + 127.5, masks, strict=True)
    return [{f"{name}_psnr": psnr(a, b, mask), f"{name}_ssim": ssim(a, b, mask)} for a, b, mask in pairs]


def _edits(faces: _Faces, attribute: str, *, networks: Networks, options: SweepOptions) -> Iterator[Edit]:
    """The attribute's edit and the placebos of it that are wanted."""
    pair = options.race_pair
    edit = edit_of(networks.fader, faces.encoded, attribute=attribute, values=options.values(attribute), race_pair=pair)
    yield edit
    for placebo in options.placebos:
        if placebo == "colour":
            yield colour_placebo(edit, faces.encoded, faces.masks)
        else:
            yield random_placebo(
                networks.fader, edit, faces.encoded, faces.masks, race_pair=pair, seed=options.placebo_seed
            )


def _write(
    faces: _Faces,
    edit: Edit,
    *,
    networks: Networks,
    options: SweepOptions,
    layout: Layout,
    pool: ThreadPoolExecutor,
    identified: frozenset[str],
) -> Iterator[dict[str, Any]]:
    images = edit.changes if options.mode == "delta" else edit.faces
    file = ImageFile(options.image_format, options.jpeg_quality)

    def write(place: int) -> list[Version]:
        patch = faces.patches[place]
        if patch is None:
            return []
        return render(
            faces.subjects[place],
            patch,
            attribute=edit.attribute,
            arm=edit.arm,
            values=edit.values,
            images=images[place],
            mode=options.mode,
            file=file,
            layout=layout,
        )

    written = list(pool.map(write, range(len(faces.subjects))))
    crops = [version.crop for of_photo in written for version in of_photo]
    judged = iter(_judge(networks.judge, crops))
    for place, (subject, of_photo) in enumerate(zip(faces.subjects, written, strict=True)):
        if not of_photo:
            yield from unmade(
                subject.photo, edit.attribute, options=options, status="excluded", reason=NO_REGION, arm=edit.arm
            )
            continue
        alike: list[dict[str, float]] = [{} for _ in of_photo]
        if networks.recogniser is not None and subject.photo in identified:
            alike = _identity(networks.recogniser, of_photo, _null_version(faces, place, mode=options.mode))
        for version, same in zip(of_photo, alike, strict=True):
            yield version.row | dict(faces.facts[place]) | same | next(judged)


def _null_version(faces: _Faces, place: int, *, mode: str) -> Tensor:
    """What the versions of a photo are compared with: its null edit as it would be written, ``(3, 128, 128)``."""
    crop, null = faces.encoded.crops[place], faces.encoded.null[place]
    return crop if mode == "delta" else crop + torch.from_numpy(faces.masks[place]) * (null - crop)


def _identity(network: nn.Module, versions: Sequence[Version], reference: Tensor) -> list[dict[str, float]]:
    crops = unit_batch([version.crop for version in versions])
    return [{"identity": float(alike)} for alike in similarity(network, crops, reference.expand_as(crops))]


@torch.inference_mode()
def _judge(judge: Classifier, crops: Sequence[NDArray[np.uint8]]) -> list[dict[str, float]]:
    if not crops:
        return []
    with autocast():
        seen = judge.perceive(unit_batch(crops).contiguous(memory_format=torch.channels_last))
    columns = {
        "judge_masculine": seen.masculine,
        **{f"judge_race_{race}": seen.race[:, index] for index, race in enumerate(RACES)},
        "judge_age": seen.age,
        "judge_young": seen.young,
        "judge_smiling": seen.smiling,
    }
    numbers = {name: column.float().tolist() for name, column in columns.items()}
    return [{name: values[place] for name, values in numbers.items()} for place in range(len(crops))]
