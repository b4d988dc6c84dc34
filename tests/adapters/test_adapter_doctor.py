from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from types import MappingProxyType

import pytest

from adapters.base import Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service, address_of
from adapters.doctor import (
    Probe,
    canary_check,
    clock_check,
    credentials_check,
    declared_address,
    lifecycle_check,
    limits_check,
    price_of_one,
    reachability_check,
    repeat_check,
)
from adapters.registry import create

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SERVICE = Service(
    "Greenhouse", "vision.greenhouse.example", "nothing", "unknown", credentials=("GREEN_KEY", "GREEN_ID")
)


def dated(**given: object) -> Service:
    return Service("Greenhouse", "vision.greenhouse.example", "nothing", "unknown", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("service", "state", "says"),
    [
        (dated(), "ok", "is live"),
        (dated(lifecycle="ends", ends=date(2028, 9, 25)), "ok", "ends on 2028-09-25, in 675 days"),
        (dated(lifecycle="ends", ends=date(2027, 1, 1)), "warning", "in 42 days"),
        (dated(lifecycle="ends", ends=date(2026, 11, 20)), "failed", "ended on 2026-11-20"),
        (dated(lifecycle="discontinued", ends=date(2021, 12, 1)), "warning", "ended on 2021-12-01"),
    ],
)
def test_a_service_s_end_is_reported_in_time(service: Service, state: str, says: str) -> None:
    check = lifecycle_check(service, today=NOW.date())
    assert check.state == state
    assert says in check.finding


def test_credentials_are_named_and_never_shown() -> None:
    check = credentials_check(SERVICE, {"GREEN_KEY": "planted-secret", "GREEN_ID": " "}, usable=False)
    assert (check.state, check.finding) == ("warning", "set: GREEN_KEY; not set: GREEN_ID")
    assert credentials_check(SERVICE, {}, usable=False).state == "failed"
    assert credentials_check(SERVICE, {}, usable=True).state == "ok"
    assert credentials_check(dated(), {}, usable=True).finding == "none are needed"


@pytest.mark.parametrize(
    ("seconds", "state", "says"),
    [(2, "ok", "2 s ahead of"), (-90, "warning", "90 s behind"), (400, "failed", "400 s ahead of")],
)
def test_a_wrong_clock_is_reported_with_what_to_do(seconds: int, state: str, says: str) -> None:
    date = format_datetime(NOW - timedelta(seconds=seconds), usegmt=True)
    check = clock_check(Probe(status=200, date=date), now=NOW)
    assert check.state == state
    assert says in check.finding
    assert bool(check.fix) == (state != "ok")
    assert clock_check(Probe(status=200, date="soon"), now=NOW).state == "skipped"


def test_reaching_a_host() -> None:
    assert reachability_check("https://a.example", Probe(status=404)).state == "ok"
    check = reachability_check("https://a.example", Probe(problem="nothing answers there"))
    assert check.state == "failed"
    assert "HTTPS_PROXY" in check.fix


def test_addresses_are_those_that_are_sent_to() -> None:
    class Remote:
        capabilities = Capabilities(service=SERVICE)
        parameters = MappingProxyType({"endpoint": "http://127.0.0.1:1/v1"})

    assert address_of(Remote()) == "http://127.0.0.1:1/v1"  # type: ignore[arg-type]
    assert address_of(create("opencv")) is None
    assert declared_address(SERVICE) == "https://vision.greenhouse.example"
    assert declared_address(Service("", "REGION.example.com", "", "")) is None
    assert declared_address(Service("", "the one of the option url", "", "")) is None


def test_every_limit_that_is_broken_is_named() -> None:
    tight = Limits(max_bytes=10, max_pixels=100, min_side=50, max_side=30, formats=("png",))
    check = limits_check(tight, size=20, width=40, height=40, kind="jpeg")
    assert check.state == "failed"
    for part in (
        "20 bytes",
        "1600 pixels",
        "a side of 40 pixels, where 50 are needed",
        "where 30 are accepted",
        "jpeg",
    ):
        assert part in check.finding
    assert limits_check(Limits(), size=20, width=40, height=40, kind="jpeg").state == "ok"


def test_a_canary_is_judged_by_its_answer() -> None:
    adapter = create("opencv")

    def answer(body: bytes) -> RawAnswer:
        return RawAnswer(body)

    good = answer(b'{"labels": [["smile", 0.25], ["frontal face", 0.9]]}')
    assert canary_check(adapter, good).finding == "2 labels: frontal face 0.9, smile 0.25"
    assert canary_check(adapter, answer(b"<html>")).state == "failed"
    assert canary_check(adapter, answer(b'{"labels": []}')).state == "warning"
    lost = canary_check(adapter, NoAnswer("HTTP 429", retry="slower"))
    assert lost.state == "failed"
    assert "--rate" in lost.fix
    assert repeat_check(adapter, good, good).state == "ok"
    assert repeat_check(adapter, good, answer(b'{"labels": [["smile", 0.3]]}')).state == "warning"
    assert repeat_check(adapter, good, NoAnswer("lost")).state == "skipped"
    assert adapter.parse(good)[0] == Label("smile", 0.25)


def test_what_one_call_costs() -> None:
    price = Price(1.5, as_of=date(2026, 5, 28), source="its list")
    declared = Capabilities(service=dated(price=price), features=("labels", "faces"))
    assert price_of_one(declared) == "about US$ 0.0030 as of 2026-05-28"
    assert "unknown" in price_of_one(Capabilities(service=dated()))
