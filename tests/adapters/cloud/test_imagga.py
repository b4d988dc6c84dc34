import json

import pytest
from fakes.imagga import imagga
from fakes.made import made
from fakes.seeing import seen, slopes, sweep
from fakes.serving import Response, Serving

from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.cloud.imagga import KEY, SECRET, labels_of

PLANTED = ("planted-imagga-key", "planted-imagga-secret")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip((KEY, SECRET), PLANTED, strict=True):
        monkeypatch.setenv(name, value)


def test_the_slopes_of_known_scores_come_back_exactly() -> None:
    images = sweep()
    with Serving(imagga(*PLANTED)) as server:
        adapter = made("imagga", endpoint=server.url)
        found = [{label.name: label.score for label in adapter.parse(answer)} for answer in adapter.send(images)]
    truth = slopes([seen(image) for image in images])
    assert slopes(found) == pytest.approx(truth, abs=1e-12)
    assert server.received[0].parts()["threshold"][2] == b"0"


@pytest.mark.parametrize(
    ("fault", "retry"), [("too many", "slower"), ("broken", "later"), ("busy", "later"), ("dropped", "later"),
                         ("redirect", "never"), (Response(400, {"status": {"text": "bad", "type": "error"}}), "never"),
                         (Response(200, {"status": {"text": "bad", "type": "error"}}), "never")],
)  # fmt: skip
def test_faults_say_whether_asking_again_helps(fault: str | Response, retry: str) -> None:
    with Serving(imagga(*PLANTED)) as server:
        server.fault = lambda _: fault
        outcome = made("imagga", endpoint=server.url).send(sweep()[:1])[0]
    assert isinstance(outcome, NoAnswer)
    assert outcome.retry == retry
    assert "bad" in outcome.reason or isinstance(fault, str)


@pytest.mark.parametrize("fault", ["page", "cut", "empty", "nothing"])
def test_a_success_that_cannot_be_understood_is_kept_and_fails_by_name(fault: str) -> None:
    with Serving(imagga(*PLANTED)) as server:
        server.fault = lambda _: fault
        adapter = made("imagga", endpoint=server.url)
        outcome = adapter.send(sweep()[:1])[0]
    assert isinstance(outcome, RawAnswer)
    with pytest.raises(AnswerError):
        adapter.parse(outcome)


def test_refused_credentials_stop_with_their_cure_and_are_not_shown() -> None:
    with (
        Serving(imagga("another", "pair")) as server,
        pytest.raises(AdapterError, match=f"check {KEY} and {SECRET}") as e,
    ):
        made("imagga", endpoint=server.url).send(sweep()[:1])
    assert not any(secret in str(e.value) for secret in PLANTED)


@pytest.mark.parametrize("missing", [KEY, SECRET])
def test_a_missing_variable_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AdapterError, match="only over https"):
        made("imagga", endpoint="http://imagga.example")
    monkeypatch.delenv(missing)
    with pytest.raises(AdapterError, match=missing):
        made("imagga")


def test_a_server_that_repeats_the_credentials_gets_them_nowhere() -> None:
    with Serving(
        lambda received: Response(200, {"echo": [*PLANTED, dict(received.headers)]}, {"X-Request-Id": PLANTED[0]})
    ) as server:
        adapter = made("imagga", endpoint=server.url)
        outcome = adapter.send(sweep()[:1])[0]
    sent = server.received[0].headers["authorization"].partition(" ")[2]
    for secret in (*PLANTED, sent):
        assert secret not in repr((outcome, adapter.parameters, adapter.model, adapter.capabilities))


@pytest.mark.parametrize(
    "tags",
    [None, {}, ["a"], [{"tag": {"en": "a"}}], [{"tag": {}, "confidence": 5}], [{"tag": {"en": "a"}, "confidence": 101}],
     [{"tag": {"en": "a"}, "confidence": "61"}]],
)  # fmt: skip
def test_what_is_no_list_of_tags_fails_by_name(tags: object) -> None:
    with pytest.raises(AnswerError):
        labels_of(RawAnswer(json.dumps({"result": {"tags": tags}}).encode()))
