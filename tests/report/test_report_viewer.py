"""What the viewer's script is given: all scores again, absence apart from 0, and hostile names as harmless text."""

import base64
import json
import re

import numpy as np
import pandas as pd
import pytest
from drawn_album import NAN, VALUES, album, film, sweep
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.page import render
from pipeline.report.viewer import (
    NOT_RETURNED,
    SCALE,
    MissedCheck,
    Photo,
    Sweep,
    SweepScores,
    packed,
    reading,
    viewer_view,
)
from pipeline.report.words import poles_of
from pipeline.run.record import RunRecord

SCORES = st.one_of(st.floats(0, 1), st.just(NAN))


def view(**changes):
    return viewer_view(album(**changes), swept=ATTRIBUTES)


def block(markup):
    return json.loads(re.fullmatch(r"<script[^>]*>(.*)</script>", str(markup), re.DOTALL)[1])


@given(arrays(float, st.tuples(st.integers(0, 5), st.integers(1, 7)), elements=SCORES))
def test_scores_come_back_to_four_digits_and_absence_is_no_score(scores):
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
def test_a_value_is_read_out_in_words(value, attribute, words):
    assert reading(value, poles_of(attribute)) == words


def test_the_script_finds_every_sweep_with_its_film():
    found = view()
    index, films = block(found["index"]), block(found["films"])
    assert [photo["name"] for photo in index["photos"]] == ["ada.jpg", "bea.jpg", "cleo.jpg"]
    assert [one["subject"] for one in index["attributes"]] == ["perceived gender", "perceived race"]
    assert index["arms"] == ["the edit", "placebo “random”"]
    numbers = [sweep["film"] for photo in index["photos"] for sweep in photo["sweeps"]]
    assert numbers == list(range(len(films)))
    assert base64.b64decode(films[0]) == film(40)
    steepest = index["adapters"][0]["steepest"][0]
    assert [(index["adapters"][0]["labels"][label], slope) for label, slope in steepest] == [
        ("smile", "+0.310"),
        ("beard", "−0.120"),
        ("never said", "+0.100"),
    ]


def test_failures_are_reported_with_their_figures_and_reasons():
    found = view()
    index = block(found["index"])
    assert [photo["flagged"] for photo in index["photos"]] == [False, True, True]
    assert found["missed"] == 2
    assert index["photos"][1]["missed"] == [[0, "clipped pixels of the mask: 40.0 %, threshold 5 %"]]
    assert index["reasons"] == ["HTTP 503"]
    assert index["photos"][2]["sweeps"][0]["scores"][0][1] == [[0, 0]]


def test_the_plain_sweeps_tell_absent_from_unanswered():
    plain = view()["plain"]
    assert [one["photo"] for one in plain] == ["ada.jpg", "ada.jpg", "bea.jpg", "cleo.jpg"]
    rows = {label: cells for _, label, cells in plain[-1]["rows"]}
    assert rows["smile"][0] == ("?", "HTTP 503")
    assert rows["beard"][1] == ("–", "not returned")
    assert rows["smile"][4] == ("0.90", "")
    assert plain[0]["alt"] == "ada.jpg: 5 versions from a = −2, feminine, to a = 2, masculine"


def test_photos_that_are_not_shown_are_counted():
    assert view()["left_out"] == ""
    words = view(total=1003, lost=2)["left_out"]
    assert "3 of 1,003 photos are shown" in words
    assert "2 photos are not shown, because the images are missing" in words


def test_an_empty_album_leaves_no_trace_on_the_page(slopes, straight):
    html = page(slopes, straight(slopes), album(photos=[], total=0))
    assert "Sweep viewer" not in html


def test_a_classifier_that_was_not_asked_about_a_sweep_has_nothing_to_show():
    photos = [Photo("a", "", (), [sweep(adapters=("clarity",))]), Photo("b", "", (), [sweep(adapters=("other",))])]
    index = block(view(photos=photos, steepest={})["index"])
    assert [one["name"] for one in index["adapters"]] == ["clarity", "other"]
    assert index["photos"][0]["sweeps"][0]["scores"][1] is None


def test_hostile_names_end_no_element_and_stay_readable(slopes, straight, hostile):
    shown = hostile_album(hostile)
    html = page(slopes, straight(slopes), shown)
    assert html.count("<script>") == html.count("</script>") - html.count('<script type="application/json"') == 1
    assert "<img src=x" not in html
    assert "alert(1)</script>" not in html
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\u2028\ud800]", html)
    index = block(viewer_view(shown, swept=ATTRIBUTES)["index"])
    assert index["photos"][0]["name"] == hostile[0]
    assert hostile[1] in index["adapters"][0]["labels"]


def test_the_same_album_gives_the_same_page(slopes, straight):
    assert page(slopes, straight(slopes), album()) == page(slopes, straight(slopes), album())


def hostile_album(names):
    scores = SweepScores(names, np.full((len(names), len(VALUES)), 0.5), {1: names[0]})
    photos = [
        Photo(
            name,
            "",
            [MissedCheck("gender", names[2], 1.0, 0.5)],
            [Sweep("gender", names[4], VALUES, film(), {names[3]: scores})],
        )
        for name in names
    ]
    return album(photos=photos, total=len(photos), steepest={("gender", names[3]): {names[0]: 0.1}}, presence={})


def page(slopes, curves, shown):
    card = pd.DataFrame(columns=["name", "attribute", "figure", "unit", "threshold", "passed", "words"])
    left_out = pd.DataFrame(columns=["photo", "reason"])
    return render(slopes=slopes, curves=curves, card=card, record=RunRecord(), exclusions=left_out, album=shown)
