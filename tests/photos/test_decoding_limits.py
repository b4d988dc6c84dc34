"""Limits of decoding: memory, time, and files that change."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
from PIL import Image

from pipeline.config.options import PhotoOptions
from pipeline.photos import decoding as module
from pipeline.photos.decoding import PhotoError, PixelBudget, Reason, decode, read_photo

PEAK_MEMORY_SCRIPT = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pipeline.config.options import PhotoOptions
from pipeline.photos.decoding import read_photo
with ThreadPoolExecutor(2) as pool:
    photos = list(pool.map(lambda path: read_photo(Path(path), options=PhotoOptions()), sys.argv[1:]))
assert [max(photo.width, photo.height) for photo in photos] == [1280, 1280]
# ru_maxrss would include the size of the parent process.
(peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(("kind", "most"), [("transparent", 1000), ("deep", 1000), ("webp", 700), ("animated", 700)])
def test_peak_memory_of_two_photos_of_the_largest_size(tmp_path, kind, most):
    if kind != "deep":
        image = Image.new("RGBA", (7000, 7000), (200, 30, 40, 128))
    else:
        image = Image.fromarray(np.full((7000, 7000), 900, np.uint16))
    webp = {"method": 0} | ({"save_all": True, "append_images": [image.rotate(90)]} if kind == "animated" else {})
    path = tmp_path / ("large.webp" if kind in ("webp", "animated") else "large.png")
    image.save(path, **(webp if path.suffix == ".webp" else {"compress_level": 1}))
    command = [sys.executable, "-c", PEAK_MEMORY_SCRIPT, *([str(path)] * 2)]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert peak < most


def test_default_limit_is_50_megapixels():
    assert PhotoOptions().max_megapixels == 50


def test_pixel_budget_bounds_concurrent_pixels_between_threads():
    most, running, lock, totals = 100, 0, Lock(), []
    budget = PixelBudget(most)

    def work(pixels):
        nonlocal running
        with budget.spent(pixels):
            with lock:
                running += pixels
                totals.append(running)
            time.sleep(0.01)
            with lock:
                running -= pixels

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [30, 80, 30, 500, 10, 90, 30, 30] * 4))
    assert max(total for total in totals if total < 500) > 80
    assert all(total <= most or total == 500 for total in totals)


WAITING_SCRIPT = """
import sys
from pipeline.photos.decoding import PixelBudget
with PixelBudget(100).spent(int(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read()
"""


def test_pixel_budget_is_shared_between_processes_and_released_when_one_dies():
    command = [sys.executable, "-c", WAITING_SCRIPT]
    with subprocess.Popen([*command, "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"in\n"
        started = []

        def decode_one():
            with PixelBudget(100).spent(60):
                started.append(time.monotonic())

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(decode_one)
            with PixelBudget(100).spent(40):  # fits next to the other
                time.sleep(0.2)
            assert not started
            other.kill()
            waiting.result(timeout=30)
    assert started


def test_decoding_in_strips_gives_the_same_pixels(monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (150, 90, 4), dtype=np.uint8)
    deep = Image.fromarray(pixels[..., 0].astype(np.uint16) * 200)
    rgba = Image.fromarray(pixels)
    for image in (rgba, rgba.convert("LA"), Image.fromarray(pixels[..., :3]), deep):
        stream = BytesIO()
        image.save(stream, "PNG")
        found = []
        for strip in (10**6, 500):
            monkeypatch.setattr(module, "STRIP", strip)
            found.append(decode(BytesIO(stream.getvalue()), options=PhotoOptions()).pixels)
        np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("lossless", [True, False])
def test_webp_pixels_equal_pillow(mode, lossless):
    noise = np.random.default_rng(0).integers(0, 256, (70, 51, 4), dtype=np.uint8)
    image = Image.fromarray(noise).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    stream = BytesIO()
    image.save(stream, "WEBP", lossless=lossless, exif=exif)
    expected = Image.open(BytesIO(stream.getvalue())).convert("RGBA")
    expected = Image.alpha_composite(Image.new("RGBA", image.size, "white"), expected).convert("RGB")
    found = decode(BytesIO(stream.getvalue()), options=PhotoOptions()).pixels
    np.testing.assert_array_equal(found, np.asarray(expected)[::-1, ::-1])


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_first_frame_of_an_animated_webp_equals_pillow(mode, lossless, monkeypatch):
    noise = np.random.default_rng(1).integers(0, 256, (2, 70, 51, 4), dtype=np.uint8)
    first, second = (Image.fromarray(each).convert(mode) for each in noise)
    stream = BytesIO()
    first.save(stream, "WEBP", lossless=lossless, save_all=True, append_images=[second], duration=100)
    read = []
    for library in ("OpenCV", "Pillow"):
        if library == "Pillow":
            monkeypatch.setattr(module, "_first_frame", lambda content, size: b"")
        else:
            assert module._first_frame(stream.getvalue(), first.size)
        read.append(decode(BytesIO(stream.getvalue()), options=PhotoOptions()).pixels)
    np.testing.assert_array_equal(*read)


def test_truncated_animated_webp_raises():
    frames = [Image.new("RGB", (64, 64), colour) for colour in ("teal", "red")]
    stream = BytesIO()
    frames[0].save(stream, "WEBP", save_all=True, append_images=frames[1:], duration=100)
    for length in range(12, len(stream.getvalue()), 7):
        with pytest.raises(PhotoError):
            decode(BytesIO(stream.getvalue()[:length]), options=PhotoOptions())


def progressive_jpeg(side, *, repeats=0):
    """A progressive JPEG with additional copies of its last scan."""
    stream = BytesIO()
    Image.new("RGB", (side, side), "teal").save(stream, "JPEG", progressive=True)
    content = stream.getvalue()
    last, end = content.rindex(b"\xff\xda"), content.rindex(b"\xff\xd9")
    return content[:end] + content[last:end] * repeats + content[end:]


def test_progressive_jpeg_with_many_scans_is_excluded_quickly():
    started = time.monotonic()
    with pytest.raises(PhotoError, match=r"too many scans: .*of 2000 x 2000") as caught:
        decode(BytesIO(progressive_jpeg(2000, repeats=400)), options=PhotoOptions())
    assert caught.value.reason is Reason.TOO_MANY_SCANS
    assert caught.value.reason.status == "excluded"
    assert time.monotonic() - started < 5


def test_ordinary_progressive_jpegs_are_decoded():
    assert decode(BytesIO(progressive_jpeg(2000)), options=PhotoOptions()).width == 1280
    assert decode(BytesIO(progressive_jpeg(64, repeats=100)), options=PhotoOptions()).width == 64


def test_file_changed_after_listing_raises(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (64, 64), "red").save(path)
    listed = sha256(path.read_bytes()).hexdigest()
    assert read_photo(path, options=PhotoOptions(), sha256=listed).width == 64
    Image.new("RGB", (64, 64), "blue").save(path)
    with pytest.raises(PhotoError, match="changed: the file is not the one that was listed"):
        read_photo(path, options=PhotoOptions(), sha256=listed)
