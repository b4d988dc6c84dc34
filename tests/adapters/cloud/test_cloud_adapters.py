"""Properties that all cloud adapters share; each vendor's peculiarities are tested in its own file."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes.clouds import CLOUDS, environment, parser, service_and_adapter
from fakes.http_server import FAULTS, FakeServer, Request, Response
from fakes.pixel_scores import pixel_scores, score_slopes, sweep_images

from adapters import registry
from adapters.base import Adapter, AdapterError, AnswerError, Capabilities, NoAnswer, RawAnswer

each = pytest.mark.parametrize("name", CLOUDS)


def answers(adapter: Adapter, images: list[bytes]) -> list[RawAnswer]:
    size = adapter.capabilities.batch
    sent = [outcome for start in range(0, len(images), size) for outcome in adapter.send(images[start : start + size])]
    assert all(isinstance(outcome, RawAnswer) for outcome in sent), sent
    return [outcome for outcome in sent if isinstance(outcome, RawAnswer)]


def scores(adapter: Adapter, answer: RawAnswer) -> dict[str, float]:
    return {label.name: label.score for label in adapter.parse(answer)}


@each
def test_the_slopes_of_what_is_seen_come_back_exactly(name: str) -> None:
    images = sweep_images()
    with service_and_adapter(name) as (service, adapter):
        found = score_slopes([scores(adapter, answer) for answer in answers(adapter, images)])
        assert found == pytest.approx(score_slopes([pixel_scores(image) for image in images]), abs=1e-12)
        assert service.billed == len(images)


@each
def test_answers_are_read_without_the_classifier_or_its_credentials(name: str) -> None:
    with service_and_adapter(name) as (_, adapter):
        answer = answers(adapter, sweep_images()[:1])[0]
        expected = adapter.parse(answer)
    with environment({}):
        assert parser(name)(answer) == expected


@each
@pytest.mark.parametrize(
    ("fault", "retry", "wait"),
    [("too many", "slower", 7.0), ("busy", "later", 2.0), ("broken", "later", None), ("dropped", "later", None)],
)
def test_faults_that_pass_are_named_as_such(name: str, fault: str, retry: str, wait: float | None) -> None:
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: fault
        images = sweep_images()[: adapter.capabilities.batch]
        outcomes = adapter.send(images)
        assert len(outcomes) == len(images)
        for outcome in outcomes:
            assert isinstance(outcome, NoAnswer)
            assert (outcome.retry, outcome.wait) == (retry, wait)
            assert outcome.billed == (fault == "dropped")
            assert outcome.reason
        assert service.billed == 0


@each
@pytest.mark.parametrize("fault", ["page", "cut", "empty", "nothing"])
def test_what_was_paid_for_is_kept_even_if_it_cannot_be_read(name: str, fault: str) -> None:
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: fault
        for answer in answers(adapter, sweep_images()[:1]):
            body = FAULTS[fault].body
            assert answer.body == (body if isinstance(body, bytes) else json.dumps(body).encode())
            with pytest.raises(AnswerError):
                adapter.parse(answer)


@each
def test_a_redirect_is_a_failure(name: str) -> None:
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: "redirect"
        outcome = adapter.send(sweep_images()[:1])[0]
        assert isinstance(outcome, NoAnswer)
        assert "redirect" in outcome.reason
        assert len(service.requests) == 1


@each
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_page_that_refuses_everything_stops_the_run(name: str, status: int) -> None:
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: Response(status, b"<html>no</html>")
        with pytest.raises(AdapterError, match="refuses"):
            adapter.send(sweep_images()[:1])


@each
def test_an_image_that_is_none_fails_alone(name: str) -> None:
    images = sweep_images()[:3]
    images[1] = b"not an image"
    with service_and_adapter(name) as (_, adapter):
        size = adapter.capabilities.batch
        sent = [outcome for start in range(0, 3, size) for outcome in adapter.send(images[start : start + size])]
        assert [isinstance(outcome, RawAnswer) for outcome in sent] == [True, False, True]
        assert isinstance(sent[1], NoAnswer)
        assert sent[1].reply is not None or name == "imagga", "the reply is kept, where there was one"
        assert isinstance(sent[2], RawAnswer)
        assert scores(adapter, sent[2]) == pytest.approx(pixel_scores(images[2]))
        failed = adapter.send(images[1:2])[0]
        assert isinstance(failed, NoAnswer)
        assert failed.retry == "never"


# Four images' errors, and what they mean; a reply that holds a part for one image alone.
_SOME_FAIL: dict[str, tuple[list[tuple[dict[str, Any], str]], dict[str, Any]]] = {
    "google": (
        [
            ({"code": 3, "message": "Bad image data."}, "later"),
            ({"code": 14, "message": "Service unavailable"}, "later"),
            ({"code": 8, "message": "Quota exceeded"}, "slower"),
            ({"code": 3, "message": "We can not access the image"}, "never"),
        ],
        {"responses": [{}]},
    ),
    "clarifai": (
        [
            ({"code": 30300, "description": "Input image decoding failed"}, "never"),
            ({"code": "CONN_THROTTLED", "description": "slow down"}, "slower"),
            ({"code": 98004, "description": "internal"}, "later"),
            ({"code": "MODEL_BUSY_PLEASE_RETRY", "description": "busy"}, "later"),
        ],
        {
            "status": {"code": 10000, "description": "Ok"},
            "outputs": [{"status": {"code": 10000}, "data": {"concepts": []}}],
        },
    ),
}
batched = pytest.mark.parametrize("name", _SOME_FAIL)


@batched
def test_a_batch_is_one_call_and_every_image_gets_its_own_part(name: str) -> None:
    images = sweep_images() * 3
    with service_and_adapter(name) as (service, adapter):
        outcomes = adapter.send(images)
        assert len(service.requests) == 1
        assert "key" not in service.requests[0].query
        for image, outcome in zip(images, outcomes, strict=True):
            assert isinstance(outcome, RawAnswer)
            assert scores(adapter, outcome) == pixel_scores(image)
        assert len({outcome.body for outcome in outcomes if isinstance(outcome, RawAnswer)}) == 1


@batched
def test_of_a_batch_only_the_failed_images_fail(name: str) -> None:
    images, errors = sweep_images(), _SOME_FAIL[name][0]
    with service_and_adapter(name) as (service, adapter):
        service.image_error = {image: error for image, (error, _) in zip(images, errors, strict=False)}.get
        outcomes = adapter.send(images)
        assert isinstance(outcomes[4], RawAnswer)
        assert scores(adapter, outcomes[4]) == pixel_scores(images[4])
        failed = [outcome for outcome in outcomes[:4] if isinstance(outcome, NoAnswer)]
        assert [outcome.retry for outcome in failed] == [retry for _, retry in errors]
        for position, (outcome, (error, _)) in enumerate(zip(failed, errors, strict=True)):
            assert outcome.reason == f"{error.get('message') or error['description']} (code {error['code']})"
            assert not outcome.billed
            assert outcome.reply is not None
            assert outcome.reply.position == position
            with pytest.raises(AnswerError, match="failed on this image"):
                adapter.parse(outcome.reply)


@batched
def test_a_reply_with_a_part_missing_belongs_to_nobody(name: str) -> None:
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: Response(200, _SOME_FAIL[name][1])
        for outcome in adapter.send(sweep_images()):
            assert isinstance(outcome, NoAnswer)
            assert "cannot be assigned" in outcome.reason
            assert outcome.billed


@each
def test_missing_credentials_are_named_with_what_to_do(name: str) -> None:
    wanted = next(iter(CLOUDS[name].environment))
    with environment({"AWS_REGION": "eu-west-1"}), pytest.raises(AdapterError, match=f"export {wanted}="):
        registry.create(name, {"endpoint": "https://127.0.0.1"})


@each
def test_credentials_go_nowhere_in_the_clear(name: str) -> None:
    with environment(CLOUDS[name].environment):
        for endpoint, message in [
            ("http://example.org", "only over https"),
            ("https://me:hidden-password@example.org", "must not hold a user name or password"),
            ("https://example.org/?key=1", r"before any \?"),
            ("ftp://example.org", "must be an address"),
        ]:
            with pytest.raises(AdapterError, match=message) as caught:
                registry.create(name, {"endpoint": endpoint})
            assert "hidden-password" not in str(caught.value)
        registry.create(name, {"endpoint": "https://example.org/gateway/"})


def _echo(status: int) -> Callable[[Request], Response]:
    """Reply of a hostile or careless server that repeats everything it was sent."""

    def answer(request: Request) -> Response:
        shown = json.dumps(dict(request.headers))
        error = {"code": status, "message": shown, "status": shown}
        return Response(
            status, {"error": error, "__type": shown, "Message": shown, "status": {"code": 1, "description": shown}}
        )

    return answer


@each
@pytest.mark.parametrize("status", [200, 400, 401, 403, 429, 500])
def test_planted_secrets_are_shown_nowhere(name: str, status: int) -> None:
    cloud = CLOUDS[name]
    with FakeServer(_echo(status)) as server, environment(cloud.environment):
        adapter = registry.create(name, {"endpoint": server.url})
        shown = [repr(adapter), adapter.model, repr(adapter.parameters), repr(adapter.capabilities), adapter.name]
        try:
            for outcome in adapter.send(sweep_images()[:1]):
                shown.append(repr(outcome))
        except AdapterError as error:
            shown += [str(error), repr(error), repr(error.__cause__)]
        assert len(server.requests) == 1
        assert not any(secret in text for secret in cloud.secrets for text in shown)


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "azure": [
        {},
        {"model_version": "2023-10-01"},
        {"captions": True},
        {"captions": True, "gender_neutral": True},
        {"language": "es"},
        {"endpoint": "https://b.example"},
    ],
    "clarifai": [
        {},
        {"version": "another"},
        {"model": "gender-demographics-recognition", "version": "1"},
        {"user": "me", "version": "1"},
        {"app": "mine", "version": "1"},
        {"concepts": ["nurse"]},
        {"endpoint": "https://b.example"},
    ],
    "google": [
        {},
        {"max_results": 10},
        {"faces": True},
        {"model": "builtin/latest"},
        {"region": "eu"},
        {"region": "us"},
        {"endpoint": "https://b.example"},
    ],
    "imagga": [{}, {"language": "es"}, {"endpoint": "https://b.example"}],
    "rekognition": [
        {},
        {"region": "us-east-1"},
        {"faces": True},
        {"include": ["Nurse"]},
        {"exclude": ["Nurse"]},
        {"include_categories": ["Nurse"]},
        {"exclude_categories": ["Nurse"]},
        {"endpoint": "https://b.example"},
    ],
}


@each
def test_whatever_changes_the_answers_changes_the_key(name: str) -> None:
    with environment(CLOUDS[name].environment):
        made = [registry.create(name, {"endpoint": "https://a.example", **options}) for options in OPTIONS[name]]
    keys = [json.dumps([adapter.model, dict(adapter.parameters)], sort_keys=True) for adapter in made]
    assert len(set(keys)) == len(keys)


@each
def test_several_of_one_service_are_distinguished(name: str) -> None:
    with environment(CLOUDS[name].environment):
        assert registry.create(f"{name}:mine", {"endpoint": "https://a.example"}).name == f"{name}:mine"


@each
def test_what_an_auditor_should_know_is_declared(name: str) -> None:
    with service_and_adapter(name) as (server, adapter):
        for declared in (registry_capabilities(name), adapter.capabilities):
            service = declared.service
            assert service is not None
            assert service.retention
            assert service.version
            assert service.price is not None
            assert service.price.usd_per_1000 > 0
            assert service.price.source
            assert service.rate > 0
            assert set(CLOUDS[name].environment) - {"AWS_REGION"} <= set(service.credentials)
            assert {"png", "jpeg"} <= set(declared.limits.formats)
        assert adapter.capabilities.service is not None
        assert adapter.capabilities.service.host in server.url


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        # Their own documents: bytes of an image as it is sent, pixels, the shortest and the longest side.
        ("google", (7_300_000, 75_000_000, None, None)),
        ("rekognition", (5_242_880, None, 80, 10_000)),
        ("clarifai", (20_000_000, 85_000_000, None, None)),
        ("azure", (20_971_520, None, 51, 15_999)),
        ("imagga", (None, None, None, None)),
    ],
)
def test_the_limits_are_those_of_the_service(name: str, limits: tuple[int | None, ...]) -> None:
    declared = registry_capabilities(name).limits
    assert (declared.max_bytes, declared.max_pixels, declared.min_side, declared.max_side) == limits


def registry_capabilities(name: str) -> Capabilities:
    module, _, kind = registry.BUILT_IN[name].partition(":")
    declared: Capabilities = getattr(__import__(module, fromlist=[kind]), kind).capabilities
    return declared
