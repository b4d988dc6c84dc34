"""The page: what it says first, and that nothing in it runs or is fetched."""

import base64
import json
import re
from hashlib import sha256
from html.parser import HTMLParser

import pandas as pd
import pytest
from drawn_album import album

from pipeline.config.sources import load_settings
from pipeline.report.page import render
from pipeline.run.record import RunRecord, Stage

CARD = ["name", "attribute", "figure", "unit", "threshold", "passed", "words"]
GOOD = ("effect", "gender", 0.41, "probability", 0.25, True, "Rise of the judge's probability.")
BAD = ("lightness", "gender", 9.0, "ΔL*", 5.0, False, "Mean change of lightness.")
RECORD = RunRecord(
    git_commit="0123456789abcdef",
    packages={"counterslope": "0.1.0"},
    settings=load_settings(given={"sweep": {"region": ["skin", "nose"]}}, environment={}),
    stages={
        "photos": Stage(fingerprint="", state="done", counts={"planned": 410, "ok": 405, "failed": 1, "excluded": 4})
    },
)


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside style sheets and scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._hidden = [], "", False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in {"style", "script"}

    def handle_endtag(self, tag):
        self._hidden = False
        self.text += " " * (tag in {"td", "th", "span", "b", "p", "dt", "dd", "li"})

    def handle_data(self, data):
        if not self._hidden:
            self.text += data

    @property
    def flat(self):
        return " ".join(self.text.split())


def page(slopes, curves, *, card=(GOOD,), exclusions=(), **more):
    return render(
        slopes=slopes,
        curves=curves,
        card=pd.DataFrame(list(card), columns=CARD),
        record=more.pop("record", RECORD),
        exclusions=pd.DataFrame(list(exclusions), columns=["photo", "reason"]),
        **more,
    )


@pytest.fixture(scope="module")
def plain_page(frame, row, straight):
    slopes = frame(
        row("smile", -0.12),
        row("beard", 0.25),
        row("hat", 0.01, width=0.06, p=0.6),
        row("sceptre", reason="too rare"),
    )
    return page(
        slopes,
        straight(slopes),
        exclusions=[("a.jpg", "no face found"), ("b.jpg", "no face found"), ("c.jpg", "truncated")],
        album=album(),
        effectiveness=pd.DataFrame(
            {"attribute": "gender", "value": [-2, 0, 2], "mean": [0.1, 0.5, 0.9], "low": 0.0, "high": 1.0}
        ),
    )


def test_the_first_screen_says_what_was_audited_and_found(plain_page):
    text = Reader(plain_page).flat
    first = text[: text.index("Classifier clarity")]
    assert "How labels of clarity change with perceived gender" in first
    assert "400 analysed of 410 given" in first
    assert "“beard” rises with perceived masculinity: normalised slope +0.250 (95 % interval 0.230 to 0.270, q" in first
    assert first.index("“beard”") < first.index("“smile”")
    assert "effect ✓ 0.41 holds threshold 0.25" in first


def test_findings_all_labels_and_those_without_a_slope_are_apart(plain_page):
    text = Reader(plain_page).flat
    assert "2 of 3 tested labels change with perceived gender" in text
    assert "all 3 tested labels" in text
    assert "Not estimable: 1 too rare" in text


def test_sweeps_have_pictures_with_words_and_scores(plain_page):
    reader = Reader(plain_page)
    pictures = [attributes for tag, attributes in reader.tags if tag == "img" and attributes.get("src")]
    assert pictures[0]["alt"] == "ada.jpg: 5 versions from a = −2, feminine, to a = 2, masculine"
    assert all(picture["src"].startswith("data:image/webp;base64,") for picture in pictures)
    assert "clarity smile 0.10 0.30 0.50 0.70 0.90" in reader.flat


def test_exclusions_are_counted_by_reason(plain_page):
    text = Reader(plain_page).flat
    assert "3 photos were excluded" in text
    assert text.index("2 × no face found") < text.index("1 × truncated")


