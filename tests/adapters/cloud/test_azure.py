import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest
from adapter_calls import IMAGE, answer_to, failure_on, make_adapter, scores_of
from fakes.azure_vision import KEY, PRINCIPAL, TOKEN, VERSION, AzureVision, failure
from fakes.clouds import environment
from fakes.http_server import Response
from fakes.pixel_scores import LABELS, sweep_images

from adapters.base import AdapterError, AnswerError, RawAnswer
from adapters.cloud.azure import Azure


@pytest.fixture
def service() -> Iterator[AzureVision]:
    with AzureVision() as running, environment({"VISION_KEY": KEY, "VISION_ENDPOINT": f"{running.url}/"}):
        yield running


def test_request_sends_image_bytes_and_keeps_model_version(service):
    answer = answer_to(make_adapter("azure"))
    assert service.requests[0].body == IMAGE
    query = {"api-version": "2024-02-01", "features": "tags", "language": "en", "model-version": "latest"}
    assert service.requests[0].query == query
    assert json.loads(answer.body)["modelVersion"] == VERSION
    assert answer.headers["apim-request-id"] == "planted-request-id"


def test_model_version_can_be_pinned(service):
    adapter = make_adapter("azure", model_version="2022-10-30-preview")
    answer = answer_to(adapter)
    assert json.loads(answer.body)["modelVersion"] == "2022-10-30-preview"
    assert "2022-10-30-preview" in adapter.model


@pytest.mark.parametrize("neutral", [False, True])
def test_caption_words_become_labels(service, neutral):
    adapter = make_adapter("azure", captions=True, gender_neutral=neutral)
    answer = answer_to(adapter)
    found = scores_of(adapter, answer)
    assert set(found) == {*LABELS, "caption: a", "caption: pale", f"caption: {'person' if neutral else 'woman'}"}
    assert found["caption: a"] == 0.85
    assert adapter.capabilities.features == ("tags", "captions")
    assert service.billed == 2


@pytest.mark.parametrize(
    "caption", [{"text": None, "confidence": 0.5}, {"text": "a man"}, "a man", {"confidence": 0.5}]
)
def test_malformed_caption_is_refused(caption):
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
def test_failure_states_reason_retry_and_wait(service, response, retry, wait):
    service.fault = lambda number: response
    outcome = failure_on(make_adapter("azure"))
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
def test_permanent_error_stops_the_run(service, response, remedy):
    service.fault = lambda number: response
    with pytest.raises(AdapterError, match=remedy):
        make_adapter("azure").send([IMAGE])


def test_missing_endpoint_names_its_variable():
    with environment({"VISION_KEY": KEY}), pytest.raises(AdapterError, match="export VISION_ENDPOINT="):
        make_adapter("azure")


def test_end_of_service_is_declared():
    service = Azure.capabilities.service
    assert (service.lifecycle, service.ends) == ("ends", date(2028, 9, 25))


def test_entra_token_is_read_again_for_each_call(monkeypatch):
    with AzureVision() as running, environment({"VISION_TOKEN": TOKEN, "VISION_ENDPOINT": running.url}):
        adapter = make_adapter("azure")
        answer_to(adapter)
        assert "ocp-apim-subscription-key" not in running.requests[0].headers
        monkeypatch.setenv("VISION_TOKEN", "another-planted-token")
        with pytest.raises(AdapterError, match="VISION_TOKEN") as caught:
            adapter.send([IMAGE])
        assert "planted-token" not in str(caught.value)


@pytest.fixture
def principal() -> Iterator[AzureVision]:
    with AzureVision() as running:
        addresses = {"VISION_ENDPOINT": running.url, "AZURE_AUTHORITY_HOST": running.url}
        with environment(PRINCIPAL | addresses):
            yield running


def test_principal_token_is_reused_until_refused(principal):
    adapter = make_adapter("azure")
    with ThreadPoolExecutor(4) as threads:
        sent = list(threads.map(adapter.send, [[image] for image in sweep_images()]))
    assert all(isinstance(outcome, RawAnswer) for outcomes in sent for outcome in outcomes)
    assert len(principal.tokens) == 1
    principal.tokens[0] = "revoked"
    answer_to(adapter)
    paths = [request.path.rpartition("/")[2] for request in principal.requests[-3:]]
    assert paths == ["imageanalysis:analyze", "token", "imageanalysis:analyze"]
    principal.fault = lambda number: None if "token" in principal.requests[-1].path else failure(401, "401", "no")
    with pytest.raises(AdapterError, match="principal's role"):
        adapter.send([IMAGE])


def test_principal_token_is_renewed_before_expiry(principal):
    principal.expires_in = 60
    adapter = make_adapter("azure")
    for _ in range(2):
        answer_to(adapter)
    assert len(principal.tokens) == 2


def test_unavailable_token_service_bills_nothing(principal):
    for refused, retry in ((Response(503), "later"), (Response(429), "slower"), (Response(dropped=True), "later")):
        principal.refused = refused
        outcome = failure_on(make_adapter("azure"))
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
def test_refused_principal_stops_the_run_and_hides_its_secret(principal, monkeypatch, response):
    principal.refused = response
    if response is None:
        monkeypatch.setenv("AZURE_CLIENT_SECRET", "planted-old-secret")
    with pytest.raises(AdapterError, match=r"no access token \(.*AZURE_CLIENT_SECRET.*role") as caught:
        make_adapter("azure").send([IMAGE])
    assert "planted" not in str(caught.value)


def test_principal_settings_are_checked(principal, monkeypatch):
    monkeypatch.delenv("AZURE_TENANT_ID")
    with pytest.raises(AdapterError, match="export AZURE_TENANT_ID="):
        make_adapter("azure")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "http://login.example")
    monkeypatch.setenv("AZURE_TENANT_ID", "a tenant")
    with pytest.raises(AdapterError, match=r"AZURE_AUTHORITY_HOST.*only over https"):
        make_adapter("azure")
