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
from pipeline.run.folder import Run, chunks_of
from pipeline.run.locks import is_locked
from pipeline.run.record import SCHEMA_VERSION, RunError, provenance
from pipeline.run.tables import write_joined

VERSION_1 = Path(__file__).with_name("version_1_run.json")
COLUMNS = {"photo": "string", "value": "double", "status": "string"}
ROWS = [{"photo": f"p{number}", "value": float(number)} for number in range(11)]
CHUNKS = chunks_of(ROWS, size=3)


class Killed(BaseException):
    pass


class DoublingWorker:
    """Doubles values, records its chunks, and raises before the ``dies_at``-th chunk."""

    def __init__(self, dies_at=None):
        self.dies_at, self.done, self.advanced = dies_at, [], 0

    def __call__(self, chunk, step):
        if self.dies_at == len(self.done):
            raise Killed
        self.done.append([row["photo"] for row in chunk])
        return [{"photo": row["photo"], "value": 2 * row["value"], "status": "ok"} for row in chunk]

    def advance(self, count):
        self.advanced += count


def run_worker(folder, worker, *, fingerprint="f", chunks=CHUNKS):
    run = Run(folder)
    run.note()
    parts = run.parts("doubling", chunks, fingerprint=fingerprint, columns=COLUMNS, work=worker, advance=worker.advance)
    write_joined(parts, folder / "doubled.parquet", COLUMNS)
    return pq.read_table(folder / "doubled.parquet")


def record_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


# Chunks


@pytest.mark.parametrize("dies_at", range(len(CHUNKS) + 1))
def test_killed_work_resumes_at_the_next_chunk(tmp_path, dies_at):
    whole = run_worker(tmp_path / "whole", DoublingWorker())
    first, second = DoublingWorker(dies_at), DoublingWorker()
    if dies_at < len(CHUNKS):
        with pytest.raises(Killed):
            run_worker(tmp_path / "killed", first)
    else:
        run_worker(tmp_path / "killed", first)
    resumed = run_worker(tmp_path / "killed", second)
    assert resumed.equals(whole)
    assert first.done + second.done == [[row["photo"] for row in chunk] for chunk in CHUNKS]
    assert second.advanced == len(ROWS)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 4), max_size=6))
def test_no_chunk_is_repeated_after_any_number_of_kills(tmp_path_factory, deaths):
    folder, done = tmp_path_factory.mktemp("run"), []
    for dies_at in deaths:
        worker = DoublingWorker(dies_at)
        with suppress(Killed):
            run_worker(folder, worker)
        done += worker.done
    last = DoublingWorker()
    assert run_worker(folder, last)["value"].to_pylist() == [2 * row["value"] for row in ROWS]
    done += last.done
    assert sorted(photo for chunk in done for photo in chunk) == sorted(row["photo"] for row in ROWS)


def test_parts_of_other_inputs_are_not_reused(tmp_path):
    run_worker(tmp_path, DoublingWorker())
    other = DoublingWorker()
    run_worker(tmp_path, other, fingerprint="g")
    assert len(other.done) == len(CHUNKS)
    changed, rows = DoublingWorker(), [*ROWS[:4], {"photo": "p4", "value": -1.0}, *ROWS[5:]]
    table = run_worker(tmp_path, changed, chunks=chunks_of(rows, size=3))
    assert changed.done == [["p3", "p4", "p5"]]
    assert table["value"].to_pylist()[4] == -2.0


def test_partially_written_part_is_made_again(tmp_path):
    with pytest.raises(Killed):
        run_worker(tmp_path, DoublingWorker(dies_at=2))
    for part in sorted((tmp_path / "parts" / "doubling").iterdir())[:1]:
        part.rename(part.with_name(part.name + ".partial"))
    again = DoublingWorker()
    run_worker(tmp_path, again)
    assert len(again.done) == len(CHUNKS) - 1


def test_work_without_rows_gives_an_empty_table(tmp_path):
    table = run_worker(tmp_path, DoublingWorker(), chunks=[])
    assert table.num_rows == 0
    assert table.schema.names == list(COLUMNS)


def test_result_with_unknown_columns_raises(tmp_path):
    worker = DoublingWorker()
    options = {"fingerprint": "f", "columns": COLUMNS, "advance": worker.advance}
    with pytest.raises(KeyError, match="colour"):
        Run(tmp_path).parts("x", CHUNKS, work=lambda *_: [{"colour": 1}], **options)


def test_progress_of_the_work_is_not_counted_twice(tmp_path):
    counts = []

    def work(chunk, step):
        step(0.5)
        step(1)
        return []

    run = Run(tmp_path)
    for _ in range(2):  # the second time from the kept parts
        run.parts("x", CHUNKS, fingerprint="f", columns=COLUMNS, work=work, advance=counts.append)
        assert sum(counts) == len(ROWS)
        counts.clear()


def test_drop_parts_removes_parts(tmp_path):
    run = Run(tmp_path / "run")
    worker = DoublingWorker()
    run.parts("doubling", CHUNKS, fingerprint="f", columns=COLUMNS, work=worker, advance=worker.advance)
    assert run.path("parts").exists()
    for _ in range(2):  # the second time there is nothing to remove
        run.drop_parts("doubling")
        assert not run.path("parts").exists()


@given(st.lists(st.integers(), max_size=30), st.integers(1, 8))
def test_chunks_keep_every_row_in_order(numbers, size):
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


