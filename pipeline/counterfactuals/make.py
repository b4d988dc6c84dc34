"""Make, write and check versions of faces: one chunk of photos at a time, networks in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.alignment import warp_to_template
from models.identity import load_recogniser, similarity
from models.image_metrics import mask_edge, mean_lightness, psnr, ssim
from models.judge import Classifier, perceive_crops
from models.parser import BiSeNet, SmallParser
from models.precision import unit_batch
from models.tone import load_tone_table
from models.weights import load_fader, load_judge, load_parser, load_residual
from pipeline.config.attributes import EDIT_ARM
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.base import (
    CROP,
    Composite,
    Edit,
    Editor,
    FaceBatch,
    Patch,
    PhotoEdit,
    Subject,
    to_levels,
)
from pipeline.counterfactuals.editors.fader import FaderEditor
from pipeline.counterfactuals.editors.outside import OutsideEditor
from pipeline.counterfactuals.editors.residual import ToneAndFields
from pipeline.counterfactuals.editors.sources import EditError, source_of
from pipeline.counterfactuals.files import ImageFile, Layout, write_image
from pipeline.counterfactuals.mask import (
    add_change,
    background_kept,
    chances_of,
    crop_mask,
    is_grey,
    paste,
    patches_from,
    to_patch,
    widened,
    without_colour,
)
from pipeline.counterfactuals.sweep import edits_of, null_cycles
from pipeline.counterfactuals.version_measures import Reference, references
from pipeline.run.tables import COUNTERFACTUALS

NO_REGION = "no pixel of the face belongs to the region that may change"
NO_PLACEBO = "the editor makes no placebos"
CYCLES = 10


@dataclass(frozen=True)
class Networks:
    """The networks for making versions: the editor, the parser of the region, the judges, and the recognition network
    if its weights are installed. ``second`` is the second judge."""

    editor: Editor
    parser: SmallParser | BiSeNet
    judge: Classifier
    recogniser: nn.Module | None = None
    second: Classifier | None = None


def load_networks(
    options: SweepOptions, *, recogniser: Path | None = None, device: str = "cpu", edits: Path | None = None
) -> Networks:
    """Load the networks that make and check the versions of a sweep.

    Args:
        options: options of the sweep.
        recogniser: weights of the recognition network; without them identity is not measured.
        device: device of the networks; see ``models.precision.choose_device``.
        edits: the folder of cached images from external editors.
    """
    parser, judge = load_parser(options.parser, weights=options.parser_weights), load_judge("judge")
    second, estimator = load_judge("grey-judge"), load_judge("estimator")
    judge.to(device)
    for network in (parser, second, estimator):
        network.to(device).to(memory_format=torch.channels_last)
    known = None if recogniser is None else load_recogniser(recogniser).to(device)
    return Networks(_editor(options, parser, estimator, device, edits), parser, judge, known, second)


def _editor(
    options: SweepOptions, parser: SmallParser | BiSeNet, estimator: Classifier, device: str, edits: Path | None
) -> Editor:
    if not options.own_editor:
        source = source_of(options.editor, timeout=options.editor_timeout)
        return OutsideEditor(source, parser, options.region, options.feather, edits)
    if options.editor == "residual":
        return ToneAndFields(load_residual(), load_tone_table(), parser, options.region, options.feather, estimator)
    fader = load_fader()
    fader.to(device).to(memory_format=torch.channels_last)
    return FaderEditor(fader)


def subject_of(row: Mapping[str, Any], pixels: NDArray[np.uint8]) -> Subject:
    """Make the subject of a row of the faces table and the ``(H, W, 3)`` pixels of its photo."""
    landmarks = np.array(row["landmarks"], dtype=np.float64).reshape(5, 2)
    return Subject(photo=str(row["photo"]), pixels=pixels, landmarks=landmarks, own=row)


@dataclass(frozen=True)
class Version:
    """One written version: its row of the counterfactuals table, without the judge's columns, and its aligned crop
    ``(128, 128, 3)`` uint8, from which the judge fills them."""

    row: dict[str, Any]
    crop: NDArray[np.uint8]


@dataclass(frozen=True)
class _Chunk:
    """A chunk's faces: where each may change (in its photo and in its crop), and measurements of it."""

    subjects: Sequence[Subject]
    patches: Sequence[Patch | None]
    batch: FaceBatch
    masks: NDArray[np.float32]
    facts: Sequence[Mapping[str, float]]
    references: Sequence[Reference]
    # (attribute, index of a face) -> why its edit failed.
    failures: dict[tuple[str, int], str] = field(default_factory=dict)


