"""Blend several photos into a synthetic portrait: registration, averaging, and joining a face to a head.

Pure functions on arrays; photos are selected in ``selection`` and read and written in ``make_sample``.
Fields are ``(S, S)`` or ``(S, S, C)`` float32 on one canvas of ``SIDE`` pixels; colours are CIE L*a*b*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import cv2
import numpy as np
from canvas import (
    SIDE,
    Field,
    X,
    Y,
    blur,
    dilated,
    eroded,
    largest_part,
    mean_where,
    spread,
    to_lab,
    warp,
)
from numpy.typing import NDArray

from models.parser import class_indices

# Positions of the five landmarks on the canvas, as in the mean face parsing photo, so that the whole head is visible.
LANDMARKS = np.array([[117.1, 153.8], [201.9, 153.8], [159.5, 206.3], [121.4, 243.5], [197.6, 243.5]])

FACE = class_indices(("skin", "nose", "brows", "eyes", "eyeglasses", "mouth", "lips"))
# The layers of a head, from front to back; each is averaged separately, so that hair does not fade into the wall.
LAYERS = (
    FACE,
    class_indices(("ears",)),
    class_indices(("hair",)),
    class_indices(("neck", "necklace")),
    class_indices(("cloth",)),
    class_indices(("background", "hat", "earring")),
)
_FACE, _EARS, _HAIR, _NECK, _CLOTH, _BACKGROUND = range(len(LAYERS))
# Grey levels that separate neighbouring layers, for registration by optical flow.
_LAYER_GREY = np.array([255, 235, 110, 190, 50, 0], dtype=np.float32)
# Neck and ears are a little darker than the face, in L*.
_SHADE = {_EARS: 5.0, _NECK: 9.0}


@dataclass(frozen=True)
class Source:
    """A photo: ``pixels`` ``(H, W, 3)`` uint8 RGB, ``classes`` ``(H, W)`` as the parser's, ``landmarks`` ``(5, 2)``."""

    pixels: NDArray[np.uint8]
    classes: NDArray[np.uint8]
    landmarks: NDArray[np.float64]


@dataclass(frozen=True)
class Placed:
    """A photo moved onto the canvas: ``colour``, ``classes``, and ``seen`` (1 inside the photo, 0 beyond its edge)."""

    colour: Field
    classes: NDArray[np.uint8]
    seen: Field

    def share(self, classes: Sequence[int]) -> Field:
        """1 where the photo shows one of ``classes``, else 0."""
        return np.isin(self.classes, classes).astype(np.float32)


@dataclass(frozen=True)
class Face:
    """A blended face: ``colour``; the share of the photos that show face (``shape``) or any content (``seen``).

    ``hair`` ``(3,)`` is the median colour of the surrounding hair, NaN where none is visible.
    """

    colour: Field
    shape: Field
    seen: Field
    hair: Field


@dataclass(frozen=True)
class Head:
    """A blended head: ``layers`` ``(S, S, 6)``, probabilities of ``LAYERS``; ``colours`` of all but the last."""

    layers: Field
    colours: tuple[Field, ...]


def place(source: Source) -> Placed:
    """Map a photo to the canvas by the least-squares similarity of its landmarks."""
    points, target = (p[:, 0] + 1j * p[:, 1] for p in (source.landmarks, LANDMARKS))
    spread = points - points.mean()
    turn = np.vdot(spread, target - target.mean()) / np.vdot(spread, spread)
    shift = target.mean() - turn * points.mean()
    move = np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])

    def moved(image: NDArray[np.uint8], how: int, border: int = cv2.BORDER_REPLICATE) -> NDArray[np.uint8]:
        return np.asarray(cv2.warpAffine(image, move, (SIDE, SIDE), flags=how, borderMode=border))

    seen = moved(np.ones(source.classes.shape, np.uint8), cv2.INTER_NEAREST, cv2.BORDER_CONSTANT)
    return Placed(
        colour=to_lab(moved(source.pixels, cv2.INTER_CUBIC if abs(turn) > 0.8 else cv2.INTER_AREA)),
        classes=moved(source.classes, cv2.INTER_NEAREST),
        seen=eroded(seen.astype(np.float32), 5),
    )


