"""The data and contact sheets of the sweep viewer."""

import base64
import json
import re

import numpy as np
import pytest
from drawn_album import NAN, album, film, hostile_album, sweep
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from report_frames import HOSTILE, render_page

from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.viewer import NOT_RETURNED, SCALE, Photo, packed, reading, viewer_view
from pipeline.report.words import poles_of

SCORES = st.one_of(st.floats(0, 1), st.just(NAN))


def view(**changes):
    return viewer_view(album(**changes), swept=ATTRIBUTES)


def block(markup):
    return json.loads(re.fullmatch(r"<script[^>]*>(.*)</script>", str(markup), re.DOTALL)[1])


@given(arrays(float, st.tuples(st.integers(0, 5), st.integers(1, 7)), elements=SCORES))
def test_packed_scores_round_trip_with_missing_values(scores):
    steps = scores.shape[1]
    table = np.frombuffer(base64.b64decode(packed(range(len(scores)), scores)), "<u2").reshape(-1, steps + 1)
    assert table[:, 0].tolist() == list(range(len(scores)))
    back = np.where(table[:, 1:] == NOT_RETURNED, NAN, table[:, 1:] / SCALE)
    np.testing.assert_allclose(back, scores, atol=0.5 / SCALE)


@pytest.mark.parametrize(
    ("value", "attribute", "words"),
    [
        (-4 / 3, "gender", "−1.33 · more feminine"),
        (2.0, "gender", "2 · more masculine"),
        (0.0, "gender", "0 · the middle"),
        (-1.0, "race", "−1 · more Black"),
    ],
)
def test_value_text_names_the_direction(value, attribute, words):
    assert reading(value, poles_of(attribute)) == words


def test_index_lists_every_sweep_with_its_film():
    found = view()
    index, films = block(found["index"]), block(found["films"])
    assert [photo["name"] for photo in index["photos"]] == ["ada.jpg", "bea.jpg", "cleo.jpg"]
    assert [attribute["subject"] for attribute in index["attributes"]] == ["perceived gender", "perceived race"]
    assert index["arms"] == ["the edit", "placebo “random”"]
    numbers = [sweep["film"] for photo in index["photos"] for sweep in photo["sweeps"]]
    assert numbers == list(range(len(films)))
    assert base64.b64decode(films[0]) == film(40)
    steepest = index["adapters"][0]["steepest"][0]
    slopes = [(index["adapters"][0]["labels"][label], slope) for label, slope in steepest]
    assert slopes == [("smile", "+0.310"), ("beard", "−0.120"), ("never said", "+0.100")]


def test_index_has_failed_checks_and_reasons():
    found = view()
    index = block(found["index"])
    assert [photo["flagged"] for photo in index["photos"]] == [False, True, True]
    assert found["missed"] == 2
    assert index["photos"][1]["missed"] == [[0, "clipped pixels of the mask: 40.0 %, threshold 5 %"]]
    assert index["reasons"] == ["HTTP 503"]
    assert index["photos"][2]["sweeps"][0]["scores"][0][1] == [[0, 0]]


def test_contact_sheets_distinguish_absent_from_unanswered():
    plain = view()["plain"]
    assert [sheet["photo"] for sheet in plain] == ["ada.jpg", "ada.jpg", "bea.jpg", "cleo.jpg"]
    rows = {label: cells for _, label, cells in plain[-1]["rows"]}
    assert rows["smile"][0] == ("?", "HTTP 503")
    assert rows["beard"][1] == ("–", "not returned")
    assert rows["smile"][4] == ("0.90", "")
    assert plain[0]["alt"] == "ada.jpg: 5 versions from a = −2, feminine, to a = 2, masculine"


def test_omitted_photos_are_counted():
    assert view()["left_out"] == ""
    words = view(total=1003, lost=2)["left_out"]
    assert "3 of 1,003 photos are shown" in words
    assert "2 photos are not shown, because the images are missing" in words


def test_empty_album_has_no_viewer(slopes):
    assert "Sweep viewer" not in render_page(slopes, album=album(photos=[], total=0))


def test_adapter_without_answers_for_a_sweep_has_no_scores():
    photos = [Photo("a", "", (), [sweep(adapters=("clarity",))]), Photo("b", "", (), [sweep(adapters=("other",))])]
    index = block(view(photos=photos, steepest={})["index"])
    assert [adapter["name"] for adapter in index["adapters"]] == ["clarity", "other"]
    assert index["photos"][0]["sweeps"][0]["scores"][1] is None


def test_hostile_names_are_escaped(slopes):
    hostile = hostile_album(HOSTILE)
    html = render_page(slopes, album=hostile)
    assert html.count("<script>") == html.count("</script>") - html.count('<script type="application/json"') == 1
    assert "<img src=x" not in html
    assert "alert(1)</script>" not in html
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\u2028\ud800]", html)
    index = block(viewer_view(hostile, swept=ATTRIBUTES)["index"])
    assert index["photos"][0]["name"] == HOSTILE[0]
    assert HOSTILE[1] in index["adapters"][0]["labels"]


def test_page_is_reproducible(slopes):
    assert render_page(slopes, album=album()) == render_page(slopes, album=album())
