"""The report's sections of the analyses."""

import pandas as pd
import pytest
from section_frames import NAN, amplification_frame, comparison_rows, local_frames, representation_rows

from pipeline.analyses.base import Kept
from pipeline.analyses.registry import analysis
from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.views import printed_table
from pipeline.statistics import DIFFERENCE_COLUMNS, POWER_COLUMNS, SLOPE_COLUMNS

BASE = {"base": "the shares of female in jobs.csv", "level": 0.95}


def section(name, tables, about=None):
    (found,) = analysis(name).sections(Kept(tables, about or {}, ATTRIBUTES))
    return found


def only_part(section):
    (part,) = section.parts
    return part


def rows_of(table):
    return printed_table(table).rows


def comparison_section(rows):
    return section("comparison", {"adapter_comparison": rows})


def representation_section(rows, notes=()):
    return section("representation", {"representation": rows}, {"by": "keyword", "notes": notes})


def local_section(statistics, clusters, exemplars):
    parts = {"statistics": statistics, "clusters": clusters, "exemplars": exemplars}
    return section("local", {f"local_{name}": frame for name, frame in parts.items()})


@pytest.mark.parametrize(
    ("overall", "words"),
    [
        ((0.03, 0.01, 0.05), "change in the direction of the base: mean over 2 tasks +0.030"),
        ((-0.03, -0.05, -0.01), "change against the direction of the base"),
        ((0.01, -0.03, 0.05), "No evidence of an amplification larger than 0.050"),
        ((0.01, NAN, NAN), "Without an interval, nothing can be concluded"),
        ((NAN, NAN, NAN), "nothing can be concluded"),
    ],
)
def test_amplification_is_worded_by_its_interval(overall, words):
    frame = amplification_frame(("cook", 0.05, 0.01, 0.09), ("drive", -0.02, -0.05, 0.01), overall=overall)
    found = section("amplification", {"amplification": frame}, BASE)
    assert words in only_part(found).sentences[0]
    assert "the shares of female in jobs.csv" in found.explanation


def test_amplification_table_is_sorted_and_has_placebos():
    edit = amplification_frame(("drive", -0.02, -0.05, 0.01), ("fly", NAN, NAN, NAN), ("cook", 0.05, 0.01, 0.09))
    placebo = amplification_frame(("cook", 0.01, -0.01, 0.03), arm="random")
    part = only_part(section("amplification", {"amplification": pd.concat([edit, placebo])}, BASE))
    sheet = printed_table(*part.tables)
    assert [slope_row[0] for slope_row in sheet.rows] == ["cook", "drive", "fly"]
    assert sheet.headings[-1] == "Placebo “random”"
    assert [slope_row[-1] for slope_row in sheet.rows] == ["+0.010", "–", "–"]
    assert sheet.rows[2][1] == "not in the base"
    assert any("placebo “random”" in sentence for sentence in part.sentences)
    assert "1 of 2 tasks change in the direction of the base" in part.sentences[1]


def test_local_gap_is_evidence_only_if_significant():
    strong = only_part(local_section(*local_frames((0.1, 0.4, True), (-0.3, 0.005, True))))
    assert "a gap of −0.300 in cluster 1" in strong.sentences[0]
    assert [slope_row[0] for slope_row in rows_of(strong.tables[0])] == ["1", "0"]
    assert strong.galleries[0].heading == "Cluster 1, gap −0.300, p = 0.005"
    subgroup_section = ("feminine", "masculine")
    assert strong.galleries[0].rows == [(group, [f"{group}-1.jpg", f"{group}-2.jpg"]) for group in subgroup_section]
    weak = only_part(local_section(*local_frames((0.1, 0.4, True), null="fixed")))
    assert weak.sentences[0].startswith("No evidence of local bias")
    assert "p is too small" in weak.sentences[1]
    few = only_part(local_section(*local_frames((NAN, NAN, False))))
    assert "nothing can be concluded" in few.sentences[0]
    assert few.galleries == []


def test_representation_shows_raw_and_corrected_shares():
    part = only_part(representation_section(representation_rows(("nurse", 0.9), ("ceo", 0.2)), notes=["A."]))
    assert "keyword “nurse”: 90.0 % of 40 faces perceived as feminine" in part.sentences[0]
    assert "corrected 90.0 %" in part.sentences[0]
    (chart,) = part.charts
    assert list(chart.series) == ["as perceived", "corrected for the estimator's errors"]
    raw = only_part(representation_section(representation_rows(("nurse", 0.9), corrected=False)))
    assert "not corrected" in raw.sentences[0]
    assert list(raw.charts[0].series) == ["as perceived"]


