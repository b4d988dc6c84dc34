"""Joint measurements of a sample of a run's pictures: mean change, real pastes, detection, tone and features.

The thresholds are applied in ``picture_checks``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from models.alignment import warp_to_template
from models.judge import Classifier, perceive_crops
from models.parser import BiSeNet, SmallParser
from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.counterfactuals.detection import Detection, detect
from pipeline.counterfactuals.editors.base import CROP, Editor, PhotoEdit, Subject
from pipeline.counterfactuals.editors.residual import ToneAndFields
from pipeline.counterfactuals.mask import chances_of, crop_mask, patches_from
from pipeline.counterfactuals.measures import asymmetry, concentration, lab, lightness_change, lightness_map, stencil
from pipeline.counterfactuals.version_measures import FACE
from pipeline.run.image_store import ImageStore
from pipeline.run.storage import File

MAP_SIDE = 64
LEAST = 20  # minimum number of faces
MOST_PASTES = 40  # maximum number of pastes into faces of each group
SPLIT_PHOTOS = 24  # number of faces for which tone and features are switched off in turn

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Crops:
    """Aligned crops of one attribute's sample: ``N`` faces.

    Attributes:
        photos: ``(N, 128, 128, 3)`` uint8.
        masks: ``(N, 128, 128)`` in 0..1, where a face may change.
        skins: ``(N, 128, 128)`` in 0..1, the skin of each face.
        near: ``(N, 2, M, 128, 128, 3)`` the edits at a = -1 and +1, or at the M steps on either side of each.
        ends: arm -> ``(N, 2, 128, 128, 3)`` the versions at both ends of the sweep.
        classes: ``(N,)`` the perceived class of each face.
    """

    photos: NDArray[np.uint8]
    masks: NDArray[np.float32]
    skins: NDArray[np.float32]
    near: NDArray[np.uint8]
    ends: Mapping[str, NDArray[np.uint8]]
    classes: NDArray[np.str_]


@dataclass(frozen=True)
class Face:
    """The crop and masks of a photo whose face may change.

    Attributes:
        photo: its name.
        to_crop: ``(2, 3)`` from the photo to its aligned crop.
        crop: ``(128, 128, 3)`` uint8.
        mask: ``(128, 128)`` where the crop may change.
        skin: ``(128, 128)`` where it shows skin.
    """

    photo: str
    to_crop: NDArray[np.float64]
    crop: NDArray[np.uint8]
    mask: NDArray[np.float32]
    skin: NDArray[np.float32]


def faces_of(
    parser: SmallParser | BiSeNet, subjects: Sequence[Subject], *, region: Sequence[str], feather: float
) -> Iterator[Face]:
    """Yield the faces that have pixels of the ``region``, with a soft edge of ``feather`` crop sides."""
    if not subjects:
        return
    chances = chances_of(parser, subjects)
    masks = patches_from(chances, subjects, region=region, feather_share=feather)
    skins = patches_from(chances, subjects, region=FACE, feather_share=0.0)
    for one, mask, skin in zip(subjects, masks, skins, strict=True):
        if mask is not None and skin is not None:
            crop = warp_to_template(one.pixels, one.to_crop, size=CROP)
            yield Face(one.photo, one.to_crop, crop, crop_mask(one, mask), crop_mask(one, skin))


def reduced(subject: Subject) -> Subject:
    """Scale down a photo whose face has more than four times the pixels of its aligned crop."""
    factor = 2 * CROP / subject.crop_side
    if factor >= 1:
        return subject
    pixels = cv2.resize(subject.pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    # Pixel centres sit on integers.
    landmarks = (subject.landmarks + 0.5) * factor - 0.5
    return replace(subject, pixels=np.asarray(pixels, dtype=np.uint8), landmarks=landmarks)


def crops_of(
    versions: pd.DataFrame, faces: Sequence[Face], classes: Mapping[str, str], *, images: ImageStore
) -> Crops | None:
    """Read the crops of one attribute's sample; None if no face has all of them.

    Args:
        versions: the attribute's successful rows of the counterfactuals table.
        faces: the faces of the sample.
        classes: photo -> perceived class of its face.
        images: store of the versions' files.
    """
    steps = {str(arm): np.sort(rows["value"].unique()) for arm, rows in versions.groupby("arm")}
    if EDIT_ARM not in steps or not {*np.sign(steps[EDIT_ARM])} >= {-1.0, 1.0}:
        return None
    near = [_next_to(steps[EDIT_ARM], end) for end in (-1.0, 1.0)]
    each = min(map(len, near))
    wanted = [(EDIT_ARM, value) for values in near for value in values[:each]]
    first = 1 + len(wanted)
    wanted += [(arm, values[end]) for arm, values in steps.items() for end in (0, -1)]
    files: dict[str, dict[tuple[str, float], str]] = {
        str(photo): dict(zip(zip(rows["arm"], rows["value"], strict=True), rows["file"], strict=True))
        for photo, rows in versions.groupby("photo")
    }
    read: list[tuple[Face, list[NDArray[np.uint8]]]] = []
    for face in faces:
        names = [files.get(face.photo, {}).get(key) for key in wanted]
        if None not in names:
            pictures = (_picture(images.file(str(name))) for name in names)
            read.append((face, [face.crop, *(warp_to_template(one, face.to_crop, size=CROP) for one in pictures)]))
    if not read:
        return None
    crops = np.array([of_photo for _, of_photo in read], dtype=np.uint8)
    ends = {arm: crops[:, first + 2 * place : first + 2 + 2 * place] for place, arm in enumerate(steps)}
    return Crops(
        photos=crops[:, 0],
        masks=np.stack([face.mask for face, _ in read]),
        skins=np.stack([face.skin for face, _ in read]),
        near=crops[:, 1:first].reshape(len(crops), 2, each, *crops.shape[2:]),
        ends=ends,
        classes=np.array([classes[face.photo] for face, _ in read]),
    )


def figures(attribute: Attribute, crops: Crops, judges: Mapping[str, Classifier], *, least: int) -> Iterator[Row]:
    """Yield the rows of one attribute, without the columns attribute and photos.

    Args:
        attribute: the swept attribute.
        crops: the sample.
        judges: the judges by name.
        least: minimum number of faces of a group.
    """
    yield from mean_change(crops, of_skin=attribute.moves_colour)
    yield from detections(crops)
    if attribute.by_network:
        yield from real_pastes(attribute, crops, judges, least=least)


def mean_change(crops: Crops, *, of_skin: bool = False) -> Iterator[Row]:
    """Yield the mean change of L* at each place at a = -1 and +1, and its deviation from its own mean (or on skin)."""
    if len(crops.photos) < LEAST:
        return
    for place, name in enumerate(("map: low", "map: high")):
        versions = crops.near[:, place]
        change, on_skin = (
            np.mean([lightness_map(crops.photos, versions[:, k], masks) for k in range(versions.shape[1])], axis=0)
            for masks in (crops.masks, crops.skins)
        )
        judged = on_skin if of_skin else change
        if np.isnan(judged).all():
            continue
        small = cv2.resize(change, (MAP_SIDE, MAP_SIDE), interpolation=cv2.INTER_AREA)  # NaN spreads: only inner cells
        yield {"arm": EDIT_ARM, "measure": name, "figure": stencil(judged), "map": small.ravel().tolist()}


def detections(crops: Crops) -> Iterator[Row]:
    """Yield how well small classifiers detect edits near a = -1 and +1, and edits and placebos at the ends."""
    if len(crops.photos) < LEAST:
        return
    unedited = crops.photos[:, None]
    yield _detected(EDIT_ARM, "detection", detect(unedited, crops.near.reshape(len(unedited), -1, *unedited.shape[2:])))
    for arm, ends in crops.ends.items():
        if len(crops.ends) > 1:
            yield _detected(arm, "detection: ends", detect(unedited, ends))


def real_pastes(attribute: Attribute, crops: Crops, judges: Mapping[str, Classifier], *, least: int) -> Iterator[Row]:
    """Yield the effects on judges and pictures of pasting real faces of the other group into the same masks.

    A pasted face gets the mean colour of the face it replaces, unless skin colour belongs to the attribute.
    """
    low_side, high_side = (np.flatnonzero(crops.classes == pole) for pole in attribute.poles)
    if min(len(low_side), len(high_side)) < least:
        return
    swings: dict[str, list[float]] = {name: [] for name in judges}
    gathered, one_sided = [], []
    for here, there, sign in ((low_side, high_side, 1.0), (high_side, low_side, -1.0)):
        receivers = here[:MOST_PASTES]
        donors = there[np.arange(len(receivers)) % len(there)]
        before, masks = crops.photos[receivers], crops.masks[receivers]
        after = np.stack(
            [
                pasted(photo, donor, mask, matched=not attribute.moves_colour)
                for photo, donor, mask in zip(before, crops.photos[donors], masks, strict=True)
            ]
        )
        for name, judge in judges.items():
            low, high = (perceived(attribute, judge, pictures) for pictures in (before, after))
            swings[name].append(sign * float((high - low).mean()))
        changes = lightness_change(before, after)
        gathered += concentration(changes, masks).tolist()
        one_sided += asymmetry(changes, masks).tolist()
    for name, found in swings.items():
        yield {"arm": name, "measure": "paste", "figure": float(np.mean(found))}
    yield {"arm": EDIT_ARM, "measure": "paste: concentration", "figure": float(np.nanmean(gathered))}
    yield {"arm": EDIT_ARM, "measure": "paste: asymmetry", "figure": float(np.nanmean(one_sided))}


def pasted(
    photo: NDArray[np.uint8], donor: NDArray[np.uint8], mask: NDArray[np.float32], *, matched: bool
) -> NDArray[np.uint8]:
    """Paste another face's crop into a photo's mask, with the mean CIELAB of the replaced face if ``matched``."""
    face = lab(donor)
    if matched:
        weights = mask[..., None] / max(float(mask.sum()), 1e-6)
        face = face + ((lab(photo) - face) * weights).sum(axis=(0, 1))
    levels = np.clip(cv2.cvtColor(face.astype(np.float32), cv2.COLOR_LAB2RGB), 0, 1) * 255
    return np.asarray(np.rint(photo + mask[..., None] * (levels - photo)), dtype=np.uint8)


def perceived(attribute: Attribute, judge: Classifier, crops: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return a judge's probability of the higher pole for crops ``(N, S, S, 3)``."""
    seen = perceive_crops(judge, list(crops)).named()
    columns = pd.DataFrame({f"judge_{name}": column.float().numpy() for name, column in seen.items()})
    return np.asarray(attribute.perceived(columns), dtype=np.float64)


