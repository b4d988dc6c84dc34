import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from adapter_calls import answer_to, make_adapter, scores_of
from drawn_faces import drawn_face, png

from adapters.base import AdapterError, AnswerError, NoAnswer
from adapters.python import PythonFunction


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], str]:
    """Write code to a module with a unique name."""

    def write(code: str) -> str:
        name = f"users_module_{abs(hash((str(tmp_path), code)))}"
        (tmp_path / f"{name}.py").write_text(code)
        return name

    return write


def test_user_function_is_an_adapter(module, tmp_path):
    name = module("def look(image): return {'starts with P': float(image[1:2] == b'P')}")
    before = list(sys.path)
    adapter = make_adapter("python", f"{name}:look", path=tmp_path)
    label = adapter.parse(adapter.send([png(drawn_face())])[0])[0]
    assert (label.name, label.score) == ("starts with P", 1.0)
    assert adapter.name == f"python:{name}:look"
    assert sys.path == before


def test_input_array_is_rgb(module, tmp_path):
    code = "def look(image): return [('red', image[0, 0, 0] / 255), (f'{image.shape} {image.dtype}', 1)]"
    adapter = make_adapter("python", f"{module(code)}:look", path=tmp_path, input="array")
    image = drawn_face()
    image[0, 0] = (255, 0, 0)
    labels = adapter.parse(adapter.send([png(image)])[0])
    assert [(label.name, label.score) for label in labels] == [("red", 1.0), ("(275, 225, 3) uint8", 1.0)]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("{'a': 0.5, 'b': 1}", {"a": 0.5, "b": 1.0}),
        ("[('a', 0.5)]", {"a": 0.5}),
        ("(['a', 0.5],)", {"a": 0.5}),
        ("['a', 'b']", {"a": 1.0, "b": 1.0}),
        ("[]", {}),
        ("{'a': __import__('numpy').float32(0.5)}", {"a": 0.5}),
    ],
)
def test_result_may_be_dict_pairs_or_names(module, tmp_path, result, expected):
    adapter = make_adapter("python", f"{module(f'def look(image): return {result}')}:look", path=tmp_path)
    assert scores_of(adapter, answer_to(adapter, b"x")) == expected


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("None", "not NoneType"),
        ("'smile'", "not str"),
        ("[1]", "not int"),
        ("{'a': float('nan')}", "must be in 0-1, not nan"),
        ("{'a': 90}", "must be in 0-1, not 90"),
        ("{'a': 10 ** 5000}", "must be in 0-1, not a huge number"),
        ("{'a': '0.5'}", "must be a number"),
        ("{'a': True}", "must be a number"),
        ("{1: 0.5}", "must be text, not 1"),
        ("{' ': 0.5}", "must be text"),
        ("['a', 'a']", "'a' occurs twice"),
        ("{chr(0xD800): 0.5}", "UTF-8"),
    ],
)
def test_other_results_are_refused(module, tmp_path, result, message):
    name = module(f"def look(image): return {result}")
    adapter = make_adapter("python", f"{name}:look", path=tmp_path)
    with pytest.raises(AnswerError, match=f"python:{name}:look returned something that is not labels: .*{message}"):
        adapter.send([b"x"])


def test_version_changes_with_the_file(module, tmp_path):
    first = make_adapter("python", f"{module('def look(image): return []')}:look", path=tmp_path)
    second = make_adapter("python", f"{module('def look(image): return [0]')}:look", path=tmp_path)
    assert first.model != second.model
    assert (
        make_adapter("python", "json:dumps", version="2").parameters != make_adapter("python", "json:dumps").parameters
    )