def make_versions(
    subjects: Sequence[Subject],
    *,
    networks: Networks,
    options: SweepOptions,
    layout: Layout,
    folder: Path,
    identified: frozenset[str] = frozenset(),
    advance: Callable[[float], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Edit, composite, write and judge every version of some photos, and of their placebos.

    Args:
        subjects: the faces.
        networks: the networks that edit and check.
        options: options of the sweep.
        layout: names the files.
        folder: destination of the files.
        identified: photos for which the recognition network is used.
        advance: called with the share of a photo's versions that was written.

    Returns:
        Rows of the counterfactuals table, K for each photo, attribute and arm.
    """
    if not subjects:
        return []
    chunk = _prepare(subjects, networks=networks, options=options, layout=layout, folder=folder)
    rows: list[dict[str, Any]] = []
    swept = options.chosen()
    share = 1 / (len(swept) * len(options.arms))
    # One attribute at a time, so that its files do not depend on other swept attributes.
    for name, attribute in swept.items():
        made = set()
        photos = [subject.photo for subject in subjects]
        for edit in edits_of(chunk.batch, photos, attribute, chunk.masks, options=options):
            made.add(edit.arm)
            rows += _write(
                chunk, edit, networks=networks, options=options, layout=layout, folder=folder, identified=identified,
                written=lambda: advance(share),
            )  # fmt: skip
        for arm in options.arms:
            for subject in subjects if arm not in made else ():
                rows += unmade(subject.photo, name, options=options, status="excluded", reason=NO_PLACEBO, arm=arm)
    return rows


def unmade(
    photo: str, attribute: str, *, options: SweepOptions, status: str, reason: str, arm: str = EDIT_ARM
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a photo's sweep that could not be made."""
    for step, value in enumerate(options.values(attribute, arm), start=1):
        yield {
            "attribute": attribute,
            "arm": arm,
            "photo": photo,
            "step": step,
            "value": float(value),
            "status": status,
            "reason": reason,
        }


def compose(
    subject: Subject,
    patch: Patch | None,
    edit: Edit | PhotoEdit,
    place: int,
    *,
    options: SweepOptions,
    layout: Layout,
    folder: Path,
    reference: Reference | None = None,
) -> list[Version]:
    """Composite, encode and write the K versions of one photo.

    Args:
        subject: the face.
        patch: where it may change; None if no pixel may. A `PhotoEdit` has its own patch per attribute.
        edit: an edit of a batch of faces.
        place: the index of the face in that batch.
        options: options of compositing and encoding.
        layout: names the files.
        folder: destination of the files.
        reference: the photo for measurements of the versions; None skips them.
    """
    mask = layout.mask(subject.photo)
    composites: Iterable[Composite]
    if isinstance(edit, PhotoEdit):
        found = edit.make(place)
        if found is None:
            return []
        patch, composites = found.patch, found.versions
        mask = layout.mask(subject.photo, attribute=edit.attribute)
        if edit.arm == EDIT_ARM:  # placebos share the edit's mask
            _write_mask(subject, patch, folder / mask)
    elif patch is None:
        return []
    else:
        grey = is_grey(subject.pixels[patch.window])
        steps = range(1, len(edit.values) + 1)
        composites = (_composite(subject, patch, edit, place, step, mode=options.mode, grey=grey) for step in steps)
    file = ImageFile(options.image_format, options.jpeg_quality)
    around = widened(patch, shape=subject.shape)
    edge = mask_edge(subject.pixels[around.window], around.mask, face=subject.crop_side)
    mask_share = float(np.count_nonzero(patch.mask) / subject.pixels[..., 0].size)
    versions = []
    for step, (value, made) in enumerate(zip(edit.values, composites, strict=True), start=1):
        content = layout.finished(
            file.encode(made.pixels), subject.photo, attribute=edit.attribute, arm=edit.arm, value=float(value)
        )
        name = layout.image(subject.photo, attribute=edit.attribute, arm=edit.arm, step=step, suffix=file.suffix)
        write_image(folder / name, content)
        row = {
            "attribute": edit.attribute,
            "arm": edit.arm,
            "photo": subject.photo,
            "step": step,
            "value": float(value),
            "status": "ok",
            "reason": None,
            "file": str(name),
            "sha256": sha256(content).hexdigest(),
            "mask": str(mask),
            "mask_share": mask_share,
            "background_kept": background_kept(subject.pixels, made.pixels, patch),
            "clipped_share": made.clipped_share,
            "mask_line": edge.share_shown(made.pixels[around.window]),
            "lightness": mean_lightness(made.pixels[patch.window], patch.mask),
        }
        crop = warp_to_template(made.pixels, subject.to_crop, size=CROP)
        versions.append(Version(row if reference is None else row | reference.figures(made.pixels, crop), crop))
    return versions


def _composite(
    subject: Subject, patch: Patch, edit: Edit, place: int, step: int, *, mode: str, grey: bool
) -> Composite:
    added = mode == "delta"
    content = to_patch((edit.changes if added else edit.faces)[place, step - 1], subject, patch)
    return (add_change if added else paste)(subject.pixels, patch, without_colour(content) if grey else content)


def _prepare(
    subjects: Sequence[Subject], *, networks: Networks, options: SweepOptions, layout: Layout, folder: Path
) -> _Chunk:
    pasted = options.mode == "reconstruction"
    chances = chances_of(networks.parser, subjects)
    patches = patches_from(chances, subjects, region=options.region, feather_share=options.feather, within_crop=pasted)
    found = list(zip(subjects, patches, strict=True))
    for subject, patch in found:
        _write_mask(subject, patch, folder / layout.mask(subject.photo))
    batch = networks.editor.read(subjects, chances)
    empty = np.zeros((CROP, CROP), dtype=np.float32)
    masks = np.stack([empty if patch is None else crop_mask(subject, patch) for subject, patch in found])
    facts = _null_errors("null", batch.crops, batch.null, masks)
    if pasted:
        cycled = null_cycles(batch, torch.from_numpy(masks)[:, None], cycles=CYCLES)
        later = _null_errors("cycles", batch.crops, cycled, masks)
        facts = [one | other for one, other in zip(facts, later, strict=True)]
    return _Chunk(subjects, patches, batch, masks, facts, references(subjects, chances, masks))


def _write_mask(subject: Subject, patch: Patch | None, path: Path) -> None:
    """Write a photo's mask as an 8-bit PNG of the photo's size.

    Levels are rounded up, so that 0 means that the pixel may not change at all.
    """
    if patch is None:
        return
    whole = np.zeros(subject.pixels.shape[:2], dtype=np.uint8)
    whole[patch.window] = np.ceil(patch.mask * 255).astype(np.uint8)
    write_image(path, cv2.imencode(".png", whole)[1].tobytes())


def _null_errors(name: str, crops: Tensor, results: Tensor, masks: NDArray[np.float32]) -> list[dict[str, float]]:
    """Measure the errors of null edits inside the masks, one row per face."""
    pairs = zip(to_levels(crops) + 127.5, to_levels(results) + 127.5, masks, strict=True)
    return [{f"{name}_psnr": psnr(a, b, mask), f"{name}_ssim": ssim(a, b, mask)} for a, b, mask in pairs]


def _write(
    chunk: _Chunk,
    edit: Edit | PhotoEdit,
    *,
    networks: Networks,
    options: SweepOptions,
    layout: Layout,
    folder: Path,
    identified: frozenset[str],
    written: Callable[[], None],
) -> Iterator[dict[str, Any]]:
    found: list[list[Version]] = []
    for place, (subject, patch) in enumerate(zip(chunk.subjects, chunk.patches, strict=True)):
        # Skin is measured in placebos only if it represents the attribute.
        measured = edit.arm == EDIT_ARM or not options.chosen()[edit.attribute].by_network
        reference = chunk.references[place] if measured else None
        try:
            found.append(
                compose(subject, patch, edit, place, options=options, layout=layout, folder=folder, reference=reference)
            )
        except EditError as error:
            found.append([])
            chunk.failures[edit.attribute, place] = str(error)
        written()
    crops = [version.crop for versions in found for version in versions]
    judged = _judge(networks.judge, crops)
    if networks.second is not None:
        seen = _judge(networks.second, crops, name="grey")
        judged = [one | other for one, other in zip(judged, seen, strict=True)]
    judgements = iter(judged)
    for place, (subject, versions) in enumerate(zip(chunk.subjects, found, strict=True)):
        if not versions:
            reason = chunk.failures.get((edit.attribute, place))  # placebos share it, because they depend on the edit
            status = "excluded" if reason is None else "failed"
            yield from unmade(
                subject.photo, edit.attribute, options=options, status=status, reason=reason or NO_REGION, arm=edit.arm
            )
            continue
        alike: list[dict[str, float]] = [{} for _ in versions]
        if networks.recogniser is not None and subject.photo in identified:
            alike = _identity(networks.recogniser, versions, _null_version(chunk, place, mode=options.mode))
        for version, same in zip(versions, alike, strict=True):
            yield version.row | dict(chunk.facts[place]) | same | next(judgements)


def _null_version(chunk: _Chunk, place: int, *, mode: str) -> Tensor:
    """Return the null edit of a photo as it would be written, ``(3, 128, 128)``, for comparison with versions."""
    crop, null = chunk.batch.crops[place], chunk.batch.null[place]
    return crop if mode == "delta" else crop + torch.from_numpy(chunk.masks[place]) * (null - crop)


def _identity(network: nn.Module, versions: Sequence[Version], reference: Tensor) -> list[dict[str, float]]:
    crops = unit_batch([version.crop for version in versions])
    return [{"identity": float(alike)} for alike in similarity(network, crops, reference.expand_as(crops))]


def _judge(judge: Classifier, crops: Sequence[NDArray[np.uint8]], *, name: str = "judge") -> list[dict[str, float]]:
    """Compute a judge's columns of the counterfactuals table for aligned crops."""
    if not crops:
        return []
    seen = perceive_crops(judge, crops, half=True)
    numbers = {f"{name}_{figure}": column.tolist() for figure, column in seen.named().items()}
    columns = [column for column in numbers if column in COUNTERFACTUALS]
    return [{column: numbers[column][place] for column in columns} for place in range(len(crops))]
