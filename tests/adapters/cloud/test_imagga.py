import json

import pytest
from adapter_factory import make_adapter
from fakes.clouds import environment, service_and_adapter
from fakes.http_server import Response
from fakes.imagga import KEY, SECRET, failure
from fakes.pixel_scores import sweep_images

from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.cloud.imagga import Imagga


@pytest.mark.parametrize("response", [failure(400, "bad"), failure(200, "bad")])
def test_its_own_status_decides_whatever_http_says(response: Response) -> None:
    with service_and_adapter("imagga") as (service, adapter):
        service.fault = lambda _: response
        outcome = adapter.send(sweep_images()[:1])[0]
    assert isinstance(outcome, NoAnswer)
    assert outcome.retry == "never"
    assert "bad" in outcome.reason


def test_refused_credentials_stop_with_their_remedy() -> None:
    with service_and_adapter("imagga") as (service, adapter):
        service.wanted = "another"
        with pytest.raises(AdapterError, match="check IMAGGA_API_KEY and IMAGGA_API_SECRET"):
            adapter.send(sweep_images()[:1])


def test_each_variable_is_needed() -> None:
    for given, missing in (("KEY", "SECRET"), ("SECRET", "KEY")):
        with (
            environment({f"IMAGGA_API_{given}": "planted"}),
            pytest.raises(AdapterError, match=f"IMAGGA_API_{missing}"),
        ):
            make_adapter("imagga")


def test_a_server_that_repeats_the_credentials_gets_them_nowhere() -> None:
    with service_and_adapter("imagga") as (service, adapter):
        service.fault = lambda _: Response(200, {"echo": dict(service.requests[0].headers)}, {"X-Request-Id": KEY})
        outcome = adapter.send(sweep_images()[:1])[0]
        assert service.requests[0].parts()["threshold"][2] == b"0"
    for secret in (KEY, SECRET, service.wanted.partition(" ")[2]):
        assert secret not in repr(outcome)


@pytest.mark.parametrize("tag", [{"tag": {"en": "a"}}, {"tag": {}, "confidence": 5}, {"tag": "", "confidence": 5}])
def test_what_is_no_tag_fails_by_name(tag: object) -> None:
    with pytest.raises(AnswerError):
        Imagga.parse(RawAnswer(json.dumps({"result": {"tags": [tag]}}).encode()))
