"""Contact sheets of sweeps."""

import re
from xml.etree import ElementTree as Xml

import cv2
import numpy as np
import pandas as pd
import pytest
from report_frames import HOSTILE, slope_row, slopes_frame
from run_tables import write_tables

from pipeline.report.figures import draw
from pipeline.report.sheets import Sheet, SheetRow, sheet_figures
from pipeline.report.words import poles_of
from pipeline.run.folder import Run
from pipeline.run.record import RunError

VALUES = (-2.0, 0.0, 2.0)
NAMES = ("ada.jpg", "bea.jpg", "cleo.jpg")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three photos of two groups, with versions of different greys and a label that is not always returned."""
    run = Run(tmp_path_factory.mktemp("run"))
    run.path("images").mkdir()
    cv2.imwrite(str(run.path("mask.png")), cv2.circle(np.zeros((60, 60), np.uint8), (30, 30), 20, 255, -1))
    versions, answers, labels = [], [], []
    for photo in NAMES:
        for step, value in enumerate(VALUES, start=1):
            file = f"images/{photo}-{step}.png"
            cv2.imwrite(str(run.path(file)), np.full((60, 60, 3), 60 * step, np.uint8))
            key = {"attribute": "gender", "arm": "edit", "photo": photo, "step": step, "value": value}
            versions.append({**key, "status": "ok", "file": file, "mask": "mask.png", "sha256": file})
            answers.append({**key, "adapter": "clarity", "status": "ok"})
            score = None if step == 2 else 0.25 * step
            labels.append({**key, "adapter": "clarity", "label": "<smile>", "score": score, "returned": step != 2})
    faces = [{"photo": name, "status": "ok", "gender": -1.0 if name < "c" else 1.0} for name in NAMES]
    pd.DataFrame(versions).to_parquet(run.path("counterfactuals.parquet"))
    write_tables(run.folder, answers=answers, labels=labels, faces=faces)
    return run


@pytest.fixture(scope="module")
def figures_of(run):
    def make(**changes):
        failures = pd.DataFrame({"photo": []})
        return sheet_figures(
            run, ["gender"], slopes=slopes_frame(slope_row("<smile>", -0.2)), failures=failures, **changes
        )

    return make


@pytest.fixture(scope="module")
def sheets(figures_of):
    return figures_of()


def texts(figure, columns=1):
    root = Xml.fromstring(draw(figure.chart, "svg", columns=columns))
    return [element.text for element in root.iter(f"{SVG}text")], root


def test_contact_sheet_has_all_steps_of_diverse_photos(sheets):
    faces, scores = sheets
    assert (faces.name, scores.name) == ("gender-faces", "gender-scores")
    words, root = texts(faces)
    assert words[:6] == ["← feminine", "a", "masculine →", "−2", "0", "2"]
    assert words[6:] == ["ada.jpg", "cleo.jpg", "bea.jpg"], "one photo of each group comes first"
    assert len(list(root.iter(f"{SVG}image"))) == 9
    assert faces.caption.startswith("3 photos of different perceived groups")
    assert "along perceived gender, from a = −2, feminine, to a = 2, masculine." in faces.caption


def test_scores_are_shown_under_the_images(sheets):
    words, _ = texts(sheets[1])
    assert words[6:12] == ["ada.jpg", "clarity", "<smile>", "0.25", "–", "0.75"]


def test_sheet_of_one_photo(figures_of, run):
    (only,) = figures_of(photos=["bea.jpg"])
    assert only.name == "bea-jpg-gender-sweep"
    assert only.caption.startswith("The photo bea.jpg along perceived gender")
    assert texts(only)[0].count("0.75") == 1
    with pytest.raises(RunError, match=r"no complete sweep of 'bee.jpg'; similar: bea.jpg"):
        figures_of(photos=["bee.jpg"])


@pytest.mark.parametrize(("columns", "points"), [(1, 241.0), (2, 504.0)])
def test_sheet_has_the_width_of_page_columns(sheets, tmp_path, columns, points):
    figure = sheets[0]
    assert f'width="{points}pt"'.encode() in draw(figure.chart, "svg", columns=columns)
    assert re.search(rb"MediaBox ?\[0 0 %d " % points, draw(figure.chart, "pdf", columns=columns))
    figure.save(tmp_path / "sheet.png", columns=columns)
    pixels = cv2.imread(str(tmp_path / "sheet.png"), cv2.IMREAD_UNCHANGED)
    assert pixels.shape[1] == pytest.approx(points * 300 / 72, abs=2)
    assert (pixels[0, 0] == 255).all(), "white background"


def test_sheets_are_reproducible(sheets, figures_of):
    first, again = ([draw(figure.chart, "pdf") for figure in figures] for figures in (sheets, figures_of()))
    assert first == again


def test_long_and_hostile_names_are_text_inside_the_sheet():
    jpeg = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    rows = [SheetRow(name, [jpeg] * 3, {(name, f"{name} {'long ' * 12}"): ["0.10", "–", "?"]}) for name in HOSTILE]
    root = Xml.fromstring(Sheet(poles_of("gender"), VALUES, rows).svg(1))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {"svg", "text", "image", "rect"}
    height = float(root.get("height"))
    assert all(0 < float(text.get("y")) <= height for text in root.iter(f"{SVG}text"))


def test_photo_with_missing_images_is_omitted_or_raises_if_requested(run, figures_of):
    file = run.path("images/ada.jpg-1.png")
    content = file.read_bytes()
    file.unlink()
    assert "ada.jpg" not in texts(figures_of()[0])[0]
    with pytest.raises(RunError, match="an image of the run is missing or unreadable"):
        figures_of(photos=["ada.jpg"])
    file.write_bytes(content)
