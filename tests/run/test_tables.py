import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.run import tables as records
from pipeline.run.tables import FACES, LABELS, PHOTOS, check_account, read_frame, schema, to_table, write_table

TABLES = {"photos": PHOTOS, "faces": FACES, "labels": LABELS}
STATUSES = ("ok", "failed", "excluded")


def test_what_is_written_is_what_is_read(tmp_path):
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
def test_an_empty_table_has_its_columns(columns):
    table = to_table([], columns)
    assert table.num_rows == 0
    assert table.schema == schema(columns)


def test_a_column_that_the_table_lacks_is_an_error():
    with pytest.raises(KeyError, match="does not have: colour, size"):
        to_table([{"photo": "a", "size": 1}, {"colour": 2}], PHOTOS)


def test_a_write_that_fails_leaves_the_old_table_whole(tmp_path, monkeypatch):
    path = tmp_path / "photos.parquet"
    write_table(to_table([{"photo": "old"}], PHOTOS), path)

    def half_a_file(table, where, **options):
        where.write_bytes(b"PAR1")
        raise OSError("no space left")

    monkeypatch.setattr(pq, "write_table", half_a_file)
    with pytest.raises(OSError, match="no space"):
        write_table(to_table([{"photo": "new"}], PHOTOS), path)
    assert read_frame(path)["photo"].tolist() == ["old"]


@given(st.lists(st.sampled_from(STATUSES)))
def test_everything_planned_is_accounted_for(statuses):
    counts = check_account(planned=len(statuses), statuses=iter(statuses), stage="faces")
    assert counts == {"planned": len(statuses)} | {status: statuses.count(status) for status in STATUSES}


@given(st.lists(st.sampled_from(STATUSES)), st.integers(-3, 3).filter(bool))
def test_what_was_lost_or_made_up_on_the_way_is_an_error(statuses, difference):
    with pytest.raises(AssertionError, match=r"stage faces: .* planned"):
        check_account(planned=len(statuses) + difference, statuses=statuses, stage="faces")


def test_an_unknown_status_is_an_error():
    with pytest.raises(KeyError):
        check_account(planned=1, statuses=["fine"], stage="faces")


def test_every_column_has_a_type_that_arrow_knows():
    tables = [value for name, value in vars(records).items() if name.isupper() and isinstance(value, dict)]
    assert len(tables) >= 5
    for columns in tables:
        assert schema(columns).names == list(columns)
