"""Every registered adapter satisfies the contract of `adapters.base`. A new adapter needs an entry in SETUPS."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from drawn_faces import drawn_face, png
from fakes.chat_service import chat_service
from fakes.clouds import CLOUDS, service_and_adapter
from fakes.http_server import FakeServer, Request, Response
from fakes.pixel_scores import LABELS, pixel_scores
from fakes.rest_service import rest_service
from fakes.tiny_networks import tiny_clip, tiny_onnx, tiny_resnet, tiny_transformer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import models.weights
from adapters import registry
from adapters.base import Adapter, AnswerError, Capabilities, NoAnswer, RawAnswer
from models.judge import Judge
from pipeline.run.tables import COUNTERFACTUALS, to_table, write_table

IMAGES = [png(drawn_face()), png(drawn_face(width=160, height=200, shift=6)), png(drawn_face()[:60, :60])]

PROGRAM = """
import base64, json, sys
for line in sys.stdin:
    request = json.loads(line)
    size = len(base64.b64decode(request["image"]))
    print(json.dumps({"id": request["id"], "labels": [["bright", 0.25], ["size", min(1, size / 1e6)]]}), flush=True)
"""
FUNCTION = "def face(image):\n    return {'bright': 0.25, 'size': min(1.0, len(image) / 1e6)}\n"


def _planted(folder: Path, _: ExitStack) -> Adapter:
    rows = [
        {"attribute": "gender", "arm": "edit", "photo": f"{n}.png", "value": n - 1.0, "status": "ok", "sha256": digest}
        for n, digest in enumerate(sha256(image).hexdigest() for image in IMAGES)
    ]
    write_table(to_table(rows, COUNTERFACTUALS), folder / "counterfactuals.parquet")
    return registry.create("planted", {"run": str(folder)})


def _python(folder: Path, _: ExitStack) -> Adapter:
    (folder / "conforming_function.py").write_text(FUNCTION)
    return registry.create("python:conforming_function:face", {"path": str(folder)})


def _start(stack: ExitStack, answer: Callable[[Request], Response], **variables: str) -> str:
    """Start a server and set environment variables until the stack is closed; return the server's URL."""
    stack.enter_context(patch.dict(os.environ, variables))
    return stack.enter_context(FakeServer(answer)).url


def _http(_: Path, stack: ExitStack) -> Adapter:
    url = _start(stack, rest_service("clinic-key"), CLINIC_KEY="clinic-key")
    options = {"items": "result.tags", "label": "tag.en", "score": "p", "headers": {"X-Api-Key": "${CLINIC_KEY}"}}
    return registry.create("http:clinic", {"url": url, **options})


def _openai(_: Path, stack: ExitStack) -> Adapter:
    url = _start(stack, chat_service("openai-key"), OPENAI_API_KEY="openai-key")
    return registry.create("openai", {"endpoint": f"{url}/v1", "model": "seer", "labels": LABELS})


def _replay(folder: Path, _: ExitStack) -> Adapter:
    for image in IMAGES:
        answer = {"labels": list(pixel_scores(image).items())}
        (folder / f"{sha256(image).hexdigest()}.json").write_text(json.dumps(answer))
    return registry.create("replay:labels", {"source": str(folder)})


def _command(folder: Path, stack: ExitStack) -> Adapter:
    (folder / "classify.py").write_text(PROGRAM)
    adapter = registry.create(f"command:{sys.executable} -S classify.py", {"folder": str(folder)})
    stack.callback(adapter.close)
    return adapter


def _torchvision(folder: Path, _: ExitStack) -> Adapter:
    weights = tiny_resnet(folder / "weights.pth")
    options = {"weights": str(weights), "labels": ["a", "b", "c"], "size": 32, "batch": 2}
    return registry.create("torchvision:resnet18", options)


