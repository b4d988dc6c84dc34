"""Properties shared by all cloud adapters."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from adapter_calls import IMAGE, answer_to, failure_on, scores_of
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


@each
def test_known_slopes_are_recovered_exactly(name):
    images = sweep_images()
    with service_and_adapter(name) as (service, adapter):
        found = score_slopes([scores_of(adapter, answer) for answer in answers(adapter, images)])
        assert found == pytest.approx(score_slopes([pixel_scores(image) for image in images]), abs=1e-12)
        assert service.billed == len(images)


@each
def test_answers_are_parsed_without_credentials(name):
    with service_and_adapter(name) as (_, adapter):
        answer = answer_to(adapter)
        expected = adapter.parse(answer)
    with environment({}):
        assert parser(name)(answer) == expected


@each
@pytest.mark.parametrize(
    ("fault", "retry", "wait"),
    [("throttled", "slower", 7.0), ("busy", "later", 2.0), ("broken", "later", None), ("dropped", "later", None)],
)
def test_transient_failure_is_retried_and_bills_nothing(name, fault, retry, wait):
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: fault
        images = sweep_images()[: adapter.capabilities.batch]
        outcomes = adapter.send(images)
        assert len(outcomes) == len(images)
        for outcome in outcomes:
            assert (outcome.retry, outcome.wait) == (retry, wait)
            assert outcome.billed == (fault == "dropped")
            assert outcome.reason
        assert service.billed == 0


@each
@pytest.mark.parametrize("fault", ["html", "truncated", "empty", "empty object"])
def test_unreadable_answer_is_kept(name, fault):
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: fault
        answer, body = answer_to(adapter), FAULTS[fault].body
        assert answer.body == (body if isinstance(body, bytes) else json.dumps(body).encode())
        with pytest.raises(AnswerError):
            adapter.parse(answer)


@each
def test_redirect_is_not_followed(name):
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: "redirect"
        outcome = failure_on(adapter)
        assert "redirect" in outcome.reason
        assert len(service.requests) == 1


@each
@pytest.mark.parametrize("status", [401, 403, 404])
def test_refusal_without_error_code_stops_the_run(name, status):
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: Response(status, b"<html>no</html>")
        with pytest.raises(AdapterError, match="refuses"):
            adapter.send([IMAGE])


@each
def test_unreadable_image_fails_alone(name):
    images = sweep_images()[:3]
    images[1] = b"not an image"
    with service_and_adapter(name) as (_, adapter):
        size = adapter.capabilities.batch
        sent = [outcome for start in range(0, 3, size) for outcome in adapter.send(images[start : start + size])]
        assert [type(outcome) for outcome in sent] == [RawAnswer, NoAnswer, RawAnswer]
        assert sent[1].reply is not None or name == "imagga", "the reply is kept, where there was one"
        assert scores_of(adapter, sent[2]) == pytest.approx(pixel_scores(images[2]))
        assert failure_on(adapter, images[1]).retry == "never"


# The errors of four images, each with the retry that it calls for; a reply with a part for one image only.
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
def test_batch_is_one_call_with_a_part_per_image(name):
    images = sweep_images() * 3
    with service_and_adapter(name) as (service, adapter):
        outcomes = adapter.send(images)
        assert len(service.requests) == 1
        assert "key" not in service.requests[0].query
        for image, outcome in zip(images, outcomes, strict=True):
            assert scores_of(adapter, outcome) == pixel_scores(image)
        assert len({outcome.body for outcome in outcomes}) == 1


@batched
def test_error_in_a_batch_fails_only_its_image(name):
    images, errors = sweep_images(), _SOME_FAIL[name][0]
    with service_and_adapter(name) as (service, adapter):
        service.image_error = {image: error for image, (error, _) in zip(images, errors, strict=False)}.get
        outcomes = adapter.send(images)
        assert scores_of(adapter, outcomes[4]) == pixel_scores(images[4])
        for position, (outcome, (error, retry)) in enumerate(zip(outcomes[:4], errors, strict=True)):
            assert (outcome.retry, outcome.billed, outcome.reply.position) == (retry, False, position)
            assert outcome.reason == f"{error.get('message') or error['description']} (code {error['code']})"
            with pytest.raises(AnswerError, match="failed on this image"):
                adapter.parse(outcome.reply)


@batched
def test_batch_reply_with_missing_part_is_not_assigned(name):
    with service_and_adapter(name) as (service, adapter):
        service.fault = lambda number: Response(200, _SOME_FAIL[name][1])
        for outcome in adapter.send(sweep_images()):
            assert "cannot be assigned" in outcome.reason
            assert outcome.billed


@each
def test_missing_credentials_name_the_variable_to_export(name):
    wanted = next(iter(CLOUDS[name].environment))
    with environment({"AWS_REGION": "eu-west-1"}), pytest.raises(AdapterError, match=f"export {wanted}="):
        registry.create(name, {"endpoint": "https://127.0.0.1"})


@each
def test_endpoints_without_https_are_refused(name):
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


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("azure", {"model_version": "newest"}, "2023-10-01"),
        ("azure", {"gender_neutral": True}, "captions"),
        ("azure", {"language": "en&features=read"}, "language"),
        ("clarifai", {"model": "gender-demographics-recognition"}, "version="),
        ("clarifai", {"user": "someone"}, "version="),
        ("clarifai", {"own": True}, "CLARIFAI_USER_ID"),
        ("clarifai", {"model": "a/b", "version": "1"}, "option 'model' cannot be .*the model's id"),
        ("clarifai", {"version": "../x"}, "option 'version' cannot be"),
        ("clarifai", {"batch": 129}, "batch.*1-128"),
        ("google", {"region": "asia"}, "project="),
        ("google", {"project": "a/b"}, "project"),
        ("google", {"batch": 17}, "batch.*1-16"),
        ("google", {"batch": 0}, "batch.*1-16"),
        ("google", {"max_results": 0}, "max_results"),
    ],
)
def test_invalid_options_are_refused(name, options, message):
    variables = CLOUDS[name].environment | {"VISION_ENDPOINT": "https://a.example"}
    with environment(variables), pytest.raises(AdapterError, match=message):
        registry.create(name, options)


def _echo(status: int) -> Callable[[Request], Response]:
    """A server that repeats everything it was sent."""

    def answer(request: Request) -> Response:
        sent = json.dumps(dict(request.headers))
        error = {"code": status, "message": sent, "status": sent}
        body = {"error": error, "__type": sent, "Message": sent, "status": {"code": 1, "description": sent}}
        return Response(status, body)

    return answer


@each
@pytest.mark.parametrize("status", [200, 400, 401, 403, 429, 500])
def test_echoed_secrets_are_redacted(name, status):
    cloud = CLOUDS[name]
    with FakeServer(_echo(status)) as server, environment(cloud.environment):
        adapter = registry.create(name, {"endpoint": server.url})
        shown = [repr(adapter), adapter.model, repr(adapter.parameters), repr(adapter.capabilities), adapter.name]
        try:
            shown.append(repr(adapter.send([IMAGE])))
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
def test_options_that_change_answers_change_the_key(name):
    with environment(CLOUDS[name].environment):
        adapters = [registry.create(name, {"endpoint": "https://a.example", **options}) for options in OPTIONS[name]]
    keys = [json.dumps([adapter.model, dict(adapter.parameters)], sort_keys=True) for adapter in adapters]
    assert len(set(keys)) == len(keys)


@each
def test_target_distinguishes_adapters_of_one_service(name):
    with environment(CLOUDS[name].environment):
        assert registry.create(f"{name}:mine", {"endpoint": "https://a.example"}).name == f"{name}:mine"


@each
def test_retention_version_price_and_rate_are_declared(name):
    with service_and_adapter(name) as (server, adapter):
        for declared in (registry_capabilities(name), adapter.capabilities):
            service = declared.service
            assert service.retention
            assert service.version
            assert service.price.usd_per_1000 > 0
            assert service.price.source
            assert service.rate > 0
            assert set(CLOUDS[name].environment) - {"AWS_REGION"} <= set(service.credentials)
            assert {"png", "jpeg"} <= set(declared.limits.formats)
        assert adapter.capabilities.service.host in server.url


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        # Bytes of an image as it is sent, pixels, the shortest and the longest side.
        ("google", (7_300_000, 75_000_000, None, None)),
        ("rekognition", (5_242_880, None, 80, 10_000)),
        ("clarifai", (20_000_000, 85_000_000, None, None)),
        ("azure", (20_971_520, None, 51, 15_999)),
        ("imagga", (None, None, None, None)),
    ],
)
def test_limits_are_those_of_the_vendor_documentation(name, limits):
    declared = registry_capabilities(name).limits
    assert (declared.max_bytes, declared.max_pixels, declared.min_side, declared.max_side) == limits


def registry_capabilities(name: str) -> Capabilities:
    return registry.load(name).capabilities
