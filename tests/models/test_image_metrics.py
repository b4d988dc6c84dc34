import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import gaussian_filter

from models.image_metrics import LUMA, mask_edge, psnr, ssim
from pipeline.counterfactuals.mask import feather

SIDE = 48
WHOLE = np.ones((SIDE, SIDE), np.float32)
images = arrays(np.float32, (16, 16, 3), elements=st.floats(0, 255, width=32))
masks = arrays(np.float32, (16, 16), elements=st.floats(0, 1, width=32)).filter(lambda mask: mask.sum() > 1)


def noise(seed=0, *, mean=120.0, spread=40.0):
    return np.random.default_rng(seed).normal(mean, spread, (SIDE, SIDE, 3)).clip(0, 255).astype(np.float32)


def disc(radius=14):
    rows, columns = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    return (np.hypot(rows, columns) < radius).astype(np.float32)


# PSNR


@settings(max_examples=15)
@given(st.floats(0.5, 60))
def test_psnr_of_a_constant_offset(levels):
    assert psnr(noise(), noise() + np.float32(levels), WHOLE) == pytest.approx(20 * np.log10(255 / levels), abs=0.01)


@settings(max_examples=15)
@given(images, masks)
def test_identical_images_have_infinite_psnr_and_ssim_one(image, mask):
    assert psnr(image, image, mask) == float("inf")
    assert ssim(image, image, mask) == pytest.approx(1, abs=1e-3)


@settings(max_examples=15)
@given(images, images, masks)
def test_psnr_and_ssim_are_symmetric(one, other, mask):
    assert psnr(one, other, mask) == pytest.approx(psnr(other, one, mask))
    assert ssim(one, other, mask) == pytest.approx(ssim(other, one, mask), abs=1e-5)


def test_pixels_outside_the_mask_are_ignored():
    mask = disc()
    spoilt = np.where(mask[..., None] > 0, noise(), 0)
    assert psnr(noise(), spoilt, mask) == float("inf")
    # SSIM's window has a radius of five pixels.
    inner = disc(radius=8)
    assert ssim(noise(), spoilt, inner) == pytest.approx(1, abs=1e-5)
    assert ssim(noise(), spoilt, mask) < 0.99


