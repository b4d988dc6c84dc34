"""The training faces at half resolution, with face classes and skin colours, for the residual editor."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from models.attributes import class_indices
from models.parser import BiSeNet, SmallParser
from models.precision import to_unit, unit_batch
from models.tone import CERTAIN, REACH, SPARED, median_colour, smooth_lightness, tone_change
from models.training.data import FaceSet, load_faces
from models.training.edits import own_attributes

SIZE = 64  # side of a small crop in pixels
MARGIN = 4  # pixels around it, for shifts
SIDE = SIZE + 2 * MARGIN
PARSED = 160  # side of the parser's input in pixels
BATCH = 64  # crops per batch of the parser
# The stored class memberships of each face, in their order.
MEMBERSHIPS: dict[str, tuple[str, ...]] = {
    "face": ("skin", "nose", "brows", "eyes", "mouth", "lips"),
    "skin": ("skin", "nose"),
    "beyond": ("ears", "neck"),
    "eyes": ("eyes",),
    "lips": ("lips",),
    "eyeglasses": ("eyeglasses",),
}
FACE, SKIN = list(MEMBERSHIPS).index("face"), list(MEMBERSHIPS).index("skin")


@dataclass(frozen=True)
class SmallFaces:
    """``N`` faces, all in memory (350 MB for UTKFace).

    Attributes:
        crops: ``(N, 72, 72, 3)`` uint8 RGB.
        classes: ``(N, 6, 72, 72)`` uint8, the soft `MEMBERSHIPS`; 255 is certain.
        lab: ``(N, 3)`` median CIELAB of the skin; NaN if too little is visible.
        skin_pixels: ``(N,)`` number of pixels of that median.
        own: ``(N, 8)`` labelled attribute values in the order of ``models.fader.ATTRIBUTES``.
        labels: the labelled faces.
    """

    crops: NDArray[np.uint8]
    classes: NDArray[np.uint8]
    lab: Tensor
    skin_pixels: NDArray[np.int64]
    own: Tensor
    labels: FaceSet

    def batch(
        self, rows: Tensor, *, shift: Tensor | None = None, mirrored: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return faces ``(B, 3, 64, 64)`` in -1..1 and class memberships ``(B, 6, 64, 64)`` in 0..1.

        Args:
            rows: ``(B,)`` row numbers.
            shift: ``(B, 2)`` in -4..4 pixels. Default: no shift.
            mirrored: ``(B,)`` bool. Default: not mirrored.
        """
        offsets = torch.full((len(rows), 2), MARGIN) if shift is None else MARGIN + shift
        faces, classes = [], []
        for row, (top, left) in zip(rows.tolist(), offsets.tolist(), strict=True):
            faces.append(self.crops[row, top : top + SIZE, left : left + SIZE].transpose(2, 0, 1))
            classes.append(self.classes[row, :, top : top + SIZE, left : left + SIZE])
        crops = to_unit(torch.from_numpy(np.stack(faces)))
        soft = torch.from_numpy(np.stack(classes)).float() / 255
        if mirrored is not None:
            where = mirrored[:, None, None, None]
            crops, soft = torch.where(where, crops.flip(3), crops), torch.where(where, soft.flip(3), soft)
        return crops, soft


