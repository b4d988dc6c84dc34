import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import gaussian_filter

from models.image_metrics import LUMA, psnr, seam, ssim
from pipeline.counterfactuals.mask import feather

SIDE = 48
WHOLE = np.ones((SIDE, SIDE), np.float32)
pictures = arrays(np.float32, (16, 16, 3), elements=st.floats(0, 255, width=32))
masks = arrays(np.float32, (16, 16), elements=st.floats(0, 1, width=32)).filter(lambda mask: mask.sum() > 1)


def noise(seed=0, *, mean=120.0, spread=40.0):
    return np.random.default_rng(seed).normal(mean, spread, (SIDE, SIDE, 3)).clip(0, 255).astype(np.float32)


def disc(radius=14):
    rows, columns = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    return (np.hypot(rows, columns) < radius).astype(np.float32)


# PSNR


@settings(max_examples=15)
@given(st.floats(0.5, 60))
def test_a_picture_that_is_off_by_so_many_levels_has_the_textbooks_psnr(levels):
    assert psnr(noise(), noise() + np.float32(levels), WHOLE) == pytest.approx(20 * np.log10(255 / levels), abs=0.01)


@settings(max_examples=15)
@given(pictures, masks)
def test_the_same_picture_is_infinitely_near(picture, mask):
    assert psnr(picture, picture, mask) == float("inf")
    assert ssim(picture, picture, mask) == pytest.approx(1, abs=1e-3)


@settings(max_examples=15)
@given(pictures, pictures, masks)
def test_it_does_not_matter_which_of_the_two_is_the_first(one, other, mask):
    assert psnr(one, other, mask) == pytest.approx(psnr(other, one, mask))
    assert ssim(one, other, mask) == pytest.approx(ssim(other, one, mask), abs=1e-5)


def test_what_is_outside_the_mask_does_not_count():
    mask = disc()
    spoilt = np.where(mask[..., None] > 0, noise(), 0)
    assert psnr(noise(), spoilt, mask) == float("inf")
    # A window of SSIM looks five pixels around.
    inner = disc(radius=8)
    assert ssim(noise(), spoilt, inner) == pytest.approx(1, abs=1e-5)
    assert ssim(noise(), spoilt, mask) < 0.99


def test_a_soft_mask_weighs_each_pixel():
    left = np.zeros((SIDE, SIDE, 1), np.float32)
    left[:, : SIDE // 2] = 10
    mask = np.where(left[..., 0] > 0, 0.25, 0.75).astype(np.float32)
    error = 0.25 * 10**2  # a quarter of the weight is off by ten
    assert psnr(noise(), noise() + left, mask) == pytest.approx(10 * np.log10(255**2 / error), abs=1e-3)


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_an_empty_mask_has_no_figure(measure):
    assert np.isnan(measure(noise(), noise(1), 0 * WHOLE))


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_in_another_range_the_figures_are_the_same(measure):
    one, other = noise(), noise() * 0.8 + noise(1) * 0.2
    unit = measure(one / 255, other / 255, WHOLE, levels=1.0)
    assert unit == pytest.approx(measure(one, other, WHOLE), abs=1e-3)


# SSIM


def direct_ssim(one, other):
    """Wang et al. 2004, eq. 13, with scipy's Gaussian of eleven taps."""
    x, y = ((image.astype(np.float64) @ np.array(LUMA)) for image in (one, other))

    def mean(image):
        return gaussian_filter(image, 1.5, truncate=3.5, mode="reflect")

    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    mx, my = mean(x), mean(y)
    cov, vx, vy = mean(x * y) - mx * my, mean(x * x) - mx**2, mean(y * y) - my**2
    return (2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_ssim_agrees_with_the_formula_written_out(share):
    one, other = noise(), (1 - share) * noise() + share * noise(1)
    mask = disc()
    expected = (direct_ssim(one, other) * mask).sum() / mask.sum()
    assert ssim(one, other, mask) == pytest.approx(expected, abs=1e-3)
    assert ssim(one, other, WHOLE) == pytest.approx(direct_ssim(one, other).mean(), abs=1e-3)


def test_two_flat_walls_differ_by_their_means_alone():
    dark, light = (np.full((SIDE, SIDE, 3), level, np.float32) for level in (100, 150))
    c1 = (0.01 * 255) ** 2
    assert ssim(dark, light, WHOLE) == pytest.approx((2 * 100 * 150 + c1) / (100**2 + 150**2 + c1), abs=1e-3)


def test_a_blurred_and_an_inverted_picture_are_less_and_less_alike():
    blurred = gaussian_filter(noise(), (1, 1, 0))
    figures = [ssim(noise(), other, WHOLE) for other in (noise(), blurred, noise(1), 255 - noise())]
    assert figures == sorted(figures, reverse=True)
    assert figures[-1] < 0 < figures[1] < 0.9


# The seam


def shown(picture):
    return picture.round().clip(0, 255).astype(np.uint8)


def soft_disc(pixels=6.0):
    return feather(disc(), pixels=pixels)


def test_an_unchanged_photo_has_no_seam():
    assert seam(shown(noise()), shown(noise()), soft_disc()) == 1


def test_a_step_at_the_masks_edge_is_a_seam_and_a_larger_one_more_so():
    smooth = gaussian_filter(noise(), (3, 3, 0))
    figures = [seam(shown(smooth), shown(smooth + step * disc()[..., None]), soft_disc()) for step in (0, 10, 30, 60)]
    assert figures[0] == 1
    assert figures[1] > 1.2
    assert figures == sorted(figures)


@pytest.mark.parametrize("feathered", [0.0, 0.4, 1.0, 3.0], ids=str)
def test_a_step_is_seen_however_narrow_the_masks_edge_is(feathered):
    smooth = gaussian_filter(noise(), (3, 3, 0))
    mask = feather(disc(), pixels=feathered)
    assert seam(shown(smooth), shown(smooth + 40 * disc()[..., None]), mask) > 2


def test_a_change_that_follows_a_wide_feather_hardly_shows():
    mask = soft_disc(pixels=8)
    assert seam(shown(noise()), shown(noise() + 12 * mask[..., None]), mask) == pytest.approx(1, abs=0.05)


def test_an_edge_that_is_blurred_shows_less_than_the_photos_own():
    mask = soft_disc()
    blurred = np.where(mask[..., None] > 0, gaussian_filter(noise(), (2, 2, 0)), noise())
    assert seam(shown(noise()), shown(blurred), mask) < 0.8


def test_what_happens_away_from_the_edge_is_no_seam():
    mask, inside = soft_disc(pixels=4), disc(radius=5)[..., None] > 0
    assert seam(shown(noise()), shown(np.where(inside, 0, noise())), mask) == 1


def test_on_a_flat_wall_one_level_is_no_seam_and_twenty_are():
    wall = np.full((SIDE, SIDE, 3), 128.0)
    faint, plain = (seam(shown(wall), shown(wall + step * disc()[..., None]), soft_disc()) for step in (1, 20))
    assert 1 <= faint < 1.1
    assert plain > 5
    assert seam(shown(wall), shown(wall + 20), soft_disc()) == 1


def test_without_any_mask_there_is_no_seam():
    assert seam(shown(noise()), shown(noise(1)), np.zeros((SIDE, SIDE), np.float32)) == 1