def test_provenance_is_on_the_page(plain_page):
    text = Reader(plain_page).flat
    assert "photos done 410 405 1 4" in text
    assert "sweep.region skin, nose" in text
    assert "commit 0123456789ab" in text


def test_every_anchor_has_its_place_and_every_id_is_unique(plain_page):
    tags = Reader(plain_page).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [attributes[name] for _, attributes in tags for name in ("aria-labelledby",) if name in attributes]
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert {key for keys in named for key in keys.split()} <= set(ids)


def test_nothing_can_be_loaded_and_nothing_foreign_run(plain_page):
    assert_inert(plain_page)


def test_the_policy_names_the_one_script_and_the_one_style_sheet(plain_page):
    policy = next(a["content"] for _, a in Reader(plain_page).tags if a.get("http-equiv") == "Content-Security-Policy")
    hashes = {
        tag: base64.b64encode(sha256(content.encode()).digest()).decode()
        for tag, content in re.findall(r"<(script|style)>(.*?)</(?:script|style)>", plain_page, flags=re.DOTALL)
    }
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_a_failed_check_stands_over_the_findings_and_over_every_table(slopes, straight):
    html = page(slopes, straight(slopes), card=(GOOD, BAD))
    assert html.count("The validity card fails for gender: lightness (9.00 ΔL*, threshold 5 ΔL*)") == 1
    assert html.count("The validity card does not hold for gender") == 1
    assert html.index("The validity card fails") < html.index("rises with perceived")
    text = Reader(html).flat
    assert (
        "perceived gender, lightness (9.00 ΔL*, threshold 5 ΔL*): labels that depend on brightness may change" in text
    )
    assert "What the failed checks mean" not in Reader(page(slopes, straight(slopes))).flat
    assert "The validity card fails" not in page(slopes, straight(slopes))


def test_a_check_that_was_not_measured_says_why_and_names_no_threshold(slopes, straight):
    gap = ("lightness gap", "gender", float("nan"), "ΔL*", 5.0, None, "Fewer than two source groups have 10 photos.")
    first = Reader(page(slopes, straight(slopes), card=(GOOD, gap))).flat.split("Classifier clarity")[0]
    assert "lightness gap ? not measured Fewer than two source groups have 10 photos." in first


def test_a_run_without_a_card_says_so(slopes, straight):
    text = Reader(page(slopes, straight(slopes), card=())).flat
    assert "This run has no validity checks" in text
    assert "No check of the validity card could be made for gender" in text


def test_a_finding_that_a_placebo_shows_is_marked_and_no_headline(frame, row, straight):
    slopes = frame(
        row("smile", -0.3), row("beard", 0.2), row("smile", -0.2, arm="random"), row("beard", 0.01, arm="random")
    )
    text = Reader(page(slopes, straight(slopes))).flat
    headlines = text[: text.index("Classifier clarity")]
    assert "“beard”" in headlines
    assert "“smile”" not in headlines
    assert "smile † (a placebo shows it too)" in text
    assert "Placebo “random”" in text


def test_labels_that_restate_the_attribute_are_controls_and_every_classifier_has_its_best_finding(frame, row, straight):
    slopes = frame(
        row("woman", -0.9), row("masculine appearance", 0.8), row("smile", -0.3), row("dress", -0.2),
        row("smile", -0.04, adapter="dim"), row("businesswoman", -0.1, adapter="dim"),
    )  # fmt: skip
    text = Reader(page(slopes, straight(slopes))).flat
    findings, controls = text[text.index("Strongest findings") : text.index("Validity card Check")].split(
        "Positive controls"
    )
    places = [findings.index(words) for words in ("clarity: “smile”", "dim: “businesswoman”", "clarity: “dress”")]
    assert places == sorted(places), "the best of each classifier, then the steepest"
    assert "“woman”" in controls
    assert "“masculine appearance”" in controls
    assert "“woman”" not in findings
    assert "6, of which 2 positive controls" in text


