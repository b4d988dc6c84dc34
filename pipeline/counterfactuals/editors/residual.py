"""The residual editor: skin tone in closed form, and fields of change for the features.

Differences of attribute values run parallel to the sweep through a face's own values, so the version at its own value
is the photo itself, whatever else the face is perceived as.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.alignment import aligned_crop, invert, similarity_to_template, warp_to_template
from models.attributes import CLASSES, class_indices
from models.fader import ATTRIBUTES
from models.judge import Classifier
from models.parser import BiSeNet, SmallParser
from models.precision import device_of, unit_batch
from models.residual import INNER, ChangeFields, Prototypes, centred, change_by, displaced, inner
from models.tone import REACH, ToneTable, median_colour, smooth_lightness, tone_change, tone_shifts, tone_weights
from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.counterfactuals.editors.base import CROP, Patch, PhotoEdit, PhotoVersions, Subject
from pipeline.counterfactuals.editors.response import Units, direction, fitted_units
from pipeline.counterfactuals.mask import (
    crop_mask,
    edge_following,
    feather,
    is_grey,
    locate,
    to_patch,
    trimmed,
    without_colour,
)
from pipeline.counterfactuals.region import Region, compose, merged_region, to_photo_displacement

# Two views of a face: the near one shows hairline to chin, the wide one ears, neck and shoulders.
NEAR, WIDE = 0.8, 0.42
EDGE_REACH = 0.025  # crop sides within which the edge of the skin follows the photo's
# Teeth, the eye's white and the iris take little of a change of light: nothing of them belongs to a group.
KEPT = {"mouth": 0.85, "eyes": 0.5}


@dataclass(frozen=True)
class Skin:
    """A face's visible skin.

    Attributes:
        patch: how much of a tone shift each pixel of the photo takes.
        colour: ``(3,)`` the skin's median CIELAB.
    """

    patch: Patch
    colour: NDArray[np.float64]


@dataclass(frozen=True)
class ToneAndFields:
    """The editor: prototypes for the features, the table of skin tones, and the parser that finds the skin.

    Attributes:
        prototypes, tones, parser: these.
        estimator: perceives how each face responds; without it one strength holds for all, and age is not held.
        region: face classes that may change in shape and shading.
        feather_share: width of the soft edge, in crop sides.
        tone, features: whether skin tone and features are changed; each can be switched off to see the other's share.
    """

    prototypes: Prototypes
    tones: ToneTable
    parser: SmallParser | BiSeNet
    region: tuple[str, ...]
    feather_share: float
    estimator: Classifier | None = None
    tone: bool = True
    features: bool = True

    @torch.inference_mode()
    def read(self, subjects: Sequence[Subject]) -> "ResidualBatch":
        """Read a batch of faces; see ``Editor.read``."""
        crops = unit_batch([aligned_crop(subject.pixels, subject.landmarks, size=CROP) for subject in subjects])
        fields = self.prototypes(torch.tensor([float(subject.own["age"]) for subject in subjects]))
        near, wide = (class_chances(self.parser, subjects, zoom=zoom) for zoom in (NEAR, WIDE))
        faces = [
            face_patch(subject, chances, region=self.region, feather_share=self.feather_share)
            for subject, chances in zip(subjects, near, strict=True)
        ]
        kept, masks = tuple(map(kept_parts, subjects, near)), _over_crops(subjects, faces)
        return ResidualBatch(
            editor=self,
            subjects=tuple(subjects),
            crops=crops,
            fields=fields,
            faces=tuple(faces),
            masks=masks,
            rims=inner(masks),
            kept=kept,
            kept_crops=_over_crops(subjects, kept),
            skins=tuple(map(visible_skin, subjects, near, wide)),
        )


@dataclass(frozen=True)
class ResidualBatch:
    """``B`` faces with their fields of change, where they may change, and their skin; see ``FaceBatch``.

    Attributes:
        editor: read them.
        subjects: the faces in their photos.
        crops: ``(B, 3, 128, 128)`` in -1..1.
        fields: of change by one unit of each attribute.
        faces: where features may change; None where no pixel of the region was found.
        masks: ``(B, 1, 128, 128)`` the same over the crops.
        rims: the same falling to zero inside the face already, for displacements.
        kept: how much each pixel of the photo keeps its light and colour; None where none does.
        kept_crops: ``(B, 1, 128, 128)`` the same over the crops.
        skins: all visible skin; None where too little was found.
    """

    editor: ToneAndFields
    subjects: tuple[Subject, ...]
    crops: Tensor
    fields: ChangeFields
    faces: tuple[Patch | None, ...]
    masks: Tensor
    rims: Tensor
    kept: tuple[Patch | None, ...]
    kept_crops: Tensor
    skins: tuple[Skin | None, ...]

    @property
    def null(self) -> Tensor:
        """The crops themselves: nothing is decoded."""
        return self.crops

    def null_of(self, crops: Tensor) -> Tensor:
        """See ``FaceBatch.null_of``."""
        return crops

    def edit(self, attribute: Attribute, values: tuple[float, ...], units: Units | None = None) -> PhotoEdit:
        """See ``FaceBatch.edit``; with ``units`` measured before, on these faces with other parts of the editor on."""
        _check_inputs(attribute)
        units = units or self.units(attribute)
        return PhotoEdit(
            attribute.name, EDIT_ARM, values, lambda place: self._versions(place, attribute, values, units)
        )

    def own(self, attribute: Attribute) -> NDArray[np.float64]:
        """The faces' own values ``(B,)`` of an attribute."""
        return np.array([float(attribute.own_value(subject.own)) for subject in self.subjects])

    @torch.inference_mode()
    def drawn(
        self, attribute: Attribute, values: NDArray[np.float64], units: Sequence[Tensor]
    ) -> list[NDArray[np.uint8]]:
        """Each face's version at its own one of ``values`` ``(B,)``, made in the aligned crop alone.

        Args:
            attribute: what is swept.
            values: ``(B,)``.
            units: ``(B, 8)`` each: what one unit of the sweep is in units of the fields.

        Returns:
            All faces' crops ``(128, 128, 3)`` by the first of the units, then by the second, and so on.
        """
        crops, made = self.crops.clone(), []
        for place, value in enumerate(values):
            skin = self._skin(place, attribute)
            if skin is not None:
                crops[place] += self._toned_crop(place, skin, attribute, float(value))
        away, taken = torch.from_numpy(values - self.own(attribute)).float()[:, None], 1 - self.kept_crops
        for one in units:
            change = centred(change_by(self.fields, away * one, size=CROP), self.masks)
            changed = displaced(crops, self.rims * change.displacement) + self.masks * taken * change.colour
            made += list(((changed.clamp(-1, 1) + 1) * 127.5).round().byte().movedim(1, -1).numpy())
        return made

    def units(self, attribute: Attribute) -> Units:
        """What one unit of a sweep is for each face; the same for all without an estimator."""
        estimator, rows = self.editor.estimator, [subject.own for subject in self.subjects]
        if estimator is None or not self.editor.features:
            unit = direction(attribute).expand(len(rows), len(ATTRIBUTES))
            return Units(unit, unit)
        return fitted_units(attribute, rows, partial(self.drawn, attribute), estimator)

    def _skin(self, place: int, attribute: Attribute) -> Skin | None:
        # Skin tone belongs to the attributes whose poles are groups of people of different skin.
        return self.skins[place] if self.editor.tone and attribute.moves_colour and attribute.categories else None

    def _toned_crop(self, place: int, skin: Skin, attribute: Attribute, value: float) -> Tensor:
        """What the shift of skin tone adds to the crop ``(3, 128, 128)``."""
        subject = self.subjects[place]
        crop = ((self.crops[place] + 1) * 127.5).round().byte().movedim(0, -1).numpy()
        weights = crop_mask(subject, skin.patch)
        lightness = smooth_lightness(crop, weights, reach=REACH * CROP)
        shift = self._shifts(subject, skin, attribute, (value,))[0]
        grey = is_grey(subject.pixels[skin.patch.window])
        change = tone_change(crop, weights, skin.colour, shift, lightness=lightness, grey=grey)
        return torch.from_numpy(change).movedim(-1, 0) / 127.5

    def _shifts(
        self, subject: Subject, skin: Skin, attribute: Attribute, values: Sequence[float]
    ) -> NDArray[np.float64]:
        return tone_shifts(
            self.editor.tones,
            skin.colour,
            values,
            own=float(attribute.own_value(subject.own)),
            pair=attribute.poles,
            gender=float(subject.own["gender"]),
            age=float(subject.own["age"]),
        )

    @torch.inference_mode()
    def _versions(
        self, place: int, attribute: Attribute, values: tuple[float, ...], units: Units
    ) -> PhotoVersions | None:
        editor, subject = self.editor, self.subjects[place]
        face = self.faces[place] if editor.features else None
        skin = self._skin(place, attribute)
        region = merged_region(face, None if skin is None else skin.patch)
        if region is None:
            return None
        own = float(attribute.own_value(subject.own))
        window = subject.pixels[region.window]
        grey = is_grey(window)
        tones = self._tones(subject, skin, region, attribute, values, grey=grey)
        colours, moves = self._features(place, np.asarray(values) - own, units)
        taken = 1 - _within(self.kept[place], region)[..., None]
        to_photo = invert(subject.to_crop)
        made = []
        for colour, move, tone in zip(colours, moves, tones, strict=True):
            added = taken * to_patch(np.ascontiguousarray(colour), subject, region.patch)
            moved = to_patch(np.ascontiguousarray(move), subject, region.patch)
            made.append(
                compose(
                    subject.pixels,
                    region,
                    colour=without_colour(added) if grey else added,
                    displacement=to_photo_displacement(moved, to_photo=to_photo, size=CROP),
                    tone=tone,
                    rim=INNER * _crop_side(subject),
                )
            )
        return PhotoVersions(subject.pixels, own, region.patch, tuple(made))

    def _features(
        self, place: int, differences: NDArray[np.float64], units: Units
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Change of colour ``(K, 128, 128, 3)`` in levels and displacement ``(K, 128, 128, 2)`` in crop sides."""
        away = torch.from_numpy(differences).float()[:, None]
        steps = away * torch.where(away < 0, units.below[place], units.above[place])
        count = len(steps)
        own_fields = ChangeFields(
            *(
                field[place : place + 1].expand(count, *field.shape[1:])
                for field in (self.fields.luma, self.fields.chroma, self.fields.displacement)
            )
        )
        mask = self.masks[place : place + 1].expand(count, 1, CROP, CROP)
        change = centred(change_by(own_fields, steps, size=CROP), mask)
        return (change.colour * 127.5).movedim(1, -1).numpy(), change.displacement.movedim(1, -1).numpy()

    def _tones(
        self,
        subject: Subject,
        skin: Skin | None,
        region: Region,
        attribute: Attribute,
        values: Sequence[float],
        *,
        grey: bool,
    ) -> list[NDArray[np.float32] | None]:
        """What the shift of skin tone adds to the region's window at each value; None where there is no shift."""
        if skin is None:
            return [None] * len(values)
        window = subject.pixels[region.window]
        lightness = smooth_lightness(window, region.skin, reach=REACH * _crop_side(subject))
        return [
            tone_change(window, region.skin, skin.colour, shift, lightness=lightness, grey=grey)
            for shift in self._shifts(subject, skin, attribute, values)
        ]


def view_transform(landmarks: NDArray[np.float64], *, size: int, zoom: float) -> NDArray[np.float64]:
    """From photo to a parser's input: the template, zoomed out around the face; the wide view looks further down."""
    view = similarity_to_template(landmarks, size=size) * zoom
    view[:, 2] += (1 - zoom) * size / 2
    if zoom < NEAR:
        view[1, 2] -= 0.12 * size
    return view


@torch.inference_mode()
def class_chances(parser: SmallParser | BiSeNet, subjects: Sequence[Subject], *, zoom: float) -> NDArray[np.float32]:
    """The parser's probabilities ``(B, 19, size, size)`` in the view of that ``zoom``."""
    size = parser.size
    images = [
        warp_to_template(s.pixels, view_transform(s.landmarks, size=size, zoom=zoom), size=size) for s in subjects
    ]
    # In float32 everywhere: a mask that differs by a pixel would show in every level of a large change.
    batch = unit_batch(images).to(device_of(parser), memory_format=torch.channels_last)
    return np.asarray(parser(batch).softmax(dim=1).cpu().numpy(), dtype=np.float32)


def face_patch(
    subject: Subject, chances: NDArray[np.float32], *, region: Sequence[str], feather_share: float
) -> Patch | None:
    """Where features may change: the classes of ``region`` in the near view, feathered inwards, in photo pixels."""
    membership = chances[list(class_indices(region))].sum(axis=0)
    view = view_transform(subject.landmarks, size=membership.shape[0], zoom=NEAR)
    patch = locate(membership, to_photo=invert(view), shape=_shape(subject))
    if patch is None:
        return None
    return trimmed(Patch(patch.top, patch.left, feather(patch.mask, pixels=feather_share * _crop_side(subject))))


def kept_parts(subject: Subject, chances: NDArray[np.float32]) -> Patch | None:
    """How much of its light and colour each pixel keeps, from the parser's probabilities in the near view."""
    membership = sum(share * chances[list(class_indices((name,)))].sum(axis=0) for name, share in KEPT.items())
    view = view_transform(subject.landmarks, size=chances.shape[-1], zoom=NEAR)
    return locate(np.asarray(membership, dtype=np.float32), to_photo=invert(view), shape=_shape(subject))


def visible_skin(subject: Subject, near: NDArray[np.float32], wide: NDArray[np.float32]) -> Skin | None:
    """All visible skin of a face, its ears and neck: from the near view, and from the wide one beyond it.

    Args:
        subject: the face.
        near: ``(19, size, size)`` the parser's probabilities in the near view.
        wide: the same in the wide one.
    """
    size = near.shape[-1]
    views = [view_transform(subject.landmarks, size=size, zoom=zoom) for zoom in (NEAR, WIDE)]
    # Inside the near view, which shows more detail, that one counts; towards its edge the wide one takes over; and
    # towards the wide one's edge the shift fades out.
    inner, outer = _frame(size, width=0.06), _frame(size, width=0.10)
    near_skin, near_frame, wide_skin = (
        locate(field, to_photo=invert(view), shape=_shape(subject))
        for field, view in (
            (tone_weights(near, CLASSES) * inner, views[0]),
            (inner, views[0]),
            (tone_weights(wide, CLASSES) * outer, views[1]),
        )
    )
    region = merged_region(near_skin, wide_skin)
    if region is None:
        return None
    weights = region.face + (1 - _within(near_frame, region)) * region.skin
    edged = edge_following(weights, subject.pixels[region.window], reach=EDGE_REACH * _crop_side(subject))
    # The photo's edges decide where the parser is in doubt, not where it sees skin or none.
    weights = np.clip(edged, 2.5 * weights - 1.5, 4 * weights)
    weights = np.clip((weights - 0.04) / 0.92, 0, 1)
    patch = trimmed(Patch(region.top, region.left, weights.astype(np.float32)))
    sure = locate(
        near[list(class_indices(("skin", "nose")))].sum(axis=0), to_photo=invert(views[0]), shape=_shape(subject)
    )
    if patch is None or sure is None:
        return None
    colour = median_colour(subject.pixels[sure.window], sure.mask)
    return None if colour is None else Skin(patch, colour)


def _check_inputs(attribute: Attribute) -> None:
    missing = [name for name in attribute.inputs if name not in ATTRIBUTES]
    if missing:
        raise ValueError(f"the residual editor cannot change {attribute.name}: it has no field {', '.join(missing)}")


def _over_crops(subjects: Sequence[Subject], patches: Sequence[Patch | None]) -> Tensor:
    """Masks as they lie over the crops, ``(B, 1, 128, 128)``; zero where there is none."""
    empty = np.zeros((CROP, CROP), dtype=np.float32)
    masks = [empty if patch is None else crop_mask(one, patch) for one, patch in zip(subjects, patches, strict=True)]
    return torch.from_numpy(np.stack(masks))[:, None]


def _crop_side(subject: Subject) -> float:
    """The side of the aligned crop in photo pixels."""
    return CROP / float(np.hypot(*subject.to_crop[:, 0]))


def _shape(subject: Subject) -> tuple[int, int]:
    return subject.pixels.shape[0], subject.pixels.shape[1]


def _frame(size: int, *, width: float) -> NDArray[np.float32]:
    """1 inside a square, falling to 0 at its border over ``width`` of its side."""
    ramp = np.clip(np.minimum(np.arange(size), np.arange(size)[::-1]) / (width * size), 0, 1).astype(np.float32)
    return np.minimum.outer(ramp, ramp)


def _within(patch: Patch | None, region: Region) -> NDArray[np.float32]:
    """A patch's mask in the window of a region, 0 beyond."""
    height, width = region.window[0].stop - region.top, region.window[1].stop - region.left
    whole = np.zeros((height, width), dtype=np.float32)
    if patch is None:
        return whole
    top, left = patch.top - region.top, patch.left - region.left
    rows = slice(max(top, 0), min(top + patch.mask.shape[0], height))
    columns = slice(max(left, 0), min(left + patch.mask.shape[1], width))
    if rows.stop > rows.start and columns.stop > columns.start:
        whole[rows, columns] = patch.mask[
            rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
        ]
    return whole
