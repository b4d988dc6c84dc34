import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from adapter_calls import IMAGE, answer_to, failure_on, make_adapter, scores_of
from fakes.clouds import environment, service_and_adapter
from fakes.google_vision import KEY, REFRESH, GoogleVision, failure
from fakes.http_server import Response
from fakes.pixel_scores import LABELS, pixel_scores, sweep_images

from adapters.base import AdapterError, AnswerError, RawAnswer
from adapters.cloud.google import Google


def code(number: int, message: str = "planted") -> dict[str, Any]:
    return {"code": number, "message": message}


@pytest.fixture
def service() -> Iterator[GoogleVision]:
    with GoogleVision() as running, environment({"GOOGLE_API_KEY": KEY}):
        yield running


def test_bad_image_data_alone_is_not_retried(service):
    service.image_error = lambda image: code(3, "Bad image data.")
    outcome = failure_on(make_adapter("google", endpoint=service.url))
    assert outcome.retry == "never"


@pytest.mark.parametrize(("number", "retry"), [(2, "later"), (4, "later"), (13, "later"), (5, "never"), (7, "never")])
def test_grpc_code_of_one_image_decides_its_retry(service, number, retry):
    images = sweep_images()
    service.image_error = lambda image: code(number) if image == images[0] else None
    outcome = make_adapter("google", endpoint=service.url).send(images)[0]
    assert outcome.retry == retry


def test_permission_denied_for_all_images_stops_the_run(service):
    service.image_error = lambda image: code(7, "Permission denied on the project")
    with pytest.raises(AdapterError, match="Permission denied on the project"):
        make_adapter("google", endpoint=service.url).send(sweep_images())


def test_part_without_annotations_has_no_labels(service):
    service.fault = lambda number: Response(200, {"responses": [{}]})
    outcome = answer_to(make_adapter("google", endpoint=service.url))
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
def test_permanent_error_stops_the_run(service, response, remedy):
    service.fault = lambda number: response
    with pytest.raises(AdapterError, match=remedy):
        make_adapter("google", endpoint=service.url).send([IMAGE])
    assert len(service.requests) == 1


def test_quota_error_slows_down_and_bad_request_fails(service):
    adapter = make_adapter("google", endpoint=service.url)
    service.fault = lambda number: failure(429, "RESOURCE_EXHAUSTED", "Quota exceeded", "RATE_LIMIT_EXCEEDED")
    outcome = failure_on(adapter)
    assert (outcome.retry, outcome.wait) == ("slower", None)
    assert "RATE_LIMIT_EXCEEDED" in outcome.reason
    service.fault = lambda number: None
    outcome = adapter.send(sweep_images() * 4)[0]
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
def test_region_and_project_decide_the_url(options, url):
    with environment({"GOOGLE_API_KEY": KEY}):
        assert make_adapter("google", **options)._url == url


def test_rate_limit_counts_images():
    with environment({"GOOGLE_API_KEY": KEY}):
        for batch in (1, 8, 16):
            declared = make_adapter("google", batch=batch).capabilities
            assert declared.service.rate * declared.batch == pytest.approx(30)


def test_faces_are_requested_as_second_feature():
    with service_and_adapter("google", {"faces": True, "max_results": 2}) as (service, adapter):
        found = scores_of(adapter, answer_to(adapter))
        assert service.billed == 2
        assert adapter.capabilities.features == ("labels", "faces")
    assert len(set(found) & set(LABELS)) == 2
    assert (found["face"], found["face: joy"]) == (0.75, 0.25)
    assert "face: anger" not in found


def face(side: int, **likelihoods: object) -> dict[str, object]:
    corners = [{}, {"x": side}, {"x": side, "y": side}, {"y": side}]
    return {"boundingPoly": {"vertices": corners}, "detectionConfidence": 0.9, **likelihoods}


def parsed(*faces: dict[str, object]) -> dict[str, float]:
    return scores_of(Google, RawAnswer(json.dumps({"responses": [{"faceAnnotations": faces}]}).encode()))


def test_likelihoods_of_largest_face_are_read_by_name_or_number():
    names = ("UNKNOWN", "VERY_UNLIKELY", "UNLIKELY", "POSSIBLE", "LIKELY", "VERY_LIKELY")
    for number, (name, score) in enumerate(zip(names, (None, 0, 0.25, 0.5, 0.75, 1), strict=True)):
        for likelihood in (name, number):
            found = parsed(face(5, joyLikelihood="POSSIBLE"), face(9, headwearLikelihood=likelihood))
            assert found.get("face: headwear") == score
            assert "face: joy" not in found
    for malformed in ("MAYBE", 6, -1, True, 1.5, None, [1]):
        with pytest.raises(AnswerError, match="joyLikelihood"):
            parsed(face(5, joyLikelihood=malformed))


@pytest.fixture
def account(tmp_path: Path) -> Iterator[GoogleVision]:
    with GoogleVision() as running:
        file = tmp_path / "key.json"
        file.write_text(json.dumps(running.key_file()))
        with environment({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}):
            yield running


