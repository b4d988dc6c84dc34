from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.querying.requests import canonical_json, key_maker

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARAMETERS = st.dictionaries(st.text(max_size=5), PLAIN, max_size=4)
REQUESTS = st.tuples(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), PARAMETERS)


def _key_maker(adapter: str, model: str, parameters: dict[str, Any]) -> Any:
    return key_maker(SimpleNamespace(name=adapter, model=model, parameters=parameters))


def _key(request: tuple[str, str, str, dict[str, Any]]) -> str:
    image, adapter, model, parameters = request
    return _key_maker(adapter, model, parameters)(image)


@given(REQUESTS, REQUESTS)
def test_equal_requests_have_equal_keys(one, other):
    same = canonical_json(list(one)) == canonical_json(list(other))
    assert (_key(one) == _key(other)) == same


@given(REQUESTS, st.integers(0, 3), st.text(min_size=1, max_size=3))
def test_changing_one_part_changes_the_key(request, part, addition):
    changed = list(request)
    changed[part] = {**request[3], f"{''.join(request[3])}{addition}": 1} if part == 3 else request[part] + addition
    assert _key(tuple(changed)) != _key(request)


@given(PARAMETERS)
def test_order_of_parameters_does_not_change_the_key(parameters):
    backwards = dict(reversed(parameters.items()))
    assert _key(("i", "a", "m", parameters)) == _key(("i", "a", "m", backwards))


def test_types_of_values_change_the_key():
    keys = {_key(("i", "a", "m", {"x": value})) for value in (1, 1.0, "1", True, None, [1], {"1": 1})}
    assert len(keys) == 7


def test_key_maker_gives_the_same_keys():
    make = _key_maker("a", "m", {"x": 1})
    assert [make("1"), make("2")] == [_key(("1", "a", "m", {"x": 1})), _key(("2", "a", "m", {"x": 1}))]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {"a": [{2: 3}]}, object(), b"x"])
def test_parameters_beyond_plain_json_are_refused(value):
    with pytest.raises((TypeError, ValueError)):
        _key(("i", "a", "m", {"x": value}))
