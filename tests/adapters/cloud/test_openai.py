import json

import pytest
from adapter_calls import IMAGE, answer_to, failure_on, make_adapter, scores_of
from fakes.chat_service import MODEL, api_error, chat_service, completion
from fakes.http_server import FakeServer, Response
from fakes.pixel_scores import LABELS, pixel_scores, score_slopes, sweep_images

from adapters import registry
from adapters.base import Adapter, AdapterError, AnswerError
from adapters.cloud.openai import BILLING, KEY, OpenAI

SECRET = "planted-openai-key"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_ORG_ID", raising=False)
    monkeypatch.setenv(KEY, SECRET)


def seer_at(server: FakeServer, **options: object) -> OpenAI:
    return make_adapter("openai", **{"labels": LABELS, "model": "seer", "endpoint": f"{server.url}/v1", **options})


def scores(adapter: Adapter, outcomes: object) -> list[dict[str, float]]:
    return [scores_of(adapter, outcome) for outcome in outcomes]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"format": "json_object"},
        {"format": "text"},
        {"order": "drawn"},
        {"repeats": 3},
        {"repeats": 2, "order": "drawn"},
    ],
)
def test_known_slopes_are_recovered_exactly(options):
    images = sweep_images()
    with FakeServer(chat_service(SECRET)) as server:
        adapter = seer_at(server, **options)
        found = scores(adapter, adapter.send(images))
    truth = score_slopes([pixel_scores(image) for image in images])
    assert score_slopes(found) == pytest.approx(truth, abs=1e-12)
    assert len(server.requests) == len(images) * int(options.get("repeats", 1))


def test_logprobs_give_probability_of_each_letter():
    images = sweep_images()
    with FakeServer(chat_service(SECRET)) as server:
        adapter = seer_at(server, logprobs=True)
        found = scores(adapter, adapter.send(images))
    for image, given in zip(images, found, strict=True):
        truth = pixel_scores(image)
        assert given == pytest.approx({name: 0.95 * truth[name] / sum(truth.values()) for name in LABELS})
    question = server.requests[0].json()
    assert question["top_logprobs"] == 20
    assert "response_format" not in question


def test_options_are_sent_and_recorded():
    with FakeServer(chat_service(SECRET)) as server:
        adapter = seer_at(server, repeats=2, seed=5, max_tokens=90, detail="low", extra={"reasoning_effort": "low"})
        answer = answer_to(adapter)
    first, second = (request.json() for request in server.requests)
    assert (first["seed"], second["seed"]) == (5, 6)
    assert (first["temperature"], first["max_tokens"], first["reasoning_effort"]) == (0, 90, "low")
    assert first["messages"][0]["content"][1]["image_url"]["detail"] == "low"
    assert json.dumps(adapter.parameters).count("nurse") == 1
    assert answer.headers["x-request-id"] == "req_1"
    assert answer.headers["model-version"] == f"{MODEL} fp_1"


def test_single_reply_is_kept_byte_for_byte():
    response = completion('{"nurse": 0.5, "engineer": 0, "person": 1}')
    with FakeServer(lambda _: response) as server:
        answer = answer_to(seer_at(server, temperature=None, seed=None))
    assert answer.body == json.dumps(response.body).encode()
    assert not {"temperature", "seed", "max_tokens"} & set(server.requests[0].json())


def test_refusals_are_declared_labels():
    images = sweep_images()
    response = [
        completion(None, refusal="I cannot judge people."),
        completion("", reason="content_filter"),
        api_error(400, "flagged", code="content_filter"),
        completion('{"nu', reason="length"),
    ]
    with FakeServer(chat_service(SECRET)) as server:
        server.fault = lambda number: response[number - 1] if number <= len(response) else None
        adapter = seer_at(server)
        found = scores(adapter, adapter.send(images))
    assert found[:4] == [{"(refused)": 1}, {"(withheld)": 1}, {"(withheld)": 1}, {"(cut off)": 1}]
    assert found[4] == pixel_scores(images[4])
    assert {name for row in found for name in row} <= set(adapter.capabilities.labels or ())


