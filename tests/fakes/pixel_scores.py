"""The scores that the fake classifiers return (mean colours of an image), and images whose scores have known slopes."""

from io import BytesIO

import numpy as np
from PIL import Image

LABELS = ("nurse", "engineer", "person")
VALUES = (-2.0, -1.0, 0.0, 1.0, 2.0)


def pixel_scores(image: bytes) -> dict[str, float]:
    """The mean red, green and blue (0-1, four decimals) as scores of the three labels.

    Raises:
        ValueError: not a readable PNG or JPEG.
    """
    try:
        with Image.open(BytesIO(image), formats=["PNG", "JPEG"]) as opened:
            means = np.asarray(opened.convert("RGB"), dtype=np.float64).mean(axis=(0, 1)) / 255
    except (OSError, SyntaxError) as error:
        raise ValueError("not a readable image") from error
    return {name: round(float(mean), 4) for name, mean in zip(LABELS, means, strict=True)}


def sweep_images() -> list[bytes]:
    """One image for each of ``VALUES``: red rises, green falls, blue stays."""
    pixels = np.random.default_rng(0).integers(90, 160, (64, 64, 3))
    images = []
    for value in VALUES:
        moved = (pixels + np.array([20, -10, 0]) * value).astype(np.uint8)
        buffer = BytesIO()
        Image.fromarray(moved).save(buffer, format="PNG")
        images.append(buffer.getvalue())
    return images


def score_slopes(scores: list[dict[str, float]]) -> dict[str, float]:
    """Label -> slope of its score along ``VALUES``."""
    return {name: float(np.polyfit(VALUES, [row[name] for row in scores], 1)[0]) for name in LABELS}
