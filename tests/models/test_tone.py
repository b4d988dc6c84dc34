"""The editor of skin tone: quantile mapping and smooth shift."""

import cv2
import numpy as np
import pytest

from models.attributes import RACES
from models.tone import (
    SHARE,
    ToneTable,
    load_tone_table,
    median_colour,
    shown_and_spared,
    smooth_lightness,
    tone_change,
    tone_shifts,
)
from models.training.tones import fit_tones, weighted_quantiles

PAIR = ("Black", "White")
ONES = np.ones((48, 48))


@pytest.fixture(scope="module")
def table() -> ToneTable:
    return load_tone_table()


def skin_image(colour: tuple[int, int, int] = (190, 150, 130), *, side: int = 48) -> np.ndarray:
    shade = np.linspace(0.75, 1.15, side)[:, None, None]
    texture = np.random.default_rng(1).normal(0, 3, (side, side, 1))
    return np.clip(np.array(colour) * shade + texture, 0, 255).astype(np.uint8)


def change_of(pixels: np.ndarray, shift: tuple[float, float, float], *, grey: bool = False) -> np.ndarray:
    ones = np.ones(pixels.shape[:2], dtype=np.float32)
    colour = median_colour(pixels, ones)
    assert colour is not None
    light = smooth_lightness(pixels, ones, reach=4)
    return tone_change(pixels, ones, colour, np.array(shift), lightness=light, grey=grey)


def test_shift_is_zero_at_the_own_value_and_monotone(table: ToneTable) -> None:
    shifts = tone_shifts(table, np.array([55.0, 15, 18]), (-2, -1, 0.3, 1, 2), own=0.3, pair=PAIR, gender=-1, age=30)
    assert (shifts[2] == 0).all()
    assert (np.diff(shifts[:, 0]) > 0).all()


@pytest.mark.parametrize("gender", [-1.0, 0.2, 1.0])
def test_shift_maps_quantiles_between_groups(table: ToneTable, gender: float) -> None:
    white = table.group(gender=gender, race="White", age=40)
    black = table.group(gender=gender, race="Black", age=40)
    for place in (3, 9, 15):
        lightness, *tints = white[:, place]
        colour = np.array([lightness, *(tint * lightness for tint in tints)])
        shift = tone_shifts(table, colour, (-1.0,), own=1.0, pair=PAIR, gender=gender, age=40)[0]
        assert shift[0] == pytest.approx(SHARE * (black - white)[0, place], abs=0.5)


def test_swapping_the_pair_reverses_the_sweep(table: ToneTable) -> None:
    there = tone_shifts(table, np.array([60.0, 14, 17]), (1.0,), own=-0.4, pair=PAIR, gender=1, age=50)
    back = tone_shifts(table, np.array([60.0, 14, 17]), (-1.0,), own=0.4, pair=PAIR[::-1], gender=1, age=50)
    np.testing.assert_allclose(there, back, atol=1e-9)


def test_zero_shift_changes_no_pixel() -> None:
    assert not change_of(skin_image(), (0, 0, 0)).any()


def test_median_takes_the_shift_and_detail_is_kept() -> None:
    pixels = skin_image()
    for step in (-14.0, 12.0):
        edited = np.clip(np.rint(pixels + change_of(pixels, (step, 0, 0))), 0, 255).astype(np.uint8)
        ones = np.ones(pixels.shape[:2])
        before, after = median_colour(pixels, ones), median_colour(edited, ones)
        assert before is not None
        assert after is not None
        assert after[0] - before[0] == pytest.approx(step, abs=2)
        detail = [np.diff(image.astype(float).mean(axis=2), axis=1).ravel() for image in (pixels, edited)]
        assert np.corrcoef(detail[0], detail[1])[0, 1] > 0.9


def test_pixels_without_skin_are_unchanged_and_grey_photos_stay_grey() -> None:
    grey = np.repeat(skin_image()[..., :1], 3, axis=2)
    change = change_of(grey, (-10, 2, 3), grey=True)
    assert np.ptp(change, axis=2).max() < 0.02
    pixels, weights = skin_image(), np.zeros((48, 48), dtype=np.float32)
    light = np.full((48, 48), 60.0)
    assert not tone_change(pixels, weights, np.array([60.0, 14, 17]), np.array([-9.0, 0, 0]), lightness=light).any()


def test_specular_highlights_change_less() -> None:
    pixels = skin_image()
    pixels[20:24, 20:24] = 252
    change = change_of(pixels, (-14, 0, 0))
    assert abs(change[22, 22]).mean() < 0.92 * abs(change[10:40, 30:40]).mean()