def part_effects(attribute: Attribute, editor: Editor, subjects: Sequence[Subject], judge: Classifier) -> Iterator[Row]:
    """Yield the effect from a = -1 to +1 of the whole edit, of tone alone and of features alone, if the editor has
    both."""
    if not (isinstance(editor, ToneAndFields) and attribute.moves_colour and attribute.unit and subjects):
        return
    batch = editor.read(subjects)
    units = batch.units(attribute)
    parts = {"parts: both": editor, "parts: tone": replace(editor, features=False)}
    for name, part in (parts | {"parts: features": replace(editor, tone=False)}).items():
        edit = replace(batch, editor=part).edit(attribute, (-1.0, 1.0), units)
        ends = [_crops_of(edit, place, subject) for place, subject in enumerate(batch.subjects)]
        made = np.array([pair for pair in ends if pair is not None])
        if len(made):
            low, high = (perceived(attribute, judge, made[:, place]) for place in (0, 1))
            yield {"arm": EDIT_ARM, "measure": name, "figure": float((high - low).mean())}


def _crops_of(edit: PhotoEdit, place: int, subject: Subject) -> list[NDArray[np.uint8]] | None:
    made = edit.make(place)
    if made is None:
        return None
    return [warp_to_template(version.pixels, subject.to_crop, size=CROP) for version in made.versions]


def _next_to(values: NDArray[np.float64], wanted: float) -> list[float]:
    """Return the step at a value, or the steps on either side of it."""
    if np.isclose(values, wanted).any():
        return [float(values[np.isclose(values, wanted)][0])]
    below, above = values[values < wanted], values[values > wanted]
    sides = [*below[-1:], *above[:1]]
    return [float(value) for value in sides if np.sign(value) == np.sign(wanted)]


def _picture(file: File) -> NDArray[np.uint8]:
    pixels = cv2.imdecode(np.frombuffer(file.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _detected(arm: str, measure: str, found: Detection) -> Row:
    return {"arm": arm, "measure": measure, "figure": found.auc, "low": found.low, "high": found.high}
