import json

import pytest
from adapter_calls import IMAGE, failure_on, make_adapter
from fakes.clouds import environment, service_and_adapter
from fakes.http_server import Response
from fakes.imagga import KEY, SECRET, failure

from adapters.base import AdapterError, AnswerError, RawAnswer
from adapters.cloud.imagga import Imagga


@pytest.mark.parametrize("response", [failure(400, "bad"), failure(200, "bad")])
def test_status_in_body_decides_regardless_of_http_status(response):
    with service_and_adapter("imagga") as (service, adapter):
        service.fault = lambda _: response
        outcome = failure_on(adapter)
    assert outcome.retry == "never"
    assert "bad" in outcome.reason


def test_refused_credentials_stop_the_run():
    with service_and_adapter("imagga") as (service, adapter):
        service.authorization = "another"
        with pytest.raises(AdapterError, match="check IMAGGA_API_KEY and IMAGGA_API_SECRET"):
            adapter.send([IMAGE])


def test_key_and_secret_are_both_required():
    for given, missing in (("KEY", "SECRET"), ("SECRET", "KEY")):
        expected = pytest.raises(AdapterError, match=f"IMAGGA_API_{missing}")
        with environment({f"IMAGGA_API_{given}": "planted"}), expected:
            make_adapter("imagga")


def test_echoed_credentials_are_redacted():
    with service_and_adapter("imagga") as (service, adapter):
        service.fault = lambda _: Response(200, {"echo": dict(service.requests[0].headers)}, {"X-Request-Id": KEY})
        (outcome,) = adapter.send([IMAGE])
        assert service.requests[0].parts()["threshold"][2] == b"0"
    for secret in (KEY, SECRET, service.authorization.partition(" ")[2]):
        assert secret not in repr(outcome)


@pytest.mark.parametrize("tag", [{"tag": {"en": "a"}}, {"tag": {}, "confidence": 5}, {"tag": "", "confidence": 5}])
def test_malformed_tag_is_refused(tag):
    with pytest.raises(AnswerError):
        Imagga.parse(RawAnswer(json.dumps({"result": {"tags": [tag]}}).encode()))
