"""The report's further sections: what each says of tables as the commands leave them."""

import xml.etree.ElementTree as Xml

import pandas as pd
import pytest
from extra_frames import NAN, amplification_frame, comparison_rows, local_frames, representation_rows

from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.extras.amplification import amplification
from pipeline.report.extras.comparison import adapters_compared, runs_compared
from pipeline.report.extras.intervals import dots_chart
from pipeline.report.extras.local import local
from pipeline.report.extras.power import power
from pipeline.report.extras.predictability import predictability
from pipeline.report.extras.representation import representation
from pipeline.report.extras.subgroups import subgroups
from pipeline.statistics.power import POWER_COLUMNS
from pipeline.statistics.subgroups import DIFFERENCE_COLUMNS

BASE = {"base": "the shares of female in jobs.csv", "level": 0.95}


def only(extra):
    assert len(extra.parts) == 1
    return extra.parts[0]


@pytest.mark.parametrize(
    ("overall", "words"),
    [
        ((0.03, 0.01, 0.05), "lean further the way the base leans: mean over 2 tasks +0.030"),
        ((-0.03, -0.05, -0.01), "lean against the way the base leans"),
        ((0.01, -0.03, 0.05), "No evidence of an amplification larger than 0.050"),
        ((0.01, NAN, NAN), "Without an interval, nothing can be concluded"),
        ((NAN, NAN, NAN), "nothing can be said"),
    ],
)
def test_amplification_is_told_as_evidence(overall, words):
    frame = amplification_frame(("cook", 0.05, 0.01, 0.09), ("drive", -0.02, -0.05, 0.01), overall=overall)
    extra = amplification(frame, BASE, swept=ATTRIBUTES)
    assert words in only(extra).sentences[0]
    assert "the shares of female in jobs.csv" in extra.explanation


def test_amplification_lists_tasks_by_size_the_unknown_last_and_placebos_beside():
    edit = amplification_frame(("drive", -0.02, -0.05, 0.01), ("fly", NAN, NAN, NAN), ("cook", 0.05, 0.01, 0.09))
    placebo = amplification_frame(("cook", 0.01, -0.01, 0.03), arm="random")
    part = only(amplification(pd.concat([edit, placebo]), BASE, swept=ATTRIBUTES))
    (sheet,) = part.sheets
    assert [row[0] for row in sheet.rows] == ["cook", "drive", "fly"]
    assert sheet.columns[-1] == "Placebo “random”"
    assert [row[-1] for row in sheet.rows] == ["+0.010", "–", "–"]
    assert sheet.rows[2][1] == "not in the base"
    assert any("placebo “random”" in sentence for sentence in part.sentences)
    assert "1 of 2 tasks leans further" in part.sentences[1]


def test_a_local_gap_is_evidence_only_where_chance_gives_none_such():
    pictures = {"feminine-1.jpg": b"RIFF"}
    strong = only(local(*local_frames((0.1, 0.4, True), (-0.3, 0.005, True)), pictures=pictures))
    assert "a gap of −0.300 in cluster 1" in strong.sentences[0]
    assert [row[0] for row in strong.sheets[0].rows] == ["1", "0"]
    assert strong.galleries[0].heading == "Cluster 1, gap −0.300, p = 0.005"
    (_, shown), (_, none) = strong.galleries[0].rows
    assert [picture.alt for picture in shown] == ["feminine-1.jpg"]
    assert none == []
    weak = only(local(*local_frames((0.1, 0.4, True), null="fixed"), pictures={}))
    assert weak.sentences[0].startswith("No evidence of local bias")
    assert "p is too small" in weak.sentences[1]
    few = only(local(*local_frames((NAN, NAN, False)), pictures={}))
    assert "nothing can be said" in few.sentences[0]
    assert few.galleries == []


def test_shares_are_drawn_raw_and_corrected():
    part = only(representation(representation_rows(("nurse", 0.9), ("ceo", 0.2)), {"by": "keyword", "notes": ["A."]}))
    assert "keyword “nurse”: 90.0 % of 40 faces perceived as feminine" in part.sentences[0]
    assert "corrected 90.0 %" in part.sentences[0]
    (drawing,) = part.drawings
    assert "as perceived" in drawing.svg
    assert "corrected for the estimator" in drawing.svg
    raw = only(representation(representation_rows(("nurse", 0.9), corrected=False), {"by": "keyword"}))
    assert "not corrected" in raw.sentences[0]
    assert "corrected for" not in raw.drawings[0].svg


def test_classifiers_differ_or_there_is_no_evidence_that_they_do():
    rows = comparison_rows(("beard", -0.1, 0.2, 0.3), ("smile", 0.2, 0.05, 0.001), ("tie", NAN, NAN, NAN))
    part = only(adapters_compared(rows, swept=ATTRIBUTES))
    assert part.heading == "opencv less mine, perceived gender"
    assert "2 labels compared on 90 photos: the slopes of 1 differ" in part.sentences[0]
    assert part.sentences[1].startswith("“smile”: slope +0.300 by opencv, +0.100 by mine; difference +0.200")
    assert [row[0] for row in part.sheets[0].rows] == ["smile", "beard"]
    alike = only(adapters_compared(rows[:1], swept=ATTRIBUTES))
    assert "no evidence of a difference of slopes larger than 0.300" in alike.sentences[0]
    unknown = only(adapters_compared(rows[2:], swept=ATTRIBUTES))
    assert "nothing can be said" in unknown.sentences[0]
    assert not unknown.drawings


