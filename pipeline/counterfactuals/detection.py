"""How well a small classifier finds out which pictures were edited: logistic regression on local contrast and colour.

Cross-fitted by face: the classifier never saw the face that it is asked about, edited or not.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.counterfactuals.measures import Pictures, auc, auc_interval, lab

CELLS = 8  # the crop is looked at in so many cells a side
FOLDS = 5
PENALTY = 0.01  # inverse strength: many features, few faces


@dataclass(frozen=True)
class Detection:
    """Area under the ROC curve of edited against unedited pictures, with a 95 % interval over faces."""

    auc: float
    low: float
    high: float


def detect(unedited: Pictures, edited: Pictures, *, seed: int = 0) -> Detection:
    """How well edited pictures are told from others of the same faces.

    Args:
        unedited: ``(N, R, S, S, 3)`` uint8, R pictures of each of N faces.
        edited: ``(N, Q, S, S, 3)`` uint8, Q of the same faces.
        seed: of the folds and the bootstrap.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    order = np.random.default_rng(seed).permutation(len(unedited))
    pictures, positive, faces = [], [], []
    for group, edits in ((unedited, False), (edited, True)):
        pictures += [_features(group[face, k]) for face in order for k in range(group.shape[1])]
        positive += [edits] * len(order) * group.shape[1]
        faces += list(np.repeat(np.arange(len(order)), group.shape[1]))
    x, y, whose = np.stack(pictures), np.array(positive), np.array(faces)
    scores = np.zeros(len(y))
    for train, test in GroupKFold(FOLDS).split(x, y, whose):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=PENALTY, max_iter=300, class_weight="balanced"))
        scores[test] = model.fit(x[train], y[train]).decision_function(x[test])
    low, high = auc_interval(scores, y, whose, draws=200, seed=seed)
    return Detection(auc(scores, y), low, high)


def _features(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Mean colour, fine and coarse contrast of each cell."""
    colours = lab(picture)
    light = colours[..., 0]
    fine = cv2.Laplacian(light, cv2.CV_32F)
    coarse = light - cv2.GaussianBlur(light, (0, 0), 3)
    tints = colours[..., 1:] - cv2.GaussianBlur(colours[..., 1:], (0, 0), 2)
    parts = [colours, np.log1p(np.abs(fine))[..., None], np.log1p(np.abs(coarse))[..., None], np.abs(tints)]
    small = [cv2.resize(part, (CELLS, CELLS), interpolation=cv2.INTER_AREA).reshape(-1) for part in parts]
    return np.concatenate(small).astype(np.float32)