def face_guides(faces: Sequence[Placed]) -> list[NDArray[np.uint8]]:
    """Make the images for registering faces: normalised lightness plus parsed features, grey outside the face."""
    guides: list[NDArray[np.uint8]] = []
    for face in faces:
        inside = blur(dilated(face.share(FACE), 5) * face.seen, 2)
        weight = blur(inside, 20) + 1e-3
        lightness = face.colour[..., 0]
        mean = blur(lightness * inside, 20) / weight
        deviation = np.sqrt(blur((lightness - mean) ** 2 * inside, 20) / weight) + 3
        code = 35 * np.clip((lightness - mean) / deviation, -2.5, 2.5) + 60
        code -= 10 * face.share(class_indices(("brows", "lips", "mouth"))) + 18 * face.share(class_indices(("eyes",)))
        guides.append(np.clip(110 + blur(code * inside, 1), 0, 255).astype(np.uint8))
    return guides


def head_guides(heads: Sequence[Placed]) -> list[NDArray[np.uint8]]:
    """Make the images for registering heads, from their layers only."""
    return [blur(_layers(head) @ _LAYER_GREY, 2).astype(np.uint8) for head in heads]


def congeal(guides: Sequence[NDArray[np.uint8]]) -> tuple[list[Field], list[float]]:
    """Compute flows ``(S, S, 2)`` that register every guide to the common mean, and the residuals in grey levels.

    Dense optical flow (DIS, Kroeger et al. 2016) to the mean is repeated with less and less smoothing, as in
    congealing (Learned-Miller 2006). The mean flow is subtracted each time, so the mean shape is that of the group.
    """
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    search.setFinestScale(1)
    flows = [np.zeros((SIDE, SIDE, 2), np.float32) for _ in guides]
    for smoothing in (10, 7, 5, 4):
        moved = [warp(guide.astype(np.float32), flow) for guide, flow in zip(guides, flows, strict=True)]
        mean = np.mean(moved, axis=0).astype(np.uint8)
        found = [blur(search.calc(mean, guide.astype(np.uint8), None), smoothing) for guide in moved]
        flows = [step + warp(flow, step) for flow, step in zip(flows, found, strict=True)]
        drift = np.mean(flows, axis=0)
        flows = [flow - drift for flow in flows]
    moved = [warp(guide.astype(np.float32), flow) for guide, flow in zip(guides, flows, strict=True)]
    mean = np.mean(moved, axis=0)
    return flows, [float(np.abs(guide - mean).mean()) for guide in moved]


def blend_face(faces: Sequence[Placed]) -> Face:
    """Blend the mean face of a group, in the group's mean shape."""
    flows, _ = congeal(face_guides(faces))
    pairs = list(zip(faces, flows, strict=True))
    colours = [warp(face.colour, flow) for face, flow in pairs]
    shown = [blur(eroded(face.share(FACE) * face.seen, 3), 3) for face in faces]
    weights = np.stack([warp(w, flow, beyond=0) for w, flow in zip(shown, flows, strict=True)]) + 0.01
    # Content of a single photo (a strand of hair, a shadow, the rim of glasses) gets little weight.
    lightness = np.stack([colour[..., 0] for colour in colours])
    odd = np.stack([blur(one, 1.5) for one in np.abs(lightness - np.median(lightness, axis=0))])
    weights /= 1 + (odd / 8) ** 4
    return Face(
        colour=_mean_with_detail(colours, weights, gains=(1.5, 1.5, 1.3)),
        shape=np.mean([warp(face.share(FACE), flow) for face, flow in pairs], axis=0),
        seen=np.mean([warp(face.seen, flow, beyond=0) for face, flow in pairs], axis=0),
        hair=np.asarray(np.nanmedian([hair_colour(face) for face in faces], axis=0), dtype=np.float32),
    )