def test_two_runs_say_which_photos_were_left_out():
    about = {"other": "june", "only_first": 3, "only_second": 0}
    extra = runs_compared(comparison_rows(("smile", 0.2, 0.05, 0.001)), about, swept=ATTRIBUTES)
    assert "the run “june”" in extra.explanation
    assert extra.caveats[0] == "Not compared, being in this run only: 3 photos."


def test_groups_of_photos_are_compared(row):
    slopes = pd.DataFrame(
        [row("smile", slope) | {"group": group} for group, slope in (("a", 0.2), ("b", -0.1))]
        + [row("hat", reason="too rare") | {"group": "a"}]
    )
    of = {"adapter": "clarity", "attribute": "gender", "arm": "edit", "label": "smile", "group": "a", "other": "b"}
    numbers = {
        "group_slope": 0.2,
        "other_slope": -0.1,
        "difference": 0.3,
        "difference_low": 0.2,
        "difference_high": 0.4,
    }
    differences = pd.DataFrame([of | numbers | {"p": 0.001, "q": 0.002}], columns=list(DIFFERENCE_COLUMNS))
    part = only(subgroups(slopes, differences, by="perceived", swept=ATTRIBUTES))
    assert "“smile”: slope +0.200 among a, −0.100 among b; difference +0.300" in part.sentences[-1]
    assert len(part.sheets[0].rows) == 2
    none = only(subgroups(slopes[2:], differences[:0], by="keyword", swept=ATTRIBUTES))
    assert none.sentences == ["No label can be estimated in any group (a)."]
    unsure = only(subgroups(slopes, differences.assign(q=0.5), by="keyword", swept=ATTRIBUTES))
    assert "no evidence of one larger than 0.400" in unsure.sentences[1]


def test_a_figure_of_predictability_comes_with_a_grid_to_read_it_by():
    frame = pd.DataFrame([{"direction": "A→T", "quantity": "dpa", "value": 0.12, "sd": 0.01, "repeats": 20}])
    grid = pd.DataFrame({"dataset_bias": [0.5, 1], "model_bias": [0.5, 1], "dpa": [0.0, 0.3]})
    about = {"file": "rows.csv", "attribute": ["gender"], "task": ["cook"], "quality": "accuracy", "equalise": "none"}
    part = only(predictability("dpa", frame, grid, about))
    assert part.sentences == ["DPA A→T: +0.120 (mean of 20 repeats, standard deviation 0.010)."]
    assert "These are not this run's data" in part.drawings[0].caption


def test_photos_needed_are_listed_fewest_first():
    rows = [
        {"adapter": "clarity", "attribute": "gender", "arm": "edit", "label": label, "photos": 90, "y_c": 0.3,
         "width": 0.2,
         "photos_for_width": more, "photos_to_detect": more, "estimable": True, "reason": ""}
        for label, more in (("hat", 900), ("smile", 80))
    ]  # fmt: skip
    about = {"width": 0.05, "slope": 0.03, "max_p": 0.001, "power": 0.8}
    part = only(power(pd.DataFrame(rows, columns=list(POWER_COLUMNS)), about, swept=ATTRIBUTES))
    assert [row[0] for row in part.sheets[0].rows] == ["smile", "hat"]
    assert part.sentences == ["1 of 2 labels have photos enough now to find such a slope."]


def test_a_chart_survives_missing_and_infinite_ends():
    rows = pd.DataFrame(
        {
            "label": ["a", "b", "a"],
            "value": [0.1, -0.2, 0.0],
            "low": [NAN, -float("inf"), -0.1],
            "high": [NAN, 0.1, 0.1],
        }
    )
    chart = dots_chart(rows, title="slope").to_dict()
    data = next(values for values in chart["datasets"].values() if "sure" in values[0])
    assert [row["low"] <= row["value"] <= row["high"] for row in data] == [True] * 3
    assert [row["sure"] for row in data] == [True, False, False]
    with pytest.raises(ValueError, match="1 row or more"):
        dots_chart(rows[:0], title="slope")


def test_hostile_names_stay_text(hostile):
    labels = comparison_rows(*((name, 0.1, 0.02, 0.001) for name in hostile), first=hostile[0], second=hostile[1])
    part = only(adapters_compared(labels, swept=ATTRIBUTES))
    svg = Xml.fromstring(part.drawings[0].svg)
    assert not [element for element in svg.iter() if element.tag.endswith(("script", "img", "style"))]
    tasks = amplification_frame(*((name, 0.1, 0.0, 0.2) for name in hostile), adapter=hostile[2])
    assert len(only(amplification(tasks, BASE, swept=ATTRIBUTES)).sheets[0].rows) == len(hostile)
