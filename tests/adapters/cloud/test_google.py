import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from adapter_factory import make_adapter
from fakes.clouds import environment, service_and_adapter
from fakes.google_vision import KEY, REFRESH, GoogleVision, failure
from fakes.http_server import Response
from fakes.pixel_scores import LABELS, pixel_scores, sweep_images

from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.cloud.google import Google


def code(number: int, message: str = "planted") -> dict[str, Any]:
    return {"code": number, "message": message}


@pytest.fixture
def service() -> Iterator[GoogleVision]:
    with GoogleVision() as running, environment({"GOOGLE_API_KEY": KEY}):
        yield running


def test_bad_image_data_is_tried_again_alone_and_then_no_more(service: GoogleVision) -> None:
    service.image_error = lambda image: code(3, "Bad image data.")
    outcome = make_adapter("google", endpoint=service.url).send(sweep_images()[:1])[0]
    assert isinstance(outcome, NoAnswer)
    assert outcome.retry == "never"


@pytest.mark.parametrize(("number", "retry"), [(2, "later"), (4, "later"), (13, "later"), (5, "never"), (7, "never")])
def test_grpc_codes_of_one_image(service: GoogleVision, number: int, retry: str) -> None:
    images = sweep_images()
    service.image_error = lambda image: code(number) if image == images[0] else None
    outcome = make_adapter("google", endpoint=service.url).send(images)[0]
    assert isinstance(outcome, NoAnswer)
    assert outcome.retry == retry


def test_a_batch_in_which_nothing_is_allowed_stops_the_run(service: GoogleVision) -> None:
    service.image_error = lambda image: code(7, "Permission denied on the project")
    with pytest.raises(AdapterError, match="Permission denied on the project"):
        make_adapter("google", endpoint=service.url).send(sweep_images())


def test_no_labels_is_a_part_without_a_list(service: GoogleVision) -> None:
    service.fault = lambda number: Response(200, {"responses": [{}]})
    outcome = make_adapter("google", endpoint=service.url).send(sweep_images()[:1])[0]
    assert isinstance(outcome, RawAnswer)
    assert Google.parse(outcome) == []


