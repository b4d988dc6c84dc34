import json
import math
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from counting_adapter import CountingAdapter, write_images
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.answers import from_answer
from adapters.base import Label, RawAnswer
from pipeline.querying.client import query_adapter
from pipeline.querying.labels import derive, derive_blocks, write_derived
from pipeline.querying.store import Store
from pipeline.run.tables import ANSWERS, COUNTERFACTUALS, LABELS, read_frame, schema, to_table


def _counterfactuals(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    blank = {"attribute": "gender", "arm": "edit", "photo": "p", "status": "ok"}
    return to_table([{**blank, **row} for row in rows], COUNTERFACTUALS).to_pandas()


def _sweep(photo: str, digests: Sequence[str], **more: Any) -> list[dict[str, Any]]:
    return [
        {"photo": photo, "step": k, "value": float(k - 2), "sha256": digest, **more}
        for k, digest in enumerate(digests, start=1)
    ]


def _answer(**labels: float) -> RawAnswer:
    return RawAnswer(body=json.dumps({"labels": list(labels.items())}).encode())


def _rows(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in table.to_pylist()]


def test_label_of_one_step_is_not_returned_at_other_steps():
    frame = _counterfactuals(_sweep("p", ["1", "2", "3"]) + _sweep("q", ["4", "5", "6"]))
    labels = {"1": {"smile": 0.9, "hat": 0.2}, "2": {"hat": 0.3}, "3": {}, "4": {}, "5": {}, "6": {"tie": 0.0}}
    outcomes = {digest: _answer(**scores) for digest, scores in labels.items()}
    derived = derive(frame, outcomes, adapter="a", parse=from_answer)
    assert _rows(derived.labels, "photo", "step", "value", "label", "score", "returned") == [
        ("p", 1, -1.0, "hat", 0.2, True),
        ("p", 1, -1.0, "smile", 0.9, True),
        ("p", 2, 0.0, "hat", 0.3, True),
        ("p", 2, 0.0, "smile", None, False),
        ("p", 3, 1.0, "hat", None, False),
        ("p", 3, 1.0, "smile", None, False),
        ("q", 1, -1.0, "tie", None, False),
        ("q", 2, 0.0, "tie", None, False),
        ("q", 3, 1.0, "tie", 0.0, True),
    ]
    assert derived.labels.schema == schema(LABELS)
    assert derived.answers.schema == schema(ANSWERS)
    assert set(derived.labels["adapter"].to_pylist()) == {"a"}


def test_every_counterfactual_has_an_answer_row_or_reason():
    frame = _counterfactuals(
        [
            *_sweep("p", ["1", "2", "3", "4"]),
            {"photo": "p", "step": 5, "value": 3.0, "status": "failed", "reason": "no mask"},
            {"photo": "p", "step": 6, "value": 4.0, "status": "excluded"},
        ]
    )
    outcomes: dict[str, RawAnswer | str] = {"1": _answer(a=1), "2": RawAnswer(body=b"<html>"), "3": "timed out"}
    derived = derive(frame, outcomes, adapter="a", parse=from_answer)
    rows = _rows(derived.answers, "step", "status", "reason")
    assert [(step, status) for step, status, _ in rows] == [
        (1, "ok"), (2, "failed"), (3, "failed"), (4, "failed"), (5, "excluded"), (6, "excluded"),
    ]  # fmt: skip
    reasons = [reason for _, _, reason in rows]
    assert reasons[0] is None
    assert "not JSON" in reasons[1]
    assert reasons[2:] == ["timed out", "not sent yet", "no mask", "there is no counterfactual"]
    assert _rows(derived.labels, "step", "label") == [(1, "a")], "a step without an answer has no labels"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([Label("a", 1.5)], "must be in 0-1"),
        ([Label("a", math.nan)], "must be in 0-1"),
        ([Label("a", 0.1), Label("a", 0.2)], "occurs twice"),
        ([Label("", 0.1)], "must be text"),
        (None, "the parser failed"),
    ],
)
def test_invalid_parser_result_fails_its_image(labels, message):
    frame = _counterfactuals(_sweep("p", ["1"]))
    derived = derive(frame, {"1": RawAnswer(body=b"")}, adapter="a", parse=lambda _: labels)
    assert message in derived.answers["reason"].to_pylist()[0]
    assert derived.labels.num_rows == 0


