import json

import pytest
from fakes.seeing import seen, slopes, sweep
from fakes.serving import Serving, Told
from fakes.watson import TOKEN, watson

from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.watson import KEY, Watson
from adapters.watson_answers import labels_of

SECRET = "planted-watson-key"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)


def scores(adapter: Watson, outcomes: list[RawAnswer | NoAnswer]) -> list[dict[str, float]]:
    return [{label.name: label.score for label in adapter.parse(outcome)} for outcome in outcomes]


@pytest.mark.parametrize("iam", [False, True])
def test_the_slopes_of_known_scores_come_back_exactly_through_a_zip_in_another_order(iam: bool) -> None:
    images = sweep()
    with Serving(watson(SECRET, iam=iam)) as server:
        adapter = Watson(endpoint=server.url, iam=iam, iam_url=f"{server.url}/identity/token")
        together = scores(adapter, adapter.send(images))
        alone = scores(adapter, [adapter.send([image])[0] for image in images])
    assert together == alone == [seen(image) for image in images]
    assert slopes(together) == slopes([seen(image) for image in images])
    asked = server.asked[-1]
    assert asked.query == {"version": "2018-03-19"}
    assert asked.parts()["threshold"][2] == b"0.0"
    assert asked.headers["x-watson-learning-opt-out"] == "true"
    assert sum(asked.path == "/identity/token" for asked in server.asked) == int(iam)


def test_an_image_that_fails_within_a_success_fails_alone() -> None:
    images = sweep()[:3]
    images[1] = images[1][:100]
    with Serving(watson(SECRET)) as server:
        adapter = Watson(endpoint=server.url)
        first, second, third = adapter.send(images)
        nothing = adapter.send([b"no image"])[0]
    assert scores(adapter, [first, third]) == [seen(images[0]), seen(images[2])]
    assert isinstance(second, NoAnswer)
    assert second.retry == "never"
    assert "Invalid/corrupt" in second.reason
    assert isinstance(nothing, NoAnswer)
    assert len(server.asked) == 1


def test_an_image_that_the_reply_leaves_out_is_asked_again() -> None:
    told = Told(200, {"images": [{"image": "set.zip/01.png", "classifiers": []}]})
    with Serving(lambda _: told) as server:
        first, second = Watson(endpoint=server.url).send(sweep()[:2])
    assert isinstance(first, NoAnswer)
    assert first.retry == "later"
    assert isinstance(second, RawAnswer)


@pytest.mark.parametrize(
    ("fault", "retry", "wait"),
    [("too many", "slower", 7), ("broken", "later", None), ("busy", "later", 2), ("dropped", "later", None),
     ("redirect", "never", None), (Told(413, {"code": 413, "error": "too large"}), "never", None)],
)  # fmt: skip
def test_faults_say_whether_asking_again_helps(fault: str | Told, retry: str, wait: float | None) -> None:
    with Serving(watson(SECRET)) as server:
        server.fault = lambda _: fault
        outcomes = Watson(endpoint=server.url).send(sweep()[:2])
    assert [(outcome.retry, outcome.wait) for outcome in outcomes] == [(retry, wait)] * 2


@pytest.mark.parametrize("fault", ["page", "cut", "empty", "nothing"])
def test_a_success_that_cannot_be_understood_is_kept_and_fails_by_name(fault: str) -> None:
    with Serving(watson(SECRET)) as server:
        server.fault = lambda _: fault
        adapter = Watson(endpoint=server.url)
        for outcome in adapter.send(sweep()[:2]):
            assert isinstance(outcome, RawAnswer)
            with pytest.raises(AnswerError):
                adapter.parse(outcome)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (Told(401, {"code": 401, "error": "Unauthorized"}), "key was refused"),
        (Told(403, {"errors": [{"message": "no entry"}]}), "no entry"),
        (Told(400, {"status": "ERROR", "statusInfo": "invalid-api-key"}), "key was refused"),
        (Told(404, b"<html>"), "up to before /v3/classify"),
    ],
)
def test_what_no_call_escapes_stops_with_its_cure(told: Told, message: str) -> None:
    with Serving(lambda _: told) as server, pytest.raises(AdapterError, match=message):
        Watson(endpoint=server.url).send(sweep()[:1])


@pytest.mark.parametrize(("told", "retry"), [(Told(503, b"busy"), "later"), (Told(200, {"access_token": 7}), "later")])
def test_a_token_that_does_not_come_fails_these_images_alone(told: Told, retry: str) -> None:
    with Serving(lambda _: told) as server:
        outcome = Watson(endpoint=server.url, iam=True, iam_url=server.url).send(sweep()[:1])[0]
    assert isinstance(outcome, NoAnswer)
    assert (outcome.retry, outcome.billed) == (retry, False)