@torch.inference_mode()
def prepare_small(folder: Path, *, parser: SmallParser | BiSeNet) -> int:
    """Write ``small.npy``, ``classes.npy`` and ``skin.npz`` next to ``folder/crops.npy``; return the number of faces.

    Args:
        folder: contains ``crops.npy`` ``(N, 144, 144, 3)`` uint8 RGB.
        parser: labels the pixels.
    """
    crops = np.load(folder / "crops.npy", mmap_mode="r")
    small = np.zeros((len(crops), SIDE, SIDE, 3), dtype=np.uint8)
    classes = np.zeros((len(crops), len(MEMBERSHIPS), SIDE, SIDE), dtype=np.uint8)
    lab, pixels = np.full((len(crops), 3), np.nan, dtype=np.float32), np.zeros(len(crops), dtype=np.int64)
    for start in range(0, len(crops), BATCH):
        chunk = list(np.ascontiguousarray(crops[start : start + BATCH]))
        inputs = F.interpolate(unit_batch(chunk), size=(PARSED, PARSED), mode="bilinear")
        chances = parser(inputs.contiguous(memory_format=torch.channels_last)).softmax(dim=1)
        soft = torch.stack([chances[:, list(class_indices(names))].sum(dim=1) for names in MEMBERSHIPS.values()], dim=1)
        soft = F.interpolate(soft, size=(SIDE, SIDE), mode="bilinear", antialias=True).clamp(0, 1)
        classes[start : start + BATCH] = (soft * 255).round().byte().numpy()
        for place, crop in enumerate(chunk, start=start):
            small[place] = cv2.resize(crop, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            membership = classes[place, SKIN] / 255
            pixels[place] = (membership > CERTAIN).sum()
            colour = median_colour(small[place], membership)
            if colour is not None:
                lab[place] = colour
    np.save(folder / "small.npy", small)
    np.save(folder / "classes.npy", classes)
    np.savez(folder / "skin.npz", lab=lab, pixels=pixels)
    return len(crops)


def load_small(folder: Path) -> SmallFaces:
    """Load what `prepare_small` wrote to ``folder``.

    Raises:
        ValueError: the files were written by another version.
    """
    labels, skin = load_faces(folder), np.load(folder / "skin.npz")
    classes = np.load(folder / "classes.npy")
    if classes.shape[1:] != (len(MEMBERSHIPS), SIDE, SIDE):
        raise ValueError(f"{folder}/classes.npy has shape {classes.shape}: run `prepare small` again")
    return SmallFaces(
        crops=np.load(folder / "small.npy"),
        classes=classes,
        lab=torch.from_numpy(skin["lab"]),
        skin_pixels=skin["pixels"],
        own=own_attributes(labels, torch.arange(len(labels))),
        labels=labels,
    )


def skin_weights(classes: Tensor) -> NDArray[np.float32]:
    """Return a tone shift's weights ``(B, 64, 64)`` of memberships ``(B, 6, 64, 64)``, reduced by `SPARED`."""
    at = {name: classes[:, place] for place, name in enumerate(MEMBERSHIPS)}
    brows = (at["face"] - at["skin"] - at["eyes"] - at["lips"]).clamp(min=0)
    shifted = at["skin"] + brows + at["beyond"]
    for name, member in (("eyeglasses", "eyeglasses"), ("lips", "u_lip"), ("eyes", "l_eye")):
        shifted = shifted + (1 - SPARED[member]) * at[name]
    return np.asarray(((shifted - 0.1) / 0.8).clamp(0, 1).numpy(), dtype=np.float32)


def shift_tones(crops: Tensor, classes: Tensor, colours: Tensor, shifts: NDArray[np.floating]) -> Tensor:
    """Shift the median colour of each face's skin; a face of unknown colour is unchanged.

    Args:
        crops: ``(B, 3, 64, 64)`` in -1..1.
        classes: ``(B, 6, 64, 64)`` memberships in 0..1.
        colours: ``(B, 3)`` median CIELAB of the skin, NaN where unknown.
        shifts: ``(B, 3)`` in CIELAB.
    """
    levels = ((crops.permute(0, 2, 3, 1).numpy() + 1) * 127.5).round().astype(np.uint8)
    weights, out = skin_weights(classes), crops.clone()
    for place, colour in enumerate(colours.double().numpy()):
        if not (np.isfinite(colour).all() and np.any(shifts[place])):
            continue
        light = smooth_lightness(levels[place], weights[place], reach=REACH * SIZE)
        change = tone_change(levels[place], weights[place], colour, shifts[place], lightness=light)
        out[place] += torch.from_numpy(change).permute(2, 0, 1) / 127.5
    return out
