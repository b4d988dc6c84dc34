import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest
from adapter_factory import make_adapter
from fakes.azure_vision import KEY, PRINCIPAL, TOKEN, VERSION, AzureVision, failure
from fakes.clouds import environment
from fakes.http_server import Response
from fakes.pixel_scores import LABELS, sweep_images

from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.cloud.azure import Azure


@pytest.fixture
def service() -> Iterator[AzureVision]:
    with AzureVision() as running, environment({"VISION_KEY": KEY, "VISION_ENDPOINT": f"{running.url}/"}):
        yield running


def test_the_image_is_sent_as_it_is_and_the_stated_version_is_kept(service: AzureVision) -> None:
    image = sweep_images()[0]
    answer = make_adapter("azure").send([image])[0]
    assert service.requests[0].body == image
    assert service.requests[0].query == {
        "api-version": "2024-02-01",
        "features": "tags",
        "language": "en",
        "model-version": "latest",
    }
    assert isinstance(answer, RawAnswer)
    assert json.loads(answer.body)["modelVersion"] == VERSION
    assert answer.headers["apim-request-id"] == "planted-request-id"


def test_the_version_can_be_pinned(service: AzureVision) -> None:
    adapter = make_adapter("azure", model_version="2022-10-30-preview")
    answer = adapter.send(sweep_images()[:1])[0]
    assert isinstance(answer, RawAnswer)
    assert json.loads(answer.body)["modelVersion"] == "2022-10-30-preview"
    assert "2022-10-30-preview" in adapter.model


@pytest.mark.parametrize("neutral", [False, True])
def test_a_captions_words_are_labels(service: AzureVision, neutral: bool) -> None:
    adapter = make_adapter("azure", captions=True, gender_neutral=neutral)
    answer = adapter.send(sweep_images()[:1])[0]
    assert isinstance(answer, RawAnswer)
    found = {label.name: label.score for label in adapter.parse(answer)}
    assert set(found) == {*LABELS, "caption: a", "caption: pale", f"caption: {'person' if neutral else 'woman'}"}
    assert found["caption: a"] == 0.85
    assert adapter.capabilities.features == ("tags", "captions")
    assert service.billed == 2


@pytest.mark.parametrize(
    "caption", [{"text": None, "confidence": 0.5}, {"text": "a man"}, "a man", {"confidence": 0.5}]
)
def test_an_odd_caption_fails_the_image(caption: object) -> None:
    with pytest.raises(AnswerError):
        Azure.parse(RawAnswer(json.dumps({"tagsResult": {"values": []}, "captionResult": caption}).encode()))


@pytest.mark.parametrize(
    ("response", "retry", "wait"),
    [
        (failure(429, "429", "Call rate exceeded. Please retry after 26 seconds."), "slower", 26),
        (failure(429, "429", "Please retry after 1 second."), "slower", 1),
        (failure(429, "429", "Please retry after 2 minutes."), "slower", 120),
        (failure(429, "429", "Too many."), "slower", None),
        (Response(429, {"error": {"message": "Please retry after 26 seconds."}}, {"Retry-After": "3"}), "slower", 3),
        (failure(500, "InternalServerError", "FailedToProcess"), "later", None),
        (failure(503, "Timeout", "Timeout"), "later", None),
        (failure(400, "InvalidRequest", "too small", "InvalidImageSize"), "never", None),
    ],
)  # fmt: skip
def test_faults_are_named_with_what_they_ask_for(
    service: AzureVision, response: Response, retry: str, wait: float | None
) -> None:
    service.fault = lambda number: response
    outcome = make_adapter("azure").send(sweep_images()[:1])[0]
    assert isinstance(outcome, NoAnswer)
    assert (outcome.retry, outcome.wait) == (retry, wait)
    assert response.body["error"]["message"] in outcome.reason


