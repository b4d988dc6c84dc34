"""Matting of mask edges by the photo's colours."""

import cv2
import numpy as np

from pipeline.counterfactuals.matting import matted, unlike

SKIN, HAIR, COLLAR = (215, 165, 140), (70, 60, 55), (240, 245, 250)


def face_under_hair(edge: int = 60, *, side: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Skin below row ``edge``, hair above with every fourth column half covered, and a parsed region 5 rows off."""
    pixels = np.empty((side, side, 3), dtype=np.uint8)
    pixels[:edge], pixels[edge:] = HAIR, SKIN
    pixels[edge - 8 : edge, ::4] = np.add(SKIN, HAIR) // 2
    parsed = np.zeros((side, side), dtype=np.float32)
    parsed[edge + 5 :] = 1
    return pixels, cv2.GaussianBlur(parsed, (0, 0), 3)


def test_edge_follows_the_photo_rather_than_the_parser() -> None:
    pixels, parsed = face_under_hair()
    mask = matted(parsed, pixels, reach=5).mask
    assert mask[62, 30:90].min() > 0.9, "skin that was parsed as hair"
    assert mask[50, 30:90].max() < 0.1
    assert mask[100].min() == 1
    assert mask[10].max() == 0


def test_half_covered_pixels_have_half_weight() -> None:
    pixels, parsed = face_under_hair()
    mask = matted(parsed, pixels, reach=5).mask
    assert abs(float(mask[57, 40:80:4].mean()) - 0.5) < 0.12
    assert mask[57, 42:80:4].max() < 0.1


def test_colour_of_neither_side_follows_the_parser() -> None:
    pixels, parsed = face_under_hair()
    pixels[50:58, 40:80] = COLLAR
    assert matted(parsed, pixels, reach=5).mask[54, 44:76].max() < 0.3


def test_unlike_finds_teeth_and_lips_but_not_shaded_skin() -> None:
    pixels = np.empty((40, 160, 3), dtype=np.uint8)
    for place, colour in enumerate((SKIN, np.multiply(SKIN, 0.75), (235, 230, 220), (170, 60, 70))):
        pixels[:, 40 * place : 40 * place + 40] = colour
    far = unlike(pixels, np.broadcast_to(np.float32(SKIN), pixels.shape), smooth=1)[20, 20::40]
    assert far[:2].max() < 0.35
    assert far[2:].min() > 0.9