def test_a_token_that_ended_early_is_replaced_once() -> None:
    with Serving(watson(SECRET, iam=True)) as server:
        server.fault = lambda number: Told(401, {"error": "expired"}) if number == 2 else None
        adapter = Watson(endpoint=server.url, iam=True, iam_url=f"{server.url}/identity/token")
        assert isinstance(adapter.send(sweep()[:1])[0], RawAnswer)
    assert [asked.path for asked in server.asked] == ["/identity/token", "/v3/classify"] * 2


def test_a_refused_key_is_told_when_the_token_is_asked_for() -> None:
    with Serving(watson("another")) as server, pytest.raises(AdapterError, match="could not be found"):
        Watson(endpoint=server.url, iam=True, iam_url=f"{server.url}/identity/token").send(sweep()[:1])


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://api.us-south.visual-recognition.watson.cloud.ibm.com/instances/1",
        "https://gateway.watsonplatform.net/visual-recognition/api",
        "https://GATEWAY-A.watsonplatform.net/visual-recognition/api",
    ],
)
def test_hosts_that_are_gone_are_not_called(endpoint: str) -> None:
    with pytest.raises(AdapterError, match=r"ended on 1 Dec 2021.*replay.*watson.endpoint="):
        Watson(endpoint=endpoint)


def test_the_key_is_asked_for_by_name_and_sent_only_where_it_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AdapterError, match="only over https"):
        Watson(endpoint="http://watson.example")
    monkeypatch.delenv(KEY)
    with pytest.raises(AdapterError, match=KEY):
        Watson(endpoint="https://watson.example")
    assert Watson(endpoint="http://watson.example", key_variable="").capabilities.service.credentials == ()


def test_a_server_that_repeats_the_key_gets_it_nowhere() -> None:
    def echo(asked: object) -> Told:
        return Told(500, {"error": f"{SECRET} {asked!r} {TOKEN}"}, {"X-Global-Transaction-ID": SECRET})

    with Serving(echo) as server:
        adapter = Watson(endpoint=server.url)
        outcome = adapter.send(sweep()[:1])[0]
    sent = server.asked[0].headers["authorization"].partition(" ")[2]
    for secret in (SECRET, sent):
        assert secret not in repr((outcome, vars(adapter)["parameters"], adapter.model, adapter.capabilities))


def answer(image: dict[str, object], position: int = 0) -> RawAnswer:
    return RawAnswer(json.dumps({"images": [image]}).encode(), position=position)


def test_answers_of_all_dates_are_read() -> None:
    old = answer({"classifiers": [{"classes": [{"class": "nurse", "score": 0.81}]}], "image": "a.jpg"})
    assert [(label.name, label.score) for label in labels_of(old)] == [("nurse", 0.81)]
    faces = answer(
        {
            "faces": [
                {"age": {"min": 23, "max": 26, "score": 0.6}, "gender": {"gender": "FEMALE", "score": 0.99}},
                {"age": {"max": 17, "score": 0.3}, "gender": {"gender": "female", "gender_label": "x", "score": 0.5}},
            ]
        }
    )
    assert {label.name: label.score for label in labels_of(faces)} == {
        "gender FEMALE": 0.99,
        "age 23-26": 0.6,
        "age 0-17": 0.3,
    }
    several = [{"classes": [{"class": "nurse", "score": score}]} for score in (0.2, 0.7)]
    assert labels_of(answer({"classifiers": several}))[0].score == 0.7


@pytest.mark.parametrize(
    "image",
    [
        {},
        {"classifiers": None},
        {"classifiers": [{}]},
        {"classifiers": [{"classes": [{"class": "a", "score": "0.5"}]}]},
        {"classifiers": [{"classes": [{"class": "a", "score": float("nan")}]}]},
        {"classifiers": [{"classes": [{"class": "a", "score": 1.01}]}]},
        {"classifiers": [{"classes": [{"class": None, "score": 0.5}]}]},
        {"error": {"code": 400, "description": "bad"}},
        {"faces": [{"age": 5, "gender": {"gender": "FEMALE"}}]},
    ],
)
def test_what_is_no_answer_fails_by_name(image: dict[str, object]) -> None:
    with pytest.raises(AnswerError):
        labels_of(answer(image))
    with pytest.raises(AnswerError, match="position 1"):
        labels_of(answer(image, position=1))
