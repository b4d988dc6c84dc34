import json
from contextlib import suppress

import pytest
from adapter_calls import IMAGE, answer_to, failure_on, make_adapter, scores_of
from fakes.http_server import FakeServer, Response
from fakes.pixel_scores import pixel_scores, score_slopes, sweep_images
from fakes.rest_service import rest_service
from hypothesis import given
from hypothesis import strategies as st

from adapters import registry
from adapters.base import Adapter, AdapterError, AnswerError, RawAnswer

SECRET = "planted-clinic-key"
TAGS = {"items": "result.tags", "label": "tag.en", "score": "p"}
KEYED = {"headers": {"X-Api-Key": "${CLINIC_KEY}"}}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINIC_KEY", SECRET)


def clinic(url: str, **options: object) -> Adapter:
    return registry.create("http:clinic", {"url": url, **TAGS, **KEYED, **options})


BODIES: list[dict[str, object]] = [
    {},
    {"content_type": "application/octet-stream", "method": "PUT"},
    {"body": "json", "template": {"image": "{image}", "key": "${CLINIC_KEY}"}, "headers": {}},
    {"body": "json", "template": {"image": "data:{type};base64,{image}"}},
    {"body": "multipart", "field": "picture", "fields": {"key": "${CLINIC_KEY}"}, "headers": {}},
]


@pytest.mark.parametrize("options", BODIES)
def test_known_slopes_are_recovered_with_every_body(options):
    images = sweep_images()
    with FakeServer(rest_service(SECRET)) as server:
        adapter = clinic(server.url, **options)
        found = [scores_of(adapter, answer) for answer in adapter.send(images)]
    assert score_slopes(found) == score_slopes([pixel_scores(image) for image in images])
    assert SECRET not in json.dumps(adapter.parameters)
    assert adapter.name == "http:clinic"


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ("tags", {}),
        ("tags", {"items": None, "label": "result.tags[*].tag.en", "score": "result.tags[*].p"}),
        ("percent", {"items": "", "label": "name", "score": "score", "scale": "0-100"}),
        ("logits", {"items": "out", "label": "[0]", "score": "[1]", "scale": "logit"}),
        ("parallel", {"items": None, "label": "labels[*]", "score": "scores[*]"}),
    ],
)
def test_labels_are_found_in_answers_of_several_shapes(shape, options):
    image = sweep_images()[0]
    with FakeServer(rest_service(SECRET, shape=shape)) as server:
        adapter = clinic(server.url, **options)
        answer = answer_to(adapter, image)
    assert answer.headers["x-model-version"] == "7"
    assert scores_of(adapter, answer) == pytest.approx(pixel_scores(image), abs=1e-12)


@pytest.mark.parametrize(
    ("response", "retry", "wait"),
    [
        ("throttled", "slower", 7),
        ("busy", "later", 2),
        ("broken", "later", None),
        ("dropped", "later", None),
        ("redirect", "never", None),
        (Response(422, {"error": {"message": "no image"}}), "never", None),
        (Response(200, {"error": {"message": "no image"}}), "never", None),
        (Response(418, {"error": {"message": "teapot"}}), "slower", None),
        (Response(409, {"error": {"message": "conflict"}}), "later", None),
    ],
)
def test_failure_states_retry_and_wait(response, retry, wait):
    with FakeServer(rest_service(SECRET)) as server:
        server.fault = lambda _: response
        adapter = clinic(
            server.url, error_path="error.message", slower_statuses=[429, 418], retry_statuses=[409, 500, 503]
        )
        outcome = failure_on(adapter)
    assert (outcome.retry, outcome.wait) == (retry, wait)
    if isinstance(response, Response):
        assert response.body["error"]["message"] in outcome.reason


@pytest.mark.parametrize("fault", ["html", "truncated", "empty", "empty object"])
def test_unreadable_success_is_kept_and_refused(fault):
    with FakeServer(rest_service(SECRET)) as server:
        server.fault = lambda _: fault
        adapter = clinic(server.url)
        outcome = answer_to(adapter)
    with pytest.raises(AnswerError):
        adapter.parse(outcome)


def test_overlong_answer_is_cut():
    with FakeServer(lambda _: Response(200, b"x" * 5000)) as server:
        outcome = failure_on(clinic(server.url, most_bytes=1000))
    assert "longer than 1000 bytes" in outcome.reason


def test_version_in_the_answer_is_kept():
    with FakeServer(lambda _: Response(200, {"meta": {"model": "v9"}, "result": {"tags": []}})) as server:
        answer = answer_to(clinic(server.url, version_path="meta.model"))
    assert answer.headers["version"] == "v9"


