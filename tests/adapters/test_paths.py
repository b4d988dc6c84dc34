import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.paths import MISSING, json_path

REPLY = {
    "result": {"tags": [{"tag": {"en": "sea"}, "p": 1}, {"tag": {}, "p": 2}], "odd.name": [3]},
    "by name": {"cat": 0.9, "dog": 0.1},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("result.tags[0].tag.en", ["sea"]),
        ("result.tags[-1].p", [2]),
        ("result.tags[*].p", [1, 2]),
        ("result.tags[*].tag.en", ["sea", MISSING]),
        ('result["odd.name"][0]', [3]),
        ('["by name"][*][0]', ["cat", "dog"]),
        ('["by name"][*]', [["cat", 0.9], ["dog", 0.1]]),
        ("", [REPLY]),
        ("result.tags[7].p", [MISSING]),
        ("result[0]", [MISSING]),
        ("nothing[*].p", [MISSING]),
        ("result.tags.p", [MISSING]),
    ],
)
def test_a_path_leads_to_values_or_says_that_there_is_none(path: str, values: list[object]) -> None:
    assert json_path(path).all(REPLY) == values
    assert json_path(path).one(REPLY) == values[0]


@pytest.mark.parametrize("path", [".a", "a..b", "a.", "a[", "a[x]", "a[0]b", "a b", 'a["x]', "a[]", 'a["\\x"]'])
def test_a_path_that_cannot_be_read_is_shown(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        json_path(path)


@given(
    content=st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
        max_leaves=8,
    ),
    path=st.lists(st.sampled_from(["a", "b", "[0]", "[-1]", "[*]"]), max_size=5),
)
def test_any_path_can_be_followed_into_anything(content: object, path: list[str]) -> None:
    text = "".join(step if step.startswith("[") or number == 0 else f".{step}" for number, step in enumerate(path))
    assert isinstance(json_path(text).all(content), list)
