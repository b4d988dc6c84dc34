import pandas as pd
import pytest

from pipeline.analyses.inputs import check_column, clusters_of, groups_of
from pipeline.config.options import ConfigError

PHOTOS = pd.DataFrame(
    {
        "photo": ["ceo/1.jpg", "ceo/2.jpg", "3.jpg"], "status": ["ok"] * 3,
        "person": [7.0, 7.0, None], "keyword": ["ceo", None, "nurse"],
    }
)  # fmt: skip
FACES = pd.DataFrame(
    {
        "photo": ["ceo/1.jpg", "3.jpg"], "status": ["ok", "ok"], "gender": [-0.4, 0.9],
        **{f"race_{race}": [0.1, 0.2] for race in ("White", "Asian", "Indian", "Others")},
        "race_Black": [0.5, 0.6],
    }
)  # fmt: skip


def test_photos_with_a_missing_value_have_no_group():
    assert groups_of(PHOTOS, "keyword") == {"ceo/1.jpg": "ceo", "3.jpg": "nurse"}


def test_folder_and_perceived_groups_need_no_column():
    assert groups_of(PHOTOS, "folder") == {"ceo/1.jpg": "ceo", "ceo/2.jpg": "ceo", "3.jpg": "."}
    expected = {"ceo/1.jpg": "feminine, Black", "3.jpg": "masculine, Black"}
    assert groups_of(PHOTOS, "perceived", faces=FACES) == expected


def test_manifest_column_takes_precedence_over_folders():
    assert set(groups_of(PHOTOS.assign(folder="mine"), "folder").values()) == {"mine"}


def test_photo_with_a_missing_cluster_is_its_own_cluster():
    clusters = clusters_of(PHOTOS, "person")
    assert clusters["ceo/1.jpg"] == clusters["ceo/2.jpg"] != clusters["3.jpg"]
    assert clusters_of(PHOTOS, None) is None


def test_unknown_column_raises_with_the_known_columns():
    with pytest.raises(ConfigError, match="no column 'people' to cluster by: the manifest has 'person', 'keyword'"):
        clusters_of(PHOTOS, "people")
    with pytest.raises(ConfigError, match="also 'folder'"):
        groups_of(PHOTOS, "perceived")
    with pytest.raises(ConfigError, match="no column but photo"):
        check_column(PHOTOS[["photo", "status"]], "status", purpose="group")
