"""Images that are sent as batch jobs and answered later."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from adapter_calls import make_adapter
from fakes.batch_service import BatchResult, BatchService
from fakes.http_server import Response
from fakes.pixel_scores import LABELS

from adapters.base import AdapterError
from adapters.cloud.openai import KEY, OpenAI
from pipeline.config.options import Settings
from pipeline.config.sources import load_settings
from pipeline.querying.client import query_adapter
from pipeline.querying.plan import PlanError, estimated
from pipeline.querying.requests import ImageRef
from pipeline.querying.store import Store
from pipeline.report.words import account_words
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame
from pipeline.stages.base import Audit
from pipeline.stages.plan import plan_of_run, versions_of
from pipeline.stages.query import query_stage
from pipeline.stages.status import summary

SECRET = "planted-batch-key"
PRICE = 10.0  # US$ for 1,000 images


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv(KEY, SECRET)


@pytest.fixture
def server() -> Iterator[BatchService]:
    with BatchService(SECRET) as service:
        yield service


def adapter_of(server: BatchService, *, batch: bool = True, **options: object) -> OpenAI:
    given = {"labels": LABELS, "model": "seer", "endpoint": f"{server.url}/v1", "batch": batch, "look_every": 0.02}
    return make_adapter("openai", **given | options)


def settings(**options: object) -> Settings:
    return load_settings(given={"query": {"price": {"openai": PRICE}, **options}}, environment={})


def query(run: Run, adapter: OpenAI, **options: object) -> None:
    query_stage(Audit(run, settings(**options), (), consent=lambda plan: True), "v", [adapter])


def interrupt_query(run: Run, server: BatchService, adapter: OpenAI) -> None:
    """Query, and stop as Ctrl-C does once the server has created the batch."""
    stopped = threading.Event()
    server.stalled = True

    def watch() -> None:
        while not server.batches:
            stopped.wait(0.01)
        stopped.wait(0.1)
        stopped.set()

    thread = threading.Thread(target=watch)
    thread.start()
    with Store(run.path("responses.sqlite")) as store:
        counts = query_adapter(adapter, images_of(run), store, stopped=stopped)
    thread.join()
    assert (counts.answered, counts.waiting, counts.not_sent, counts.unresolved) == (0, 12, 0, 0)


def images_of(run: Run) -> list[ImageRef]:
    return versions_of(run, read_frame(run.path("counterfactuals.parquet")))


def labels_of(run: Run) -> list[tuple[object, ...]]:
    frame = read_frame(run.path("labels.parquet")).drop(columns="adapter")
    return sorted(frame.itertuples(index=False, name=None))


@pytest.mark.parametrize("options", [{}, {"order": "drawn", "repeats": 3}, {"logprobs": True}])
def test_batch_and_calls_give_the_same_labels(run, server, options):
    query(run, adapter_of(server, **options))
    by_batch = labels_of(run)
    assert len(server.batches) == 1
    assert set(server.billed.values()) == {1}
    assert server.files == {}, "the images are deleted from the service"
    account = run.record.query["openai"]
    assert (account.ok, account.waiting, account.not_asked, account.calls) == (12, 0, 0, 1)

    (run.folder / "responses.sqlite").unlink()
    run.note(query={})
    with Store(run.path("responses.sqlite")), pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_answer", server._chat)
        query(run, adapter_of(server, batch=False, **options))
    assert labels_of(run) == by_batch


def test_interrupted_batch_is_fetched_later_and_paid_once(run, server):
    interrupt_query(run, server, adapter_of(server))
    plan = plan_of_run(run, [adapter_of(server)], settings())
    assert (plan.adapters[0].waiting, plan.adapters[0].to_send, plan.calls, plan.usd) == (12, 0, 0, 0)
    assert plan.spent == pytest.approx(12 * PRICE / 1000), "waiting images count against the cost limit"
    server.stalled = False
    query_stage(Audit(run, settings(), (), consent=lambda plan: False), "v", [adapter_of(server)])
    assert len(server.batches) == 1
    assert set(server.billed.values()) == {1}
    assert run.record.query["openai"].ok == 12
    assert run.record.query["openai"].usd_so_far == pytest.approx(12 * PRICE / 1000)


def test_status_counts_waiting_images(run, server):
    query(run, adapter_of(server, model="seer", prompt="another"))
    interrupt_query(run, server, adapter_of(server))
    facts = summary(run.folder)["query"]["openai"]
    assert (facts["waiting"], facts["without_outcome"]) == (12, 0)
    assert "12 in jobs without answers yet" in account_words(facts)


@pytest.mark.parametrize("lost", ["by the client", "by the network"])
def test_batch_with_lost_creation_reply_is_found_again(run, server, lost, monkeypatch):
    if lost == "by the client":  # the process dies before it stores the reply

        def die(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Store, "name_job", die)
            with pytest.raises(KeyboardInterrupt):
                query(run, adapter_of(server))
    else:
        server.lose = 1
    query(run, adapter_of(server))
    assert len(server.batches) == 1
    assert set(server.billed.values()) == {1}
    assert run.record.query["openai"].ok == 12


@pytest.mark.parametrize(("status", "ok"), [("expired", 12), ("cancelled", 5)])
def test_unanswered_images_are_resent_unless_cancelled(run, server, status, ok):
    server.results = [BatchResult(status, answered=5)]
    query(run, adapter_of(server))
    account = run.record.query["openai"]
    assert account.ok == ok
    assert set(server.billed.values()) == {1}
    assert account.possibly_billed.intents == 0, "unanswered images are not charged"
    if status == "cancelled":
        assert "batch_1 was cancelled" in account.reasons[0].reason
        query(run, adapter_of(server))
        assert run.record.query["openai"].ok == 12


def test_failed_batch_states_the_reason(run, server):
    server.results = [BatchResult("failed", errors=[{"code": "invalid_model", "message": "No batches for this model"}])]
    query(run, adapter_of(server))
    assert run.record.query["openai"].reasons[0].reason == "batch_1 failed: No batches for this model"


def test_refused_question_fails_only_its_image(run, server):
    server.results = [BatchResult(refused=frozenset({3}))]
    query(run, adapter_of(server))
    account = run.record.query["openai"]
    assert (account.ok, account.without_labels) == (11, 1)
    assert "this picture is refused" in account.reasons[0].reason
    assert len(server.batches) == 1


def test_truncated_result_file_is_downloaded_again(run, server):
    faults = iter([kind for kind in ("broken", "html", "truncated", "empty") for _ in range(3)])
    server.fault = lambda number: next(faults, None) if server.requests[-1].method == "GET" else None
    query(run, adapter_of(server))
    assert run.record.query["openai"].ok == 12
    assert set(server.billed.values()) == {1}


def test_unresponsive_batch_is_left_for_the_next_command(run, server):
    server.fault = lambda number: "broken" if server.requests[-1].method == "GET" else None
    query(run, adapter_of(server), patience=0.1)
    account = run.record.query["openai"]
    assert (account.ok, account.waiting) == (0, 12)
    assert "the same command checks the job again" in str(account.stopped)
    server.fault = lambda number: None
    query(run, adapter_of(server))
    assert run.record.query["openai"].ok == 12
    assert len(server.batches) == 1


def test_changed_key_loses_no_batch(run, server, monkeypatch):
    interrupt_query(run, server, adapter_of(server))
    with monkeypatch.context() as patch:
        patch.setenv(KEY, "another-key")
        with pytest.raises(AdapterError, match=f"check the key in {KEY}"):
            query(run, adapter_of(server))
    server.stalled = False
    query(run, adapter_of(server))
    assert (len(server.batches), run.record.query["openai"].ok) == (1, 12)


def test_calls_do_not_resend_images_of_a_batch(run, server):
    interrupt_query(run, server, adapter_of(server))
    server.stalled = False
    query(run, adapter_of(server, batch=False))
    assert run.record.query["openai"].ok == 12
    assert not any(request.path.endswith("/chat/completions") for request in server.requests)


def test_many_images_are_sent_in_several_batches(run, server, monkeypatch):
    monkeypatch.setattr("adapters.cloud.openai_batches.QUESTIONS", 5)
    query(run, adapter_of(server))
    assert len(server.batches) == 3
    assert set(server.billed.values()) == {1}
    assert run.record.query["openai"].calls == 3


def test_batch_costs_half_of_calls():
    given = {"labels": LABELS, "model": "gpt-4.1-mini"}
    calls, batch = make_adapter("openai", **given), make_adapter("openai", **given, batch=True)
    plans = [estimated([adapter], 1000, settings(price={}).query).adapters[0] for adapter in (calls, batch)]
    full, half = plans[0].price, plans[1].price
    assert half.usd_per_1000 == pytest.approx(full.usd_per_1000 / 2, rel=1e-3)
    assert plans[1].usd == pytest.approx(half.usd_per_1000), "batches have no sentinels"
    assert (half.calls * half.usd_per_1000, full.jobs * full.usd_per_1000) == pytest.approx(
        (full.usd_per_1000, half.usd_per_1000), rel=1e-3
    )
    assert batch.parameters == calls.parameters, "calls and batches share their answers"


def test_server_without_batch_api_is_explained(run, server):
    server.fault = lambda number: Response(404, {"error": {"message": "Not Found"}})
    with pytest.raises(AdapterError, match="no batch API; set the option batch to false"):
        query(run, adapter_of(server))


def test_max_cost_applies_to_batches(run, server):
    with pytest.raises(PlanError, match="--max-cost"):
        query(run, adapter_of(server), max_cost=0.05)
    assert server.batches == {}
    query(run, adapter_of(server), max_cost=0.12)
    assert run.record.query["openai"].ok == 12


def test_key_is_in_no_file(run, server):
    query(run, adapter_of(server))
    for path in Path(run.folder).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
