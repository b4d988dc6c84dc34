import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from adapters.base import AnswerError
from adapters.json_labels import JsonLabels

REPLY = {
    "result": {"tags": [{"tag": {"en": "sea"}, "p": 1}, {"tag": {"en": "sky"}, "p": 0.5}], "odd.name": [["sun", 0.25]]},
    "by name": {"cat": 0.75, "dog": 0.5},
    "nothing": None,
}


def scores(reply: object = REPLY, **options: object) -> dict[str, float]:
    labels = JsonLabels.model_validate(options).labels_of(json.dumps(reply).encode())
    return {label.name: label.score for label in labels}


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"items": "result.tags", "label": "tag.en", "score": "p"}, {"sea": 1, "sky": 0.5}),
        ({"items": "result.tags[-1:]", "label": "tag.en", "score": "p"}, {"sky": 0.5}),
        ({"label": "result.tags[*].tag.en", "score": "result.tags[*].p"}, {"sea": 1, "sky": 0.5}),
        ({"label": "result.tags[*].tag.en"}, {"sea": 1, "sky": 1}),
        ({"items": 'result."odd.name"', "label": "[0]", "score": "[1]"}, {"sun": 0.25}),
        ({"items": '"by name"', "label": "[0]", "score": "[1]"}, {"cat": 0.75, "dog": 0.5}),
        ({"label": 'keys("by name")', "score": 'values("by name")'}, {"cat": 0.75, "dog": 0.5}),
        ({"items": "nothing", "label": "a", "may_lack_items": True}, {}),
        ({"items": "result.more", "label": "a", "may_lack_items": True}, {}),
    ],
)
def test_paths_select_labels_and_scores(options, labels):
    assert scores(**options) == labels


def test_empty_path_is_the_whole_reply():
    assert scores({"cat": 0.5}, items="", label="[0]", score="[1]") == {"cat": 0.5}
    assert scores([["cat", 50]], items="", label="[0]", score="[1]", scale="0-100") == {"cat": 0.5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"items": "result.more", "label": "a"}, "no list at 'result.more'"),
        ({"items": "nothing.more", "label": "a"}, "no list at"),
        ({"items": "result.tags", "label": "name"}, "nothing at 'name'"),
        ({"items": "result.tags[0].p", "label": "name"}, "no list at"),
        ({"label": "result.tags[*].tag.en", "score": "result.tags[0:1].p"}, "2 labels but 1 scores"),
        ({"label": "result.tags.en[0]"}, "no list at"),
        ({"label": "keys(result.tags)"}, "no list at"),
    ],
)
def test_missing_value_is_named_by_its_path(options, message):
    with pytest.raises(AnswerError, match=message):
        scores(**options)


def test_labels_and_scores_of_unequal_items_are_refused():
    reply = [{"name": "a"}, {"p": 0.5}, {"name": "c", "p": 0.25}]
    with pytest.raises(AnswerError, match="nothing at"):
        scores(reply, label="[*].name", score="[*].p")


@pytest.mark.parametrize("path", [".a", "a..b", "a.", "a[", "a[x]", "a b", 'a["x"]', "a[*", "nofunction("])
def test_invalid_path_is_refused(path):
    with pytest.raises(ValidationError, match="'label': the path"):
        JsonLabels(items="a", label=path)


@given(
    content=st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
        max_leaves=8,
    ),
    path=st.sampled_from(
        ["a", "a.b", "[0]", "a[-1]", "a[*]", "[*].a[*]", "keys(@)", "max(a)", "a || b", "sort_by(a, &b)"]
    ),
)
def test_any_path_into_any_reply_is_parsed_or_refused(content, path):
    with suppress(AnswerError):
        assert all(0 <= score <= 1 for score in scores(content, items=path, label="a").values())
