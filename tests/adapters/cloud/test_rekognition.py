import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from adapter_calls import IMAGE, answer_to, failure_on, make_adapter, scores_of
from fakes.clouds import CLOUDS, environment
from fakes.http_server import Response
from fakes.pixel_scores import pixel_scores
from fakes.rekognition import ID, REGION, SECRET, TOKEN, Keys, RekognitionService, failure

from adapters.base import AdapterError, AnswerError, RawAnswer
from adapters.cloud.rekognition import Rekognition


@pytest.fixture
def service() -> Iterator[RekognitionService]:
    with RekognitionService() as running, environment(CLOUDS["rekognition"].environment):
        yield running


def test_request_signature_is_verified_byte_by_byte(service):
    adapter = make_adapter("rekognition", endpoint=service.url)
    answer_to(adapter)
    assert ":" in service.requests[0].headers["host"]
    service.keys = {ID: Keys(SECRET + "x")}
    with pytest.raises(AdapterError, match=r"AWS_SECRET_ACCESS_KEY.*clock"):
        adapter.send([IMAGE])


def test_request_asks_for_all_labels_and_keeps_request_id(service):
    answer = answer_to(make_adapter("rekognition", endpoint=service.url))
    content = service.requests[0].json()
    assert (content["MinConfidence"], content["MaxLabels"]) == (0, 1000)
    assert answer.headers["x-amzn-requestid"] == "planted-request-id"
    assert json.loads(answer.body)["LabelModelVersion"] == "3.0"
    assert scores_of(Rekognition, answer) == pytest.approx(pixel_scores(IMAGE))


def test_label_filters_are_sent_and_checked(service):
    answer = answer_to(make_adapter("rekognition", endpoint=service.url, include=("nurse",)))
    assert [label.name for label in Rekognition.parse(answer)] == ["nurse"]
    with pytest.raises(AdapterError, match=r"'exclude\.0'.*at most 50 characters"):
        make_adapter("rekognition", endpoint=service.url, exclude=("x" * 51,))
    with pytest.raises(AdapterError, match="cannot be filtered"):
        make_adapter("rekognition", endpoint=service.url, include=("nurse",), faces=True)


@pytest.mark.parametrize(
    ("response", "retry"),
    [
        (failure(400, "ProvisionedThroughputExceededException", "Provisioned Rate exceeded"), "slower"),
        (failure(400, "ThrottlingException", "Slow", prefix="com.amazon.coral.service#", word="message"), "slower"),
        (failure(500, "ThrottlingException", "Service Unavailable"), "slower"),
        (failure(500, "InternalServerError", "oops"), "later"),
        (failure(400, "InternalServerError", "oops"), "later"),
        (failure(400, "InvalidParameterException", "minimum image height"), "never"),
        (failure(400, "ImageTooLargeException", "too large"), "never"),
        (failure(400, "LimitExceededException", "no"), "never"),
        (Response(400, b"{}", {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/"}), "slower"),
        (Response(400, b"<html>"), "never"),
    ],
)
def test_error_code_decides_retry(service, response, retry):
    service.fault = lambda number: response
    outcome = failure_on(make_adapter("rekognition", endpoint=service.url))
    assert outcome.retry == retry
    assert not outcome.billed
    if isinstance(response.body, dict):
        message = response.body.get("Message", response.body.get("message"))
        assert message in outcome.reason
        assert outcome.reply.headers["x-amzn-requestid"] == "planted-request-id"
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("AccessDeniedException", "rekognition:DetectLabels"),
        ("UnrecognizedClientException", "AWS_ACCESS_KEY_ID"),
        ("InvalidSignatureException", "clock"),
        ("MissingAuthenticationTokenException", "endpoint"),
        ("ExpiredTokenException", "aws sso login"),
    ],
)
def test_permanent_error_stops_the_run(service, code, remedy):
    service.fault = lambda number: failure(400, code, "no", prefix="com.amazonaws#")
    with pytest.raises(AdapterError, match=remedy):
        make_adapter("rekognition", endpoint=service.url).send([IMAGE])
    assert len(service.requests) == 1


def write_profile(file: Path, *, key: str, secret: str, token: str) -> None:
    file.write_text(f"[auditor]\naws_access_key_id={key}\naws_secret_access_key={secret}\naws_session_token={token}\n")


def test_expired_profile_credentials_are_read_again(tmp_path):
    file = tmp_path / "credentials"
    write_profile(file, key="ASIAONE", secret="one", token=TOKEN)
    (tmp_path / "config").write_text(f"[profile auditor]\nregion = {REGION}\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_CONFIG_FILE": str(tmp_path / "config")}
    with RekognitionService() as service, environment({"AWS_PROFILE": "auditor", **files}):
        service.keys = {"ASIAONE": Keys("one", TOKEN), "ASIATWO": Keys("two", "another-planted-token")}
        adapter = make_adapter("rekognition", endpoint=service.url)
        answer_to(adapter)
        service.keys["ASIAONE"] = Keys("one", TOKEN, expired=True)
        with pytest.raises(AdapterError, match="have expired"):
            adapter.send([IMAGE])
        write_profile(file, key="ASIATWO", secret="two", token="another-planted-token")
        answer_to(adapter)
        assert service.billed == 2
        assert len(service.requests) == 4


def test_session_token_is_in_no_log_or_reply(service, caplog):
    service.keys = {ID: Keys(SECRET, TOKEN)}
    with environment({**CLOUDS["rekognition"].environment, "AWS_SESSION_TOKEN": TOKEN}):
        caplog.set_level(logging.DEBUG)
        adapter = make_adapter("rekognition", endpoint=service.url)
        answer = answer_to(adapter)
        service.fault = lambda number: Response(200, str(dict(service.requests[-1].headers)).encode())
        (echoed,) = adapter.send([IMAGE])
    assert TOKEN in service.requests[-1].headers["x-amz-security-token"]
    for shown in (repr(answer), repr(echoed), caplog.text, repr(adapter._signer.signed(service.url, b"", {}))):
        assert TOKEN not in shown
        assert SECRET not in shown


ALL = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "https://all.example"}


