import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.options import ConfigError
from pipeline.dataset.layout import keys_of, split_of

SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}
parts = st.lists(st.integers(0, 20), min_size=2, max_size=3).filter(any)


@given(st.text(), st.integers(0, 10**6), parts)
def test_every_photo_has_one_split_with_a_share(key, seed, sizes):
    shares = {name: size / sum(sizes) for name, size in zip(SHARES, sizes, strict=False)}
    split = split_of(key, shares=shares, seed=seed)
    assert shares[split] > 0
    assert split == split_of(key, shares=shares, seed=seed)


def test_splits_have_their_shares_and_depend_on_the_seed():
    keys = [f"photo {number}" for number in range(4000)]
    one, other = (pd.Series([split_of(key, shares=SHARES, seed=seed) for key in keys]) for seed in (0, 1))
    for split, share in SHARES.items():
        # Four standard deviations of a binomial share.
        assert (one == split).mean() == pytest.approx(share, abs=4 * (share * (1 - share) / 4000) ** 0.5)
    assert 0.3 < (one == other).mean() < 0.8


def photos(**columns):
    return pd.DataFrame({"photo": ["a", "b", "c"], "sha256": ["0a", "0b", "0c"]} | columns)


def test_photos_of_one_person_share_a_key():
    keys = keys_of(photos(person=["Ann", "Ann", None]), cluster="person")
    assert keys["a"] == keys["b"] != keys["c"]
    # A photo without a person is split by itself.
    assert keys["c"] == keys_of(photos(), cluster=None)["c"]


def test_key_of_a_photo_depends_on_its_bytes_only():
    renamed = photos().assign(photo=["x", "y", "z"])
    assert list(keys_of(renamed, cluster=None).values()) == list(keys_of(photos(), cluster=None).values())


def test_missing_column_is_named():
    with pytest.raises(ConfigError, match=r"there is no column 'persn' to split by: the manifest has 'person'"):
        keys_of(photos(person=["Ann", "Ann", None]), cluster="persn")
