"""The residual editor: skin tone in closed form, and fields of change for the features.

Every change is a multiple of the difference from the face's own value, so the version at that value is the photo.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.alignment import aligned_crop, invert
from models.fader import ATTRIBUTES
from models.image_metrics import batch_luma, luma
from models.judge import Classifier
from models.parser import BiSeNet, SmallParser
from models.precision import unit_batch
from models.residual import (
    INNER,
    Change,
    ChangeFields,
    Prototypes,
    centred,
    changes_along,
    displaced,
    inner,
)
from models.tone import (
    REACH,
    ToneTable,
    lightness_shifts,
    smooth_lightness,
    tone_changes,
    tone_shifts,
)
from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.counterfactuals.editors.base import CROP, Patch, PhotoEdit, PhotoVersions, Subject
from pipeline.counterfactuals.editors.response import Units, fitted_units, plain_units
from pipeline.counterfactuals.kept_parts import highlights, kept_parts, open_mouth
from pipeline.counterfactuals.mask import (
    chances_of,
    crop_mask,
    is_grey,
    patches_from,
    to_patch,
    without_colour,
)
from pipeline.counterfactuals.region import (
    LIGHT,
    Region,
    compose,
    inner_mask,
    merged_region,
    saturated,
    to_photo_displacement,
    within,
)
from pipeline.counterfactuals.skin import Skin, visible_skin, wide_view

FARTHEST = 0.03  # crop sides towards which a displacement saturates; larger ones produce caricatures


@dataclass(frozen=True)
class Part:
    """A part of an edit: an attribute, its K values, and the changes ``(B, 2, …)`` by one unit below and above each
    face's own value."""

    attribute: Attribute
    values: tuple[float, ...]
    changes: Change

    def also(self, value: float) -> "Part":
        """Return the same part with one more value."""
        return replace(self, values=(*self.values, value))

    def steps(self, own: float) -> NDArray[np.float32]:
        """Return how many of the two changes make the version at each value, ``(K, 2)``, for a face's own value."""
        away = np.subtract(self.values, own)
        return np.stack([np.minimum(away, 0), np.maximum(away, 0)], axis=1).astype(np.float32)