def test_finished_stage_is_identified_by_its_fingerprint(tmp_path):
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
def test_stopped_stage_is_not_done(tmp_path, error):
    run = Run(tmp_path)
    with pytest.raises(error):
        stop_in_stage(run, error, ok=2)
    assert not Run(tmp_path).is_done("faces", "one")
    stage = record_of(tmp_path)["stages"]["faces"]
    assert (stage["state"], stage["counts"], stage["finished"]) == ("stopped", {"ok": 2}, None)


def test_restarted_stage_is_not_done_until_it_finishes(tmp_path):
    run = Run(tmp_path)
    with run.stage("faces", "one"):
        pass
    with run.stage("faces", "two"):
        assert not Run(tmp_path).is_done("faces", "one")
        assert not Run(tmp_path).is_done("faces", "two")
    assert Run(tmp_path).is_done("faces", "two")


def test_seconds_add_up_over_restarts_with_the_same_inputs(tmp_path):
    for _ in range(2):
        run = Run(tmp_path)
        with pytest.raises(Killed):
            stop_in_stage(run, Killed)
    assert record_of(tmp_path)["stages"]["faces"]["seconds"] >= 0.06
    with Run(tmp_path).stage("faces", "two"):
        pass
    assert record_of(tmp_path)["stages"]["faces"]["seconds"] < 0.06


def test_record_is_complete_after_every_change(tmp_path):
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
def test_stage_with_a_missing_or_changed_output_is_not_done(tmp_path, damage):
    run = Run(tmp_path)
    with run.stage("faces", "one", outputs=["faces.parquet"]):
        (tmp_path / "faces.parquet").write_bytes(b"rows")
    assert Run(tmp_path).is_done("faces", "one")
    damage(tmp_path / "faces.parquet")
    assert not Run(tmp_path).is_done("faces", "one")
    assert Run(tmp_path).damaged("faces") == ["faces.parquet"]


# Result tables


def test_result_table_round_trip(tmp_path):
    frame = pd.DataFrame({"label": ["007", "smile"], "slope": [0.1, 0.2]})
    Run(tmp_path).write_csv("slopes", frame)
    pd.testing.assert_frame_equal(Run(tmp_path).read_csv("slopes"), frame)


def test_result_table_of_a_version_1_run_keeps_text(tmp_path):
    (tmp_path / "run.json").write_bytes(VERSION_1.read_bytes())
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/slopes.csv").write_text("adapter,label,slope\n1,007,0.5\n")
    assert Run(tmp_path).read_csv("slopes").values.tolist() == [["1", "007", 0.5]]


def test_missing_or_damaged_result_table_raises_with_advice(tmp_path):
    run = Run(tmp_path)
    with pytest.raises(RunError, match=r"no table 'slopes' .*counterslope report"):
        run.read_csv("slopes")
    run.write_csv("slopes", pd.DataFrame({"label": ["smile"], "slope": [0.1]}))
    for content in (b"label,slope\nsmile,far\n", b'label,slope\n"smile,0.1\n', b"\xff\xfe\x00"):
        (tmp_path / "tables/slopes.csv").write_bytes(content)
        with pytest.raises(RunError, match=r"slopes.csv is damaged .*counterslope report"):
            run.read_csv("slopes")


# Folders and locks


def _hold_lock(folder, held, release):
    with Run(folder).locked():
        held.set()
        release.wait(20)


def test_lock_excludes_other_processes(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold_lock, args=(tmp_path, held, release))
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


def test_lock_excludes_other_handles_and_is_released(tmp_path):
    first, second = Run(tmp_path), Run(tmp_path)
    with first.locked(), pytest.raises(RunError, match="another process"), second.locked():
        pass
    with pytest.raises(Killed), first.locked():
        raise Killed
    with second.locked():
        pass


def test_folder_that_cannot_be_locked_raises(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(RunError, match="cannot be written"), Run(tmp_path).locked():
        pass
    assert not is_locked(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be written|not a run"), Run(tmp_path / "file" / "run").locked():
        pass


def test_folder_with_other_files_raises(tmp_path):
    (tmp_path / "thesis.docx").write_text("years of work")
    with pytest.raises(RunError, match="is not a run: name another folder with --out"):
        Run(tmp_path)
    with pytest.raises(RunError, match="is not a run"):
        Run(tmp_path / "thesis.docx")


def test_empty_or_new_folder_becomes_a_run(tmp_path):
    Run(tmp_path)
    Run(tmp_path / "new" / "deeper").note(precision="float32")
    assert record_of(tmp_path / "new" / "deeper")["precision"] == "float32"


def test_run_killed_before_its_first_record_can_be_restarted(tmp_path):
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
def test_invalid_record_raises_and_is_kept(tmp_path, content, message):
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
def test_digest_is_invariant_to_key_order(content):
    assert digest({"a": content, "b": 1}) == digest({"b": 1, "a": content})
    assert len(digest(content)) == 16
    int(digest(content), 16)


@given(json_like, json_like)
def test_digests_of_different_inputs_differ(first, second):
    if json.dumps(first, sort_keys=True) != json.dumps(second, sort_keys=True):
        assert digest(first) != digest(second)


def test_provenance_is_recorded():
    facts = provenance()
    assert facts["python"].startswith("3.")
    assert facts["packages"]["pyarrow"] == pa.__version__
    assert {"git_commit", "git_dirty"} <= set(facts)
    json.dumps(facts)
    assert 1 < peak_mib() < 1e6
