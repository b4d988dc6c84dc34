"""Training of the small face parser on photos with label masks of CelebAMask-HQ."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from models.alignment import similarity_to_template
from models.parser import CLASSES, MIRRORED, SmallParser
from models.precision import autocast, to_unit
from models.training.data import disturb, part_of
from models.training.loop import Schedule, Session, descend, generator, one_cycle, set_rate

# Classes of the numbers in the mask files.
FILE_CLASSES = (
    "background", "skin", "nose", "eyeglasses", "l_eye", "r_eye", "l_brow", "r_brow", "l_ear", "r_ear",
    "mouth", "u_lip", "l_lip", "hair", "hat", "earring", "necklace", "neck", "cloth",
)  # fmt: skip
TO_CLASSES = np.array([CLASSES.index(name) for name in FILE_CLASSES], dtype=np.uint8)


@dataclass(frozen=True)
class MaskSet:
    """``photos`` ``(N, 512, 512, 3)`` uint8, ``masks`` ``(N, 512, 512)`` uint8 in the order of ``CLASSES``,
    ``landmarks`` ``(N, 5, 2)`` pixels, ``held_out`` ``(N,)`` bool."""

    photos: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    landmarks: NDArray[np.float64]
    held_out: NDArray[np.bool_]


@dataclass(frozen=True)
class ParserPlan:
    """Training parameters. ``rare``: classes are weighted by their share of pixels to minus this power; ``dice``:
    weight of the Dice loss, in which all classes count equally."""

    steps: int = 3600
    batch: int = 16
    peak_rate: float = 3e-3
    rare: float = 0.25
    dice: float = 1.0
    seed: int = 4


def load_masks(folder: Path) -> MaskSet:
    """Load the photos and masks written by ``scripts/train.py prepare``."""
    table = np.load(folder / "masks.npz")
    return MaskSet(
        photos=np.load(folder / "photos.npy", mmap_mode="r"),
        masks=np.load(folder / "masks.npy", mmap_mode="r"),
        landmarks=table["landmarks"],
        held_out=np.array([part_of(str(name)) == 2 for name in table["files"]]),
    )


def train(network: SmallParser, data: MaskSet, plan: ParserPlan, folder: Path, *, device: str) -> None:
    """Train ``network`` in place; progress, checkpoints and the log go to ``folder``."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=plan.peak_rate, weight_decay=0.02)
    network.to(device).to(memory_format=torch.channels_last).train()
    session = Session(folder, Schedule(plan.steps, save_every=400), {"network": network, "optimiser": optimiser})
    rows = np.flatnonzero(~data.held_out)
    shown = np.stack([np.bincount(data.masks[row].reshape(-1), minlength=len(CLASSES)) for row in rows])
    shares = (shown.sum(axis=0) + 1.0) / shown.sum()
    weight = torch.tensor(shares**-plan.rare, dtype=torch.float32, device=device)
    weight = weight / weight.mean()
    often = torch.from_numpy(rare_photo_weights(shown))

    def one_step(step: int) -> dict[str, float]:
        random = generator(plan.seed, step)
        chosen = rows[torch.multinomial(often, plan.batch, replacement=True, generator=random).numpy()]
        pairs = [vary(data, int(row), random, size=network.size) for row in chosen]
        photos = torch.stack([torch.from_numpy(photo) for photo, _ in pairs]).permute(0, 3, 1, 2).to(device)
        masks = torch.stack([torch.from_numpy(mask) for _, mask in pairs]).long().to(device)
        inputs = disturb(to_unit(photos), random).to(memory_format=torch.channels_last)
        set_rate(optimiser, one_cycle(step, steps=plan.steps, peak=plan.peak_rate))
        with autocast(device):
            # At the network's own resolution, because upscaled logits would cost a third of the step.
            logits = network.coarse(inputs).float()
        # A random one of the four pixels of each logit; a fixed one would shift the classes' edges by half a pixel.
        down, right = torch.randint(2, (2,), generator=random).tolist()
        masks = masks[:, down::2, right::2]
        loss = F.cross_entropy(logits, masks, weight=weight) + plan.dice * soft_dice_loss(logits, masks)
        return descend({"loss": loss}, optimiser)

    for _ in session.run(one_step):
        session.log(**evaluate(network, data, device=device))
        network.train()
    network.eval()