@dataclass(frozen=True)
class ToneAndFields:
    """The editor: prototypes for the features, the table of skin tones, and the parser that finds the skin.

    Attributes:
        prototypes: fields of the features.
        tones: table of skin tones.
        parser: finds the skin and the region.
        estimator: measures each face's response; without it all faces have the same strength, and age is not held.
        region: face classes that may change in shape and shading.
        feather_share: width of the soft edge, in crop sides.
        tone, features: whether skin tone and features are changed; each can be switched off to measure the other.
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
    def read(self, subjects: Sequence[Subject], near: NDArray[np.float32] | None = None) -> "ResidualBatch":
        """Read a batch of faces; see ``Editor.read``."""
        crops = unit_batch([aligned_crop(subject.pixels, subject.landmarks, size=CROP) for subject in subjects])
        fields = self.prototypes(torch.tensor([float(subject.own["age"]) for subject in subjects]))
        near = chances_of(self.parser, subjects) if near is None else near
        faces = patches_from(near, subjects, region=self.region, feather_share=self.feather_share)
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
            still=_over_crops(subjects, tuple(map(open_mouth, subjects, near))),
            near=near,
        )


@dataclass(frozen=True)
class ResidualBatch:
    """``B`` faces with their fields of change, where they may change, and their skin; see ``FaceBatch``.

    Attributes:
        editor: the editor.
        subjects: the faces in their photos.
        crops: ``(B, 3, 128, 128)`` in -1..1.
        fields: changes by one unit of each attribute.
        faces: where features may change; None if no pixel of the region was found.
        masks: ``(B, 1, 128, 128)`` the same in the crops.
        rims: `masks` that fall to zero inside the face, for displacements.
        kept: share of light and colour that each pixel of the photo keeps; None if there is none.
        kept_crops: ``(B, 1, 128, 128)`` the same in the crops.
        still: ``(B, 1, 128, 128)`` share of displacement that is suppressed in the crops, in and around open mouths.
        near: ``(B, 19, S, S)`` the parser's probabilities in its near view.
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
    still: Tensor
    near: NDArray[np.float32]

    @cached_property
    def skins(self) -> tuple[Skin | None, ...]:
        """All visible skin of each face; None if too little was found. Only some attributes need it."""
        wide = chances_of(self.editor.parser, self.subjects, view=wide_view)
        return tuple(map(visible_skin, self.subjects, self.near, wide))

    @cached_property
    def highlights(self) -> tuple[Patch | None, ...]:
        """Share of each pixel of `faces` that is a highlight. Only some attributes need it."""
        return tuple(map(highlights, self.subjects, self.faces))

    @property
    def null(self) -> Tensor:
        """The crops themselves: nothing is decoded."""
        return self.crops

    def null_of(self, crops: Tensor) -> Tensor:
        """See ``FaceBatch.null_of``."""
        return crops

    def edit(self, attribute: Attribute, values: tuple[float, ...], units: Units | None = None) -> PhotoEdit:
        """See ``FaceBatch.edit``. ``units`` may be given if they were measured before, with other parts of the editor
        on."""
        wanted = [(attribute, values)]
        if attribute.given is not None:
            other, value = attribute.given
            wanted.append((other, (float(value),) * len(values)))
        parts = []
        for moved, to in wanted:
            _check_inputs(moved)
            known = units if units is not None and moved is attribute else self.units(moved)
            parts.append(Part(moved, to, self.changes(moved, known)))
        return PhotoEdit(attribute.name, EDIT_ARM, values, lambda place: self._versions(place, parts))

    def own(self, attribute: Attribute) -> NDArray[np.float64]:
        """Return the faces' own values ``(B,)`` of an attribute."""
        return np.array([float(attribute.own_value(subject.own)) for subject in self.subjects])

    @torch.inference_mode()
    def changes(self, attribute: Attribute, units: Units) -> Change:
        """Return the changes ``(B, 2, …)`` by one unit of an attribute below and above each face's own value."""
        amounts = torch.stack([units.below, units.above], dim=1)
        found = centred(changes_along(self.fields, amounts, size=CROP), self.masks)
        if "smiling" in attribute.unit:
            return found
        return replace(found, displacement=found.displacement * (1 - self.still[:, None]))

    @torch.inference_mode()
    def drawn(self, attribute: Attribute, units: Units, values: NDArray[np.float64]) -> list[NDArray[np.uint8]]:
        """Make versions of each face in the aligned crop only.

        Args:
            attribute: the swept attribute.
            units: units of the sweep.
            values: ``(V, B)`` the versions' values.

        Returns:
            ``V * B`` crops ``(128, 128, 3)``, all faces at the first values first.
        """
        changes, crops = self.changes(attribute, units), self.crops.repeat(len(values), 1, 1, 1, 1)
        for place, of_face in enumerate(values.T):
            skin = self._skin(place, attribute)
            if skin is not None:
                crops[:, place] += self._toned_crops(place, skin, attribute, of_face)
        away = torch.from_numpy(values - self.own(attribute)).float()
        faces, sides = torch.arange(len(self.subjects)), (away > 0).long()
        colour, moved = (
            away[..., None, None, None] * field[faces, sides] for field in (changes.colour, changes.displacement)
        )
        taken = self.masks * (1 - self.kept_crops)
        if attribute.moves_colour:
            lit = self.masks * (1 - _over_crops(self.subjects, self.highlights))
            taken = torch.where(
                batch_luma(colour.flatten(0, 1)).unflatten(0, away.shape) < 0, taken.minimum(lit), taken
            )
        colour = taken * colour
        colour = colour / (1 + (colour * 127.5 / LIGHT).square().mean(dim=2, keepdim=True)).sqrt()
        moved = self.rims * moved
        moved = moved / (1 + (moved / FARTHEST).square().sum(dim=2, keepdim=True)).sqrt()
        changed = displaced(crops.flatten(0, 1), moved.flatten(0, 1)) + colour.flatten(0, 1)
        return list(((changed.clamp(-1, 1) + 1) * 127.5).round().byte().movedim(1, -1).numpy())

    def units(self, attribute: Attribute) -> Units:
        """Return the units of a sweep for each face; the same for all without an estimator."""
        estimator = self.editor.estimator
        if estimator is None or not self.editor.features or not attribute.unit:
            return plain_units(attribute, len(self.subjects))
        rows = [subject.own for subject in self.subjects]
        return fitted_units(attribute, rows, lambda units, values: self.drawn(attribute, units, values), estimator)

    def _skin(self, place: int, attribute: Attribute) -> Skin | None:
        return self.skins[place] if self.editor.tone and attribute.moves_colour else None

    def _toned_crops(self, place: int, skin: Skin, attribute: Attribute, values: NDArray[np.float64]) -> Tensor:
        """Return what the shifts of skin tone to V values add to the crop, ``(V, 3, 128, 128)``."""
        subject = self.subjects[place]
        crop = ((self.crops[place] + 1) * 127.5).round().byte().movedim(0, -1).numpy()
        weights = crop_mask(subject, skin.patch)
        lightness = smooth_lightness(crop, weights, reach=REACH * CROP)
        shifts = self._shifts(subject, skin, attribute, values.tolist())
        grey = is_grey(subject.pixels[skin.patch.window])
        added = tone_changes(crop, weights, skin.colour, shifts, lightness=lightness, grey=grey)
        return torch.from_numpy(np.stack(list(added))).movedim(-1, 1) / 127.5

    def _shifts(
        self, subject: Subject, skin: Skin, attribute: Attribute, values: Sequence[float]
    ) -> NDArray[np.float64]:
        own = float(attribute.own_value(subject.own))
        if attribute.scale is not None:  # an axis of L*
            moves = [attribute.scale[1] * (value - own) for value in values]
            return lightness_shifts(self.editor.tones, skin.colour, moves)
        return tone_shifts(
            self.editor.tones,
            skin.colour,
            values,
            own=own,
            pair=attribute.poles,
            gender=float(subject.own["gender"]),
            age=float(subject.own["age"]),
        )

    @torch.inference_mode()
    def _versions(self, place: int, parts: Sequence[Part]) -> PhotoVersions | None:
        """Make the versions at the first part's values; a second part adds a fixed value in the same composition."""
        editor, subject = self.editor, self.subjects[place]
        owns = [float(part.attribute.own_value(subject.own)) for part in parts]
        if len(parts) > 1:  # placebos start from the face changed by the other attribute only
            parts = [parts[0].also(owns[0]), parts[1].also(parts[1].values[0])]
        face = self.faces[place] if editor.features and any(part.attribute.unit for part in parts) else None
        toned = next((part for part in parts if part.attribute.moves_colour), parts[0])
        skin = self._skin(place, toned.attribute)
        if skin is None and not toned.attribute.unit:
            return None  # nothing shows that attribute
        region = merged_region(face, None if skin is None else skin.patch)
        if region is None:
            return None
        grey = is_grey(subject.pixels[region.window])
        tones = self._tones(subject, skin, region, toned.attribute, toned.values, grey=grey)
        colours, moves = (None, None) if face is None else self._features(place, region, parts, grey=grey)
        farthest = FARTHEST * subject.crop_side
        steps = np.hstack([part.steps(own) for part, own in zip(parts, owns, strict=True)])
        made = []
        for along, tone in zip(steps, tones, strict=True):
            made.append(
                compose(
                    subject.pixels,
                    region,
                    colour=None if colours is None else _summed(along, colours),
                    displacement=None if moves is None else saturated(_summed(along, moves), limit=farthest),
                    tone=tone,
                )
            )
        start = subject.pixels if len(parts) == 1 else made.pop().pixels
        return PhotoVersions(start, owns[0], region.patch, tuple(made))

    def _features(
        self, place: int, region: Region, parts: Sequence[Part], *, grey: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the parts' changes, J in all, in ``region.features`` of the photo: colour ``(J, h, w, 3)`` in levels,
        weighted by the face's mask, and displacement ``(J, h, w, 2)`` in pixels, weighted by `inner_mask`."""
        subject = self.subjects[place]
        mask, features = region.face[region.features], region.features
        there = Patch(region.top + features[0].start, region.left + features[1].start, mask)
        to_photo = invert(subject.to_crop)
        inner = inner_mask(mask, rim=INNER * subject.crop_side)[..., None]
        taken = mask * (1 - within(self.kept[place], there))
        # Features do not darken highlights in edits that shift skin tone.
        toned = any(part.attribute.moves_colour for part in parts)
        unlit = np.minimum(taken, mask * (1 - within(self.highlights[place], there))) if toned else taken
        colours, moves = [], []
        for part in parts:
            levels = (part.changes.colour[place] * 127.5).movedim(1, -1).contiguous().numpy()
            sides = part.changes.displacement[place].movedim(1, -1).contiguous().numpy()
            for side, one in zip((-1, 1), levels, strict=True):
                colour, share = to_patch(one, subject, there), taken
                if part.attribute.moves_colour:
                    share = np.where(side * luma(colour) < 0, unlit, taken)
                colours.append(share[..., None] * colour)
            moves += [inner * to_patch(one, subject, there) for one in sides]
        if grey:
            colours = [without_colour(one) for one in colours]
        return np.stack(colours), to_photo_displacement(np.stack(moves), to_photo=to_photo, size=CROP)

    def _tones(
        self,
        subject: Subject,
        skin: Skin | None,
        region: Region,
        attribute: Attribute,
        values: Sequence[float],
        *,
        grey: bool,
    ) -> Iterable[NDArray[np.float32] | None]:
        """Return what the shift of skin tone adds to the region's window at each value; None if there is no shift."""
        if skin is None:
            return [None] * len(values)
        window = subject.pixels[region.window]
        lightness = smooth_lightness(window, region.skin, reach=REACH * subject.crop_side)
        shifts = self._shifts(subject, skin, attribute, values)
        return tone_changes(window, region.skin, skin.colour, shifts, lightness=lightness, grey=grey)


def _check_inputs(attribute: Attribute) -> None:
    missing = [name for name in attribute.unit if name not in ATTRIBUTES]
    if missing:
        raise ValueError(f"the residual editor cannot change {attribute.name}: it has no field {', '.join(missing)}")


def _over_crops(subjects: Sequence[Subject], patches: Sequence[Patch | None]) -> Tensor:
    """Map masks to the crops, ``(B, 1, 128, 128)``; zero for a missing mask."""
    empty = np.zeros((CROP, CROP), dtype=np.float32)
    masks = [empty if patch is None else crop_mask(one, patch) for one, patch in zip(subjects, patches, strict=True)]
    return torch.from_numpy(np.stack(masks))[:, None]


def _summed(steps: NDArray[np.float32], fields: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sum J fields ``(J, h, w, C)`` with the weights ``steps`` ``(J,)``, most of which are zero."""
    total = np.zeros(fields.shape[1:], dtype=np.float32)
    for place in np.flatnonzero(steps):
        total += steps[place] * fields[place]
    return total
