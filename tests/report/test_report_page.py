"""The report's page: its text, and that it runs and loads nothing foreign."""

import base64
import json
import re
from functools import partial
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from drawn_album import album
from report_frames import EFFECTIVENESS, HOSTILE, HOSTILE_RECORD, curves_frame, render_page, slope_row, slopes_frame

from pipeline.config.sources import load_settings
from pipeline.run.record import RunRecord, Stage

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


page = partial(render_page, card=[GOOD], record=RECORD)


@pytest.fixture(scope="module")
def plain_page():
    slopes = slopes_frame(
        slope_row("smile", -0.12),
        slope_row("beard", 0.25),
        slope_row("hat", 0.01, width=0.06, p=0.6),
        slope_row("sceptre", reason="too rare"),
    )
    return page(
        slopes,
        exclusions=[("a.jpg", "no face found"), ("b.jpg", "no face found"), ("c.jpg", "truncated")],
        album=album(),
        effectiveness=EFFECTIVENESS,
    )


def test_first_screen_has_subject_findings_and_card(plain_page):
    text = Reader(plain_page).flat
    first = text[: text.index("Classifier clarity")]
    assert "How labels of clarity change with perceived gender" in first
    assert "400 analysed of 410 given" in first
    assert "“beard” rises with perceived masculinity: normalised slope +0.250 (95 % interval 0.230 to 0.270, q" in first
    assert first.index("“beard”") < first.index("“smile”")
    assert "effect ✓ 0.41 holds threshold 0.25" in first


def test_numbers_of_findings_tested_and_not_estimable_labels(plain_page):
    text = Reader(plain_page).flat
    assert "2 of 3 tested labels change with perceived gender" in text
    assert "all 3 tested labels" in text
    assert "Not estimable: 1 too rare" in text


def test_contact_sheets_have_alternative_text_and_scores(plain_page):
    reader = Reader(plain_page)
    pictures = [attributes for tag, attributes in reader.tags if tag == "img" and attributes.get("src")]
    assert pictures[0]["alt"] == "ada.jpg: 5 versions from a = −2, feminine, to a = 2, masculine"
    assert all(picture["src"].startswith("data:image/webp;base64,") for picture in pictures)
    assert "clarity smile 0.10 0.30 0.50 0.70 0.90" in reader.flat


def test_exclusions_are_counted_by_reason(plain_page):
    text = Reader(plain_page).flat
    assert "3 photos were excluded" in text
    assert text.index("2 × no face found") < text.index("1 × truncated")


def test_page_has_provenance(plain_page):
    text = Reader(plain_page).flat
    assert "photos done 410 405 1 4" in text
    assert "sweep.region skin, nose" in text
    assert "commit 0123456789ab" in text


def test_links_resolve_and_ids_are_unique(plain_page):
    tags = Reader(plain_page).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    label_ids = [attributes[name] for _, attributes in tags for name in ("aria-labelledby",) if name in attributes]
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert {key for keys in label_ids for key in keys.split()} <= set(ids)


def test_page_is_inert(plain_page):
    assert_inert(plain_page)


def test_content_security_policy_has_the_hashes_of_script_and_style(plain_page):
    policy = next(a["content"] for _, a in Reader(plain_page).tags if a.get("http-equiv") == "Content-Security-Policy")
    hashes = {
        tag: base64.b64encode(sha256(content.encode()).digest()).decode()
        for tag, content in re.findall(r"<(script|style)>(.*?)</(?:script|style)>", plain_page, flags=re.DOTALL)
    }
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_failed_check_is_shown_above_findings_and_tables(slopes):
    html = page(slopes, card=(GOOD, BAD))
    assert html.count("The validity card fails for gender: lightness (9.00 ΔL*, threshold 5 ΔL*)") == 1
    assert html.count("The validity card does not hold for gender") == 1
    assert html.index("The validity card fails") < html.index("rises with perceived")
    text = Reader(html).flat
    assert (
        "perceived gender, lightness (9.00 ΔL*, threshold 5 ΔL*): labels that depend on brightness may change" in text
    )
    assert "What the failed checks mean" not in Reader(page(slopes)).flat
    assert "The validity card fails" not in page(slopes)


def test_unmeasured_check_has_a_reason_and_no_threshold(slopes):
    gap = ("lightness gap", "gender", float("nan"), "ΔL*", 5.0, None, "Fewer than two source groups have 10 photos.")
    first = Reader(page(slopes, card=(GOOD, gap))).flat.split("Classifier clarity")[0]
    assert "lightness gap ? not measured Fewer than two source groups have 10 photos." in first


def test_page_without_validity_card(slopes):
    text = Reader(page(slopes, card=())).flat
    assert "This run has no validity checks" in text
    assert "No check of the validity card could be made for gender" in text


