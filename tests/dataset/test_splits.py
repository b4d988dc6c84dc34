import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.options import ConfigError
from pipeline.dataset.layout import keys_of, split_of

SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
parts = st.lists(st.integers(0, 20), min_size=2, max_size=3).filter(any)


@given(st.text(), st.integers(0, 10**6), parts)
def test_every_photo_has_one_split_that_is_not_empty(key, seed, sizes):
    shares = {name: size / sum(sizes) for name, size in zip(SHARES, sizes, strict=False)}
    split = split_of(key, shares=shares, seed=seed)
    assert shares[split] > 0
    assert split == split_of(key, shares=shares, seed=seed)


def test_the_shares_are_kept_and_the_seed_matters():
    keys = [f"photo {number}" for number in range(4000)]
    one, other = (pd.Series([split_of(key, shares=SHARES, seed=seed) for key in keys]) for seed in (0, 1))
    for split, share in SHARES.items():
        # Four standard deviations of a binomial share.
        assert (one == split).mean() == pytest.approx(share, abs=4 * (share * (1 - share) / 4000) ** 0.5)
    assert 0.3 < (one == other).mean() < 0.8


def photos(**columns):
    return pd.DataFrame({"photo": ["a", "b", "c"], "sha256": ["0a", "0b", "0c"]} | columns)


def test_photos_of_one_person_are_split_by_the_person():
    keys = keys_of(photos(person=["Ann", "Ann", None]), cluster="person")
    assert keys["a"] == keys["b"] != keys["c"]
    # A person's name is no photo's hash, and a photo without one is split by itself.
    assert keys["c"] == keys_of(photos(), cluster=None)["c"]


def test_a_photo_is_split_by_its_bytes_not_by_its_name_or_neighbours():
    renamed = photos().assign(photo=["x", "y", "z"])
    assert list(keys_of(renamed, cluster=None).values()) == list(keys_of(photos(), cluster=None).values())


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"there is no column 'persn' to split by: the manifest has 'person'"):
        keys_of(photos(person=["Ann", "Ann", None]), cluster="persn")