def test_soft_mask_weights_pixels():
    left = np.zeros((SIDE, SIDE, 1), np.float32)
    left[:, : SIDE // 2] = 10
    mask = np.where(left[..., 0] > 0, 0.25, 0.75).astype(np.float32)
    error = 0.25 * 10**2  # a quarter of the weight has an error of ten
    assert psnr(noise(), noise() + left, mask) == pytest.approx(10 * np.log10(255**2 / error), abs=1e-3)


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_empty_mask_gives_nan(measure):
    assert np.isnan(measure(noise(), noise(1), 0 * WHOLE))


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_metrics_are_invariant_to_the_range(measure):
    one, other = noise(), noise() * 0.8 + noise(1) * 0.2
    unit = measure(one / 255, other / 255, WHOLE, levels=1.0)
    assert unit == pytest.approx(measure(one, other, WHOLE), abs=1e-3)


# SSIM


def reference_ssim(one, other):
    """Wang et al. 2004, eq. 13, with scipy's Gaussian of eleven taps."""
    x, y = ((image.astype(np.float64) @ np.array(LUMA)) for image in (one, other))

    def mean(image):
        return gaussian_filter(image, 1.5, truncate=3.5, mode="reflect")

    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    mx, my = mean(x), mean(y)
    cov, vx, vy = mean(x * y) - mx * my, mean(x * x) - mx**2, mean(y * y) - my**2
    return (2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_ssim_equals_the_formula(share):
    one, other = noise(), (1 - share) * noise() + share * noise(1)
    mask = disc()
    expected = (reference_ssim(one, other) * mask).sum() / mask.sum()
    assert ssim(one, other, mask) == pytest.approx(expected, abs=1e-3)
    assert ssim(one, other, WHOLE) == pytest.approx(reference_ssim(one, other).mean(), abs=1e-3)


def test_ssim_of_uniform_images_depends_on_their_means():
    dark, light = (np.full((SIDE, SIDE, 3), level, np.float32) for level in (100, 150))
    c1 = (0.01 * 255) ** 2
    assert ssim(dark, light, WHOLE) == pytest.approx((2 * 100 * 150 + c1) / (100**2 + 150**2 + c1), abs=1e-3)


def test_ssim_orders_blurred_random_and_inverted_images():
    blurred = gaussian_filter(noise(), (1, 1, 0))
    figures = [ssim(noise(), other, WHOLE) for other in (noise(), blurred, noise(1), 255 - noise())]
    assert figures == sorted(figures, reverse=True)
    assert figures[-1] < 0 < figures[1] < 0.9


# The seam


def as_uint8(image):
    return image.round().clip(0, 255).astype(np.uint8)


FACE = 160  # width of a face's crop in pixels
SKIN, HAIR = (196.0, 150.0, 128.0), (52.0, 40.0, 36.0)


def portrait(*, shading=0.5, grain=1.5, hair=HAIR, side=FACE):
    """Shaded, grainy skin below hair, with a soft edge at a third of the height."""
    rows = np.linspace(0, 1, side)[:, None]
    skin = np.array(SKIN) + shading * (np.arange(side)[None, :, None] - side / 2) * 160 / side
    covered = 1 / (1 + np.exp((rows - 1 / 3) * side / 1.2))[..., None]
    image = covered * np.array(hair) + (1 - covered) * np.broadcast_to(skin, (side, side, 3))
    return image + np.random.default_rng(0).normal(0, grain, (side, side, 1)), 1 - covered[..., 0]


def cheek(*, soft=0.0, side=FACE):
    """A mask whose outline lies entirely on skin."""
    rows, columns = np.mgrid[:side, :side] / side
    return feather((np.hypot(rows - 0.68, columns - 0.5) < 0.22).astype(np.float32), pixels=soft)


def visible_edge(photo, version, mask, *, face=FACE):
    return mask_edge(as_uint8(photo), mask, face=face).share_shown(as_uint8(version))


def test_unchanged_photo_has_no_seam():
    assert visible_edge(noise(), noise(), cheek(side=SIDE)) == 0


@pytest.mark.parametrize("levels", [3, -3, 6, 12])
@pytest.mark.parametrize("soft", [0.0, 1.0], ids=["hard", "soft"])
def test_step_on_smooth_skin_is_visible_along_the_whole_mask(levels, soft):
    photo, _ = portrait()
    mask = cheek(soft=soft)
    assert visible_edge(photo, photo + levels * mask[..., None], mask) > 0.9


def test_step_on_part_of_the_outline_counts_partially():
    photo, skin = portrait()
    mask = skin * (np.mgrid[:FACE, :FACE][1] < FACE / 2)  # hair above, a straight line down the middle of the skin
    share = visible_edge(photo, photo + 6 * mask[..., None], mask.astype(np.float32))
    assert 0.2 < share < 0.7


@pytest.mark.parametrize("lighter", [40, 15, -15, -40])
def test_change_of_skin_tone_up_to_dark_hair_is_no_seam(lighter):
    photo, skin = portrait()
    mask = np.where(skin > 0.02, skin, 0).astype(np.float32)
    assert visible_edge(photo, photo + lighter * mask[..., None], mask) < 0.02


def test_change_that_ends_before_the_hair_is_a_seam():
    photo, skin = portrait()
    mask = np.roll(np.where(skin > 0.02, skin, 0), 12, axis=0).astype(np.float32)
    mask[:12] = 0
    assert visible_edge(photo, photo + 15 * mask[..., None], mask) > 0.4


def test_edge_between_equally_light_colours_hides_a_change():
    blue = (90.0, 180.0, 210.0)
    photo, skin = portrait(hair=blue)
    assert abs(np.dot(np.subtract(SKIN, blue), LUMA)) < 6, "equal luma"
    mask = np.where(skin > 0.02, skin, 0).astype(np.float32)
    assert visible_edge(photo, photo - 30 * mask[..., None], mask) < 0.02


def test_change_with_a_wide_feather_is_no_seam():
    photo, _ = portrait()
    mask = cheek(soft=24)
    assert visible_edge(photo, photo + 10 * mask[..., None], mask) < 0.02


def test_change_away_from_the_edge_is_no_seam():
    photo, _ = portrait()
    inside = cheek(soft=0)[..., None] * 0
    inside[100:116, 70:90] = 1
    assert visible_edge(photo, np.where(inside > 0, 0, photo), cheek(soft=4)) == 0


@pytest.mark.parametrize("side", [80, 480, 900])
def test_seams_are_found_at_any_resolution(side):
    photo, skin = portrait(side=side)
    mask = cheek(side=side)
    assert visible_edge(photo, photo + 6 * mask[..., None], mask, face=side) > 0.9
    even = np.where(skin > 0.02, skin, 0).astype(np.float32)
    assert visible_edge(photo, photo + 30 * even[..., None], even, face=side) < 0.05


def test_empty_mask_has_no_seam():
    assert visible_edge(noise(), noise(1), np.zeros((SIDE, SIDE), np.float32)) == 0
