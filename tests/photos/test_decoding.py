"""Decoding of photos in all formats, and reasons for failures."""

import contextlib
import warnings
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_files import HEIGHT, WIDTH, encode, png_claiming, tricolour
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
    expected_pixels = np.asarray(expected.convert("RGB"), dtype=float)
    return pixels.shape == expected_pixels.shape and np.abs(pixels - expected_pixels).mean() <= within


@pytest.mark.parametrize("kind", FORMATS)
def test_formats_decode_to_the_same_image(kind: str) -> None:
    assert close(pixels_of(encode(tricolour(), kind)), tricolour(), within=6)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_orientation_tag_is_applied(kind: str, orientation: int) -> None:
    inverse = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = tricolour().transpose(inverse[orientation]) if orientation > 1 else tricolour()
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert close(pixels_of(encode(stored, kind, exif=exif)), tricolour(), within=8)


def test_16_bit_images_are_scaled() -> None:
    ramp = np.linspace(0, 65535, WIDTH).astype(np.uint16)
    image = Image.fromarray(np.tile(ramp, (HEIGHT, 1)))
    for kind in ("PNG", "TIFF"):
        pixels = pixels_of(encode(image, kind))
        assert np.abs(pixels[0, :, 0].astype(float) - np.linspace(0, 255, WIDTH)).max() <= 1
        assert (pixels[..., 0] == pixels[..., 2]).all()


def test_floating_point_images_are_scaled_by_their_range() -> None:
    grey = np.tile(np.linspace(0, 1, WIDTH, dtype=np.float32), (HEIGHT, 1))
    grey[0, 0] = np.nan
    for full in (1, 255, 65535):
        pixels = pixels_of(encode(Image.fromarray(grey * np.float32(full)), "TIFF"))
        assert pixels[5, -1, 0] == 255
        assert abs(int(pixels[5, WIDTH // 2, 0]) - 129) <= 2


@pytest.mark.parametrize("mode", ["L", "1", "P"])
def test_grey_bilevel_and_palette_images_become_rgb(mode: str) -> None:
    image = tricolour().convert(mode)
    assert close(pixels_of(encode(image)), image, within=0)


def test_cmyk_is_not_inverted() -> None:
    assert close(pixels_of(encode(tricolour().convert("CMYK"), "JPEG", quality=95)), tricolour(), within=6)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_become_white(mode: str) -> None:
    image = tricolour().convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, WIDTH, HEIGHT // 4))
    pixels = pixels_of(encode(image.convert(mode)))
    assert (pixels[: HEIGHT // 4] == 255).all()
    assert (pixels[HEIGHT // 2 :] < 240).all()


def test_first_frame_of_an_animation_is_decoded() -> None:
    data = encode(tricolour(), "GIF", save_all=True, append_images=[Image.new("RGB", (WIDTH, HEIGHT), "white")])
    assert close(pixels_of(data), tricolour(), within=2)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_large_photos_are_reduced_to_the_long_side(kind: str) -> None:
    large = tricolour(600, 400)
    reduced = large.resize((100, 67), Image.Resampling.BOX)
    assert close(pixels_of(encode(large, kind), long_side=100), reduced, within=6)
    assert pixels_of(encode(large, kind), long_side=600).shape == (400, 600, 3)


# Reasons


@pytest.mark.parametrize("side", [20_000, 60_000])
def test_decompression_bomb_is_oversized_by_its_header(side: int) -> None:
    assert reason_of(png_claiming(side, side)) is Reason.OVERSIZED


def test_max_megapixels_replaces_the_limit_of_pillow() -> None:
    data = encode(tricolour(400, 300))  # 0.12 megapixels
    assert reason_of(data, max_megapixels=0.119) is Reason.OVERSIZED
    assert pixels_of(data, max_megapixels=0.12).shape == (300, 400, 3)
    # Pillow alone would raise for both.
    assert reason_of(png_claiming(20_000, 20_000), max_megapixels=399) is Reason.OVERSIZED
    assert reason_of(png_claiming(20_000, 20_000)[:60], max_megapixels=500) is not Reason.OVERSIZED


@pytest.mark.parametrize("kind", FORMATS)
def test_truncated_files_are_reported(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (90, 90, 3), dtype=np.uint8)
    data = encode(Image.fromarray(noise), kind)
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
        (encode(tricolour(20, 200)), Reason.TOO_SMALL),
    ],
)
def test_reasons_for_invalid_files(data: bytes, reason: Reason) -> None:
    assert reason_of(data) is reason


VALID_FILES = [encode(tricolour(), kind) for kind in FORMATS] + [
    encode(tricolour().convert("P"), "GIF"),
    encode(tricolour().convert("CMYK"), "JPEG"),
    encode(tricolour(), "TIFF", compression="tiff_lzw"),
    encode(tricolour(), "WEBP", lossless=True),
]


def check_decodes_or_raises(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(PhotoError):
            pixels = pixels_of(data, max_megapixels=4)
            assert pixels.dtype == np.uint8
            assert pixels.shape[2] == 3


@given(start=st.sampled_from([b"", *(seed[:12] for seed in VALID_FILES)]), rest=st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_random_bytes_decode_or_raise_a_photo_error(start: bytes, rest: bytes) -> None:
    check_decodes_or_raises(start + rest)


@given(data=st.data(), seed=st.sampled_from(VALID_FILES))
@settings(max_examples=250, deadline=None)
def test_damaged_files_decode_or_raise_a_photo_error(data: st.DataObject, seed: bytes) -> None:
    damaged = bytearray(seed)
    changes = st.lists(st.tuples(st.integers(0, len(seed) - 1), st.integers(0, 255)), min_size=1, max_size=8)
    for place, value in data.draw(changes):
        damaged[place] = value
    check_decodes_or_raises(bytes(damaged[: data.draw(st.integers(0, len(seed)))]))