def blend_head(heads: Sequence[Placed]) -> Head:
    """Blend the mean head of a group, layer by layer. The face layer is bare skin, onto which a face is put later."""
    flows, _ = congeal(head_guides(heads))
    pairs = list(zip(heads, flows, strict=True))
    colours = [warp(head.colour, flow) for head, flow in pairs]
    seen = np.stack([warp(head.seen, flow, beyond=0) for head, flow in pairs])
    layers = np.stack([warp(_layers(head), flow) for head, flow in pairs])
    skin = np.stack([warp(_bare_skin(head), flow) for head, flow in pairs])
    known = seen + 0.02
    blended = []
    for layer in range(_BACKGROUND):
        # The rim of hair is mixed with the skin or the wall behind it.
        rim = 7 if layer == _HAIR else 3
        own = skin if layer == _FACE else np.stack([eroded(one, rim) for one in layers[..., layer]])
        own = np.stack([blur(one, 1.5) for one in own * seen])
        gains = (1.7, 1.5, 1.2) if layer == _HAIR else (1.3, 1.2, 1)
        colour = _mean_with_detail(colours, own + 1e-4, gains=gains)
        known_here = np.clip(own.sum(axis=0) / 1.5, 0, 1)
        blended.append(spread(colour, known_here, fill=layer not in (_FACE, _NECK)))
    return Head((layers * (known / known.sum(axis=0))[..., None]).sum(axis=0), tuple(blended))


def join(face: Face, head: Head, wall: Field) -> Field:
    """Compose the portrait in L*a*b*: the face in the head, the head's skin in the face's colour, a plain ``wall``."""
    shape = largest_part(face.shape > 0.5)
    flow = _outline_flow(shape, blur(head.layers[..., _FACE], 1))
    colours = [warp(colour, flow) for colour in head.colours]
    cover = _cut_out(warp(head.layers, flow))
    inside = shape * (face.seen > 0.8) * (cover[..., _FACE] > 0.3)
    trust = blur(eroded(inside, 15), 4)[..., None]
    core = eroded(inside, 9)
    # Skin only: neither eyes and brows nor highlights should set the colour of the forehead next to them.
    skin = core * (np.abs(face.colour[..., 0] - np.median(face.colour[..., 0][core > 0])) < 18)
    tone = mean_where(face.colour, skin)
    colours[_FACE] += spread(face.colour - colours[_FACE], skin, reach=(60, 25), fill=False)
    for layer, shade in _SHADE.items():
        where = (cover[..., layer] > 0.5).astype(np.float32)
        if where.sum() > 50:
            colours[layer] += tone - np.array([shade, 0, 0], np.float32) - mean_where(colours[layer], where)
    if np.isfinite(face.hair).all():
        change = face.hair - mean_where(colours[_HAIR], (cover[..., _HAIR] > 0.5).astype(np.float32))
        colours[_HAIR] += np.clip(change, -15, 15)
    colours[_FACE] = colours[_FACE] * (1 - trust) + face.colour * trust
    portrait = sum((colour * cover[..., [k]] for k, colour in enumerate([*colours, wall])), np.zeros_like(wall))
    portrait[..., 0] += 0.3 * (portrait[..., 0] - blur(portrait[..., 0], 1.2))
    return np.asarray(portrait, dtype=np.float32)


def hair_colour(photo: Placed) -> Field:
    """Return the median L*a*b* ``(3,)`` of the hair, NaN where there is hardly any."""
    hair = photo.colour[photo.share(LAYERS[_HAIR]) * photo.seen > 0]
    return np.asarray(np.median(hair, axis=0) if len(hair) > 300 else np.full(3, np.nan), dtype=np.float32)


def _bare_skin(head: Placed) -> Field:
    """Return skin away from brows, eyes and mouth, which would show through next to those of the added face."""
    features = head.share(class_indices(("brows", "eyes", "mouth", "lips")))
    return eroded(head.share(class_indices(("skin",))), 3) * (1 - dilated(features, 25))


def _layers(head: Placed) -> Field:
    return np.stack([head.share(classes) for classes in LAYERS], axis=-1)


