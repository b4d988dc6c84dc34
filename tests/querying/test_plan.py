from dataclasses import replace
from datetime import date

import pytest
from counting_adapter import SERVICE, CountingAdapter
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import Price
from pipeline.querying.plan import (
    AdapterPlan,
    Plan,
    PlanError,
    called_host,
    check_consent,
    check_lifecycles,
    check_limits,
    no_consent,
)
from pipeline.querying.requests import in_batches

TODAY = date(2026, 6, 1)
PRICE = Price(1.5, date(2026, 5, 28), "a page")
REMOTE = AdapterPlan(
    "cloud",
    replace(SERVICE, host="vision.example"),
    images=1000,
    known=400,
    calls=38,
    host="vision.example",
    price=PRICE,
    features=2,
    rate=10.0,
    sentinels=9,
)
LOCAL = AdapterPlan("here", None, images=1000, known=0, calls=1000)


def test_plan_estimates_cost_and_time():
    assert REMOTE.usd == pytest.approx((600 + 9) * 2 * 1.5 / 1000)
    assert REMOTE.seconds == pytest.approx(3.8)
    assert (LOCAL.usd, LOCAL.seconds) == (0.0, None)
    plan = Plan((REMOTE, LOCAL))
    assert plan.calls == 1038
    assert plan.leaving == (REMOTE,)


def test_plan_beyond_limits_is_refused():
    plan = Plan((REMOTE, LOCAL))
    check_limits(plan, max_calls=1038, max_cost=2.0)
    with pytest.raises(PlanError, match="1,038 calls, more than the 1,037"):
        check_limits(plan, max_calls=1037, max_cost=None)
    with pytest.raises(PlanError, match=r"US\$ 1\.8270, more than the US\$ 1\.0000"):
        check_limits(plan, max_calls=None, max_cost=1.0)
    with pytest.raises(PlanError, match="--price cloud="):
        check_limits(Plan((replace(REMOTE, price=None),)), max_calls=None, max_cost=100.0)
    check_limits(Plan((replace(REMOTE, price=None, calls=0),)), max_calls=0, max_cost=0.0)


def test_remote_calls_need_consent():
    with pytest.raises(PlanError, match=r"vision\.example.*--yes"):
        check_consent(Plan((REMOTE, LOCAL)), consent=no_consent)
    check_consent(Plan((REMOTE,)), consent=lambda plan: True)
    check_consent(Plan((LOCAL, replace(REMOTE, calls=0))), consent=no_consent)


@pytest.mark.parametrize(
    ("changes", "host", "calls", "refused"),
    [
        ({"lifecycle": "discontinued", "ends": date(2021, 12, 1)}, "gone.example", 5, True),
        ({"lifecycle": "discontinued"}, "elsewhere.example", 5, False),
        ({"lifecycle": "ends", "ends": date(2026, 5, 31)}, "gone.example", 5, True),
        ({"lifecycle": "ends", "ends": date(2028, 9, 25)}, "there.example", 5, False),
        ({"lifecycle": "discontinued"}, "gone.example", 0, False),
        ({"lifecycle": "discontinued"}, "127.0.0.1:8080", 5, False),
        ({"lifecycle": "discontinued"}, "localhost", 5, False),
        ({"lifecycle": "discontinued"}, "127.0.0.1.evil.example", 5, True),
        ({"lifecycle": "discontinued"}, "127.0.0.1.evil.example:8080", 5, True),
    ],
)
def test_discontinued_service_is_refused_unless_called_elsewhere(changes, host, calls, refused):
    service = replace(SERVICE, host=host, **changes)
    plan = Plan((replace(REMOTE, service=service, calls=calls, host=host, elsewhere="elsewhere" in host),))
    if refused:
        with pytest.raises(PlanError, match="ended this service"):
            check_lifecycles(plan, today=TODAY)
    else:
        check_lifecycles(plan, today=TODAY)


def test_called_host_is_that_of_the_endpoint():
    adapter = CountingAdapter(remote=True)
    assert called_host(adapter) == "127.0.0.1"
    adapter.parameters = {"endpoint": "https://elsewhere.example:8443/v1"}
    assert called_host(adapter) == "elsewhere.example:8443"
    assert called_host(CountingAdapter()) == ""


def test_cost_equal_to_the_limit_passes():
    price = Price(1.1, TODAY, "a page")
    plan = Plan((replace(REMOTE, price=price, images=3, known=0, sentinels=0, features=1),))
    check_limits(plan, max_calls=None, max_cost=0.0033)
    with pytest.raises(PlanError, match=r"US\$ 0.0033, more than the US\$ 0.0032"):
        check_limits(plan, max_calls=None, max_cost=0.0032)


@given(
    sizes=st.lists(st.none() | st.integers(0, 100), max_size=30),
    most=st.integers(1, 8),
    most_bytes=st.none() | st.integers(1, 200),
)
def test_batches_keep_order_within_size_and_bytes(sizes, most, most_bytes):
    batches = in_batches(sizes, most=most, most_bytes=most_bytes)
    assert [size for batch in batches for size in sizes[batch]] == sizes
    for batch in batches:
        sizes_in_batch = sizes[batch]
        assert 1 <= len(sizes_in_batch) <= most
        assert most_bytes is None or len(sizes_in_batch) == 1 or sum(size or 0 for size in sizes_in_batch) <= most_bytes