def test_image_shared_by_two_sweeps_is_parsed_once():
    parsed: list[bytes] = []

    def parse(answer):
        parsed.append(answer.body)
        return from_answer(answer)

    frame = _counterfactuals(_sweep("p", ["0", "1"]) + _sweep("p", ["0", "2"], attribute="race"))
    outcomes = {"0": _answer(), "1": _answer(a=0.5), "2": _answer(b=0.5)}
    derived = derive(frame, outcomes, adapter="a", parse=parse)
    assert len(parsed) == 3
    assert _rows(derived.labels, "attribute", "step", "label", "returned") == [
        ("gender", 1, "a", False),
        ("gender", 2, "a", True),
        ("race", 1, "b", False),
        ("race", 2, "b", True),
    ]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["gender", "race"]),
        st.sampled_from(["edit", "random"]),
        st.sampled_from("pq"),
        st.integers(1, 4),
        st.sampled_from("0123"),
        st.sampled_from(["ok", "ok", "failed"]),
    ),
    max_size=16,
    unique_by=lambda row: row[:4],
)
OUTCOMES = st.dictionaries(
    st.sampled_from("0123"),
    st.one_of(
        st.just("timed out"),
        st.dictionaries(st.sampled_from(["x", "y", "z"]), st.floats(0, 1)).map(lambda labels: _answer(**labels)),
    ),
)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, outcomes=OUTCOMES)
def test_labels_equal_those_of_a_plain_loop(rows, outcomes):
    names = ("attribute", "arm", "photo", "step", "sha256", "status")
    frame = _counterfactuals([dict(zip(names, row, strict=True), value=float(row[3])) for row in rows])
    derived = derive(frame, outcomes, adapter="a", parse=from_answer)

    answered = {
        row[:4]: {label.name: label.score for label in from_answer(answer)}
        for row in rows
        if row[5] == "ok" and isinstance(answer := outcomes.get(row[4]), RawAnswer)
    }
    in_sweep: dict[tuple[str, str, str], set[str]] = {}
    for place, labels in answered.items():
        in_sweep.setdefault(place[:3], set()).update(labels)
    expected = [
        (*place, label, labels.get(label), label in labels)
        for place, labels in sorted(answered.items())
        for label in sorted(in_sweep[place[:3]])
    ]
    assert _rows(derived.labels, *names[:4], "label", "score", "returned") == expected
    assert derived.answers["status"].to_pylist().count("ok") == len(answered)
    assert derived.answers.num_rows == len(rows)


def test_block_size_does_not_change_the_tables(tmp_path):
    images = write_images(tmp_path / "images", [str(n) for n in range(30)])
    digests = [image.sha256 for image in images]
    frame = _counterfactuals([row for n in range(10) for row in _sweep(f"{n}", digests[3 * n : 3 * n + 3])])
    shuffled = frame.sample(frac=1, random_state=0)
    adapter = CountingAdapter()
    with Store(tmp_path / "responses.sqlite") as store:
        query_adapter(adapter, images[:-1], store)
        frames = []
        for number, (rows, block) in enumerate([(frame, 1000), (frame, 7), (shuffled, 1)]):
            answers, labels = tmp_path / f"answers{number}.parquet", tmp_path / f"labels{number}.parquet"
            blocks = derive_blocks(rows, [adapter], store, block=block)
            account = write_derived(blocks, answers=answers, labels=labels, planned=30)
            assert account == {"planned": 30, "ok": 29, "failed": 1, "excluded": 0}
            frames.append((read_frame(answers), read_frame(labels)))
    for answers_frame, labels_frame in frames[1:]:
        pd.testing.assert_frame_equal(answers_frame, frames[0][0])
        pd.testing.assert_frame_equal(labels_frame, frames[0][1])
    assert not list(tmp_path.glob("*.partial"))


def test_chunked_table_gives_the_same_labels():
    """Large tables have several row groups, whose text columns pandas keeps as chunks."""
    parts = [_sweep("p", ["1", "2", "3"]), _sweep("q", ["4", "5", "6"])]
    outcomes = {digest: _answer(smile=0.1 * int(digest)) for digest in "123456"}
    chunked = pd.concat([_counterfactuals(part) for part in parts], ignore_index=True)
    found, expected = (
        derive(frame, outcomes, adapter="a", parse=from_answer)
        for frame in (chunked, _counterfactuals([row for part in parts for row in part]))
    )
    assert found.answers.equals(expected.answers)
    assert found.labels.equals(expected.labels)


def test_missing_row_keeps_the_old_tables(tmp_path):
    answers, labels = tmp_path / "answers.parquet", tmp_path / "labels.parquet"
    answers.write_text("old")
    block = derive(_counterfactuals(_sweep("p", ["1"])), {}, adapter="a", parse=from_answer)
    with pytest.raises(AssertionError, match="2 planned"):
        write_derived([block], answers=answers, labels=labels, planned=2)
    assert answers.read_text() == "old"
    assert not labels.exists()


def test_no_counterfactuals_give_empty_tables(tmp_path):
    with Store(tmp_path / "responses.sqlite") as store:
        blocks = list(derive_blocks(_counterfactuals([]), [CountingAdapter()], store))
    account = write_derived(blocks, answers=tmp_path / "a.parquet", labels=tmp_path / "l.parquet", planned=0)
    assert account["planned"] == 0
    assert read_frame(tmp_path / "l.parquet").columns.tolist() == list(LABELS)


def test_20_labels_of_7000_images_take_seconds():
    frame = _counterfactuals([row for n in range(1000) for row in _sweep(f"{n:05}", [f"{n} {k}" for k in range(7)])])
    outcomes = {digest: _answer(**{f"l{n}": 0.5 for n in range(20)}) for digest in frame["sha256"]}
    start = time.process_time()
    derived = derive(frame, outcomes, adapter="a", parse=from_answer)
    assert time.process_time() - start < 5
    assert derived.labels.num_rows == 7_000 * 20
