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


def test_turns_are_evenly_spaced_over_all_threads() -> None:
    pacer, turns, lock = RateLimiter(200.0), [], threading.Lock()

    def work() -> None:
        for _ in range(10):
            assert pacer.wait_turn(NEVER)
            with lock:
                turns.append(monotonic())

    began = monotonic()
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert monotonic() - began >= 59 / 200 - 0.02
    times = sorted(turns)
    assert len(times) == 60
    assert all(sum(start <= turn < start + 0.1 for turn in times) <= 0.1 * 200 + 4 for start in times)


def test_no_limit_means_no_wait() -> None:
    pacer = RateLimiter(None)
    began = monotonic()
    assert all(pacer.wait_turn(NEVER) for _ in range(1000))
    assert monotonic() - began < 1
    assert pacer.rate is None


def test_refusals_of_requests_on_their_way_together_slow_down_once_and_answers_speed_up_again() -> None:
    pacer = RateLimiter(100.0)
    sent = monotonic()
    for _ in range(5):
        pacer.refused(sent=sent, wait=None)
    assert pacer.rate == pytest.approx(100 * MARGIN * 0.7)
    for _ in range(10_000):
        pacer.accepted()
    assert pacer.rate == pytest.approx(100 * MARGIN)


def test_a_wait_that_the_service_asks_for_holds_all_and_ends_when_stopped() -> None:
    pacer, stopped = RateLimiter(100.0), threading.Event()
    pacer.refused(sent=monotonic(), wait=0.15)
    began = monotonic()
    assert pacer.wait_turn(stopped)
    assert monotonic() - began >= 0.14
    pacer.refused(sent=monotonic(), wait=3600.0)
    threading.Timer(0.05, stopped.set).start()
    assert not pacer.wait_turn(stopped)


def test_a_breaker_lets_one_request_through_a_pause_and_gives_up_when_patience_ends() -> None:
    breaker = CircuitBreaker(BreakerPolicy(in_a_row=3, patience=0.1, pause=0.02, longest_pause=0.04))
    for _ in range(3):
        assert not breaker.failing
        assert breaker.admit(NEVER)
        breaker.record("later", reason="HTTP 503")
    assert breaker.failing
    began, requests = monotonic(), 0
    while breaker.gave_up is None:
        assert breaker.admit(NEVER)
        requests += 1
        assert monotonic() - began >= 0.015 * requests
        breaker.record("later", reason="HTTP 503")
    assert 0.08 <= monotonic() - began < 1
    assert not breaker.admit(NEVER)
    assert "HTTP 503" in str(breaker.gave_up)
    assert "--patience" in str(breaker.gave_up)


def test_while_a_service_fails_threads_wait_for_their_pause() -> None:
    breaker, stopped = CircuitBreaker(BreakerPolicy(in_a_row=1, pause=30.0)), threading.Event()
    breaker.record("later")
    threading.Timer(0.05, stopped.set).start()
    assert not breaker.admit(stopped)


def test_an_answer_lets_requests_through_again() -> None:
    breaker = CircuitBreaker(BreakerPolicy(in_a_row=1, pause=0.01))
    breaker.record("later")
    assert breaker.failing
    assert breaker.admit(NEVER)
    breaker.record("answer")
    assert not breaker.failing
    for _ in range(5):
        breaker.record("slower")
    assert not breaker.failing, "a service that wants less speed is there"


def test_a_service_that_refuses_everything_is_given_up_one_that_refuses_something_is_not() -> None:
    breaker = CircuitBreaker(BreakerPolicy(never_in_a_row=3))
    for result in ("never", "never", "answer", "never", "never"):
        breaker.record(result)  # type: ignore[arg-type]
    assert breaker.gave_up is None
    breaker.record("never", reason="HTTP 404")
    assert "HTTP 404" in str(breaker.gave_up)


def test_a_budget_waits_for_calls_that_may_yet_be_free() -> None:
    budget, taken = Budget(usd=1.0, spent=0.5), []
    assert budget.take(0.4)
    thread = threading.Thread(target=lambda: taken.append(budget.take(0.2)))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive(), "the call on its way may be free"
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
def test_a_wait_is_bounded_and_honours_what_was_asked(
    attempts: int, elapsed: float, wait: float | None, retry: str, seed: int
) -> None:
    failure = NoAnswer("why", retry=retry, wait=wait)  # type: ignore[arg-type]
    delay = next_try(failure, attempts=attempts, elapsed=elapsed, policy=POLICY, chance=random.Random(seed))
    if delay is None:
        assert retry == "never" or attempts >= 5 or elapsed + 20 + 20 > 100
    else:
        assert retry != "never"
        assert attempts < 5
        assert min(20.0, wait or 0.0) <= delay <= min(20.0, wait or 0.0) + 0.5 * 2 ** (attempts - 1)
        assert elapsed + delay <= 100


def test_jobs_that_wait_come_when_they_are_due_and_all_are_done() -> None:
    waiting = DelayQueue(["now"], stopped=threading.Event())
    waiting.put("later", delay=0.05)
    began = monotonic()
    assert waiting.take() == "now"
    waiting.put("at once")
    waiting.done()
    assert waiting.take() == "at once"
    waiting.done()
    assert waiting.take() == "later"
    assert monotonic() - began >= 0.045
    waiting.done()
    assert waiting.take() is None


def test_a_thread_waits_while_another_may_still_put_work_back() -> None:
    waiting = DelayQueue([1], stopped=threading.Event())
    assert waiting.take() == 1
    taken: list[int | None] = []
    thread = threading.Thread(target=lambda: taken.append(waiting.take()))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    waiting.put(2)
    thread.join()
    assert taken == [2]


def test_a_stop_leaves_what_nobody_took() -> None:
    stopped = threading.Event()
    waiting = DelayQueue([1, 2], stopped=stopped)
    waiting.take()
    waiting.put(3, delay=60)
    stopped.set()
    assert waiting.take() is None
    assert waiting.left() == [2, 3]
