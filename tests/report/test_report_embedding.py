"""Data inside the page: text that no browser takes for anything else, and that reads back as it was shown."""

import base64
import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.embedding import as_data_block, source_hash
from pipeline.run.text import visible

BLOCK = re.compile(r'<script type="application/json" id="data">(.*)</script>', re.DOTALL)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def shown(value):
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {visible(name): shown(item) for name, item in value.items()}
    return value


@given(values)
def test_data_read_back_as_the_page_shows_them(value):
    content = BLOCK.fullmatch(as_data_block(value, id="data"))[1]
    assert json.loads(content) == shown(value)
    assert not re.search("[<>&\u2028\u2029]", content)
    content.encode("utf-8")


def test_hostile_text_cannot_end_the_block(hostile):
    content = BLOCK.fullmatch(as_data_block(list(hostile), id="data"))[1]
    assert "</" not in content
    assert "<!--" not in content


def test_what_json_lacks_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_data_block([float("nan")], id="data")


@pytest.mark.parametrize("bad", ["", "1a", 'a" onload="', "A", "a b"])
def test_an_id_is_an_id(bad):
    with pytest.raises(ValueError, match="is not an id"):
        as_data_block(1, id=bad)


def test_hashes_are_those_a_policy_names():
    digest = base64.b64encode(hashlib.sha256("é".encode()).digest()).decode()
    assert source_hash("é") == f"'sha256-{digest}'"