@pytest.mark.parametrize(
    ("settings", "options", "host"),
    [
        ({"AWS_REGION": "eu-west-1"}, {}, "rekognition.eu-west-1.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "us-east-1"}, {}, "rekognition.us-east-1.amazonaws.com"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}, {}, "rekognition.eu-west-1.amazonaws.com"),
        ({"AWS_REGION": "eu-west-1"}, {"region": "ap-south-1"}, "rekognition.ap-south-1.amazonaws.com"),
        (ALL, {}, "all.example"),
        (ALL | {"AWS_ENDPOINT_URL_REKOGNITION": "https://one.example"}, {}, "one.example"),
        (ALL | {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, {}, "rekognition.eu-west-1.amazonaws.com"),
        (ALL, {"endpoint": "https://mine.example"}, "mine.example"),
    ],
)
def test_region_and_endpoint_decide_the_host(settings, options, host):
    with environment({"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, **settings}):
        declared = make_adapter("rekognition", **options).capabilities.service
    assert declared.host == host


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "export AWS_REGION="),
        ({"AWS_REGION": "evil.example/"}, "not an AWS region"),
        ({"AWS_REGION": "eu-west-1", "AWS_PROFILE": "nobody"}, "nobody"),
        ({"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": ""}, "credentials"),
    ],
)
def test_missing_settings_are_named(settings, message):
    keys = {} if "AWS_PROFILE" in settings else {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET}
    with environment({**keys, **settings}), pytest.raises(AdapterError, match=message):
        make_adapter("rekognition")


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with (
        environment(CLOUDS["rekognition"].environment),
        pytest.raises(AdapterError, match=r"'botocore', which is not installed: .*install .*'botocore>=1.35'"),
    ):
        make_adapter("rekognition")


def test_face_nearest_the_centre_is_read(service):
    adapter = make_adapter("rekognition", endpoint=service.url, faces=True)
    answer = answer_to(adapter)
    found = scores_of(adapter, answer)
    masculine = pixel_scores(IMAGE)["engineer"]
    assert found["Male"] == pytest.approx(masculine)
    assert found["Female"] == pytest.approx(1 - masculine)
    assert found["Smile"] == pytest.approx(0.1)
    assert (found["CALM"], found["HAPPY"]) == (0.61, 0.30)
    assert [found[f"age {age}+"] for age in (20, 30, 40)] == [1.0, 0.5, 0.0]
    assert found["face"] == 0.995
    assert adapter.capabilities.features == ("faces",)


def test_no_face_gives_no_labels():
    assert Rekognition.parse(RawAnswer(b'{"FaceDetails": []}')) == []


@pytest.mark.parametrize(
    "part",
    [
        {"Gender": {"Value": "Other", "Confidence": 99}},
        {"Gender": {"Value": "Male"}},
        {"Gender": None},
        {"Smile": {"Value": "true", "Confidence": 99}},
        {"Smile": {"Value": True, "Confidence": 101}},
        {"AgeRange": {"Low": 3}},
        {"Emotions": {}},
        {"BoundingBox": {"Left": "0"}},
    ],
)
def test_malformed_face_is_refused(part):
    box = {"BoundingBox": {"Left": 0, "Top": 0, "Width": 1, "Height": 1}, "Confidence": 99}
    with pytest.raises(AnswerError):
        Rekognition.parse(RawAnswer(json.dumps({"FaceDetails": [{**box, **part}]}).encode()))
