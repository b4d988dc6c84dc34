"""Detection of edited pictures by small classifiers: a logistic regression and a convolutional network.

Both are cross-fitted by face, so that neither was trained on the face that it scores. The better one counts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.adamw import adamw

from pipeline.counterfactuals.measures import Pictures, auc, auc_interval, lab

FOLDS = 4
CELLS = 8  # cells per side of the crop in the regression's features
PENALTY = 0.01  # inverse strength: many features, few faces
SIDE = 64  # side of the network's input in pixels
WIDTH = 24
STEPS, FACES, EDITS = 40, 16, 2  # training of the network: steps, faces per step, edits per face
RATE, DECAY = 6e-3, 0.05

Features = NDArray[np.float32]


@dataclass(frozen=True)
class Detection:
    """Area under the ROC curve of edited against unedited pictures, with a 95 % interval over faces."""

    auc: float
    low: float
    high: float


@dataclass(frozen=True)
class Detector:
    """A small classifier that detects edits.

    Attributes:
        features: computes the features of a picture ``(S, S, 3)``.
        scores: computes scores ``(m, M)`` from the features of the training faces ``(n, M, ...)``, which of a face's M
            pictures are edited ``(M,)``, the features of the test faces ``(m, M, ...)``, and a seed.
    """

    features: Callable[[NDArray[np.uint8]], Features]
    scores: Callable[[Features, NDArray[np.bool_], Features, int], NDArray[np.floating]]


def detect(unedited: Pictures, edited: Pictures, *, seed: int = 0) -> Detection:
    """Measure how well edited pictures are distinguished from others of the same faces, by the better classifier.

    Args:
        unedited: ``(N, R, S, S, 3)`` uint8, R pictures of each of N faces.
        edited: ``(N, Q, S, S, 3)`` uint8, Q of the same faces.
        seed: seed of folds, network and bootstrap.
    """
    return max((detected_by(one, unedited, edited, seed=seed) for one in (REGRESSION, NETWORK)), key=lambda d: d.auc)


def detected_by(detector: Detector, unedited: Pictures, edited: Pictures, *, seed: int = 0) -> Detection:
    """Measure detection by one classifier; see `detect`."""
    pictures = np.concatenate([unedited, edited], axis=1)
    positive = np.arange(pictures.shape[1]) >= unedited.shape[1]
    seen = np.array([[detector.features(picture) for picture in of_face] for of_face in pictures])
    order = np.random.default_rng(seed).permutation(len(seen))
    scores = np.zeros(seen.shape[:2])
    for fold in range(FOLDS):
        test = order[fold::FOLDS]
        found = detector.scores(seen[np.setdiff1d(order, test)], positive, seen[test], seed * FOLDS + fold)
        # Scores are standardised because each fold's classifier has its own scale; all folds have the same share of
        # edits.
        scores[test] = (found - found.mean()) / max(float(found.std()), 1e-9)
    which = np.tile(positive, len(seen))
    faces = np.repeat(np.arange(len(seen)), len(positive))
    low, high = auc_interval(scores.ravel(), which, faces, draws=200, seed=seed)
    return Detection(auc(scores.ravel(), which), low, high)


def _cells(picture: NDArray[np.uint8]) -> Features:
    """Compute mean colour, fine and coarse contrast of each cell."""
    colours = lab(picture)
    light = colours[..., 0]
    fine = cv2.Laplacian(light, cv2.CV_32F)
    coarse = light - cv2.GaussianBlur(light, (0, 0), 3)
    tints = colours[..., 1:] - cv2.GaussianBlur(colours[..., 1:], (0, 0), 2)
    parts = [colours, np.log1p(np.abs(fine))[..., None], np.log1p(np.abs(coarse))[..., None], np.abs(tints)]
    small = [cv2.resize(part, (CELLS, CELLS), interpolation=cv2.INTER_AREA).reshape(-1) for part in parts]
    return np.concatenate(small).astype(np.float32)


def _by_regression(train: Features, positive: NDArray[np.bool_], test: Features, seed: int) -> NDArray[np.floating]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=PENALTY, max_iter=300, class_weight="balanced", random_state=seed)
    )
    model.fit(train.reshape(-1, train.shape[-1]), np.tile(positive, len(train)))
    scores: NDArray[np.floating] = model.decision_function(test.reshape(-1, test.shape[-1]))
    return scores.reshape(test.shape[:2])


def _channels(picture: NDArray[np.uint8]) -> Features:
    """Compute CIELAB and fine contrast of L*, ``(4, SIDE, SIDE)``, each scaled to about unit size."""
    colours = lab(picture)
    fine = colours[..., 0] - cv2.GaussianBlur(colours[..., 0], (0, 0), 2)
    seen = np.dstack([(colours[..., 0] - 50) / 25, colours[..., 1:] / 15, fine / 6])
    small = cv2.resize(seen, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(small.transpose(2, 0, 1), dtype=np.float32)


def _by_network(train: Features, positive: NDArray[np.bool_], test: Features, seed: int) -> NDArray[np.floating]:
    """Score by a small convolutional network, trained on mirrored, shifted faces of varied brightness."""
    photos, edits = (torch.from_numpy(np.flatnonzero(positive == kind)) for kind in (False, True))
    faces, wanted = torch.from_numpy(train), torch.tensor([0.0] * len(photos) + [1.0] * min(EDITS, len(edits)))
    weights = torch.where(wanted > 0, 1 / wanted.sum(), 1 / len(photos))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _Network().to(memory_format=torch.channels_last)
        parameters: list[Tensor] = list(network.parameters())
        means, squares = ([torch.zeros_like(one) for one in parameters] for _ in range(2))
        steps = [torch.tensor(0.0) for _ in parameters]
        for step in range(STEPS):
            rows = torch.randperm(len(faces))[:FACES]
            columns = torch.cat([photos, edits[torch.randperm(len(edits))[:EDITS]]])
            seen = _varied(faces[rows[:, None], columns])
            logits = network(seen.flatten(0, 1)).view(len(rows), -1)
            loss = F.binary_cross_entropy_with_logits(logits, wanted.expand_as(logits), weights)
            rate, momentum = _one_cycle(step)
            # The functional form, because the optimiser class imports PyTorch's compiler (110 MB in every process).
            slopes = list(torch.autograd.grad(loss, parameters))
            with torch.no_grad():
                adamw(
                    parameters, slopes, means, squares, [], steps, foreach=False, amsgrad=False, maximize=False,
                    lr=rate, beta1=momentum, beta2=0.999, eps=1e-8, weight_decay=DECAY,
                )  # fmt: skip
    network.eval()
    with torch.inference_mode():
        shown = torch.from_numpy(test).flatten(0, 1)
        scores: NDArray[np.floating] = (network(shown) + network(shown.flip(3))).numpy()
    return scores.reshape(test.shape[:2])


def _one_cycle(step: int) -> tuple[float, float]:
    """Return learning rate and momentum at a training step: one cycle (Smith and Topin 2018), PyTorch's defaults."""
    top, last = 0.3 * STEPS - 1, STEPS - 1
    rising = step <= top
    share = step / top if rising else (step - top) / (last - top)
    ends = ((RATE / 25, RATE), (0.95, 0.85)) if rising else ((RATE, RATE / 25e4), (0.85, 0.95))
    rate, momentum = (end + (start - end) / 2 * (1 + math.cos(math.pi * share)) for start, end in ends)
    return rate, momentum