@pytest.mark.parametrize(
    ("response", "remedy"),
    [
        (failure(400, "INVALID_ARGUMENT", "API key not valid.", "API_KEY_INVALID"), "copy it again"),
        (failure(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key."), "copy it again"),
        (failure(401, "UNAUTHENTICATED", "no", "ACCESS_TOKEN_EXPIRED"), "GOOGLE_API_KEY"),
        (failure(403, "PERMISSION_DENIED", "no", "SERVICE_DISABLED"), "gcloud services enable vision.googleapis.com"),
        (failure(403, "PERMISSION_DENIED", "no", "BILLING_DISABLED"), "billing"),
        (failure(403, "PERMISSION_DENIED", "no"), "allow these credentials"),
        (failure(404, "NOT_FOUND", "no"), "project and region"),
    ],
)
def test_what_no_retry_can_help_stops_the_run(service: GoogleVision, response: Response, remedy: str) -> None:
    service.fault = lambda number: response
    with pytest.raises(AdapterError, match=remedy):
        make_adapter("google", endpoint=service.url).send(sweep_images()[:1])
    assert len(service.requests) == 1


def test_a_quota_makes_it_slower_and_a_bad_request_fails(service: GoogleVision) -> None:
    adapter = make_adapter("google", endpoint=service.url)
    service.fault = lambda number: failure(429, "RESOURCE_EXHAUSTED", "Quota exceeded", "RATE_LIMIT_EXCEEDED")
    outcome = adapter.send(sweep_images()[:1])[0]
    assert isinstance(outcome, NoAnswer)
    assert (outcome.retry, outcome.wait) == ("slower", None)
    assert "RATE_LIMIT_EXCEEDED" in outcome.reason
    outcome = adapter.send(sweep_images() * 4)[0]
    service.fault = lambda number: None
    outcome = adapter.send(sweep_images() * 4)[0]
    assert isinstance(outcome, NoAnswer)
    assert (outcome.retry, outcome.reason) == ("never", "HTTP 400: INVALID_ARGUMENT: Too many images per request.")


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, "https://vision.googleapis.com/v1/images:annotate"),
        ({"region": "eu"}, "https://eu-vision.googleapis.com/v1/images:annotate"),
        ({"region": "us", "project": "p-1"}, "https://us-vision.googleapis.com/v1/projects/p-1/locations/us/images:annotate"),
        ({"region": "asia", "project": "p"}, "https://vision.googleapis.com/v1/projects/p/locations/asia/images:annotate"),
        ({"project": "p"}, "https://vision.googleapis.com/v1/projects/p/images:annotate"),
    ],
)  # fmt: skip
def test_where_it_asks(options: dict[str, Any], url: str) -> None:
    with environment({"GOOGLE_API_KEY": KEY}):
        assert make_adapter("google", **options)._url == url


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"region": "asia"}, "project="),
        ({"project": "a/b"}, "project"),
        ({"batch": 17}, "batch.*1-16"),
        ({"batch": 0}, "batch.*1-16"),
        ({"max_results": 0}, "max_results"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with environment({"GOOGLE_API_KEY": KEY}), pytest.raises(AdapterError, match=message):
        make_adapter("google", **options)


def test_the_rate_counts_images() -> None:
    with environment({"GOOGLE_API_KEY": KEY}):
        for batch in (1, 8, 16):
            declared = make_adapter("google", batch=batch).capabilities
            assert declared.service is not None
            assert declared.service.rate * declared.batch == pytest.approx(30)


def test_faces_are_a_second_feature() -> None:
    with service_and_adapter("google", {"faces": True, "max_results": 2}) as (service, adapter):
        answer = adapter.send(sweep_images()[:1])[0]
        assert service.billed == 2
        assert adapter.capabilities.features == ("labels", "faces")
        found = {label.name: label.score for label in adapter.parse(answer)}
    assert len(set(found) & set(LABELS)) == 2
    assert (found["face"], found["face: joy"]) == (0.75, 0.25)
    assert "face: anger" not in found


def face(side: int, **likelihoods: object) -> dict[str, object]:
    corners = [{}, {"x": side}, {"x": side, "y": side}, {"y": side}]
    return {"boundingPoly": {"vertices": corners}, "detectionConfidence": 0.9, **likelihoods}


def parsed(*faces: dict[str, object]) -> dict[str, float]:
    body = json.dumps({"responses": [{"faceAnnotations": faces}]}).encode()
    return {label.name: label.score for label in Google.parse(RawAnswer(body))}


def test_the_largest_face_is_read_in_names_or_numbers() -> None:
    names = ("UNKNOWN", "VERY_UNLIKELY", "UNLIKELY", "POSSIBLE", "LIKELY", "VERY_LIKELY")
    for number, (name, score) in enumerate(zip(names, (None, 0, 0.25, 0.5, 0.75, 1), strict=True)):
        for likelihood in (name, number):
            found = parsed(face(5, joyLikelihood="POSSIBLE"), face(9, headwearLikelihood=likelihood))
            assert found.get("face: headwear") == score
            assert "face: joy" not in found
    for odd in ("MAYBE", 6, -1, True, 1.5, None, [1]):
        with pytest.raises(AnswerError, match="joyLikelihood"):
            parsed(face(5, joyLikelihood=odd))


@pytest.fixture
def account(tmp_path: Path) -> Iterator[GoogleVision]:
    with GoogleVision() as running:
        file = tmp_path / "key.json"
        file.write_text(json.dumps(running.key_file()))
        with environment({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}):
            yield running


def test_a_service_account_gets_one_token_for_many_calls(account: GoogleVision) -> None:
    adapter = make_adapter("google", endpoint=account.url)
    with ThreadPoolExecutor(4) as threads:
        sent = list(threads.map(adapter.send, [[image] for image in sweep_images()]))
    assert all(isinstance(outcomes[0], RawAnswer) for outcomes in sent)
    assert len(account.tokens) == 1
    assert sum(request.path == "/token" for request in account.requests) == 1


def test_a_token_that_is_refused_is_renewed_once(account: GoogleVision) -> None:
    adapter = make_adapter("google", endpoint=account.url)
    adapter.send(sweep_images()[:1])
    account.tokens.clear()
    assert isinstance(adapter.send(sweep_images()[:1])[0], RawAnswer)
    refusal = failure(401, "UNAUTHENTICATED", "no")
    account.fault = lambda number: None if account.requests[-1].path == "/token" else refusal
    before = len(account.requests)
    with pytest.raises(AdapterError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        adapter.send(sweep_images()[:1])
    assert [request.path.rpartition("/")[2] for request in account.requests[before:]] == [
        "images:annotate",
        "token",
        "images:annotate",
    ]


def test_a_token_is_renewed_before_it_expires(account: GoogleVision) -> None:
    account.expires_in = 0
    adapter = make_adapter("google", endpoint=account.url)
    for _ in range(2):
        assert isinstance(adapter.send(sweep_images()[:1])[0], RawAnswer)
    assert len(account.tokens) == 2


def test_no_token_at_the_moment_is_no_answer_and_bills_nothing(
    account: GoogleVision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda seconds: None)
    account.refused = Response(503, b"busy")
    outcome = make_adapter("google", endpoint=account.url).send(sweep_images()[:1])[0]
    assert isinstance(outcome, NoAnswer)
    assert (outcome.retry, outcome.billed) == ("later", False)
    assert "no access token" in outcome.reason


@pytest.mark.parametrize(
    "response",
    [
        Response(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}),
        Response(200, {"access_token": None}),
        Response(200, {"access_token": "line\nbreak", "expires_in": 5}),
        Response(200, {"access_token": "fine", "expires_in": "soon"}),
        Response(200, b"<html>"),
    ],
)
def test_an_account_that_is_refused_stops_the_run(account: GoogleVision, response: Response) -> None:
    account.refused = response
    with pytest.raises(AdapterError, match=r"no access token.*clock"):
        make_adapter("google", endpoint=account.url).send(sweep_images()[:1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ({"type": "authorized_user", "refresh_token": "planted-private-key"}, "has no 'client_id'"),
        ("planted-private-key", "not a JSON object"),
        ('"planted-private-key"', "not a JSON object"),
        ({"type": "external_account", "private_key": "planted-private-key"}, "has external_account credentials"),
        ({"type": "service_account", "private_key": "planted-private-key"}, "no 'client_email'"),
        (
            {
                "type": "service_account",
                "client_email": "a@b",
                "private_key": "planted-private-key",
                "token_uri": "https://a.example/token",
            },
            "private key.*cannot be read",
        ),
        (
            {
                "type": "service_account",
                "client_email": "a@b",
                "private_key": "planted-private-key",
                "token_uri": "http://a.example/token",
            },
            "only over https",
        ),
    ],
)
def test_a_key_file_that_does_not_serve_is_explained_and_not_shown(
    tmp_path: Path, content: object, message: str
) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    with (
        environment({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}),
        pytest.raises(AdapterError, match=message) as caught,
    ):
        make_adapter("google")
    error: BaseException | None = caught.value
    while error is not None:
        assert "planted-private-key" not in repr(error)
        error = error.__cause__


def test_the_missing_package_is_named(account: GoogleVision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "google.oauth2", None)
    with pytest.raises(AdapterError, match=r"'google-auth', which is not .*install .*'google-auth>=2.35'; an API key"):
        make_adapter("google", endpoint=account.url)


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[GoogleVision, Path]]:
    """The file that `gcloud auth application-default login` writes, at its usual path."""
    import google.oauth2.credentials

    file = tmp_path / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir()
    content = {
        "type": "authorized_user",
        "client_id": "me",
        "client_secret": "planted-secret",
        "refresh_token": REFRESH,
    }
    file.write_text(json.dumps(content | {"quota_project_id": "project-of-the-file"}))
    with GoogleVision() as running, environment({"CLOUDSDK_CONFIG": str(file.parent)}):
        monkeypatch.setattr(google.oauth2.credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{running.url}/token")
        yield running, file


def test_a_person_s_own_login_is_used_and_its_project_pays(
    login: tuple[GoogleVision, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, file = login
    for variable, project in ((None, "project-of-the-file"), ("GOOGLE_CLOUD_QUOTA_PROJECT", "another-project")):
        if variable is not None:
            monkeypatch.setenv(variable, project)
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        outcome = make_adapter("google", endpoint=service.url).send(sweep_images()[:1])[0]
        assert isinstance(outcome, RawAnswer), outcome
        assert {label.name: label.score for label in Google.parse(outcome)} == pixel_scores(sweep_images()[0])
        assert service.requests[-1].headers["x-goog-user-project"] == project
        assert service.requests[-1].headers["authorization"] == f"Bearer {service.tokens[-1]}"


def test_a_login_that_was_revoked_stops_the_run_and_is_not_shown(login: tuple[GoogleVision, Path]) -> None:
    service, file = login
    file.write_text(file.read_text().replace(REFRESH, "planted-old-token"))
    with pytest.raises(AdapterError, match=r"no access token .*\(.*revoked.*login") as caught:
        make_adapter("google", endpoint=service.url).send(sweep_images()[:1])
    assert "planted" not in str(caught.value)


def test_without_any_credentials_all_three_ways_are_named() -> None:
    with environment({"CLOUDSDK_CONFIG": "/nowhere"}), pytest.raises(AdapterError) as caught:
        make_adapter("google")
    for way in ("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "gcloud auth application-default login"):
        assert way in str(caught.value)