def test_refused_credentials_stop_the_run_and_are_redacted():
    with FakeServer(rest_service("another")) as server, pytest.raises(AdapterError, match="check CLINIC_KEY") as caught:
        clinic(server.url, error_path="error.message").send(sweep_images()[:1])
    assert SECRET not in str(caught.value)

    def echo(request):
        return Response(200, {"result": {"tags": [{"tag": {"en": SECRET}, "p": 1}]}}, {"X-Request-Id": SECRET})

    with FakeServer(echo) as server:
        adapter = clinic(server.url)
        (outcome,) = adapter.send([IMAGE])
    assert SECRET not in repr((outcome, adapter.parameters, adapter.model, adapter.capabilities))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "clinic.example"}, "'url' must be an address"),
        ({"url": "http://clinic.example"}, "only over https"),
        ({"url": "https://clinic.example/?api_key=1"}, "'url' must not contain a credential"),
        ({"url": "https://clinic.example/?code=1"}, "'url' must not contain a credential"),
        ({"url": "https://clinic.example/${CLINIC_KEY}"}, "'url' must not contain a credential"),
        ({"headers": {"Authorization": "Bearer 123"}}, "'headers.Authorization' contains a credential.*MY_KEY"),
        ({"headers": {"bad name": "x"}}, "'bad name' is not a header's name"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "no header can carry"),
        ({"headers": {"X-Key": "${NOT_SET}"}}, "variable NOT_SET"),
        ({"fields": {"a": "b"}}, "'fields' is for body = 'multipart'"),
        ({"body": "multipart", "fields": {"secret": "b"}}, "'fields.secret' contains a credential"),
        ({"body": "multipart", "field": ""}, "'field' is empty"),
        ({"body": "json"}, r"'template' must contain \{image\}"),
        ({"body": "json", "template": {"image": "image"}}, r"'template' must contain \{image\}"),
        ({"template": {"image": "{image}"}}, "'template' is for body = 'json'"),
        ({"body": "form"}, "option 'body'"),
        ({"items": None}, "'label': 'tag.en' selects one value"),
        ({"label": "tags[*].en"}, "'label': move .* into the option items"),
        ({"label": "tag..en"}, "'label': the path 'tag..en' cannot be read"),
        ({"score": None, "scale": "logit"}, "'scale' is logit, which needs"),
        ({"scale": "percent"}, "option 'scale'"),
        ({"error_path": "a["}, "'error_path': the path"),
        ({"retry_statuses": [200]}, "'retry_statuses': 200 is not a status of failure"),
        ({"timeout": 0}, "'timeout' must be more than 0"),
        ({"cut_off": 0.7}, "'cut_off' must not exceed option 'presence'"),
        ({"method": "GET"}, "option 'method'"),
        ({"colour": 1}, "no option 'colour'"),
    ],
)
def test_options_are_checked_before_any_request(options, message):
    with pytest.raises(AdapterError, match=message):
        clinic(**{"url": "https://clinic.example/", **options})


def test_key_in_the_query_is_sent_and_redacted():
    def answer(request):
        assert request.query == {"mode": "fast", "key": SECRET}
        return Response(200, {"result": {"tags": [{"tag": {"en": request.query["key"]}, "p": 1}]}})

    with FakeServer(answer) as server:
        adapter = clinic(f"{server.url}/?mode=fast", headers={}, query={"key": "${CLINIC_KEY}"})
        outcome = answer_to(adapter)
    assert SECRET not in repr((outcome, adapter.parameters, adapter.model, adapter.capabilities))
    assert adapter.parameters["query"] == {"key": "${CLINIC_KEY}"}
    unreachable = clinic("http://127.0.0.1:1/", headers={}, query={"key": "${CLINIC_KEY}"})
    assert SECRET not in repr(failure_on(unreachable))
    assert "query" not in clinic("https://clinic.example/").parameters, "keys of earlier answers stay valid"
    with pytest.raises(AdapterError, match=r"'query.key' contains a credential"):
        clinic("https://clinic.example/", query={"key": "abc"})


def test_target_names_the_adapter():
    options = {"url": "http://clinic.example/?mode=fast", "label": "[*]"}
    assert registry.create("http", options).name == "http"
    other = make_adapter("http", "other", **options)
    assert other.name == "http:other"
    assert other.parse(RawAnswer(b'["a", "b"]'))[1].score == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=12,
)


@given(
    content=JSON, scale=st.sampled_from(["0-1", "0-100", "logit"]), paths=st.sampled_from([("a", "b"), ("[0]", "[1]")])
)
def test_arbitrary_answer_is_parsed_or_refused(content, scale, paths):
    url = "https://clinic.example"
    adapters = [
        make_adapter("http", url=url, items="a", label=paths[0], score=paths[1], scale=scale),
        make_adapter("http", url=url, label="a[*]", score="b[*]", scale=scale, error_path="a", version_path="b"),
    ]
    for adapter in adapters:
        with suppress(AnswerError):
            assert all(0 <= label.score <= 1 for label in adapter.parse(RawAnswer(json.dumps(content).encode())))
