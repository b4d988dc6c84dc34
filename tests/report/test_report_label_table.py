"""The table of labels: the printed rows, and the data for the script."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st
from report_frames import slope_row, slopes_frame

from pipeline.report.label_table import BAR_WIDTH, bar, label_table, scale_of
from pipeline.report.tables import placebo_findings, slope_tables

numbers = st.floats(-3, 3)


def table_of(*rows, arms=None):
    slopes = slopes_frame(*rows)
    (table,) = slope_tables(slopes)
    tested = slopes[(slopes["arm"] == "edit") & slopes["estimable"]]
    tested = tested.sort_values("slope", key=lambda column: -column.abs())
    return label_table(table, tested, placebo_findings(slopes), arms=arms or {}, drawn=())


def test_findings_are_printed_and_all_labels_are_in_the_data():
    table = table_of(
        slope_row("hat", 0.01, p=0.5),
        slope_row("smile", -0.2),
        slope_row("beard", 0.1),
        slope_row("sceptre", reason="too rare"),
    )
    assert [printed.cells[0] for printed in table.rows] == ["smile", "beard"]
    assert [printed.cells[1] for printed in table.rows] == ["−0.200***", "+0.100***"]
    assert [row[2] for row in table.data["rows"]] == ["smile", "beard", "hat"]
    assert [row[0] for row in table.data["rows"]] == [1, 1, 0]


def test_without_findings_the_steepest_labels_are_printed():
    table = table_of(*(slope_row(f"label {n}", 0.001 * n, p=0.5) for n in range(40)))
    assert [printed.cells[0] for printed in table.rows] == [f"label {n}" for n in range(39, 19, -1)]
    assert not any(printed.finding for printed in table.rows)


def test_placebos_have_a_column_and_marks():
    rows = slope_row("smile", -0.2), slope_row("beard", 0.1), slope_row("smile", -0.15, arm="random")
    table = table_of(*rows, arms={"random": {"smile": -0.15}})
    assert [column.heading for column in table.columns if column.kind == "placebo"] == ["Placebo “random”"]
    smile, beard = table.rows
    assert "−0.150" in smile.cells
    assert smile.placebo
    assert not beard.placebo
    assert len(smile.bar["placebos"]) == 1
    assert beard.bar["placebos"] == []


def test_data_keep_infinite_missing_and_small_numbers():
    unbounded = slope_row("hat", 0.5, p=3.21e-9)
    unbounded["slope_low"], unbounded["permutation_p"] = -math.inf, math.nan
    table = table_of(unbounded)
    text = json.dumps(table.data, allow_nan=False, ensure_ascii=False)
    assert '"−∞"' in text
    assert "3.2e-09" in text
    assert "null" in text


@given(numbers, numbers, numbers, st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=5))
def test_bar_marks_are_inside_the_drawing(slope, low, high, others):
    rows = [dict(zip(("slope", "slope_low", "slope_high"), values, strict=True)) for values in others]
    scale = scale_of(rows)
    assert all(scale.low <= row["slope"] <= scale.high for row in rows)
    assert scale.low <= 0 <= scale.high
    drawn = bar({"slope": slope, "slope_low": low, "slope_high": high}, scale)
    assert all(0 <= place <= BAR_WIDTH for place in (drawn["zero"], *drawn["range"], drawn["mark"]))
    assert drawn["beyond"] == (not scale.low <= slope <= scale.high)


def test_bar_without_an_interval_has_no_range():
    assert bar(slope_row("hat", 0.1, width=math.nan), scale_of([slope_row("hat", 0.1)]))["range"] is None