def _onnx(folder: Path, _: ExitStack) -> Adapter:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = {"labels": ["a", "b", "c"], "size": 8, "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2], "batch": 2}
    return registry.create(f"onnx:{tiny_onnx(folder / 'tiny.onnx')}", options)


def _huggingface(folder: Path, _: ExitStack) -> Adapter:
    return registry.create(f"huggingface:{tiny_transformer(folder / 'tiny')}", {"batch": 2})


def _clip(folder: Path, _: ExitStack) -> Adapter:
    return registry.create(f"clip:{tiny_clip(folder / 'tiny')}", {"labels": ["nurse", "pilot"], "batch": 2})


def _cloud(name: str) -> Callable[[Path, ExitStack], Adapter]:
    return lambda _, stack: stack.enter_context(service_and_adapter(name))[1]


# Each gets an empty folder, and a stack for the servers and environment variables that it starts and sets.
SETUPS: dict[str, Callable[[Path, ExitStack], Adapter]] = {
    "clip": _clip,
    "command": _command,
    "face-attributes": lambda *_: registry.create("face-attributes"),
    "http": _http,
    "huggingface": _huggingface,
    "onnx": _onnx,
    "openai": _openai,
    "opencv": lambda *_: registry.create("opencv"),
    "planted": _planted,
    "python": _python,
    "replay": _replay,
    "torchvision": _torchvision,
    **{name: _cloud(name) for name in CLOUDS},
}


@pytest.fixture(params=registry.BUILT_IN)
def adapter(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Adapter]:
    def untrained(name: str) -> Judge:
        torch.manual_seed(0)
        return Judge(widths=(8, 8, 16, 16)).eval()

    monkeypatch.setattr(models.weights, "load_judge", untrained)
    with ExitStack() as stack:
        yield SETUPS[request.param](tmp_path, stack)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_class_is_described_without_credentials(name):
    found = registry.describe(name)
    assert found.about
    assert all(option.help for option in found.options), "every option needs a description"
    assert found.capabilities is not None
    check_capabilities(found.capabilities)


def check_capabilities(declared: Capabilities) -> None:
    assert declared.features
    assert declared.batch >= 1
    assert declared.concurrency >= 1
    assert declared.batch_bytes is None or declared.batch_bytes > 0
    assert declared.top_k is None or declared.top_k >= 1
    assert 0 <= declared.presence <= 1
    assert declared.cut_off is None or 0 <= declared.cut_off <= declared.presence
    assert {"png", "jpeg"} <= set(declared.limits.formats)
    if (service := declared.service) is None:
        return
    assert all((service.provider, service.host, service.retention, service.version))
    assert (service.ends is None) == (service.lifecycle == "live")
    assert service.rate > 0
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+", variable) for variable in service.credentials)
    if service.price is not None:
        assert service.price.usd_per_1000 >= 0
        assert service.price.source


def test_every_image_is_answered_with_declared_labels(adapter):
    answers = answers_in_batches(adapter)
    assert len(answers) == len(IMAGES)
    parsed = [adapter.parse(answer) for answer in answers]
    assert any(parsed)
    for labels in parsed:
        names = [label.name for label in labels]
        assert len(names) == len(set(names))
        assert all(0 <= label.score <= 1 for label in labels)
        assert all(label.score >= (adapter.capabilities.cut_off or 0) - 1e-6 for label in labels)
        if adapter.capabilities.labels is not None:
            assert set(names) <= set(adapter.capabilities.labels)


def test_answer_does_not_depend_on_the_batch(adapter):
    together = [adapter.parse(answer) for answer in answers_in_batches(adapter)]
    alone = [adapter.parse(_answer(adapter.send([image])[0])) for image in IMAGES]
    assert together == alone


def test_adapter_declares_key_and_capabilities_without_secrets(adapter):
    assert adapter.name
    assert adapter.model == adapter.model
    record = json.dumps([adapter.name, adapter.model, dict(adapter.parameters)], allow_nan=False)
    check_capabilities(adapter.capabilities)
    service = adapter.capabilities.service
    for variable in service.credentials if service else ():
        value = os.environ.get(variable, "")
        assert len(value) < 8 or value not in record + repr(adapter)


def test_invalid_image_fails_only_its_call(adapter):
    if adapter.name.startswith(("python:", "command:")):
        pytest.skip("what a function or a program of the user's takes is up to it")
    for junk in (b"", b"not an image", IMAGES[0][:200]):
        if adapter.capabilities.remote or adapter.name.startswith("replay:"):
            assert isinstance(adapter.send([junk])[0], NoAnswer)
            continue
        with pytest.raises(Exception, match=r"image") as caught:
            adapter.send([junk])
        assert not isinstance(caught.value, registry.AdapterError)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["labels", "a"]), inner),
        ).map(lambda value: json.dumps(value).encode()),
        st.lists(st.lists(st.text() | st.floats() | st.integers() | st.booleans(), max_size=3), max_size=3).map(
            lambda rows: json.dumps({"labels": rows}).encode()
        ),
        st.sampled_from(
            [
                b"[" * 100_000,
                b'{"labels": [["a", NaN]]}',
                b'{"labels": [["a", 1' + b"0" * 400 + b"]]}",
                b'{"labels": [["a", 1' + b"0" * 5000 + b"]]}",
                b'{"labels": [["\\ud800", 0.5]]}',
                b'{"labels": [["a", "0.5"]]}',
                b'{"labels": [["a", 0.5], ["a", 0.6]]}',
                b"<html>200 OK</html>",
            ]
        ),
    )
)
def test_arbitrary_answer_is_parsed_or_refused_reproducibly(adapter, body):
    def outcome():
        try:
            labels = adapter.parse(RawAnswer(body=body))
        except AnswerError as error:
            return str(error)
        for label in labels:
            assert label.name.encode()
            assert 0 <= label.score <= 1
        return labels

    assert outcome() == outcome()


def answers_in_batches(adapter: Adapter) -> list[RawAnswer]:
    size = adapter.capabilities.batch
    sent = (adapter.send(IMAGES[start : start + size]) for start in range(0, len(IMAGES), size))
    return [_answer(outcome) for outcomes in sent for outcome in outcomes]


def _answer(outcome: RawAnswer | NoAnswer) -> RawAnswer:
    assert isinstance(outcome, RawAnswer), outcome
    return outcome
