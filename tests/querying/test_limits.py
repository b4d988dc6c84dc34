"""Rate limiter, retries, circuit breaker and budget."""

import random
import threading
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import NoAnswer
from pipeline.querying.limits import BreakerPolicy, Budget, CircuitBreaker, RetryPolicy, next_try
from pipeline.querying.schedule import MARGIN, DelayQueue, RateLimiter

NEVER = threading.Event()


def test_rate_limiter_spaces_turns_over_all_threads():
    limiter, turns, lock = RateLimiter(200.0), [], threading.Lock()

    def take_turns():
        for _ in range(10):
            assert limiter.wait_turn(NEVER)
            with lock:
                turns.append(monotonic())

    start = monotonic()
    threads = [threading.Thread(target=take_turns) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert monotonic() - start >= 59 / 200 - 0.02
    times = sorted(turns)
    assert len(times) == 60
    assert all(sum(start <= turn < start + 0.1 for turn in times) <= 0.1 * 200 + 4 for start in times)


def test_rate_limiter_without_rate_does_not_wait():
    limiter = RateLimiter(None)
    start = monotonic()
    assert all(limiter.wait_turn(NEVER) for _ in range(1000))
    assert monotonic() - start < 1
    assert limiter.rate is None


def test_rate_falls_once_per_burst_and_recovers_with_answers():
    limiter = RateLimiter(100.0)
    sent = monotonic()
    for _ in range(5):
        limiter.refused(sent=sent, wait=None)
    assert limiter.rate == pytest.approx(100 * MARGIN * 0.7)
    for _ in range(10_000):
        limiter.accepted()
    assert limiter.rate == pytest.approx(100 * MARGIN)


def test_requested_wait_applies_to_all_and_ends_on_stop():
    limiter, stopped = RateLimiter(100.0), threading.Event()
    limiter.refused(sent=monotonic(), wait=0.15)
    start = monotonic()
    assert limiter.wait_turn(stopped)
    assert monotonic() - start >= 0.14
    limiter.refused(sent=monotonic(), wait=3600.0)
    threading.Timer(0.05, stopped.set).start()
    assert not limiter.wait_turn(stopped)


def test_breaker_admits_one_request_per_pause_until_patience_ends():
    breaker = CircuitBreaker(BreakerPolicy(in_a_row=3, patience=0.1, pause=0.02, longest_pause=0.04))
    for _ in range(3):
        assert not breaker.failing
        assert breaker.admit(NEVER)
        breaker.record("later", reason="HTTP 503")
    assert breaker.failing
    start, requests = monotonic(), 0
    while breaker.gave_up is None:
        assert breaker.admit(NEVER)
        requests += 1
        assert monotonic() - start >= 0.015 * requests
        breaker.record("later", reason="HTTP 503")
    assert 0.08 <= monotonic() - start < 1
    assert not breaker.admit(NEVER)
    assert "HTTP 503" in str(breaker.gave_up)
    assert "--patience" in str(breaker.gave_up)


def test_threads_wait_while_breaker_is_open():
    breaker, stopped = CircuitBreaker(BreakerPolicy(in_a_row=1, pause=30.0)), threading.Event()
    breaker.record("later")
    threading.Timer(0.05, stopped.set).start()
    assert not breaker.admit(stopped)


def test_answer_closes_the_breaker():
    breaker = CircuitBreaker(BreakerPolicy(in_a_row=1, pause=0.01))
    breaker.record("later")
    assert breaker.failing
    assert breaker.admit(NEVER)
    breaker.record("answer")
    assert not breaker.failing
    for _ in range(5):
        breaker.record("slower")
    assert not breaker.failing, "a throttling service is available"


def test_breaker_gives_up_after_refusals_in_a_row():
    breaker = CircuitBreaker(BreakerPolicy(never_in_a_row=3))
    for result in ("never", "never", "answer", "never", "never"):
        breaker.record(result)
    assert breaker.gave_up is None
    breaker.record("never", reason="HTTP 404")
    assert "HTTP 404" in str(breaker.gave_up)


def test_budget_waits_for_calls_in_flight():
    budget, taken = Budget(usd=1.0, spent=0.5), []
    assert budget.take(0.4)
    thread = threading.Thread(target=lambda: taken.append(budget.take(0.2)))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive(), "the call in flight may be free"
    budget.settle(0.4, charged=0.0)
    thread.join()
    assert taken == [True]
    budget.settle(0.2, charged=0.2)
    assert not budget.take(0.4)
    assert "US$ 1.0000" in budget.exhausted


POLICY = RetryPolicy(attempts=5, seconds=100.0, first=0.5, longest=20.0)


@given(
    attempts=st.integers(1, 8),
    elapsed=st.floats(0, 200),
    wait=st.none() | st.floats(0, 1e6),
    retry=st.sampled_from(["never", "later", "slower"]),
    seed=st.integers(0, 100),
)
def test_retry_delay_is_bounded_and_honours_retry_after(attempts, elapsed, wait, retry, seed):
    failure = NoAnswer("why", retry=retry, wait=wait)
    delay = next_try(failure, attempts=attempts, elapsed=elapsed, policy=POLICY, chance=random.Random(seed))
    if delay is None:
        assert retry == "never" or attempts >= 5 or elapsed + 20 + 20 > 100
    else:
        assert retry != "never"
        assert attempts < 5
        assert min(20.0, wait or 0.0) <= delay <= min(20.0, wait or 0.0) + 0.5 * 2 ** (attempts - 1)
        assert elapsed + delay <= 100


def test_delay_queue_returns_items_when_due():
    queue = DelayQueue(["now"], stopped=threading.Event())
    queue.put("later", delay=0.05)
    start = monotonic()
    assert queue.take() == "now"
    queue.put("at once")
    queue.done()
    assert queue.take() == "at once"
    queue.done()
    assert queue.take() == "later"
    assert monotonic() - start >= 0.045
    queue.done()
    assert queue.take() is None


def test_delay_queue_waits_for_items_in_progress():
    queue = DelayQueue([1], stopped=threading.Event())
    assert queue.take() == 1
    taken: list[int | None] = []
    thread = threading.Thread(target=lambda: taken.append(queue.take()))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    queue.put(2)
    thread.join()
    assert taken == [2]


def test_delay_queue_keeps_untaken_items_on_stop():
    stopped = threading.Event()
    queue = DelayQueue([1, 2], stopped=stopped)
    queue.take()
    queue.put(3, delay=60)
    stopped.set()
    assert queue.take() is None
    assert queue.left() == [2, 3]