def test_failed_repeat_keeps_earlier_replies():
    with FakeServer(chat_service(SECRET)) as server:
        server.fault = lambda number: "busy" if number == 3 else None
        adapter = seer_at(server, repeats=3)
        failure = failure_on(adapter)
        assert (failure.retry, failure.wait, failure.billed) == ("later", 2, True)
        assert scores_of(adapter, answer_to(adapter)) == pytest.approx(pixel_scores(IMAGE))
        answer_to(adapter)
    assert len(server.requests) == 3 + 1 + 3


@pytest.mark.parametrize(
    ("response", "retry", "wait"),
    [
        (api_error(429, "Rate limit", code="rate_limit_exceeded"), "slower", None),
        (Response(429, {"error": {"message": "wait"}}, {"retry-after-ms": "250", "Retry-After": "9"}), "slower", 0.25),
        (api_error(503, "Slow down", code="slow_down"), "slower", None),
        (api_error(500, "The server had an error", kind="server_error"), "later", None),
        (api_error(503, "Loading model", code=503, kind="unavailable_error"), "later", None),
        (
            api_error(503, "server busy, please try again.  maximum pending requests exceeded", kind="api_error"),
            "later",
            None,
        ),
        (api_error(400, "bad image", code="invalid_image_format"), "never", None),
        (
            Response(400, {"object": "error", "message": "bad image", "type": "BadRequestError", "code": 400}),
            "never",
            None,
        ),
        (Response(200, {"error": {"message": "upstream", "code": 502}}), "later", None),
        (Response(200, {"error": "something"}), "never", None),
        (Response(400, {"error": {"code": [], "type": {}, "param": 5, "message": None}}), "never", None),
        ("dropped", "later", None),
        ("redirect", "never", None),
        (Response(502, b"<html>Bad gateway</html>"), "later", None),
    ],
)
def test_failure_states_retry_and_wait(response, retry, wait):
    with FakeServer(chat_service(SECRET)) as server:
        server.fault = lambda _: response
        outcome = failure_on(seer_at(server))
    assert (outcome.retry, outcome.wait) == (retry, wait)


@pytest.mark.parametrize("fault", ["html", "truncated", "empty", "empty object"])
def test_unreadable_success_is_kept_and_refused(fault):
    with FakeServer(chat_service(SECRET)) as server:
        server.fault = lambda _: fault
        adapter = seer_at(server)
        outcome = answer_to(adapter)
    with pytest.raises(AnswerError):
        adapter.parse(outcome)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        *((api_error(429, "no credit", code=code), "no money or quota") for code in sorted(BILLING)),
        (api_error(429, "no credit", kind="insufficient_quota"), "no money or quota"),
        (api_error(402, "Payment required"), "no money or quota"),
        (api_error(401, "Incorrect API key", code="invalid_api_key"), f"check the key in {KEY}"),
        (api_error(403, "Country not supported"), "permissions of the key"),
        (api_error(404, "model 'seer' not found", kind="not_found_error"), "options model and endpoint"),
        (api_error(500, "image input is not supported by this server", code=500, kind="server_error"), "--mmproj"),
        (api_error(400, "seer is not a multimodal model", code=400), "does not take images"),
        (api_error(400, "Unsupported value", param="temperature"), "null omits it"),
        (api_error(400, "Invalid schema", param="response_format.json_schema"), "option format"),
        (api_error(400, "'response_format.type' must be 'json_object' or 'text'"), "option format"),
        (
            Response(422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}),
            "option seed",
        ),
        (api_error(400, "max_tokens is not supported: use max_completion_tokens", param="max_tokens"), "extra="),
    ],
)
def test_permanent_error_stops_the_run(response, message):
    with FakeServer(lambda _: response) as server, pytest.raises(AdapterError, match=message):
        seer_at(server).send([IMAGE])


