import json
import multiprocessing
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.run.engine import peak_mib
from pipeline.run.files import digest
from pipeline.run.folder import Run, chunks_of, is_locked
from pipeline.run.record import SCHEMA_VERSION, RunError, provenance
from pipeline.run.tables import write_joined

VERSION_1 = Path(__file__).with_name("version_1_run.json")
COLUMNS = {"photo": "string", "value": "double", "status": "string"}
ROWS = [{"photo": f"p{number}", "value": float(number)} for number in range(11)]
CHUNKS = chunks_of(ROWS, size=3)


class Killed(BaseException):
    pass


class Worker:
    """Doubles values; dies before its ``dies_at``-th chunk, and remembers what it did."""

    def __init__(self, dies_at=None):
        self.dies_at, self.done, self.advanced = dies_at, [], 0

    def __call__(self, chunk, step):
        if self.dies_at == len(self.done):
            raise Killed
        self.done.append([row["photo"] for row in chunk])
        return [{"photo": row["photo"], "value": 2 * row["value"], "status": "ok"} for row in chunk]

    def advance(self, count):
        self.advanced += count


def work_through(folder, worker, *, fingerprint="f", chunks=CHUNKS):
    run = Run(folder)
    run.note()
    parts = run.parts("doubling", chunks, fingerprint=fingerprint, columns=COLUMNS, work=worker, advance=worker.advance)
    write_joined(parts, folder / "doubled.parquet", COLUMNS)
    return pq.read_table(folder / "doubled.parquet")


def record_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


# Work in chunks


@pytest.mark.parametrize("dies_at", range(len(CHUNKS) + 1))
def test_killed_work_goes_on_where_it_stopped_and_ends_alike(tmp_path, dies_at):
    whole = work_through(tmp_path / "whole", Worker())
    first, second = Worker(dies_at), Worker()
    if dies_at < len(CHUNKS):
        with pytest.raises(Killed):
            work_through(tmp_path / "killed", first)
    else:
        work_through(tmp_path / "killed", first)
    resumed = work_through(tmp_path / "killed", second)
    assert resumed.equals(whole)
    assert first.done + second.done == [[row["photo"] for row in chunk] for chunk in CHUNKS]
    assert second.advanced == len(ROWS)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 4), max_size=6))
def test_however_often_it_is_killed_nothing_is_done_twice(tmp_path_factory, deaths):
    folder, done = tmp_path_factory.mktemp("run"), []
    for dies_at in deaths:
        worker = Worker(dies_at)
        with suppress(Killed):
            work_through(folder, worker)
        done += worker.done
    last = Worker()
    assert work_through(folder, last)["value"].to_pylist() == [2 * row["value"] for row in ROWS]
    done += last.done
    assert sorted(photo for chunk in done for photo in chunk) == sorted(row["photo"] for row in ROWS)


def test_other_inputs_use_no_part_of_an_old_result(tmp_path):
    work_through(tmp_path, Worker())
    other = Worker()
    work_through(tmp_path, other, fingerprint="g")
    assert len(other.done) == len(CHUNKS)
    changed, rows = Worker(), [*ROWS[:4], {"photo": "p4", "value": -1.0}, *ROWS[5:]]
    table = work_through(tmp_path, changed, chunks=chunks_of(rows, size=3))
    assert changed.done == [["p3", "p4", "p5"]]
    assert table["value"].to_pylist()[4] == -2.0


def test_a_part_that_was_half_written_is_made_again(tmp_path):
    with pytest.raises(Killed):
        work_through(tmp_path, Worker(dies_at=2))
    for part in sorted((tmp_path / "parts" / "doubling").iterdir())[:1]:
        part.rename(part.with_name(part.name + ".partial"))
    again = Worker()
    work_through(tmp_path, again)
    assert len(again.done) == len(CHUNKS) - 1


def test_no_work_is_an_empty_table(tmp_path):
    table = work_through(tmp_path, Worker(), chunks=[])
    assert table.num_rows == 0
    assert table.schema.names == list(COLUMNS)


def test_a_result_with_the_wrong_columns_is_an_error(tmp_path):
    worker = Worker()
    with pytest.raises(KeyError, match="colour"):
        Run(tmp_path).parts(
            "x", CHUNKS, fingerprint="f", columns=COLUMNS, work=lambda *_: [{"colour": 1}], advance=worker.advance
        )


