from collections.abc import Iterator
from typing import Any

import pytest
from adapter_factory import make_adapter
from fakes.clarifai_service import PAT, ClarifaiService, failure
from fakes.clouds import environment
from fakes.http_server import Response
from fakes.pixel_scores import sweep_images

from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.cloud.clarifai import Clarifai

GENERAL = "aa7f35c01e0642fda5cf400f543e7c40"


@pytest.fixture
def service() -> Iterator[ClarifaiService]:
    with ClarifaiService() as running, environment({"CLARIFAI_PAT": PAT}):
        yield running


def test_all_concepts_of_one_pinned_version_are_requested(service: ClarifaiService) -> None:
    adapter = make_adapter("clarifai", endpoint=service.url)
    adapter.send(sweep_images()[:1])
    assert [request.path for request in service.requests] == [
        f"/v2/users/clarifai/apps/main/models/general-image-recognition/versions/{GENERAL}/outputs"
    ]
    config = service.requests[0].json()["model"]["output_info"]["output_config"]
    assert config == {"max_concepts": 200, "min_value": 0.0}
    assert GENERAL in adapter.model


def test_a_batch_that_failed_altogether_fails_image_by_image(service: ClarifaiService) -> None:
    images = sweep_images()[:2]
    service.image_error = {
        images[0]: {"code": 30104, "description": "bad"},
        images[1]: {"code": 10030, "description": "again"},
    }.get
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
def test_the_status_code_decides_whatever_http_says(service: ClarifaiService, response: Response, retry: str) -> None:
    service.fault = lambda number: response
    images = sweep_images()
    outcomes = make_adapter("clarifai", endpoint=service.url).send(images)
    assert len(outcomes) == len(images)
    for outcome in outcomes:
        assert isinstance(outcome, NoAnswer)
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
def test_what_no_retry_can_help_stops_the_run(
    service: ClarifaiService, code: int | str, remedy: str, http: int
) -> None:
    service.fault = lambda number: failure(http, code, "no")
    with pytest.raises(AdapterError, match=remedy):
        make_adapter("clarifai", endpoint=service.url).send(sweep_images())
    assert len(service.requests) == 1


def test_a_reply_to_many_images_is_read_once(service: ClarifaiService, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = make_adapter("clarifai", endpoint=service.url)
    answers = [outcome for outcome in adapter.send(sweep_images()) if isinstance(outcome, RawAnswer)]
    assert len(answers) == len(sweep_images()) > 1
    with monkeypatch.context() as patch:
        patch.setattr("adapters.answers.json.loads", lambda body: pytest.fail("it was read again"))
        for answer in answers:
            assert adapter.parse(answer)


def test_a_monthly_limit_that_is_reached_may_be_reported_image_by_image(service: ClarifaiService) -> None:
    service.image_error = lambda image: {"code": 11004, "description": "Monthly limit exceeded"}
    with pytest.raises(AdapterError, match="monthly limit"):
        make_adapter("clarifai", endpoint=service.url).send(sweep_images())


def test_an_output_without_concepts_is_an_answer_that_cannot_be_read(service: ClarifaiService) -> None:
    # All are requested, down to 0: there is always one.
    for data in ({}, {"data": None}, {"data": {}}):
        service.fault = lambda number, data=data: failure(200, 10000, "Ok", [{"status": {"code": 10000}, **data}])
        outcome = make_adapter("clarifai", endpoint=service.url).send(sweep_images()[:1])[0]
        assert isinstance(outcome, RawAnswer)
        with pytest.raises(AnswerError):
            Clarifai.parse(outcome)


def test_chosen_concepts_are_returned_alone(service: ClarifaiService) -> None:
    adapter = make_adapter("clarifai", endpoint=service.url, concepts=("person", "nurse"))
    answer = adapter.send(sweep_images()[:1])[0]
    assert isinstance(answer, RawAnswer)
    assert {label.name for label in adapter.parse(answer)} == {"person", "nurse"}
    assert adapter.capabilities.labels == ("person", "nurse")
    assert adapter.capabilities.top_k is None


def test_a_model_of_ones_own(service: ClarifaiService) -> None:
    mine = {"CLARIFAI_PAT": PAT, "CLARIFAI_USER_ID": "me", "CLARIFAI_APP_ID": "faces", "CLARIFAI_API_BASE": service.url}
    with environment(mine):
        adapter = make_adapter("clarifai", model="jobs", version="v7", own=True)
        adapter.send(sweep_images()[:1])
        assert service.requests[0].path == "/v2/users/me/apps/faces/models/jobs/versions/v7/outputs"
        assert adapter.model == "me/faces/jobs v7"
        make_adapter("clarifai", model="jobs", version="latest", own=True).send(sweep_images()[:1])
        assert service.requests[1].path == "/v2/users/me/apps/faces/models/jobs/outputs"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "gender-demographics-recognition"}, "version="),
        ({"user": "someone"}, "version="),
        ({"own": True}, "CLARIFAI_USER_ID"),
        ({"model": "a/b", "version": "1"}, "option 'model' cannot be .*the model's id"),
        ({"version": "../x"}, "option 'version' cannot be"),
        ({"batch": 129}, "batch.*1-128"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with environment({"CLARIFAI_PAT": PAT}), pytest.raises(AdapterError, match=message):
        make_adapter("clarifai", **options)