@pytest.mark.parametrize(
    ("code", "target", "message"),
    [
        ("x = 1", "{name}:look", "no function 'look' in .*py"),
        ("x = 1", "{name}:x", "no function 'x'"),
        ("def look(", "{name}:look", "cannot be imported from .*SyntaxError"),
        ("import nothing_of_that_name", "{name}:look", "No module named 'nothing_of_that_name'"),
        ("", "no_such_module_anywhere:look", "cannot be imported from"),
        ("", "{name}", "write python:module:function"),
    ],
)
def test_function_that_cannot_be_loaded_is_explained(module, tmp_path, code, target, message):
    name = module(code)
    before = list(sys.path)
    with pytest.raises(AdapterError, match=message):
        make_adapter("python", target.format(name=name), path=tmp_path)
    assert sys.path == before


def test_function_object_equals_function_by_name(tmp_path, monkeypatch):
    (tmp_path / "handy.py").write_text("def classify(image):\n    return {'long': min(1.0, len(image) / 100)}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import handy

    named, given = make_adapter("python", "handy:classify", path=tmp_path), PythonFunction.of(handy.classify)
    assert (given.name, given.model, given.parameters) == (named.name, named.model, named.parameters)
    assert given.send([b"x" * 50]) == named.send([b"x" * 50])
    assert PythonFunction.of(handy.classify, version="2").parameters != given.parameters


def test_version_of_local_function_is_its_source():
    def bright(image):
        return ["bright"]

    def dark(image):
        return ["dark"]

    adapter = PythonFunction.of(bright)
    assert adapter.name.endswith("bright")
    assert adapter.model.startswith("source ")
    assert adapter.model == PythonFunction.of(bright).model != PythonFunction.of(dark).model
    assert scores_of(adapter, answer_to(adapter, b"")) == {"bright": 1}


def test_function_without_source_is_refused():
    hidden = eval("lambda image: {}")
    with pytest.raises(AdapterError, match="define it in a file"):
        PythonFunction.of(hidden)


def test_sys_exit_is_a_named_failure(module, tmp_path):
    adapter = make_adapter(
        "python", f"{module('import sys' + chr(10) + 'def look(image): sys.exit(3)')}:look", path=tmp_path
    )
    with pytest.raises(RuntimeError, match=r"the function called sys.exit\(3\)"):
        adapter.send([b"x"])
    name = module("raise SystemExit('no licence')")
    with pytest.raises(AdapterError, match=r"cannot be imported.*SystemExit: no licence"):
        make_adapter("python", f"{name}:look", path=tmp_path)


SLOW = """
import os, sys, time
def look(image):
    print('{"id": "1", "labels": []}')
    if image == b"slow": time.sleep(60)
    if image == b"exit": sys.exit(3)
    if image == b"gone": os._exit(4)
    if image == b"wrong": return 7
    return {"size": len(image) / 1000, f"process {os.getpid()}": 1}
"""


def test_time_limit_isolates_hangs_exits_and_crashes(module, tmp_path):
    name = module(SLOW)
    adapter = make_adapter("python", f"{name}:look", path=tmp_path, timeout=2)
    plain = make_adapter("python", f"{name}:look", path=tmp_path)
    assert (adapter.name, adapter.model, adapter.parameters) == (plain.name, plain.model, plain.parameters)
    outcomes = {image: adapter.send([image])[0] for image in (b"fine", b"slow", b"exit", b"gone", b"wrong", b"again")}
    reasons = {image: outcome.reason for image, outcome in outcomes.items() if isinstance(outcome, NoAnswer)}
    assert "gave no answer within 2 s" in reasons[b"slow"]
    assert "the function called sys.exit(3)" in reasons[b"exit"]
    assert "ended with exit code 4" in reasons[b"gone"]
    assert "returned something that is not labels" in reasons[b"wrong"]
    found = scores_of(adapter, outcomes[b"again"])
    assert found["size"] == 0.005
    assert f"process {os.getpid()}" not in found


def test_missing_module_is_named_with_time_limit(tmp_path):
    with pytest.raises(AdapterError, match="there is no module 'nowhere_at_all'"):
        make_adapter("python", "nowhere_at_all:look", path=tmp_path, timeout=2)
