from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from types import MappingProxyType

import pytest

from adapters import doctor
from adapters.base import Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service, address_of
from adapters.registry import create

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def service(**given: object) -> Service:
    return Service("Greenhouse", "vision.greenhouse.example", "nothing", "unknown", **given)


SERVICE = service(credentials=("GREEN_KEY", "GREEN_ID"))


@pytest.mark.parametrize(
    ("declared", "state", "text"),
    [
        (service(), "ok", "is live"),
        (service(lifecycle="ends", ends=date(2028, 9, 25)), "ok", "ends on 2028-09-25, in 675 days"),
        (service(lifecycle="ends", ends=date(2027, 1, 1)), "warning", "in 42 days"),
        (service(lifecycle="ends", ends=date(2026, 11, 20)), "failed", "ended on 2026-11-20"),
        (service(lifecycle="discontinued", ends=date(2021, 12, 1)), "warning", "ended on 2021-12-01"),
    ],
)
def test_end_of_service_is_reported(declared, state, text):
    check = doctor.lifecycle_check(declared, today=NOW.date())
    assert check.state == state
    assert text in check.finding


def test_credentials_are_named_and_never_shown():
    check = doctor.credentials_check(SERVICE, {"GREEN_KEY": "planted-secret", "GREEN_ID": " "}, usable=False)
    assert (check.state, check.finding) == ("warning", "set: GREEN_KEY; not set: GREEN_ID")
    assert doctor.credentials_check(SERVICE, {}, usable=False).state == "failed"
    assert doctor.credentials_check(SERVICE, {}, usable=True).state == "ok"
    assert doctor.credentials_check(service(), {}, usable=True).finding == "none are needed"


@pytest.mark.parametrize(
    ("seconds", "state", "text"),
    [(2, "ok", "2 s ahead of"), (-90, "warning", "90 s behind"), (400, "failed", "400 s ahead of")],
)
def test_wrong_clock_is_reported(seconds, state, text):
    date = format_datetime(NOW - timedelta(seconds=seconds), usegmt=True)
    check = doctor.clock_check(doctor.Probe(status=200, date=date), now=NOW)
    assert check.state == state
    assert text in check.finding
    assert bool(check.fix) == (state != "ok")
    assert doctor.clock_check(doctor.Probe(status=200, date="soon"), now=NOW).state == "skipped"


def test_unreachable_host_is_reported():
    assert doctor.reachability_check("https://a.example", doctor.Probe(status=404)).state == "ok"
    check = doctor.reachability_check("https://a.example", doctor.Probe(problem="nothing answers there"))
    assert check.state == "failed"
    assert "HTTPS_PROXY" in check.fix


def test_address_is_the_one_requests_are_sent_to():
    class Remote:
        capabilities = Capabilities(service=SERVICE)
        parameters = MappingProxyType({"endpoint": "http://127.0.0.1:1/v1"})

    assert address_of(Remote()) == "http://127.0.0.1:1/v1"
    assert address_of(create("opencv")) is None
    assert doctor.declared_address(SERVICE) == "https://vision.greenhouse.example"
    assert doctor.declared_address(Service("", "REGION.example.com", "", "")) is None
    assert doctor.declared_address(Service("", "the one of the option url", "", "")) is None


def test_every_exceeded_limit_is_named():
    limits = Limits(max_bytes=10, max_pixels=100, min_side=50, max_side=30, formats=("png",))
    check = doctor.limits_check(limits, size=20, width=40, height=40, kind="jpeg")
    assert check.state == "failed"
    side = "a side of 40 pixels, where 50 are needed"
    for part in ("20 bytes", "1600 pixels", side, "where 30 are accepted", "jpeg"):
        assert part in check.finding
    assert doctor.limits_check(Limits(), size=20, width=40, height=40, kind="jpeg").state == "ok"


def test_canary_is_checked_by_its_answer():
    adapter = create("opencv")
    good = RawAnswer(b'{"labels": [["smile", 0.25], ["frontal face", 0.9]]}')
    assert doctor.canary_check(adapter, good).finding == "2 labels: frontal face 0.9, smile 0.25"
    assert doctor.canary_check(adapter, RawAnswer(b"<html>")).state == "failed"
    assert doctor.canary_check(adapter, RawAnswer(b'{"labels": []}')).state == "warning"
    lost = doctor.canary_check(adapter, NoAnswer("HTTP 429", retry="slower"))
    assert lost.state == "failed"
    assert "--rate" in lost.fix
    assert doctor.repeat_check(adapter, good, good).state == "ok"
    assert doctor.repeat_check(adapter, good, RawAnswer(b'{"labels": [["smile", 0.3]]}')).state == "warning"
    assert doctor.repeat_check(adapter, good, NoAnswer("lost")).state == "skipped"
    assert adapter.parse(good)[0] == Label("smile", 0.25)


def test_price_of_one_call():
    price = Price(1.5, as_of=date(2026, 5, 28), source="its list")
    declared = Capabilities(service=service(price=price), features=("labels", "faces"))
    assert doctor.price_of_one(declared) == "about US$ 0.0030 as of 2026-05-28"
    assert "unknown" in doctor.price_of_one(Capabilities(service=service()))
