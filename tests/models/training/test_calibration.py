import numpy as np
import torch
from random_faces import face_set

from models.fader import Fader
from models.judge import Estimator
from models.training import calibration
from models.training.calibration import STRENGTHS, calibrate


def calibrated_strengths(monkeypatch, wanted):
    torch.manual_seed(0)
    faces = face_set(12)
    faces.part[:4] = 2
    fader, estimator = Fader().eval(), Estimator(widths=(8, 8, 16, 16)).eval()
    monkeypatch.setattr(calibration, "WANTED", {"gender": wanted, "race": wanted})
    calibrate(fader, estimator, faces, np.full((12, 144, 144), 255, np.uint8))
    return [round(strength, 4) for strength in fader.strength.tolist()]


def test_sufficient_effect_keeps_the_strength(monkeypatch):
    assert calibrated_strengths(monkeypatch, -1.0) == [1.0, 1.0]


def test_unreachable_effect_gives_the_largest_strength(monkeypatch):
    assert calibrated_strengths(monkeypatch, 1.0) == [STRENGTHS[-1]] * 2