def _mean_with_detail(colours: Sequence[Field], weights: Field, *, gains: tuple[float, ...]) -> Field:
    """Return the weighted mean, with its finest bands amplified to their strength in the photos, by at most ``gains``.

    Averaging n unrelated textures (hair, pores) divides their contrast by sqrt(n); this restores it as in
    variance-preserving blending (Heitz and Neyret 2018). The weights of the photos are unchanged.
    """
    weights = weights / weights.sum(axis=0)
    smooths: list[Callable[[Field], Field]] = [lambda x: x, *(partial(blur, sigma=s) for s in (1, 2.2, 4.5))]
    bands = np.zeros((len(smooths), SIDE, SIDE, 3), np.float32)
    energy = np.zeros((len(gains), SIDE, SIDE), np.float32)
    for colour, weight in zip(colours, weights, strict=True):
        levels = [smooth(colour) for smooth in smooths]
        own = [*(fine - coarse for fine, coarse in pairwise(levels)), levels[-1]]
        for k, band in enumerate(own):
            bands[k] += weight[..., None] * band
        for k in range(len(gains)):
            energy[k] += weight * own[k][..., 0] ** 2
    for k, most in enumerate(gains):
        gain = np.sqrt(blur(energy[k], 8) / (blur(bands[k, ..., 0] ** 2, 8) + 0.02))
        bands[k] *= np.clip(gain, 1, most)[..., None]
    return np.asarray(bands.sum(axis=0), dtype=np.float32)


def _cut_out(layers: Field) -> Field:
    """Return sharpened shares of the layers, summing to one; disconnected parts become background."""
    sharp = np.stack([blur(np.clip(layers[..., k], 0, 1), 2.4) for k in range(len(LAYERS))], axis=-1) ** 4
    sharp /= sharp.sum(axis=-1, keepdims=True)
    body = largest_part(sharp[..., _BACKGROUND] < 0.5)
    sharp[..., :_BACKGROUND] *= blur(dilated(body, 5), 1.5)[..., None]
    sharp[..., _BACKGROUND] = 1 - sharp[..., :_BACKGROUND].sum(axis=-1)
    return sharp


def _outline_flow(face: Field, head: Field) -> Field:
    """Return the radial flow that gives ``head`` the jaw and cheeks of ``face``; it fades out away from the face."""
    centre_x, centre_y = LANDMARKS[:, 0].mean(), (LANDMARKS[2, 1] + LANDMARKS[3, 1]) / 2 - 10
    degrees = np.arange(360)
    own, wanted = (_radii(mask, centre_x, centre_y) for mask in (head, face))
    # Clockwise from the right, below the ears: only there do both photos show the same outline, not a hairline.
    low = (degrees >= 12) & (degrees <= 168)
    ratio = np.where(low, np.clip(own / wanted, 0.8, 1.3), np.nan)
    right, left = np.median(ratio[12:30]), np.median(ratio[150:169])
    above = ((degrees - 168) % 360) / 204
    ratio = np.where(low, ratio, left * (1 - above) + right * above)
    ratio = blur(np.tile(ratio, 3)[None].astype(np.float32), 8)[0, 360:720]
    dx, dy = X - centre_x, Y - centre_y
    angle = np.degrees(np.arctan2(dy, dx)) % 360
    edge = np.interp(angle, degrees, np.where(low, wanted, np.median(wanted[low])), period=360)
    fade = 1 - np.clip((np.hypot(dx, dy) / edge - 1.3) / 1.1, 0, 1)
    push = (np.interp(angle, degrees, ratio, period=360) - 1) * fade**2 * (3 - 2 * fade)
    # Neck and hair are compressed or stretched up to the edge of the canvas.
    chin = min(centre_y + wanted[90], SIDE - 8)
    within = np.clip((SIDE - 1 - Y) / (SIDE - 1 - chin), 0, 1) * np.clip(Y / 60, 0, 1)
    return np.stack([dx * push, dy * push * within], axis=-1).astype(np.float32)


def _radii(mask: Field, centre_x: float, centre_y: float) -> NDArray[np.float64]:
    """Return the distance from the centre to the mask's edge for each of 360 degrees."""
    angles, steps = np.radians(np.arange(360))[:, None], np.arange(10, 190, 0.5)
    x, y = ((c + f(angles) * steps).astype(np.float32) for c, f in ((centre_x, np.cos), (centre_y, np.sin)))
    outside = cv2.remap(mask.astype(np.float32), x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT) < 0.5
    outside[:, -1] = True
    return np.asarray(steps[outside.argmax(axis=1)], dtype=np.float64)
