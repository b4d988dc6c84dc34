import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.run import tables as tables_module
from pipeline.run.record import RunError
from pipeline.run.tables import (
    FACES,
    LABELS,
    PHOTOS,
    check_account,
    column_types,
    frame_from_csv,
    frame_to_csv,
    read_frame,
    read_frames,
    schema,
    to_table,
    write_table,
)

TABLES = {"photos": PHOTOS, "faces": FACES, "labels": LABELS}
STATUSES = ("ok", "failed", "excluded")


def test_table_round_trip(tmp_path):
    rows = [
        {"photo": "a ü.jpg", "status": "ok", "landmarks": [1.0, 2.5], "faces_found": 2, "score": 0.25},
        {"photo": "b.jpg", "status": "failed", "reason": "cannot be read"},
    ]
    write_table(to_table(rows, FACES), tmp_path / "deep" / "faces.parquet")
    frame = read_frame(tmp_path / "deep" / "faces.parquet")
    assert list(frame.columns) == list(FACES)
    assert frame["photo"].tolist() == ["a ü.jpg", "b.jpg"]
    assert frame["landmarks"][0].tolist() == [1.0, 2.5]
    assert frame["reason"][1] == "cannot be read"
    assert frame.loc[1, ["landmarks", "score", "gender"]].isna().all()
    assert list(read_frame(tmp_path / "deep" / "faces.parquet", columns=["photo"]).columns) == ["photo"]


@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
def test_empty_table_has_its_columns(columns):
    table = to_table([], columns)
    assert table.num_rows == 0
    assert table.schema == schema(columns)


def test_unknown_columns_raise():
    with pytest.raises(KeyError, match="does not have: colour, size"):
        to_table([{"photo": "a", "size": 1}, {"colour": 2}], PHOTOS)


def test_failed_write_keeps_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "photos.parquet"
    write_table(to_table([{"photo": "old"}], PHOTOS), path)

    def half_a_file(table, where, **options):
        where.write_bytes(b"PAR1")
        raise OSError("no space left")

    monkeypatch.setattr(pq, "write_table", half_a_file)
    with pytest.raises(OSError, match="no space"):
        write_table(to_table([{"photo": "new"}], PHOTOS), path)
    assert read_frame(path)["photo"].tolist() == ["old"]


@pytest.mark.parametrize("read", [read_frame, lambda path: list(read_frames(path))])
def test_missing_or_damaged_table_raises_in_one_line(tmp_path, read):
    path = tmp_path / "photos.parquet"
    with pytest.raises(RunError, match=r"photos\.parquet is missing"):
        read(path)
    write_table(to_table([{"photo": str(number)} for number in range(1000)], PHOTOS), path)
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-10], b"PAR1" + whole[100:]):
        path.write_bytes(content)
        with pytest.raises(RunError, match=r"photos\.parquet is damaged") as caught:
            read(path)
        assert "\n" not in str(caught.value)


@given(st.lists(st.sampled_from(STATUSES)))
def test_check_account_counts_statuses(statuses):
    counts = check_account(planned=len(statuses), statuses=iter(statuses), stage="faces")
    assert counts == {"planned": len(statuses)} | {status: statuses.count(status) for status in STATUSES}


@given(st.lists(st.sampled_from(STATUSES)), st.integers(-3, 3).filter(bool))
def test_check_account_raises_for_lost_or_extra_rows(statuses, difference):
    with pytest.raises(AssertionError, match=r"stage faces: .* planned"):
        check_account(planned=len(statuses) + difference, statuses=statuses, stage="faces")


def test_unknown_status_raises():
    with pytest.raises(KeyError):
        check_account(planned=1, statuses=["fine"], stage="faces")


def test_columns_of_all_tables_have_arrow_types():
    tables = [value for name, value in vars(tables_module).items() if name.isupper() and isinstance(value, dict)]
    assert len(tables) >= 5
    for columns in tables:
        assert schema(columns).names == list(columns)


# Result tables in CSV


def read_back(frame):
    return frame_from_csv(frame_to_csv(frame), column_types(frame))


def test_csv_round_trip_keeps_types():
    frame = pd.DataFrame(
        {
            "label": ["007", "NA", ""],
            "month": ["01", "02", "03"],
            "photos": [1, 2, 3],
            "slope": [1.0, 2.0, 3.0],
            "p": [0.1, 1e-300, float("nan")],
            "high": [float("inf"), 1 / 3, -0.0],
            "estimable": [True, False, True],
            "nothing": [None, None, None],
        }
    )
    back = read_back(frame)
    pd.testing.assert_frame_equal(back.drop(columns="nothing"), frame.drop(columns="nothing"), check_exact=True)
    assert back["nothing"].isna().all()


def test_csv_round_trip_of_integers_with_missing_values():
    back = read_back(pd.DataFrame({"photos": [3, None], "rows": pd.array([3, None], dtype="Int64")}))
    assert back["photos"].iloc[0] == back["rows"].iloc[0] == 3
    assert back.isna().sum().tolist() == [1, 1]


def test_empty_csv_has_its_columns():
    assert list(read_back(pd.DataFrame(columns=["label", "slope"])).columns) == ["label", "slope"]


@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])), min_size=1), st.floats(allow_nan=False))
def test_csv_round_trip_of_labels_and_numbers(labels, number):
    frame = pd.DataFrame({"label": [*labels, "NA", "007", "'=x", "null"], "slope": number})
    back = read_back(frame)
    assert list(back["label"]) == list(frame["label"])
    assert list(back["slope"]) == list(frame["slope"])


def test_csv_round_trip_of_missing_values():
    frame = read_back(pd.DataFrame({"name": ["a", "b"], "passed": [True, None], "figure": [1.0, None]}))
    assert frame["passed"][0] is True
    assert pd.isna(frame["passed"][1])
    assert pd.isna(frame["figure"][1])