def test_the_first_screen_shows_the_curve_of_a_finding_and_a_face(slopes, straight):
    shown = album()
    shown.photos[0].sweeps[0].scores["clarity"].labels[0] = "long hair"
    html = page(slopes, straight(slopes), album=shown)
    first = html[: html.index("Strongest findings")]
    assert "first-title" in first, "a curve"
    assert "data:image/webp;base64," in first, "a face"


def test_where_all_findings_are_controls_the_first_screen_shows_the_strongest_of_them(frame, row, straight):
    slopes = frame(row("man", 0.4), row("woman", -0.9), row("hat", 0.01, p=0.6))
    shown = album()
    shown.photos[0].sweeps[0].scores["clarity"].labels[0] = "woman"
    html = page(slopes, straight(slopes), album=shown)
    first = html[: html.index("Strongest findings")]
    assert "The strongest positive control at a glance" in first
    assert "“woman” of clarity: normalised rate" in Reader(first).flat
    assert "first-title" in first, "a curve"
    assert "data:image/webp;base64," in first, "a face"


def test_no_folder_of_the_computer_that_ran_it_is_in_the_page(slopes, straight):
    settings = load_settings(given={"photos": {"opt_out": "/home/kim/secret/opted-out.txt"}}, environment={})
    record = RECORD.model_copy(update={"settings": settings, "photos": ["/home/kim/photos"]})
    html = page(slopes, straight(slopes), record=record)
    assert "/home/kim" not in html
    assert "opted-out.txt" in html


def test_without_findings_the_page_bounds_what_it_could_have_seen(frame, row, straight):
    slopes = frame(row("hat", 0.01, width=0.06, p=0.6))
    text = Reader(page(slopes, straight(slopes))).flat
    assert "“hat”: no evidence of an effect larger than 0.070" in text
    assert "unbiased" not in text


def test_a_run_in_which_nothing_came_back_still_has_a_page(frame, straight):
    text = Reader(page(frame(), straight(frame()), record=RunRecord())).flat
    assert "0 analysed" in text
    assert "No photo was excluded" in text


def test_labels_without_a_curve_are_left_out_of_the_curves(slopes, straight):
    assert "beard" in page(slopes, straight(slopes)[:0])
    assert "s1-curves" not in page(slopes, straight(slopes)[:0])


def test_hostile_names_run_nothing(frame, row, straight, hostile, hostile_record):
    slopes = frame(
        *(row(label, 0.05 + 0.02 * i, adapter=hostile[0]) for i, label in enumerate(hostile)),
        row("sceptre", adapter=hostile[0], reason=hostile[1]),
    )
    html = page(
        slopes,
        straight(slopes),
        card=[
            (hostile[0], "gender", 0.1, hostile[1], 0.2, False, hostile[2]),
            (hostile[3], hostile[4], 1.0, "", 1.0, None, ""),
        ],
        exclusions=[(label, hostile[1]) for label in hostile],
        record=hostile_record,
    )
    assert_inert(html)
    reader = Reader(html)
    assert hostile[0] in reader.text
    assert hostile[1] in reader.text
    assert "{{ 7*7 }}" in reader.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\u2028\ud800]", html)


def test_a_label_that_could_end_a_script_stands_in_the_data(frame, row, straight):
    slopes = frame(row("</script><script>alert(1)</script>", 0.2))
    html = page(slopes, straight(slopes))
    assert_inert(html)
    data = re.search(r'<script type="application/json" id="s1-data">(.*?)</script>', html)[1]
    assert json.loads(data)["rows"][0][2] == "</script><script>alert(1)</script>"


def assert_inert(html):
    """One script and one style sheet, both ours; no handler or style on an element; no address but those inside."""
    assert html.count("<style>") == html.count("</style>") == html.count("<script>") == 1
    html.encode("utf-8")
    for tag, attributes in Reader(html).tags:
        assert tag not in {"iframe", "object", "embed", "form", "base", "image", "use", "foreignobject", "animate"}
        if tag == "script":
            assert attributes.get("type") in {None, "application/json"}
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            if name in {"href", "src", "xlink:href", "action", "srcset", "data", "poster", "background"}:
                assert value.startswith(("#", "data:image/", "data:,"))
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