def test_finding_shown_by_a_placebo_is_marked_and_not_a_headline():
    slopes = slopes_frame(
        slope_row("smile", -0.3),
        slope_row("beard", 0.2),
        slope_row("smile", -0.2, arm="random"),
        slope_row("beard", 0.01, arm="random"),
    )
    text = Reader(page(slopes)).flat
    headlines = text[: text.index("Classifier clarity")]
    assert "“beard”" in headlines
    assert "“smile”" not in headlines
    assert "smile † (a placebo shows it too)" in text
    assert "Placebo “random”" in text


def test_headlines_separate_controls_and_cover_every_classifier():
    slopes = slopes_frame(
        *(
            slope_row(*cell)
            for cell in (("woman", -0.9), ("masculine appearance", 0.8), ("smile", -0.3), ("dress", -0.2))
        ),
        *(slope_row(*cell, adapter="dim") for cell in (("smile", -0.04), ("businesswoman", -0.1))),
    )
    text = Reader(page(slopes)).flat
    findings, controls = text[text.index("Strongest findings") : text.index("Validity card Check")].split(
        "Positive controls"
    )
    places = [findings.index(words) for words in ("clarity: “smile”", "dim: “businesswoman”", "clarity: “dress”")]
    assert places == sorted(places), "first the best of each classifier"
    assert "“woman”" in controls
    assert "“masculine appearance”" in controls
    assert "“woman”" not in findings
    assert "6, of which 2 positive controls" in text


def test_first_screen_has_a_curve_and_a_face(slopes):
    drawn_album = album()
    drawn_album.photos[0].sweeps[0].scores["clarity"].labels[0] = "long hair"
    html = page(slopes, album=drawn_album)
    first = html[: html.index("Strongest findings")]
    assert "first-title" in first, "a curve"
    assert "data:image/webp;base64," in first, "a face"


def test_first_screen_shows_the_strongest_control_without_other_findings():
    slopes = slopes_frame(slope_row("man", 0.4), slope_row("woman", -0.9), slope_row("hat", 0.01, p=0.6))
    drawn_album = album()
    drawn_album.photos[0].sweeps[0].scores["clarity"].labels[0] = "woman"
    html = page(slopes, album=drawn_album)
    first = html[: html.index("Strongest findings")]
    assert "The strongest positive control at a glance" in first
    assert "“woman” of clarity: normalised rate" in Reader(first).flat
    assert "first-title" in first, "a curve"
    assert "data:image/webp;base64," in first, "a face"


def test_page_has_no_local_paths(slopes):
    settings = load_settings(given={"photos": {"opt_out": "/home/kim/secret/opted-out.txt"}}, environment={})
    record = RECORD.model_copy(update={"settings": settings, "photos": ["/home/kim/photos"]})
    html = page(slopes, record=record)
    assert "/home/kim" not in html
    assert "opted-out.txt" in html


def test_page_without_findings_bounds_the_effect():
    slopes = slopes_frame(slope_row("hat", 0.01, width=0.06, p=0.6))
    text = Reader(page(slopes)).flat
    assert "“hat”: no evidence of an effect larger than 0.070" in text
    assert "unbiased" not in text


def test_page_an_empty_run():
    text = Reader(page(slopes_frame(), record=RunRecord())).flat
    assert "0 analysed" in text
    assert "No photo was excluded" in text


def test_page_without_curves_has_no_curve_chart(slopes):
    assert "beard" in page(slopes, curves=curves_frame(slopes)[:0])
    assert "s1-curves" not in page(slopes, curves=curves_frame(slopes)[:0])


def test_page_with_hostile_names_is_inert():
    slopes = slopes_frame(
        *(slope_row(label, 0.05 + 0.02 * i, adapter=HOSTILE[0]) for i, label in enumerate(HOSTILE)),
        slope_row("sceptre", adapter=HOSTILE[0], reason=HOSTILE[1]),
    )
    html = page(
        slopes,
        card=[
            (HOSTILE[0], "gender", 0.1, HOSTILE[1], 0.2, False, HOSTILE[2]),
            (HOSTILE[3], HOSTILE[4], 1.0, "", 1.0, None, ""),
        ],
        exclusions=[(label, HOSTILE[1]) for label in HOSTILE],
        record=HOSTILE_RECORD,
    )
    assert_inert(html)
    reader = Reader(html)
    assert HOSTILE[0] in reader.text
    assert HOSTILE[1] in reader.text
    assert "{{ 7*7 }}" in reader.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\u2028\ud800]", html)


def test_label_with_a_script_tag_is_kept_in_the_data():
    slopes = slopes_frame(slope_row("</script><script>alert(1)</script>", 0.2))
    html = page(slopes)
    assert_inert(html)
    data = re.search(r'<script type="application/json" id="s1-data">(.*?)</script>', html)[1]
    assert json.loads(data)["rows"][0][2] == "</script><script>alert(1)</script>"


def assert_inert(html):
    """Check that there is one script, one style sheet, no handler or style attribute, and no external address."""
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
