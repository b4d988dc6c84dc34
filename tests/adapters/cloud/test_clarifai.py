from collections.abc import Iterator

import pytest
from adapter_calls import IMAGE, answer_to, make_adapter
from fakes.clarifai_service import PAT, ClarifaiService, failure
from fakes.clouds import environment
from fakes.pixel_scores import sweep_images

from adapters.base import AdapterError, AnswerError, NoAnswer
from adapters.cloud.clarifai import Clarifai

GENERAL = "aa7f35c01e0642fda5cf400f543e7c40"


@pytest.fixture
def service() -> Iterator[ClarifaiService]:
    with ClarifaiService() as running, environment({"CLARIFAI_PAT": PAT}):
        yield running


def test_request_asks_pinned_version_for_all_concepts(service):
    adapter = make_adapter("clarifai", endpoint=service.url)
    adapter.send([IMAGE])
    (request,) = service.requests
    assert request.path == f"/v2/users/clarifai/apps/main/models/general-image-recognition/versions/{GENERAL}/outputs"
    assert request.json()["model"]["output_info"]["output_config"] == {"max_concepts": 200, "min_value": 0.0}
    assert GENERAL in adapter.model


def test_failed_batch_has_one_failure_per_image(service):
    images = sweep_images()[:2]
    errors = ({"code": 30104, "description": "bad"}, {"code": 10030, "description": "again"})
    service.image_error = dict(zip(images, errors, strict=True)).get
    outcomes = make_adapter("clarifai", endpoint=service.url).send(images)
    assert [outcome.retry for outcome in outcomes if isinstance(outcome, NoAnswer)] == ["never", "later"]


@pytest.mark.parametrize(
    ("response", "retry"),
    [
        (failure(429, 11005, "exceeded limit of 15 requests per second"), "slower"),
        (failure(200, "CONN_THROTTLED", "exceeded limit of 15 requests per second"), "slower"),
        (failure(200, 10030, "Try the request again"), "later"),
        (failure(403, "CONN_EXCEED_HOURLY_LIMIT", "hourly"), "later"),
        (failure(500, 98010, "internal"), "later"),
        (failure(500, 12345, "unheard of"), "later"),
        (failure(400, 11102, "Invalid request"), "never"),
        (failure(200, "UNHEARD_OF", "?"), "never"),
        (failure(200, "30101", "format"), "never"),
    ],
)
def test_status_code_decides_retry(service, response, retry):
    service.fault = lambda number: response
    images = sweep_images()
    outcomes = make_adapter("clarifai", endpoint=service.url).send(images)
    assert len(outcomes) == len(images)
    for outcome in outcomes:
        assert outcome.retry == retry
        assert response.body["status"]["description"] in outcome.reason


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (11000, "billing"),
        (11004, "monthly limit"),
        ("CONN_EXCEEDS_LIMITS", "limit"),
        (11008, "CLARIFAI_PAT"),
        ("CONN_INSUFFICIENT_SCOPES", "CLARIFAI_PAT"),
        (11101, "model, version"),
        (21200, "model, version"),
        (21202, "concepts"),
    ],
)
@pytest.mark.parametrize("http", [200, 402, 403, 429])
def test_permanent_error_stops_the_run(service, code, remedy, http):
    service.fault = lambda number: failure(http, code, "no")
    with pytest.raises(AdapterError, match=remedy):
        make_adapter("clarifai", endpoint=service.url).send(sweep_images())
    assert len(service.requests) == 1


def test_batch_reply_is_decoded_once(service, monkeypatch):
    adapter = make_adapter("clarifai", endpoint=service.url)
    answers = adapter.send(sweep_images())
    assert len(answers) == len(sweep_images()) > 1
    with monkeypatch.context() as patch:
        patch.setattr("adapters.answers.json.loads", lambda body: pytest.fail("decoded again"))
        assert all(adapter.parse(answer) for answer in answers)


def test_monthly_limit_reported_per_image_stops_the_run(service):
    service.image_error = lambda image: {"code": 11004, "description": "Monthly limit exceeded"}
    with pytest.raises(AdapterError, match="monthly limit"):
        make_adapter("clarifai", endpoint=service.url).send(sweep_images())


def test_output_without_concepts_cannot_be_parsed(service):
    # All concepts are requested, down to a score of 0, so there is always one.
    for data in ({}, {"data": None}, {"data": {}}):
        service.fault = lambda number, data=data: failure(200, 10000, "Ok", [{"status": {"code": 10000}, **data}])
        outcome = answer_to(make_adapter("clarifai", endpoint=service.url))
        with pytest.raises(AnswerError):
            Clarifai.parse(outcome)


def test_only_selected_concepts_are_returned(service):
    adapter = make_adapter("clarifai", endpoint=service.url, concepts=("person", "nurse"))
    answer = answer_to(adapter)
    assert {label.name for label in adapter.parse(answer)} == {"person", "nurse"}
    assert adapter.capabilities.labels == ("person", "nurse")
    assert adapter.capabilities.top_k is None


def test_own_model_is_addressed_by_user_and_app(service):
    own = {"CLARIFAI_PAT": PAT, "CLARIFAI_USER_ID": "me", "CLARIFAI_APP_ID": "faces", "CLARIFAI_API_BASE": service.url}
    with environment(own):
        adapter = make_adapter("clarifai", model="jobs", version="v7", own=True)
        adapter.send([IMAGE])
        assert service.requests[0].path == "/v2/users/me/apps/faces/models/jobs/versions/v7/outputs"
        assert adapter.model == "me/faces/jobs v7"
        make_adapter("clarifai", model="jobs", version="latest", own=True).send([IMAGE])
        assert service.requests[1].path == "/v2/users/me/apps/faces/models/jobs/outputs"
