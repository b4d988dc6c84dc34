"""A small set of labelled noise images for tests of training."""

import numpy as np
import torch

from models.training.data import CROP, MARGIN, FaceSet

SIDE = CROP + 2 * MARGIN


def face_set(count=24, seed=0):
    rng = np.random.default_rng(seed)
    gender = torch.tensor([1.0, -1.0]).repeat(count)[:count]
    crops = rng.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    # Masculine faces are darker, so that gender can be learnt.
    crops[gender.numpy() > 0] //= 2
    return FaceSet(
        crops=crops,
        gender=gender,
        race=torch.from_numpy(rng.integers(0, 5, count)),
        age=torch.from_numpy(rng.integers(15, 80, count)).float(),
        smiling=torch.linspace(-1, 1, count),
        part=torch.arange(count) % 3,
    )
