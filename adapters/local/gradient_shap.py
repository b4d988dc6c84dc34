"""Gradient-SHAP attributions of a local network's scores to pixels, and heat maps of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adapters.base import Differentiable
from adapters.packages import needed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 160  # pixels across a heat map
NOISE = 0.05  # standard deviation, in units of the network's input


def attribute_scores(
    network: Differentiable, inputs: "NDArray[np.float32]", label: int, *, samples: int, seed: int
) -> "NDArray[np.float64]":
    """Compute the Gradient-SHAP attribution ``(h, w)`` of one score, summed over channels.

    The baselines are uniform images of the darkest, lightest and mean value of each channel.

    Args:
        network: the classifier.
        inputs: the network's input, ``(3, h, w)``.
        label: the index of the score.
        samples: number of noisy copies whose gradients are averaged.
        seed: of the noise and of the choice of baselines.

    Raises:
        AdapterError: captum is not installed; the message has the command that installs it.

    Source:
        Lundberg & Lee 2017 (expected gradients), by ``captum.attr.GradientShap``.
    """
    import torch

    with needed("attribution"):
        from captum.attr import GradientShap

    image = torch.from_numpy(inputs)[None]
    levels = [getattr(image, name)(dim=(2, 3), keepdim=True) for name in ("amin", "amax", "mean")]
    baselines = torch.cat([level.expand_as(image) for level in levels])
    with _seeded(seed):
        explainer = GradientShap(network.scores)
        found = explainer.attribute(image, baselines=baselines, n_samples=samples, stdevs=NOISE, target=label)
    pixels: NDArray[np.float64] = found[0].sum(dim=0).double().numpy()
    return pixels


def heatmap(inputs: "NDArray[np.float32]", attribution: "NDArray[np.float64]") -> bytes:
    """Draw the absolute attribution, from dark to yellow, over the network's input in grey; return WebP."""
    import cv2
    import numpy as np

    grey = inputs.mean(axis=0)
    grey = (grey - grey.min()) / max(float(np.ptp(grey)), 1e-9)
    heat = cv2.GaussianBlur(np.abs(attribution), (0, 0), sigmaX=max(attribution.shape) / 64)
    heat = (heat / max(float(np.quantile(heat, 0.995)), 1e-30)).clip(0, 1)
    colours = cv2.applyColorMap((255 * heat).astype(np.uint8), cv2.COLORMAP_INFERNO) / 255
    weight = (0.15 + 0.75 * heat)[:, :, None]
    blended = (255 * ((1 - weight) * grey[:, :, None] + weight * colours)).astype(np.uint8)
    height = round(SIDE * blended.shape[0] / blended.shape[1])
    resized = cv2.resize(blended, (SIDE, height), interpolation=cv2.INTER_CUBIC)
    _, encoded = cv2.imencode(".webp", resized, [cv2.IMWRITE_WEBP_QUALITY, 80])
    return encoded.tobytes()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of PyTorch and numpy, which captum uses, and restore them afterwards."""
    import numpy as np
    import torch

    state = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            np.random.seed(seed)
            yield
    finally:
        np.random.set_state(state)