def test_service_account_reuses_its_token(account):
    adapter = make_adapter("google", endpoint=account.url)
    with ThreadPoolExecutor(4) as threads:
        sent = list(threads.map(adapter.send, [[image] for image in sweep_images()]))
    assert all(isinstance(outcomes[0], RawAnswer) for outcomes in sent)
    assert len(account.tokens) == 1
    assert sum(request.path == "/token" for request in account.requests) == 1


def test_refused_token_is_renewed_once(account):
    adapter = make_adapter("google", endpoint=account.url)
    adapter.send([IMAGE])
    account.tokens.clear()
    answer_to(adapter)
    refusal = failure(401, "UNAUTHENTICATED", "no")
    account.fault = lambda number: None if account.requests[-1].path == "/token" else refusal
    before = len(account.requests)
    with pytest.raises(AdapterError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        adapter.send([IMAGE])
    paths = [request.path.rpartition("/")[2] for request in account.requests[before:]]
    assert paths == ["images:annotate", "token", "images:annotate"]


def test_token_is_renewed_before_expiry(account):
    account.expires_in = 0
    adapter = make_adapter("google", endpoint=account.url)
    for _ in range(2):
        answer_to(adapter)
    assert len(account.tokens) == 2


def test_unavailable_token_service_bills_nothing(account, monkeypatch):
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda seconds: None)
    account.refused = Response(503, b"busy")
    outcome = failure_on(make_adapter("google", endpoint=account.url))
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
def test_refused_service_account_stops_the_run(account, response):
    account.refused = response
    with pytest.raises(AdapterError, match=r"no access token.*clock"):
        make_adapter("google", endpoint=account.url).send([IMAGE])


SERVICE_ACCOUNT = {"type": "service_account", "client_email": "a@b", "private_key": "planted-private-key"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ({"type": "authorized_user", "refresh_token": "planted-private-key"}, "has no 'client_id'"),
        ("planted-private-key", "not a JSON object"),
        ('"planted-private-key"', "not a JSON object"),
        ({"type": "external_account", "private_key": "planted-private-key"}, "has external_account credentials"),
        ({"type": "service_account", "private_key": "planted-private-key"}, "no 'client_email'"),
        (SERVICE_ACCOUNT | {"token_uri": "https://a.example/token"}, "private key.*cannot be read"),
        (SERVICE_ACCOUNT | {"token_uri": "http://a.example/token"}, "only over https"),
    ],
)
def test_unusable_key_file_is_explained_and_not_shown(tmp_path, content, message):
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    expected = pytest.raises(AdapterError, match=message)
    with environment({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}), expected as caught:
        make_adapter("google")
    error: BaseException | None = caught.value
    while error is not None:
        assert "planted-private-key" not in repr(error)
        error = error.__cause__


def test_missing_package_is_named(account, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "google.oauth2", None)
    with pytest.raises(AdapterError, match=r"'google-auth', which is not .*install .*'google-auth>=2.35'; an API key"):
        make_adapter("google", endpoint=account.url)


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[GoogleVision, Path]]:
    """The file that `gcloud auth application-default login` writes, at its usual path."""
    import google.oauth2.credentials

    file = tmp_path / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir()
    client = {"type": "authorized_user", "client_id": "me", "client_secret": "planted-secret"}
    file.write_text(json.dumps(client | {"refresh_token": REFRESH, "quota_project_id": "project-of-the-file"}))
    with GoogleVision() as running, environment({"CLOUDSDK_CONFIG": str(file.parent)}):
        monkeypatch.setattr(google.oauth2.credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{running.url}/token")
        yield running, file


def test_user_login_is_used_and_bills_its_quota_project(login, monkeypatch):
    service, file = login
    for variable, project in ((None, "project-of-the-file"), ("GOOGLE_CLOUD_QUOTA_PROJECT", "another-project")):
        if variable is not None:
            monkeypatch.setenv(variable, project)
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        outcome = answer_to(make_adapter("google", endpoint=service.url))
        assert scores_of(Google, outcome) == pixel_scores(IMAGE)
        assert service.requests[-1].headers["x-goog-user-project"] == project
        assert service.requests[-1].headers["authorization"] == f"Bearer {service.tokens[-1]}"


def test_revoked_login_stops_the_run_and_is_not_shown(login):
    service, file = login
    file.write_text(file.read_text().replace(REFRESH, "planted-old-token"))
    with pytest.raises(AdapterError, match=r"no access token .*\(.*revoked.*login") as caught:
        make_adapter("google", endpoint=service.url).send([IMAGE])
    assert "planted" not in str(caught.value)


def test_missing_credentials_name_all_three_options():
    with environment({"CLOUDSDK_CONFIG": "/nowhere"}), pytest.raises(AdapterError) as caught:
        make_adapter("google")
    for way in ("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "gcloud auth application-default login"):
        assert way in str(caught.value)
