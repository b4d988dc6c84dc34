"""Placebo edits: as large as the real one, through the same mask and files, but without what it is meant to change.

``random`` goes along a random direction of the code; ``colour`` is the real edit's mean colour shift without its shape.
A finding that a placebo also shows is not a finding.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np
import torch
from numpy.typing import NDArray

from models.fader import Fader, smooth_difference
from pipeline.counterfactuals.sweep import Edit, Encoded, decode, dial_of, to_levels

# How far the random direction is followed, as a share of the code's own length, before the change is brought to the
# real edit's size: far enough to be more than rounding, near enough to stay a face.
STRIDE = 0.4


def colour_placebo(edit: Edit, encoded: Encoded, masks: NDArray[np.float32]) -> Edit:
    """Only the mean colour shift of the real edit, the same in every pixel.

    Args:
        edit: the real one.
        encoded: its faces.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
    """
    area = masks.sum(axis=(1, 2)).clip(1e-6)
    means = np.einsum("bkhwc,bhw->bkc", edit.changes, masks) / area[:, None, None]
    flat = np.broadcast_to(means[:, :, None, None], edit.changes.shape)
    return _placebo("colour", edit, encoded, np.ascontiguousarray(flat, dtype=np.float32))


@torch.inference_mode()
def random_placebo(
    fader: Fader,
    edit: Edit,
    encoded: Encoded,
    masks: NDArray[np.float32],
    *,
    race_pair: tuple[str, str],
    seed: int,
) -> Edit:
    """A sweep along a random direction of the code, at each value as large inside the mask (RMS) as the real edit.

    The direction is the same for all faces, so that a classifier that responds to it would show a slope.

    Args:
        fader: decodes.
        edit: the real one.
        encoded: its faces.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
        race_pair: the races at -1 and +1.
        seed: of the direction; the same for all photos of a run.
    """
    # Like the real edit, it starts from where the face is on the dial, and goes one way below and the other above.
    own = dial_of(encoded.own, edit.attribute, race_pair=race_pair)
    above = (torch.tensor(edit.values) >= own[:, None]).numpy()
    step = STRIDE * _direction(encoded.codes.shape[1:], name=edit.attribute, seed=seed)
    step = step * encoded.codes.flatten(1).norm(dim=1)[:, None, None, None]
    ends = torch.stack([encoded.codes - step, encoded.codes + step], dim=1)
    values = encoded.own[:, None].expand(-1, 2, -1)
    versions = decode(fader, ends.flatten(0, 1), values.flatten(0, 1))
    raw = to_levels(smooth_difference(versions, encoded.null.repeat_interleave(2, dim=0)).unflatten(0, (-1, 2)))
    ways = np.take_along_axis(raw, above.astype(np.intp)[:, :, None, None, None], axis=1)
    scale = _size(edit.changes, masks) / _size(ways, masks).clip(1e-6)
    return _placebo("random", edit, encoded, ways * scale[:, :, None, None, None].astype(np.float32))


def _placebo(arm: str, edit: Edit, encoded: Encoded, changes: NDArray[np.float32]) -> Edit:
    return replace(edit, arm=arm, changes=changes, faces=changes + to_levels(encoded.null[:, None]) + np.float32(127.5))


def _direction(shape: Sequence[int], *, name: str, seed: int) -> torch.Tensor:
    """A direction of length 1, by attribute and seed alone."""
    number = int(sha256(f"{seed} {name}".encode()).hexdigest()[:12], 16)
    direction = torch.randn(tuple(shape), generator=torch.Generator().manual_seed(number))
    unit: torch.Tensor = direction / direction.norm()
    return unit


def _size(changes: NDArray[np.float32], masks: NDArray[np.float32]) -> NDArray[np.float64]:
    """``(B, K)`` root mean square of changes ``(B, K, S, S, 3)`` inside ``masks`` ``(B, S, S)``."""
    squares = np.einsum("bkhwc,bkhwc,bhw->bk", changes, changes, masks, dtype=np.float64, casting="unsafe")
    area = 3 * masks.sum(axis=(1, 2), dtype=np.float64).clip(1e-6)
    return np.asarray(np.sqrt(squares / area[:, None]), dtype=np.float64)