def _varied(faces: Tensor) -> Tensor:
    """Augment pictures ``(B, M, C, S, S)``; all pictures of a face get the same mirroring, shift, contrast and tint."""
    count, channels = len(faces), faces.shape[2]
    mirrored = torch.where(torch.rand(count, 1, 1, 1, 1) < 0.5, faces, faces.flip(4))
    moved = torch.roll(mirrored, tuple(torch.randint(-2, 3, (2,)).tolist()), dims=(3, 4))
    return moved * (1 + 0.1 * torch.randn(count, 1, 1, 1, 1)) + 0.1 * torch.randn(count, 1, channels, 1, 1)


class _Network(nn.Module):
    """Three convolutions that keep positions, because all edits change the same places of the face."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, WIDTH, 4, stride=4), nn.BatchNorm2d(WIDTH), nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU(),
            nn.AvgPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(WIDTH * (SIDE // 16) ** 2, 1),
        )  # fmt: skip

    def forward(self, pictures: Tensor) -> Tensor:
        """Map ``(B, 4, SIDE, SIDE)`` to logits ``(B,)``."""
        logits: Tensor = self.layers(pictures.contiguous(memory_format=torch.channels_last))
        return logits[:, 0]


REGRESSION = Detector(_cells, _by_regression)
NETWORK = Detector(_channels, _by_network)
