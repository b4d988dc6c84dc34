"""Pixels of every format as people see them, and a reason for what cannot be read."""

import contextlib
import warnings
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import HEIGHT, WIDTH, encoded, picture, png_claiming
from PIL import Image

from pipeline.config.options import PhotoOptions
from pipeline.photos.decoding import PhotoError, Reason, decode

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")


def pixels_of(data: bytes, *, long_side: int = 1280, max_megapixels: float = 100) -> np.ndarray:
    options = PhotoOptions(long_side=long_side, max_megapixels=max_megapixels)
    return decode(BytesIO(data), options=options).pixels


def reason_of(data: bytes, **options: float) -> Reason:
    with pytest.raises(PhotoError) as caught:
        pixels_of(data, **options)
    return caught.value.reason


def close(pixels: np.ndarray, expected: Image.Image, *, within: float) -> bool:
    wanted = np.asarray(expected.convert("RGB"), dtype=float)
    return pixels.shape == wanted.shape and np.abs(pixels - wanted).mean() <= within


@pytest.mark.parametrize("kind", FORMATS)
def test_every_accepted_format_gives_the_same_picture(kind: str) -> None:
    assert close(pixels_of(encoded(picture(), kind)), picture(), within=6)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_photos_stand_upright_whatever_their_orientation_tag(kind: str, orientation: int) -> None:
    turn_back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = picture().transpose(turn_back[orientation]) if orientation > 1 else picture()
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert close(pixels_of(encoded(stored, kind, exif=exif)), picture(), within=8)


def test_sixteen_bits_are_scaled_not_clipped() -> None:
    ramp = np.linspace(0, 65535, WIDTH).astype(np.uint16)
    image = Image.fromarray(np.tile(ramp, (HEIGHT, 1)))
    for kind in ("PNG", "TIFF"):
        pixels = pixels_of(encoded(image, kind))
        assert np.abs(pixels[0, :, 0].astype(float) - np.linspace(0, 255, WIDTH)).max() <= 1
        assert (pixels[..., 0] == pixels[..., 2]).all()


def test_floating_point_pictures_are_read_on_their_own_scale() -> None:
    grey = np.tile(np.linspace(0, 1, WIDTH, dtype=np.float32), (HEIGHT, 1))
    grey[0, 0] = np.nan
    for full in (1, 255, 65535):
        pixels = pixels_of(encoded(Image.fromarray(grey * np.float32(full)), "TIFF"))
        assert pixels[5, -1, 0] == 255
        assert abs(int(pixels[5, WIDTH // 2, 0]) - 129) <= 2


@pytest.mark.parametrize("mode", ["L", "1", "P"])
def test_grey_black_and_white_and_palette_pictures_become_rgb(mode: str) -> None:
    image = picture().convert(mode)
    assert close(pixels_of(encoded(image)), image, within=0)


def test_print_colours_are_not_inverted() -> None:
    assert close(pixels_of(encoded(picture().convert("CMYK"), "JPEG", quality=95)), picture(), within=6)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_show_white(mode: str) -> None:
    image = picture().convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, WIDTH, HEIGHT // 4))
    data = encoded(image.convert(mode))
    pixels = pixels_of(data)
    assert (pixels[: HEIGHT // 4] == 255).all()
    assert (pixels[HEIGHT // 2 :] < 240).all()


def test_only_the_first_frame_of_an_animation_is_read() -> None:
    data = encoded(picture(), "GIF", save_all=True, append_images=[Image.new("RGB", (WIDTH, HEIGHT), "white")])
    assert close(pixels_of(data), picture(), within=2)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_long_photos_are_shrunk_to_the_long_side(kind: str) -> None:
    large = picture(600, 400)
    assert close(
        pixels_of(encoded(large, kind), long_side=100), large.resize((100, 67), Image.Resampling.BOX), within=6
    )
    assert pixels_of(encoded(large, kind), long_side=600).shape == (400, 600, 3)


# Reasons


@pytest.mark.parametrize("side", [20_000, 60_000])
def test_a_decompression_bomb_is_refused_by_its_header(side: int) -> None:
    assert reason_of(png_claiming(side, side)) is Reason.OVERSIZED


def test_the_users_limit_on_pixels_holds_in_both_directions() -> None:
    data = encoded(picture(400, 300))  # 0.12 megapixels
    assert reason_of(data, max_megapixels=0.119) is Reason.OVERSIZED
    assert pixels_of(data, max_megapixels=0.12).shape == (300, 400, 3)
    # Beyond what Pillow alone would refuse, the header is still read and the user's limit is what counts.
    assert reason_of(png_claiming(20_000, 20_000), max_megapixels=399) is Reason.OVERSIZED
    assert reason_of(png_claiming(20_000, 20_000)[:60], max_megapixels=500) is not Reason.OVERSIZED


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_cut_in_half_is_called_truncated_or_at_least_unreadable(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (90, 90, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    allowed = {Reason.TRUNCATED, Reason.UNREADABLE} if kind == "TIFF" else {Reason.TRUNCATED}
    assert reason_of(data[: len(data) // 2]) in allowed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Reason.EMPTY),
        (b"hello, this is text", Reason.NOT_AN_IMAGE),
        (b"%PDF-1.7 ...", Reason.NOT_AN_IMAGE),
        (b"%!PS-Adobe-3.0 EPSF-3.0", Reason.NOT_AN_IMAGE),
        (b"GIF89a" + b"nonsense" * 20, Reason.UNREADABLE),
        (encoded(picture(20, 200)), Reason.TOO_SMALL),
    ],
)
def test_bytes_that_are_no_photo_are_named(data: bytes, reason: Reason) -> None:
    assert reason_of(data) is reason


SEEDS = [encoded(picture(), kind) for kind in FORMATS] + [
    encoded(picture().convert("P"), "GIF"),
    encoded(picture().convert("CMYK"), "JPEG"),
    encoded(picture(), "TIFF", compression="tiff_lzw"),
    encoded(picture(), "WEBP", lossless=True),
]


def reads_or_refuses(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(PhotoError):
            pixels = pixels_of(data, max_megapixels=4)
            assert pixels.dtype == np.uint8
            assert pixels.shape[2] == 3


@given(start=st.sampled_from([b"", *(seed[:12] for seed in SEEDS)]), rest=st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_no_bytes_crash_the_reader(start: bytes, rest: bytes) -> None:
    reads_or_refuses(start + rest)


@given(data=st.data(), seed=st.sampled_from(SEEDS))
@settings(max_examples=250, deadline=None)
def test_no_damage_to_a_real_picture_crashes_the_reader(data: st.DataObject, seed: bytes) -> None:
    damaged = bytearray(seed)
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(seed) - 1), st.integers(0, 255)), min_size=1, max_size=8)
    ):
        damaged[place] = value
    reads_or_refuses(bytes(damaged[: data.draw(st.integers(0, len(seed)))]))
