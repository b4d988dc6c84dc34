"""The three networks of MTCNN."""

import subprocess
import sys

import pytest
import torch
from facenet_pytorch.models.mtcnn import ONet, PNet, RNet

from models.mtcnn import MTCNNNetwork


@pytest.mark.parametrize(("name", "reference", "side"), [("pnet", PNet, 40), ("rnet", RNet, 24), ("onet", ONet, 48)])
def test_outputs_equal_those_of_facenet_pytorch(name, reference, side):
    images = torch.rand(5, 3, side, side, generator=torch.Generator().manual_seed(1)) * 2 - 1
    with torch.inference_mode():
        *others, scores = reference().eval()(images)
        outputs = MTCNNNetwork(name)(images)
    assert torch.equal(outputs[0], scores[:, 1])
    assert len(outputs) == len(others) + 1
    assert all(torch.equal(output, other) for output, other in zip(outputs[1:], others, strict=True))


def test_detector_does_not_import_torchvision():
    code = "import sys, models.detector; models.detector.FaceDetector(); print('torchvision' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
