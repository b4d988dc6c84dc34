"""A handful of labelled faces made of noise, for training loops that only have to run."""

import numpy as np
import torch

from models.training.data import CROP, MARGIN, FaceSet

SIDE = CROP + 2 * MARGIN


def face_set(count=24, seed=0):
    random = np.random.default_rng(seed)
    gender = torch.tensor([1.0, -1.0]).repeat(count)[:count]
    crops = random.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    # Something to learn: masculine faces are darker.
    crops[gender.numpy() > 0] //= 2
    return FaceSet(
        crops=crops,
        gender=gender,
        race=torch.from_numpy(random.integers(0, 5, count)),
        age=torch.from_numpy(random.integers(15, 80, count)).float(),
        smiling=torch.linspace(-1, 1, count),
        part=torch.arange(count) % 3,
    )