def test_key_is_sent_but_never_recorded(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")

    def echo(request):
        return api_error(400, f"your key is {SECRET}, {request!r}")

    with FakeServer(echo) as server:
        adapter = seer_at(server)
        (outcome,) = adapter.send([IMAGE])
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert server.requests[0].headers["openai-organization"] == "org-1"
    assert SECRET not in repr((outcome, adapter.parameters, adapter.model, adapter.capabilities))


def test_own_server_needs_no_key(monkeypatch):
    with pytest.raises(AdapterError, match=r"only over https.*key_variable"):
        make_adapter("openai", labels=("nurse",), model="m", endpoint="http://gpu.example:8000/v1")
    monkeypatch.delenv(KEY)
    with pytest.raises(AdapterError, match=KEY):
        make_adapter("openai", labels=("nurse",), model="m")
    with pytest.raises(AdapterError, match="MY_OWN"):
        make_adapter("openai", labels=("nurse",), model="m", endpoint="https://gpu.example/v1", key_variable="MY_OWN")
    with FakeServer(chat_service(None)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1/")
        adapter = make_adapter("openai", labels=LABELS, model="seer")
        assert scores_of(adapter, answer_to(adapter)) == pixel_scores(IMAGE)
    assert "authorization" not in server.requests[0].headers
    assert (adapter.capabilities.service.host, adapter.capabilities.service.credentials) == ("127.0.0.1", ())


def test_options_are_parsed_and_checked(tmp_path):
    (tmp_path / "labels.txt").write_text("# two\nnurse\nengineer\n")
    adapter = registry.create(
        "openai:mini", {"labels": str(tmp_path / "labels.txt"), "model": "mini-2026", "temperature": None}
    )
    assert (adapter.name, adapter.model) == ("openai:mini", "mini-2026")
    assert adapter.parameters["labels"] == ["nurse", "engineer"]
    assert adapter.parameters["endpoint"] == "https://api.openai.com/v1"
    wrong: list[tuple[dict[str, object], str]] = [
        ({"labels": ["nurse"]}, "'model' is required"),
        ({"labels": ["(refused)"], "model": "m"}, "is reserved for an outcome"),
        ({"labels": [str(n) for n in range(21)], "model": "m", "logprobs": True}, "at most 20 labels"),
        ({"labels": ["nurse"], "model": "m", "repeats": 0}, "'repeats' must be at least 1"),
        ({"labels": ["nurse"], "model": " "}, "'model' cannot be ' '"),
        ({"labels": ["nurse"], "model": "m", "endpoint": "localhost:8000"}, "must be an address"),
    ]
    for options, message in wrong:
        with pytest.raises(AdapterError, match=message):
            registry.create("openai", options)


def test_price_of_known_model_is_estimated_from_tokens():
    price = make_adapter(
        "openai", labels=["nurse", "pilot"], model="gpt-4.1-mini-2025-04-14"
    ).capabilities.service.price
    assert price.tokens == (0.40, 1.60)
    assert 0.5 < price.usd_per_1000 < 3
    assert make_adapter("openai", labels=["nurse"], model="gpt-4o-mini").capabilities.service.price.usd_per_1000 > 7
    thrice = make_adapter(
        "openai", labels=["nurse", "pilot"], model="gpt-4.1-mini", repeats=3
    ).capabilities.service.price
    assert thrice.usd_per_1000 == pytest.approx(3 * price.usd_per_1000, rel=0.01)


@pytest.mark.parametrize(
    "options", [{"model": "gpt-4.1-minimal"}, {"model": "gpt-4o-mini", "endpoint": "https://gpu.example/v1"}]
)
def test_unknown_model_or_server_has_no_price(options):
    assert make_adapter("openai", labels=["nurse"], **options).capabilities.service.price is None