@pytest.mark.parametrize(
    ("response", "remedy"),
    [
        (failure(401, "401", "Access denied due to invalid subscription key."), "VISION_KEY.*region"),
        (failure(403, "403", "Out of call volume quota."), "quota"),
        (failure(404, "404", "Resource not found"), "VISION_ENDPOINT"),
        (failure(400, "InvalidRequest", "'Caption' is not supported here", "NotSupportedVisualFeature"), "region"),
    ],
)
def test_what_no_retry_can_help_stops_the_run(service: AzureVision, response: Response, remedy: str) -> None:
    service.fault = lambda number: response
    with pytest.raises(AdapterError, match=remedy):
        make_adapter("azure").send(sweep_images()[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_version": "newest"}, "2023-10-01"),
        ({"gender_neutral": True}, "captions"),
        ({"language": "en&features=read"}, "language"),
    ],
)
def test_options_that_do_not_fit(service: AzureVision, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        make_adapter("azure", **options)


def test_a_missing_endpoint_is_named() -> None:
    with environment({"VISION_KEY": KEY}), pytest.raises(AdapterError, match="export VISION_ENDPOINT="):
        make_adapter("azure")


def test_its_end_is_declared() -> None:
    service = Azure.capabilities.service
    assert service is not None
    assert (service.lifecycle, service.ends) == ("ends", date(2028, 9, 25))


def test_a_token_of_entra_id_is_read_anew_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with AzureVision() as running, environment({"VISION_TOKEN": TOKEN, "VISION_ENDPOINT": running.url}):
        adapter = make_adapter("azure")
        assert isinstance(adapter.send(sweep_images()[:1])[0], RawAnswer)
        assert "ocp-apim-subscription-key" not in running.requests[0].headers
        monkeypatch.setenv("VISION_TOKEN", "another-planted-token")
        with pytest.raises(AdapterError, match="VISION_TOKEN") as caught:
            adapter.send(sweep_images()[:1])
        assert "planted-token" not in str(caught.value)


@pytest.fixture
def principal() -> Iterator[AzureVision]:
    with AzureVision() as running:
        places = {"VISION_ENDPOINT": running.url, "AZURE_AUTHORITY_HOST": running.url}
        with environment(PRINCIPAL | places):
            yield running


def test_a_service_principal_gets_one_token_for_many_calls_and_another_where_it_is_refused(
    principal: AzureVision,
) -> None:
    adapter = make_adapter("azure")
    with ThreadPoolExecutor(4) as threads:
        sent = list(threads.map(adapter.send, [[image] for image in sweep_images()]))
    assert all(isinstance(outcome, RawAnswer) for outcomes in sent for outcome in outcomes)
    assert len(principal.tokens) == 1
    principal.tokens[0] = "revoked"
    assert isinstance(adapter.send(sweep_images()[:1])[0], RawAnswer)
    assert [request.path.rpartition("/")[2] for request in principal.requests[-3:]] == [
        "imageanalysis:analyze",
        "token",
        "imageanalysis:analyze",
    ]
    principal.fault = lambda number: None if "token" in principal.requests[-1].path else failure(401, "401", "no")
    with pytest.raises(AdapterError, match="principal's role"):
        adapter.send(sweep_images()[:1])


def test_a_principal_s_token_is_renewed_before_it_expires(principal: AzureVision) -> None:
    principal.expires_in = 60
    adapter = make_adapter("azure")
    for _ in range(2):
        assert isinstance(adapter.send(sweep_images()[:1])[0], RawAnswer)
    assert len(principal.tokens) == 2


def test_no_token_at_the_moment_is_no_answer_and_bills_nothing(principal: AzureVision) -> None:
    for refused, retry in (
        (Response(503, b"busy"), "later"),
        (Response(429, b""), "slower"),
        (Response(dropped=True), "later"),
    ):
        principal.refused = refused
        outcome = make_adapter("azure").send(sweep_images()[:1])[0]
        assert isinstance(outcome, NoAnswer)
        assert (outcome.retry, outcome.billed) == (retry, False)
        assert "no access token" in outcome.reason


@pytest.mark.parametrize(
    "response",
    [
        None,
        Response(200, {"access_token": None}),
        Response(200, {"access_token": "line\nbreak", "expires_in": 5}),
        Response(200, {"access_token": "fine", "expires_in": "soon"}),
        Response(200, b"<html>"),
    ],
)
def test_a_principal_that_is_refused_stops_the_run_and_its_secret_is_not_shown(
    principal: AzureVision, monkeypatch: pytest.MonkeyPatch, response: Response | None
) -> None:
    principal.refused = response
    if response is None:
        monkeypatch.setenv("AZURE_CLIENT_SECRET", "planted-old-secret")
    with pytest.raises(AdapterError, match=r"no access token \(.*AZURE_CLIENT_SECRET.*role") as caught:
        make_adapter("azure").send(sweep_images()[:1])
    assert "planted" not in str(caught.value)


def test_a_principal_s_missing_variable_is_named(principal: AzureVision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_TENANT_ID")
    with pytest.raises(AdapterError, match="export AZURE_TENANT_ID="):
        make_adapter("azure")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "http://login.example")
    monkeypatch.setenv("AZURE_TENANT_ID", "a tenant")
    with pytest.raises(AdapterError, match=r"AZURE_AUTHORITY_HOST.*only over https"):
        make_adapter("azure")
