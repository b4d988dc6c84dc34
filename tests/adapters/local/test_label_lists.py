import json

import pytest

from adapters.base import AdapterError
from adapters.local.labels import distinct, read_labels, ready_made


def test_included_occupations_are_129_and_distinct():
    names = read_labels("occupations")
    assert "occupations" in ready_made()
    assert len(names) == len(set(names)) == 129
    assert list(names) == sorted(names)
    assert {"nurse", "computer programmer", "firefighter"} <= set(names)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.txt", "# made by hand\ntench\ngreat white\n\n"),
        ("labels.txt", "\ufefftench\r\ngreat white\r\n"),
        ("labels.json", '["tench", "great white"]'),
        ("labels.json", '{"0": "tench", "1": "great white"}'),
        ("labels.json", '{"1": ["n01484850", "great white"], "0": ["n01440764", "tench"]}'),
    ],
)
def test_label_file_is_read_in_class_order(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert read_labels(str(tmp_path / name)) == ("tench", "great white")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels.txt", b"tench\n\nshark\n", "label 2 is empty, so the classes after it would shift"),
        ("labels.txt", b"", "has no labels"),
        ("labels.txt", b"caf\xe9", "not UTF-8"),
        ("labels.json", b"[", "not JSON"),
        ("labels.json", b'{"0": "a", "2": "b"}', "class numbers 0 to 1"),
        ("labels.json", b'["a", 1]', "label of class 1 is not text"),
        ("labels.json", b'"a"', "must hold a list"),
    ],
)
def test_malformed_label_file_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AdapterError, match=message):
        read_labels(tmp_path / name)


def test_missing_label_file_names_included_list():
    with pytest.raises(AdapterError, match=r"'nowhere.txt' cannot be read.*included list \(occupations\)"):
        read_labels("nowhere.txt")


def test_duplicate_names_are_numbered():
    assert distinct(["crane", "maillot", "crane"]) == ("crane [0]", "maillot", "crane [2]")
    assert read_labels(["a", " b "]) == ("a", "b")
    assert json.dumps(read_labels(["a", "a"])) == '["a [0]", "a [1]"]'
