"""Films of sweeps: size, window and outline of the mask."""

import re

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.thumbnails import GRID, ROOM, SIDES, affordable, film, outline, read_mask, window_of


def ellipse(height, width, *, centre, axes):
    return cv2.ellipse(np.zeros((height, width), np.uint8), centre, axes, 0, 0, 360, 200, -1)


def write_images(folder, images, suffix=".png"):
    files = [folder / f"{number}{suffix}" for number in range(len(images))]
    for file, image in zip(files, images, strict=True):
        cv2.imwrite(str(file), image)
    return files


def decode(content):
    return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)


@given(photos=st.integers(0, 100_000), versions=st.integers(1, 1600), twice=st.integers(0, 6))
def test_films_fit_the_page_for_any_run(photos, versions, twice):
    size = affordable(photos, versions=versions, twice=twice)
    assert 0 <= size.photos <= photos
    assert size.side in SIDES
    assert (size.photos + twice) * versions * size.version_bytes <= ROOM


def test_image_size_decreases_with_the_number_of_photos():
    assert affordable(50, versions=7).side == SIDES[0]
    assert affordable(1000, versions=7).photos == 1000
    assert affordable(456, versions=21).photos == 456
    many = affordable(100_000, versions=14)
    assert 700 < many.photos < 1000
    assert many.side == SIDES[-1]


@given(
    shape=st.tuples(st.integers(61, 300), st.integers(61, 300)),  # the largest mask is 61 pixels high
    centre=st.tuples(st.integers(10, 50), st.integers(10, 50)),
    axes=st.tuples(st.integers(2, 30), st.integers(2, 30)),
)
def test_window_is_a_square_that_contains_the_mask(shape, centre, axes):
    mask = ellipse(*shape, centre=centre, axes=axes)
    window = window_of(mask)
    rows, columns = slice(window.top, window.top + window.side), slice(window.left, window.left + window.side)
    assert mask[rows, columns].shape == (window.side, window.side)
    assert np.count_nonzero(mask[rows, columns]) == np.count_nonzero(mask)


def test_window_of_an_empty_mask_raises():
    with pytest.raises(ValueError, match="empty"):
        window_of(np.zeros((20, 20), np.uint8))


def test_outline_follows_the_mask_and_its_holes():
    mask = ellipse(400, 300, centre=(150, 210), axes=(80, 110))
    mask[200:220, 140:160] = 0
    window = window_of(mask)
    rings = [
        np.array([[int(number) for number in point.split()] for point in ring.split("L")])
        for ring in re.findall(r"M([^Z]+)Z", outline(mask, window))
    ]
    assert len(rings) == 2
    drawn = cv2.fillPoly(np.zeros((GRID, GRID), np.uint8), rings, 1)
    part = mask[window.top : window.top + window.side, window.left : window.left + window.side]
    expected = cv2.resize((part > 0).astype(np.uint8), (GRID, GRID), interpolation=cv2.INTER_AREA)
    assert np.mean(drawn == expected) > 0.98


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_film_shows_the_same_window_of_every_version(tmp_path, suffix):
    images = np.full((3, 900, 700, 3), 255, np.uint8)
    images[:, 300:700, 100:500] = np.reshape([40, 120, 220], (3, 1, 1, 1))
    mask = np.zeros((900, 700), np.uint8)
    mask[350:650, 150:450] = 255
    window = window_of(mask)
    frames = decode(film(write_images(tmp_path, images, suffix), window, side=96, most_bytes=50_000))
    assert frames.shape == (96, 3 * 96, 3)
    for number, level in enumerate((40, 120, 220)):
        assert np.abs(frames[4:92, 96 * number + 4 : 96 * number + 92].astype(int) - level).max() < 12


def test_small_window_is_not_enlarged(tmp_path):
    mask = ellipse(80, 80, centre=(40, 40), axes=(20, 20))
    files = write_images(tmp_path, [np.zeros((80, 80, 3), np.uint8)] * 2)
    assert decode(film(files, window_of(mask), side=320, most_bytes=10_000)).shape == (52, 104, 3)


def test_quality_is_reduced_until_the_film_fits(tmp_path):
    rng = np.random.default_rng(0)
    files = write_images(tmp_path, rng.integers(0, 256, (3, 300, 300, 3), dtype=np.uint8))
    window = window_of(np.full((300, 300), 255, np.uint8))
    once, again = (film(files, window, side=128, most_bytes=2500) for _ in range(2))
    assert len(once) <= 2500
    assert once == again
    with pytest.raises(ValueError, match="3 versions do not fit into 50 bytes"):
        film(files, window, side=128, most_bytes=50)


@pytest.mark.parametrize("content", [b"", b"no image"])
def test_error_names_the_invalid_image(tmp_path, content):
    file = tmp_path / "spoilt.png"
    file.write_bytes(content)
    with pytest.raises(OSError, match=r"spoilt\.png"):
        read_mask(file)
