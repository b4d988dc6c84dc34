"""Turns, pauses, probes and waits: how fast a service is asked, and when it is left alone."""

import random
import threading
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import NoAnswer
from pipeline.querying.breaker import Breaker, BreakerPolicy
from pipeline.querying.pacing import MARGIN, RateLimiter
from pipeline.querying.retrying import RetryPolicy, next_try
from pipeline.querying.waiting import DelayQueue

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


def test_a_breaker_pauses_probes_and_gives_up() -> None:
    breaker = Breaker(BreakerPolicy(in_a_row=3, pauses=(0.02, 0.02)))
    for _ in range(3):
        assert breaker.admit(NEVER) == "request"
        breaker.told("later", admitted="request", reason="HTTP 503")
    for _ in range(2):
        began = monotonic()
        assert breaker.admit(NEVER) == "probe"
        assert monotonic() - began >= 0.015
        breaker.told("later", admitted="probe", reason="HTTP 503")
    assert breaker.admit(NEVER) is None
    assert "HTTP 503" in str(breaker.gave_up)


def test_a_probe_that_is_answered_lets_requests_through_again() -> None:
    breaker = Breaker(BreakerPolicy(in_a_row=1, pauses=(0.01,)))
    breaker.told("later", admitted="request")
    assert breaker.admit(NEVER) == "probe"
    breaker.told("answer", admitted="probe")
    assert breaker.admit(NEVER) == "request"
    for _ in range(5):
        breaker.told("slower", admitted="request")
    assert breaker.admit(NEVER) == "request", "a service that wants less speed is there"


def test_a_service_that_refuses_everything_is_given_up_one_that_refuses_something_is_not() -> None:
    breaker = Breaker(BreakerPolicy(never_in_a_row=3))
    for outcome in ("never", "never", "answer", "never", "never"):
        breaker.told(outcome, admitted="request")  # type: ignore[arg-type]
    assert breaker.gave_up is None
    breaker.told("never", admitted="request", reason="HTTP 404")
    assert "HTTP 404" in str(breaker.gave_up)


PATIENCE = RetryPolicy(attempts=5, seconds=100.0, first=0.5, longest=20.0)


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
    delay = next_try(failure, attempts=attempts, elapsed=elapsed, patience=PATIENCE, chance=random.Random(seed))
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
