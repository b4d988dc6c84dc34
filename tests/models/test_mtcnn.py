"""The three networks of MTCNN say exactly what those of facenet-pytorch say, without loading torchvision."""

import subprocess
import sys

import pytest
import torch
from facenet_pytorch.models.mtcnn import ONet, PNet, RNet

from models.mtcnn import MTCNNNetwork


@pytest.mark.parametrize(("name", "theirs", "side"), [("pnet", PNet, 40), ("rnet", RNet, 24), ("onet", ONet, 48)])
def test_scores_shifts_and_landmarks_are_the_package_s_own(name, theirs, side):
    images = torch.rand(5, 3, side, side, generator=torch.Generator().manual_seed(1)) * 2 - 1
    with torch.inference_mode():
        *others, scores = theirs().eval()(images)
        ours = MTCNNNetwork(name)(images)
    assert torch.equal(ours[0], scores[:, 1])
    assert len(ours) == len(others) + 1
    assert all(torch.equal(one, other) for one, other in zip(ours[1:], others, strict=True))


def test_finding_faces_loads_no_torchvision():
    code = "import sys, models.detector; models.detector.FaceDetector(); print('torchvision' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