def test_what_the_work_counts_itself_is_not_counted_twice(tmp_path):
    counts = []

    def work(chunk, step):
        step(0.5)
        step(1)
        return []

    run = Run(tmp_path)
    for _ in range(2):  # the second time from what is kept
        run.parts("x", CHUNKS, fingerprint="f", columns=COLUMNS, work=work, advance=counts.append)
        assert sum(counts) == len(ROWS)
        counts.clear()


def test_parts_are_removed_once_their_table_is_written(tmp_path):
    run = Run(tmp_path / "run")
    worker = Worker()
    run.parts("doubling", CHUNKS, fingerprint="f", columns=COLUMNS, work=worker, advance=worker.advance)
    assert run.path("parts").exists()
    for _ in range(2):  # nothing to remove is no error
        run.drop_parts("doubling")
        assert not run.path("parts").exists()


@given(st.lists(st.integers(), max_size=30), st.integers(1, 8))
def test_chunks_hold_every_row_once_in_order(numbers, size):
    rows = [{"number": number} for number in numbers]
    chunks = chunks_of(rows, size=size)
    assert [row for chunk in chunks for row in chunk] == rows
    assert all(len(chunk) == size for chunk in chunks[:-1])
    assert all(chunks)


# Stages


def stop_in_stage(run, error, **counted):
    with run.stage("faces", "one") as counts:
        counts |= counted
        time.sleep(0.03)
        raise error


def test_a_finished_stage_is_known_by_its_inputs(tmp_path):
    run = Run(tmp_path / "run")
    assert not run.is_done("faces", "one")
    with run.stage("faces", "one") as counts:
        counts |= {"planned": 3, "ok": 3}
    for opened in (run, Run(tmp_path / "run")):
        assert opened.is_done("faces", "one")
        assert not opened.is_done("faces", "two")
        assert not opened.is_done("query", "one")
    stage = record_of(tmp_path / "run")["stages"]["faces"]
    assert stage["state"] == "done"
    assert stage["counts"] == {"planned": 3, "ok": 3}
    assert stage["finished"]
    assert stage["peak_mib"] > 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_stage_that_stops_is_not_done(tmp_path, error):
    run = Run(tmp_path)
    with pytest.raises(error):
        stop_in_stage(run, error, ok=2)
    assert not Run(tmp_path).is_done("faces", "one")
    stage = record_of(tmp_path)["stages"]["faces"]
    assert (stage["state"], stage["counts"], stage["finished"]) == ("stopped", {"ok": 2}, None)


def test_a_stage_done_again_from_other_inputs_is_not_done_meanwhile(tmp_path):
    run = Run(tmp_path)
    with run.stage("faces", "one"):
        pass
    with run.stage("faces", "two"):
        assert not Run(tmp_path).is_done("faces", "one")
        assert not Run(tmp_path).is_done("faces", "two")
    assert Run(tmp_path).is_done("faces", "two")


def test_seconds_add_up_over_restarts_of_the_same_stage(tmp_path):
    for _ in range(2):
        run = Run(tmp_path)
        with pytest.raises(Killed):
            stop_in_stage(run, Killed)
    assert record_of(tmp_path)["stages"]["faces"]["seconds"] >= 0.06
    with Run(tmp_path).stage("faces", "two"):
        pass
    assert record_of(tmp_path)["stages"]["faces"]["seconds"] < 0.06


def test_the_record_is_whole_after_every_step(tmp_path):
    run = Run(tmp_path)
    run.note(settings_given={"sweep": {"reach": 2.0}, "where": tmp_path})
    assert record_of(tmp_path)["settings_given"] == {"sweep": {"reach": 2.0}, "where": str(tmp_path)}
    assert record_of(tmp_path)["schema"] == SCHEMA_VERSION
    created = record_of(tmp_path)["created"]
    with run.stage("photos", "one"):
        assert record_of(tmp_path)["stages"]["photos"]["state"] == "running"
    with run.stage("faces", "two"):
        assert set(record_of(tmp_path)["stages"]) == {"photos", "faces"}
    final = record_of(tmp_path)
    assert final["settings_given"]["sweep"] == {"reach": 2.0}
    assert final["created"] == created
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_a_stage_whose_own_file_is_gone_or_changed_is_not_done(tmp_path, damage):
    run = Run(tmp_path)
    with run.stage("faces", "one", outputs=["faces.parquet"]):
        (tmp_path / "faces.parquet").write_bytes(b"rows")
    assert Run(tmp_path).is_done("faces", "one")
    damage(tmp_path / "faces.parquet")
    assert not Run(tmp_path).is_done("faces", "one")
    assert Run(tmp_path).damaged("faces") == ["faces.parquet"]


