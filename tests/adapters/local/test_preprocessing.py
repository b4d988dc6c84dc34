"""Preprocessing gives the same pixels as torchvision and open_clip, for images of any shape."""

import numpy as np
import pytest
import torch
from drawn_faces import drawn_face, png
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from adapters.local.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, pixels

HALF = (0.5, 0.5, 0.5)


def random_image(width: int, height: int) -> NDArray[np.uint8]:
    return np.random.default_rng(width * 1000 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(max_examples=40)
@given(width=st.integers(3, 90), height=st.integers(3, 90), crop=st.integers(8, 40), extra=st.integers(0, 20))
def test_crop_equals_torchvision(width, height, crop, extra):
    from torchvision.transforms._presets import ImageClassification

    image = random_image(width, height)
    theirs = ImageClassification(crop_size=crop, resize_size=crop + extra)(Image.fromarray(image))
    ours = pixels(
        png(image), Preprocessing(size=(crop, crop), resize=crop + extra, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    )
    assert torch.equal(torch.from_numpy(ours), theirs)


@settings(max_examples=40)
@given(width=st.integers(9, 90), height=st.integers(9, 90), fit=st.sampled_from(["crop", "stretch", "pad"]))
def test_every_fit_equals_open_clip(width, height, fit):
    transform = pytest.importorskip("open_clip.transform", reason="open_clip_torch is not installed")
    mode = {"crop": "shortest", "stretch": "squash", "pad": "longest"}[fit]
    image = random_image(width, height)
    theirs = transform.image_transform(24, is_train=False, mean=HALF, std=HALF, resize_mode=mode)(
        Image.fromarray(image)
    )
    declared = Preprocessing(size=(24, 24), mean=HALF, std=HALF, fit=fit, interpolation="bicubic")
    assert torch.equal(torch.from_numpy(pixels(png(image), declared)), theirs)


def test_channels_and_value_range_are_as_declared():
    image = np.full((4, 6, 3), (255, 0, 51), np.uint8)
    rgb = pixels(png(image), Preprocessing(size=(2, 2), mean=(0, 0, 0), std=(1, 1, 1)))
    assert rgb.shape == (3, 2, 2)
    assert rgb.dtype == np.float32
    assert rgb[:, 0, 0].tolist() == pytest.approx([1, 0, 0.2])
    caffe = Preprocessing(size=(2, 2), mean=(100, 110, 120), std=(1, 1, 1), channels="bgr", values="0-255")
    assert pixels(png(image), caffe)[:, 0, 0].tolist() == [-49, -110, 135]


def test_invalid_preprocessing_and_images_are_refused():
    for impossible in ({"std": (1, 0, 1)}, {"size": (0, 8)}, {"resize": 0}):
        with pytest.raises(ValueError, match=r"std|sizes"):
            Preprocessing(**{"size": (8, 8), "mean": HALF, "std": HALF} | impossible)
    with pytest.raises(ValueError, match="image"):
        pixels(png(drawn_face())[:100], Preprocessing(size=(8, 8), mean=HALF, std=HALF))