def test_comparison_of_adapters_is_worded_by_its_interval():
    rows = comparison_rows(("beard", -0.1, 0.2, 0.3), ("smile", 0.2, 0.05, 0.001), ("tie", NAN, NAN, NAN))
    part = only_part(comparison_section(rows))
    assert part.heading == "opencv less mine, perceived gender"
    assert "Slopes of 2 labels compared on 90 photos: 1 of 2 differ (q < 0.05)." in part.sentences[0]
    assert part.sentences[1].startswith("“smile”: slope +0.300 by opencv, +0.100 by mine; difference +0.200")
    assert [slope_row[0] for slope_row in rows_of(part.tables[0])] == ["smile", "beard"]
    alike = only_part(comparison_section(rows[:1]))
    assert "no evidence of a difference larger than 0.300" in alike.sentences[0]
    unknown = only_part(comparison_section(rows[2:]))
    assert "nothing can be concluded" in unknown.sentences[0]
    assert not unknown.charts


def test_comparison_of_runs_counts_the_omitted_photos():
    about = {"other": "june", "only_first": 3, "only_second": 0}
    found = section("comparison", {"comparison": comparison_rows(("smile", 0.2, 0.05, 0.001))}, about)
    assert "the run “june”" in found.explanation
    assert found.caveats[0] == "Not compared, because only in this run: 3 photos."


def slope_row(label, slope=NAN):
    facts = {"adapter": "clarity", "attribute": "gender", "arm": "edit", "label": label, "photos": 400}
    numbers = {"slope": slope, "slope_low": slope - 0.02, "slope_high": slope + 0.02, "p": 1e-6, "q": 2e-6}
    return dict.fromkeys(SLOPE_COLUMNS, NAN) | facts | numbers | {"estimable": slope == slope}


def subgroup_section(slopes, differences, by):
    return section("subgroups", {"subgroups": slopes, "subgroup_differences": differences}, {"by": by})


def test_subgroups_are_compared():
    slopes = pd.DataFrame(
        [slope_row("smile", slope) | {"group": group} for group, slope in (("a", 0.2), ("b", -0.1))]
        + [slope_row("hat") | {"group": "a"}]
    )
    of = {"adapter": "clarity", "attribute": "gender", "arm": "edit", "label": "smile", "group": "a", "other": "b"}
    numbers = {"group_slope": 0.2, "other_slope": -0.1, "difference": 0.3}
    numbers |= {"difference_low": 0.2, "difference_high": 0.4}
    differences = pd.DataFrame([of | numbers | {"p": 0.001, "q": 0.002}], columns=list(DIFFERENCE_COLUMNS))
    part = only_part(subgroup_section(slopes, differences, "perceived"))
    assert "“smile”: slope +0.200 among a, −0.100 among b; difference +0.300" in part.sentences[-1]
    assert len(rows_of(part.tables[0])) == 2
    none = only_part(subgroup_section(slopes[2:], differences[:0], "keyword"))
    assert none.sentences == ["No label can be estimated in any group (a)."]
    unsure = only_part(subgroup_section(slopes, differences.assign(q=0.5), "keyword"))
    assert "no evidence of a difference larger than 0.400" in unsure.sentences[1]


def test_dpa_section_has_the_bias_grid():
    frame = pd.DataFrame([{"direction": "A->T", "quantity": "dpa", "value": 0.12, "sd": 0.01, "repeats": 20}])
    grid = pd.DataFrame({"dataset_bias": [0.5, 1], "model_bias": [0.5, 1], "dpa": [0.0, 0.3]})
    about = {"file": "rows.csv", "attribute": ["gender"], "task": ["cook"], "quality": "accuracy", "equalise": "none"}
    part = only_part(section("dpa", {"dpa": frame, "dpa_grid": grid}, about))
    assert part.sentences == ["DPA A->T: +0.120 (mean of 20 repeats, standard deviation 0.010)."]
    assert "These are not this run's data" in part.charts[0].caption
    assert len(part.charts) == 1
    others = grid.assign(bias_amplification=[0.0, 0.0], multi_amplification=[0.0, 0.5])
    part = only_part(section("dpa", {"dpa": frame, "dpa_grid": others}, about))
    assert [chart.metric for chart in part.charts] == ["dpa", "bias_amplification", "multi_amplification"]


def test_power_table_is_sorted_by_the_number_of_photos():
    rows = [
        {"adapter": "clarity", "attribute": "gender", "arm": "edit", "label": label, "photos": 90, "y_c": 0.3,
         "width": 0.2,
         "photos_for_width": more, "photos_to_detect": more, "estimable": True, "reason": ""}
        for label, more in (("hat", 900), ("smile", 80))
    ]  # fmt: skip
    about = {"width": 0.05, "slope": 0.03, "max_p": 0.001, "power": 0.8}
    part = only_part(section("power", {"power": pd.DataFrame(rows, columns=list(POWER_COLUMNS))}, about))
    assert [slope_row[0] for slope_row in rows_of(part.tables[0])] == ["smile", "hat"]
    assert part.sentences == ["1 of 2 labels already have enough photos to detect such a slope."]