def rare_photo_weights(shown: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return sampling weights of 1 to 3, larger for photos with glasses, hats and jewellery.

    Args:
        shown: ``(N, 19)`` pixels of each class in each photo.
    """
    present = shown > 0
    rarest = np.where(present, present.mean(axis=0), 1).min(axis=1)
    return np.asarray(np.clip(rarest**-0.5, 1, 3), dtype=np.float64)


def vary(data: MaskSet, row: int, random: torch.Generator, *, size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return a random crop ``size`` pixels a side of a photo and its mask, from a tight face crop to the whole photo.

    Crops are rotated by up to 20 degrees and mirrored half of the time. One in six is cropped tightly first, so that
    its border is repeated as around a face that fills its photo.
    """
    draws = torch.rand(7, generator=random).numpy()
    photo, mask = data.photos[row], data.masks[row]
    aligned = similarity_to_template(data.landmarks[row], size=size)
    zoom = 0.55 + 0.55 * draws[0]
    angle = np.radians(40 * (draws[1] - 0.5))
    turn = zoom * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centre = np.array([size / 2, size * 0.5])
    linear = turn @ aligned[:, :2]
    shift = turn @ (aligned[:, 2] - centre) + centre + size * 0.1 * (draws[2:4] - 0.5)
    transform = np.hstack([linear, shift[:, None]])
    if draws[4] < 0.16:
        points = data.landmarks[row]
        eyes = float(np.linalg.norm(points[1] - points[0]))
        left, top = points.mean(axis=0) - eyes * np.array([1.15, 1.15])
        right, bottom = points.mean(axis=0) + eyes * np.array([1.15, 1.25])
        x0, y0, x1, y1 = max(0, int(left)), max(0, int(top)), int(right), int(bottom)
        photo, mask = photo[y0:y1, x0:x1], mask[y0:y1, x0:x1]
        transform[:, 2] += transform[:, :2] @ np.array([x0, y0])
    border = {"borderMode": cv2.BORDER_REPLICATE}
    photo = cv2.warpAffine(photo, transform, (size, size), flags=cv2.INTER_AREA, **border)
    mask = cv2.warpAffine(mask, transform, (size, size), flags=cv2.INTER_NEAREST, **border)
    if draws[5] < 0.5:
        photo, mask = photo[:, ::-1].copy(), np.array(MIRRORED, dtype=np.uint8)[mask[:, ::-1]]
    return photo, mask


def soft_dice_loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Return 1 - the mean soft Dice of the classes in the batch, of ``(B, 19, H, W)`` against ``(B, H, W)``."""
    chances = logits.softmax(dim=1)
    truth = F.one_hot(masks, len(CLASSES)).permute(0, 3, 1, 2).to(chances.dtype)
    both = (chances * truth).sum(dim=(0, 2, 3))
    total = chances.sum(dim=(0, 2, 3)) + truth.sum(dim=(0, 2, 3))
    present = truth.sum(dim=(0, 2, 3)) > 0
    return 1 - (2 * both / total.clamp(min=1))[present].mean()


@torch.no_grad()
def evaluate(network: SmallParser, data: MaskSet, *, device: str, size: int = 256) -> dict[str, float]:
    """Return F1 of skin, IoU of {skin, nose, brows, eyes, mouth, lips}, and mean IoU of held-out photos."""
    network.eval()
    merge = np.array([min(index, MIRRORED[index]) for index in range(len(CLASSES))])
    confusion = np.zeros((len(CLASSES), len(CLASSES)), dtype=np.int64)
    for row in np.flatnonzero(data.held_out):
        photo = cv2.resize(data.photos[row], (size, size), interpolation=cv2.INTER_AREA)
        truth = cv2.resize(data.masks[row], (size, size), interpolation=cv2.INTER_NEAREST)
        logits = network(to_unit(torch.from_numpy(photo).permute(2, 0, 1)[None]).to(device))
        guess = logits[0].argmax(0).cpu().numpy()
        pairs = merge[truth].reshape(-1) * len(CLASSES) + merge[guess].reshape(-1)
        confusion += np.bincount(pairs, minlength=confusion.size).reshape(confusion.shape)
    hits, truths, guesses = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    present = truths > 0
    iou = hits / np.maximum(1, truths + guesses - hits)
    face = [1, 2, 4, 10, 11, 12, 13]
    inside = confusion[np.ix_(face, face)].sum()
    face_iou = inside / (confusion[face].sum() + confusion[:, face].sum() - inside)
    skin = 2 * hits[1] / max(1, truths[1] + guesses[1])
    return {"skin_f1": float(skin), "face_iou": float(face_iou), "mean_iou": float(iou[present].mean())}