# Tables of results


def test_a_table_of_results_comes_back_as_it_was_written(tmp_path):
    frame = pd.DataFrame({"label": ["007", "smile"], "slope": [0.1, 0.2]})
    Run(tmp_path).write_csv("slopes", frame)
    pd.testing.assert_frame_equal(Run(tmp_path).read_csv("slopes"), frame)


def test_a_table_of_a_run_of_version_1_keeps_its_text(tmp_path):
    (tmp_path / "run.json").write_bytes(VERSION_1.read_bytes())
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/slopes.csv").write_text("adapter,label,slope\n1,007,0.5\n")
    assert Run(tmp_path).read_csv("slopes").values.tolist() == [["1", "007", 0.5]]


def test_a_table_that_is_missing_or_damaged_is_named_with_what_to_do(tmp_path):
    run = Run(tmp_path)
    with pytest.raises(RunError, match=r"no table 'slopes' .*counterslope report"):
        run.read_csv("slopes")
    run.write_csv("slopes", pd.DataFrame({"label": ["smile"], "slope": [0.1]}))
    for content in (b"label,slope\nsmile,far\n", b'label,slope\n"smile,0.1\n', b"\xff\xfe\x00"):
        (tmp_path / "tables/slopes.csv").write_bytes(content)
        with pytest.raises(RunError, match=r"slopes.csv is damaged .*counterslope report"):
            run.read_csv("slopes")


# The folder


def _hold(folder, held, release):
    with Run(folder).locked():
        held.set()
        release.wait(20)


def test_another_process_is_refused_while_one_works(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, release))
    other.start()
    try:
        assert held.wait(20)
        with pytest.raises(RunError, match="another process is working on"), Run(tmp_path).locked():
            pass
    finally:
        release.set()
        other.join(20)
    with Run(tmp_path).locked():
        pass


def test_a_second_handle_is_refused_and_the_lock_is_given_back(tmp_path):
    first, second = Run(tmp_path), Run(tmp_path)
    with first.locked(), pytest.raises(RunError, match="another process"), second.locked():
        pass
    with pytest.raises(Killed), first.locked():
        raise Killed
    with second.locked():
        pass


def test_a_folder_that_cannot_be_locked_says_so(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(RunError, match="cannot be written"), Run(tmp_path).locked():
        pass
    assert not is_locked(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be written|not a run"), Run(tmp_path / "file" / "run").locked():
        pass


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.docx").write_text("years of work")
    with pytest.raises(RunError, match="is not a run: name another folder with --out"):
        Run(tmp_path)
    with pytest.raises(RunError, match="is not a run"):
        Run(tmp_path / "thesis.docx")


def test_an_empty_or_new_folder_becomes_a_run(tmp_path):
    Run(tmp_path)
    Run(tmp_path / "new" / "deeper").note(precision="float32")
    assert record_of(tmp_path / "new" / "deeper")["precision"] == "float32"


def test_a_run_killed_before_its_first_record_can_be_begun_again(tmp_path):
    with Run(tmp_path).locked():
        pass
    (tmp_path / "run.json.partial").write_text("{")
    Run(tmp_path).note(precision="float32")
    assert record_of(tmp_path)["precision"] == "float32"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": 99}', "written in schema 99, this program reads up to 2: update counterslope"),
        ("{}", "schema None"),
        ("[1]", "schema None"),
        ('{"schema": 1', "run.json cannot be read"),
    ],
)
def test_a_record_of_another_kind_is_refused(tmp_path, content, message):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=message):
        Run(tmp_path)
    assert (tmp_path / "run.json").read_text() == content


# Fingerprints and provenance


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_like)
def test_a_fingerprint_does_not_depend_on_the_order_of_keys(content):
    assert digest({"a": content, "b": 1}) == digest({"b": 1, "a": content})
    assert len(digest(content)) == 16
    int(digest(content), 16)


@given(json_like, json_like)
def test_different_inputs_have_different_fingerprints(first, second):
    if json.dumps(first, sort_keys=True) != json.dumps(second, sort_keys=True):
        assert digest(first) != digest(second)


def test_it_is_recorded_what_made_a_run():
    facts = provenance()
    assert facts["python"].startswith("3.")
    assert facts["packages"]["pyarrow"] == pa.__version__
    assert {"git_commit", "git_dirty"} <= set(facts)
    json.dumps(facts)
    assert 1 < peak_mib() < 1e6
