from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from adapters.base import Limits
from pipeline.querying.encoding import encodings, misfit, prepare
from pipeline.querying.requests import ImageRef


def write_photo(folder: Path, photo: str, *, size: tuple[int, int], steps: int = 3, seed: int = 0) -> list[ImageRef]:
    """Write steps of a sweep, which differ in a few pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    versions = []
    for step in range(steps):
        pixels[:4, :4] = step
        stream = BytesIO()
        exif = Image.Exif()
        exif[0x0112] = 1
        Image.fromarray(pixels).save(stream, "PNG", exif=exif)
        path = folder / f"{photo}{step}.png"
        path.write_bytes(stream.getvalue())
        versions.append(ImageRef(sha256(stream.getvalue()).hexdigest(), path, photo))
    return versions


def test_images_within_the_limits_are_sent_unchanged(tmp_path):
    versions = write_photo(tmp_path / "in", "a", size=(100, 120))
    assert prepare(versions, Limits(), folder=tmp_path / "sent") == {}
    assert prepare(versions, Limits(min_side=80, max_bytes=10**6), folder=tmp_path / "sent") == {}
    assert not (tmp_path / "sent").exists()


@pytest.mark.parametrize(
    "limits",
    [
        Limits(min_side=150),
        Limits(max_pixels=5000),
        Limits(max_side=110),
        Limits(max_bytes=9000),
        Limits(formats=("jpeg",)),
        Limits(min_side=224, max_bytes=60_000, max_pixels=10**6, formats=("jpeg",)),
    ],
)
def test_all_steps_are_encoded_alike_within_the_limits(tmp_path, limits):
    versions = write_photo(tmp_path / "in", "a", size=(100, 120))
    fits = write_photo(tmp_path / "in", "b", size=(100, 120), seed=1)
    found = prepare(versions, limits, folder=tmp_path / "sent")
    assert set(found) == {version.sha256 for version in versions}
    assert len({sent.how for sent in found.values()}) == 1
    files = [sent.path for sent in found.values() if sent.path is not None]
    assert len(files) == 3
    assert all(misfit(path, limits) is None for path in files)
    sizes = set()
    for path in files:
        with Image.open(path) as image:
            sizes.add(image.size)
            assert not image.getexif()
    assert len(sizes) == 1
    again = prepare([*versions, *fits], limits, folder=tmp_path / "sent", answered={v.sha256 for v in fits})
    assert again == found, "a second query sends the same files"
    elsewhere, key = prepare(versions, limits, folder=tmp_path / "elsewhere"), versions[0].sha256
    assert elsewhere[key].sha256 == found[key].sha256


def test_one_step_beyond_the_limits_re_encodes_all(tmp_path):
    versions = write_photo(tmp_path / "in", "a", size=(60, 60), steps=2)
    flat = BytesIO()
    Image.new("RGB", (60, 60)).save(flat, "PNG")
    path = tmp_path / "in" / "flat.png"
    path.write_bytes(flat.getvalue())
    versions.append(ImageRef(sha256(flat.getvalue()).hexdigest(), path, "a"))
    limits = Limits(max_bytes=8000)
    assert misfit(path, limits) is None
    prepared = prepare(versions, limits, folder=tmp_path / "sent")
    assert all(prepared[version.sha256].path is not None for version in versions)


def test_images_that_cannot_fit_are_excluded_with_a_reason(tmp_path):
    narrow = write_photo(tmp_path / "in", "narrow", size=(400, 10))
    found = prepare(narrow, Limits(min_side=100, max_pixels=10_000), folder=tmp_path / "sent")
    assert {sent.sha256 for sent in found.values()} == {None}
    assert all("10 pixels" in sent.how and "no encoding is within" in sent.how for sent in found.values())
    tiny = prepare(narrow, Limits(max_bytes=20), folder=tmp_path / "sent")
    assert all("20 are accepted" in sent.how for sent in tiny.values())


@given(
    width=st.integers(8, 3000),
    height=st.integers(8, 3000),
    min_side=st.none() | st.integers(1, 300),
    max_pixels=st.none() | st.integers(1000, 10**7),
)
def test_every_encoding_keeps_the_limits(width, height, min_side, max_pixels):
    limits = Limits(min_side=min_side, max_pixels=max_pixels)
    for encoding in encodings(width, height, limits):
        assert min(width, height) * encoding.scale >= (min_side or 1) - 1e-6
        assert max_pixels is None or width * height * encoding.scale**2 <= max_pixels * (1 + 1e-9)
