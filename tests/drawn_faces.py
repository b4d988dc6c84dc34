"""A drawn face that the detectors find, so that tests need no photo of a person."""

import cv2
import numpy as np
from numpy.typing import NDArray


def drawn_face(*, width: int = 225, height: int = 275, shift: int = 0) -> NDArray[np.uint8]:
    """An ``(H, W, 3)`` RGB portrait, ``shift`` pixels to the right of the middle."""
    image = np.full((height, width, 3), 200, np.uint8)
    unit, x, y = width / 225, width / 2 + shift, height / 2

    def ellipse(dx: float, dy: float, rx: float, ry: float, colour: tuple[int, int, int]) -> None:
        centre, axes = (round(x + dx * unit), round(y + dy * unit)), (round(rx * unit), round(ry * unit))
        cv2.ellipse(image, centre, axes, 0, 0, 360, colour, -1, cv2.LINE_AA)

    ellipse(0, -18, 74, 88, (60, 40, 30))
    ellipse(0, 0, 62, 80, (224, 172, 140))
    for side in (-1, 1):
        ellipse(side * 26, -14, 13, 7, (250, 250, 250))
        ellipse(side * 26, -14, 6, 6, (40, 30, 30))
        ellipse(side * 26, -31, 15, 3, (60, 40, 30))
    ellipse(0, 10, 7, 16, (200, 145, 115))
    ellipse(0, 22, 11, 6, (190, 130, 105))
    ellipse(0, 46, 24, 8, (170, 70, 70))
    ellipse(0, 46, 22, 1, (110, 40, 40))
    return np.asarray(cv2.GaussianBlur(image, (0, 0), 1.5 * unit), dtype=np.uint8)


def png(image: NDArray[np.uint8]) -> bytes:
    """Encode an ``(H, W, 3)`` RGB image as PNG."""
    return cv2.imencode(".png", image[..., ::-1])[1].tobytes()
