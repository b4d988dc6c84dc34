from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dataset.layout import MOST_FILES, DatasetLayout, shard_digits


def layout(count, *, steps=7, digits=None):
    hashes = {f"{number}.jpg": sha256(str(number).encode()).hexdigest() for number in range(count)}
    return DatasetLayout(
        hashes=hashes,
        splits=dict.fromkeys(hashes, "train"),
        digits=shard_digits(count) if digits is None else digits,
        steps={"gender": steps},
        editor="fader",
        weights="0" * 64,
    )


def image(of, photo, step, arm="edit"):
    return of.image(photo, attribute="gender", arm=arm, step=step, suffix=".png")


@pytest.mark.parametrize("photos", [10_000, 10_001, 60_000, 110_000])
def test_folders_hold_at_most_10000_files(photos):
    of = layout(photos)
    for place in (lambda photo: image(of, photo, 1), of.mask):
        counts = Counter(place(photo).parent for photo in of.hashes)
        assert max(counts.values()) <= MOST_FILES


@given(st.integers(0, 10**7))
def test_more_photos_have_no_fewer_shards(photos):
    assert shard_digits(photos) <= shard_digits(photos + 1)
    assert photos / 16 ** shard_digits(photos) <= MOST_FILES


def test_file_names_are_unique_and_hide_photo_names():
    of = layout(3)
    names = [image(of, photo, step, arm).name for photo in of.hashes for step in (1, 2) for arm in ("edit", "random")]
    assert len(set(names)) == 12
    assert not any("jpg" in name for name in names)


def test_class_names_sort_by_step():
    of = layout(1, steps=11)
    classes = [image(of, "0.jpg", step).parts[1] for step in range(1, 12)]
    assert classes == sorted(classes)
    assert str(image(layout(1), "0.jpg", 1)).startswith("train/gender-step1/5feceb66ffc86f38-gender-step1")
