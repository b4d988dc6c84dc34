"""Soft edges from the photo's own colours, on drawn skin, hair and collars."""

import cv2
import numpy as np

from pipeline.counterfactuals.matting import matted, unlike

SKIN, HAIR, COLLAR = (215, 165, 140), (70, 60, 55), (240, 245, 250)


def face_under_hair(edge: int = 60, *, side: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Skin below row ``edge``, hair above it with every fourth column half covered, and a parser that is 5 rows off."""
    pixels = np.empty((side, side, 3), dtype=np.uint8)
    pixels[:edge], pixels[edge:] = HAIR, SKIN
    pixels[edge - 8 : edge, ::4] = np.add(SKIN, HAIR) // 2
    parsed = np.zeros((side, side), dtype=np.float32)
    parsed[edge + 5 :] = 1
    return pixels, cv2.GaussianBlur(parsed, (0, 0), 3)


def test_the_edge_lies_where_the_photo_has_it_not_where_the_parser_saw_it() -> None:
    pixels, parsed = face_under_hair()
    mask = matted(parsed, pixels, reach=5).mask
    assert mask[62, 30:90].min() > 0.9, "a strip of skin that the parser took for hair is skin"
    assert mask[50, 30:90].max() < 0.1
    assert mask[100].min() == 1
    assert mask[10].max() == 0


def test_what_is_half_covered_counts_half() -> None:
    pixels, parsed = face_under_hair()
    mask = matted(parsed, pixels, reach=5).mask
    assert abs(float(mask[57, 40:80:4].mean()) - 0.5) < 0.12
    assert mask[57, 42:80:4].max() < 0.1


def test_a_colour_of_neither_side_is_left_to_the_parser() -> None:
    pixels, parsed = face_under_hair()
    pixels[50:58, 40:80] = COLLAR
    assert matted(parsed, pixels, reach=5).mask[54, 44:76].max() < 0.3


def test_teeth_and_red_lips_are_unlike_skin_and_shaded_skin_is_not() -> None:
    pixels = np.empty((40, 160, 3), dtype=np.uint8)
    for place, colour in enumerate((SKIN, np.multiply(SKIN, 0.75), (235, 230, 220), (170, 60, 70))):
        pixels[:, 40 * place : 40 * place + 40] = colour
    far = unlike(pixels, np.broadcast_to(np.float32(SKIN), pixels.shape), smooth=1)[20, 20::40]
    assert far[:2].max() < 0.35
    assert far[2:].min() > 0.9
