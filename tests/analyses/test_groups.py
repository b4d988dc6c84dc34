import pandas as pd
import pytest

from pipeline.analyses.inputs import check_column, clusters_of, groups_of
from pipeline.config.options import ConfigError

PHOTOS = pd.DataFrame(
    {
        "photo": ["ceo/1.jpg", "ceo/2.jpg", "3.jpg"],
        "status": ["ok"] * 3,
        "person": [7.0, 7.0, None],
        "keyword": ["ceo", None, "nurse"],
    }
)
FACES = pd.DataFrame(
    {
        "photo": ["ceo/1.jpg", "3.jpg"],
        "status": ["ok", "ok"],
        "gender": [-0.4, 0.9],
        **{f"race_{race}": [0.1, 0.2] for race in ("White", "Asian", "Indian", "Others")},
        "race_Black": [0.5, 0.6],
    }
)


def test_a_column_groups_and_what_it_does_not_know_has_no_group():
    assert groups_of(PHOTOS, "keyword") == {"ceo/1.jpg": "ceo", "3.jpg": "nurse"}


def test_folders_and_perceived_groups_need_no_column():
    assert groups_of(PHOTOS, "folder") == {"ceo/1.jpg": "ceo", "ceo/2.jpg": "ceo", "3.jpg": "."}
    expected = {"ceo/1.jpg": "feminine, Black", "3.jpg": "masculine, Black"}
    assert groups_of(PHOTOS, "perceived", faces=FACES) == expected


def test_a_manifest_s_own_column_comes_first():
    own = groups_of(PHOTOS.assign(folder="mine"), "folder")
    assert set(own.values()) == {"mine"}


def test_a_photo_of_nobody_known_is_a_cluster_of_its_own():
    clusters = clusters_of(PHOTOS, "person")
    assert clusters["ceo/1.jpg"] == clusters["ceo/2.jpg"] != clusters["3.jpg"]
    assert clusters_of(PHOTOS, None) is None


def test_an_unknown_column_is_named_with_those_that_there_are():
    with pytest.raises(ConfigError, match="no column 'people' to cluster by: the manifest has 'person', 'keyword'"):
        clusters_of(PHOTOS, "people")
    with pytest.raises(ConfigError, match="also 'folder'"):
        groups_of(PHOTOS, "perceived")
    with pytest.raises(ConfigError, match="no column but photo"):
        check_column(PHOTOS[["photo", "status"]], "status", purpose="group")
