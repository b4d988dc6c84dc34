"""Search queries from keywords and modifiers; codes and titles of licences."""

import csv
import re
from pathlib import Path

import pytest

import pipeline.collection
from pipeline.collection.keywords import queries_of
from pipeline.collection.licences import licence_code, licence_title, wanted_licences
from pipeline.config.options import ConfigError


def test_129_occupations_with_six_modifiers():
    queries = queries_of("occupations", ["gender", "race"])
    assert len(queries) == len(set(queries)) == 129 * 6
    with (Path(pipeline.collection.__file__).parent / "occupations.csv").open() as file:
        listed = list(csv.DictReader(file))
    assert len({row["soc"] for row in listed}) == len({row["keyword"] for row in listed}) == 129
    assert all(re.fullmatch(r"\d\d-\d{3}[1-9]", row["soc"]) for row in listed)


def test_own_list_of_keywords(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("keyword,why\nastronaut,\n nurse ,x\n\nnurse,\n")
    texts = [query.text for query in queries_of(str(path), ["none", "tall"])]
    assert texts == ["astronaut", "tall astronaut", "nurse", "tall nurse"]


@pytest.mark.parametrize("content", ["word\nnurse\n", "", "keyword\n\n"])
def test_list_without_keywords_is_refused(tmp_path, content):
    path = tmp_path / "words.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match="keyword"):
        queries_of(str(path), [])


@pytest.mark.parametrize(
    ("name", "url", "code"),
    [
        ("CC BY-SA 4.0", "https://creativecommons.org/licenses/by-sa/4.0", "by-sa"),
        ("CC BY 2.0", "", "by"),
        ("CC BY NC 2.0", "", "by-nc"),
        ("Attribution-NonCommercial-ShareAlike 4.0 International", "", "by-nc-sa"),
        ("by-nc-nd", "https://creativecommons.org/licenses/by-nc-nd/2.0/", "by-nc-nd"),
        ("CC0", "http://creativecommons.org/publicdomain/zero/1.0/deed.en", "cc0"),
        ("pdm", "https://creativecommons.org/publicdomain/mark/1.0/", "pdm"),
        ("Public domain", "", "pdm"),
        ("No restrictions", "", "pdm"),
        ("", "", ""),
        ("All rights reserved, by the author", "", ""),
        ("GFDL", "https://www.gnu.org/copyleft/fdl.html", ""),
    ],
)
def test_licence_code_from_name_and_url(name, url, code):
    assert licence_code(name, url) == code


def test_licence_title_of_credits():
    assert licence_title("by-sa", "https://creativecommons.org/licenses/by-sa/4.0/") == "CC BY-SA 4.0"
    assert licence_title("pdm") == "Public Domain Mark"
    assert licence_title("CC BY 3.0 us") == "CC BY 3.0 us"


def test_groups_of_licences():
    assert wanted_licences(["open"]) == ("cc0", "pdm", "by", "by-sa")
    assert "by-nd" not in wanted_licences(["modification"])
    assert wanted_licences(["any", "by"]) == ()
    with pytest.raises(ConfigError, match="freeware"):
        wanted_licences(["freeware"])
