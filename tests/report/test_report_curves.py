"""The page's picture of curves: one group a label, the first few shown."""

from xml.etree import ElementTree as Xml

from pipeline.report.embedding import SHOWN, curve_figure
from pipeline.report.words import poles_of

SVG = "{http://www.w3.org/2000/svg}"


def test_every_label_has_a_group_and_six_are_shown(frame, row, straight):
    slopes = frame(*(row(f"label {n}", 0.3 - 0.03 * n) for n in range(9)))
    names = [f"label {n}" for n in range(9)]
    root = Xml.fromstring(
        curve_figure(straight(slopes), names, poles_of("gender"), shown=SHOWN, key="c", title="Curves")
    )
    groups = [group for group in root.iter(f"{SVG}g") if group.get("data-series")]
    assert [group.get("display") for group in groups] == [None] * SHOWN + ["none"] * 3
    assert [group.find(f"{SVG}text").text for group in groups] == names
    assert groups[0].find(f"{SVG}title").text == "label 0: z from 0.40 to 1.60"
    assert root.find(f"{SVG}desc").text.count("z from") == SHOWN
    for group in groups:
        kinds = [mark.tag.removeprefix(SVG) for mark in group]
        assert sorted(kinds) == ["line", *["path"] * 7, "text", "title"]
        assert {mark.get("stroke", "currentColor") for mark in group} == {"currentColor"}
    outside = [e for e in root.iter() if e.tag == f"{SVG}text" and e.text in names]
    assert len(outside) == 9


def test_hostile_labels_are_text(hostile, frame, row, straight):
    slopes = frame(*(row(label, 0.1 + 0.01 * n) for n, label in enumerate(hostile)))
    root = Xml.fromstring(curve_figure(straight(slopes), hostile, poles_of("gender"), shown=3, key="c", title="Curves"))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "g", "path", "line", "text", "rect"}