def test_eyes_and_mouth_are_spared() -> None:
    chances = np.zeros((4, 1, 4), dtype=np.float32)
    for place in range(4):
        chances[place, 0, place] = 1
    shown, spared = shown_and_spared(chances, ("skin", "hair", "l_eye", "mouth"))[:, 0]
    np.testing.assert_allclose(shown, [1, 0, 1, 1])
    np.testing.assert_allclose(spared, [0, 0, 0.85, 1], atol=1e-6)


def test_lightness_is_bounded_by_the_table(table: ToneTable) -> None:
    lightness = 36.0 + tone_shifts(table, np.array([36.0, 12, 14]), (-3, -2), own=1, pair=PAIR, gender=1, age=40)[:, 0]
    darkest = table.group(gender=1, race="Black", age=40)[0, 0]
    assert lightness == pytest.approx([darkest, darkest], abs=0.1)


def test_fit_recovers_known_quantiles() -> None:
    random = np.random.default_rng(3)
    count = 6000
    gender, race = random.choice([-1, 1], count), random.integers(len(RACES), size=count)
    colours = random.normal([60, 14, 18], [8, 3, 4], (count, 3)) + np.outer(race, [2, 0, 0])
    found = fit_tones(colours, gender=gender, race=race, age=random.uniform(15, 80, count))
    middle = found.colours[0, 3, :, 0, len(found.quantiles) // 2]
    assert np.allclose(found.colours[0, 3, :, 1, len(found.quantiles) // 2], 14 / 66, atol=0.03)
    assert np.allclose(middle, 66, atol=2)
    assert weighted_quantiles(np.array([1.0, 2, 3]), np.ones(3), np.array([0.5]))[0] == 2
    with pytest.raises(ValueError, match="only 0 faces"):
        fit_tones(colours, gender=np.ones(count), race=race, age=np.full(count, 40))


def test_too_little_skin_has_no_median_colour() -> None:
    assert median_colour(skin_image(), np.zeros((48, 48))) is None


def test_lightened_dark_skin_keeps_its_saturation(table: ToneTable) -> None:
    shift = tone_shifts(table, np.array([24.0, 6, 10]), (1.0,), own=-1, pair=PAIR, gender=1, age=35)[0]
    assert np.hypot(6 + shift[1], 10 + shift[2]) > 1.2 * np.hypot(6, 10), "more light, not ashen"


def test_highlights_are_not_clipped() -> None:
    pixels = skin_image((235, 215, 200))
    edited = pixels + change_of(pixels, (14, 0, 0))
    assert edited.max() < 255.5
    assert np.ptp(edited[:, 24].mean(axis=1)) > 4


def test_lightened_warm_skin_keeps_its_hue_in_bright_light() -> None:
    pixels, light = skin_image((140, 75, 35)), np.full((48, 48), 35.0)
    pixels[:, 30:], light[:, 30:] = (225, 165, 100), 84  # red is close to its maximum
    edited = pixels + tone_change(pixels, ONES, np.array([35.0, 24, 34]), np.array([20.0, -5, -8]), lightness=light)
    _, green, blue = np.moveaxis(cv2.cvtColor(np.float32([pixels[24], edited[24]]) / 255, cv2.COLOR_RGB2LAB), -1, 0)
    hues = np.degrees(np.arctan2(blue, green))[:, 36:].mean(axis=1)
    assert abs(hues[1] - hues[0]) < 8, "no shift towards green"


def test_lightened_dark_skin_is_not_desaturated_in_highlights() -> None:
    pixels, light = skin_image((110, 70, 50)), np.full((48, 48), 34.0)
    pixels[:, 30:] = (165, 140, 130)  # highlights have the colour of the light
    edited = pixels + tone_change(pixels, ONES, np.array([34.0, 14, 18]), np.array([25.0, 2, 3]), lightness=light)
    colours = cv2.cvtColor(np.float32([pixels[24], edited[24]]) / 255, cv2.COLOR_RGB2LAB)
    rise = np.diff(colours[..., 0], axis=0)[0]
    assert rise[:24].mean() > 18
    assert rise[36:].mean() < 0.6 * rise[:24].mean()
    assert np.hypot(*colours[1, 36:, 1:].mean(axis=0)) > np.hypot(*colours[0, 36:, 1:].mean(axis=0)), "more saturated"


def test_darkened_overexposed_skin_is_skin_coloured() -> None:
    pixels, light = skin_image(), np.full((48, 48), 65.0)
    pixels[:, 30:], light[:, 30:] = 253, 96
    edited = pixels + tone_change(pixels, ONES, np.array([65.0, 14, 17]), np.array([-16.0, 2, 3]), lightness=light)
    colour = cv2.cvtColor(np.float32(edited[24:25]) / 255, cv2.COLOR_RGB2LAB)[0, 36:].mean(axis=0)
    assert colour[0] < 88
    assert colour[1] > 3
    assert colour[2] > 6
