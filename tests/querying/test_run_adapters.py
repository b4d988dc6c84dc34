"""The commands query and labels: adding and dropping classifiers, retries, cost limits, and new labels."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pandas as pd
import pytest
from counting_adapter import CountingAdapter, write_images
from fakes.http_server import FakeServer, Request, Response
from fakes.pixel_scores import pixel_scores
from loopback_service import KEY, LoopbackAdapter, LoopbackService

from adapters.base import Adapter, Price, RawAnswer
from pipeline.querying.client import query_adapter
from pipeline.querying.store import Store
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame

IMAGES = 12


@pytest.fixture(autouse=True)
def only_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the stages tables and report."""
    monkeypatch.setattr("pipeline.stages.audit._estimate", lambda work, **_: None)


@pytest.fixture
def query(run: Run, monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Any]) -> Callable[..., Any]:
    """Run ``counterslope query RUN`` with given adapters; return its output."""

    def query(*options: str, adapters: Sequence[Adapter] = (), command: str = "query", code: int = 0) -> str:
        if adapters:
            by_name = {adapter.name: adapter for adapter in adapters}
            for module in ("adapters", "audit"):
                patched = f"pipeline.stages.{module}.make_adapter"
                monkeypatch.setattr(patched, lambda spec, settings, out: by_name[spec])
            options = (*options, *(word for name in by_name for word in ("--adapter", name)))
        result = invoke(command, run.folder, *(["--yes"] * (command == "query")), *options)
        assert result.exit_code == code, result.output
        return result.output

    return query


def answers_of(run: Run) -> pd.DataFrame:
    return read_frame(run.path("answers.parquet"))


def rows_by_adapter(run: Run) -> dict[str, int]:
    return answers_of(run).groupby("adapter").size().to_dict()


def test_classifiers_are_added_and_dropped_by_name(run, query):
    with LoopbackService() as one, LoopbackService() as two:
        a, b = LoopbackAdapter(one.url, name="a"), LoopbackAdapter(two.url, name="b")
        query(adapters=[a])
        labels = read_frame(run.path("labels.parquet"))
        before = len(one.times)
        query(adapters=[b])
        assert rows_by_adapter(run) == {"a": IMAGES, "b": IMAGES}
        assert len(one.times) == before, "a classifier that is not named receives nothing"
        after = read_frame(run.path("labels.parquet"))
        pd.testing.assert_frame_equal(after[after["adapter"] == "a"].reset_index(drop=True), labels)
        record = Run(run.folder).record
        assert record.settings.query.adapters == ("a", "b")
        assert set(record.query) == set(record.presence_thresholds) == {"a", "b"}

        query("--drop", "a")
        assert rows_by_adapter(run) == {"b": IMAGES}
        query(adapters=[a])
        assert len(one.times) == before, "answers of a dropped classifier are not paid for again"
        query("--only", adapters=[b])
        assert rows_by_adapter(run) == {"b": IMAGES}
        assert "has no adapter nobody to drop; it has b" in query("--drop", "nobody", code=2)
        assert "would have no adapter left" in query("--drop", "b", code=2)


def test_missing_labels_are_explained_and_set_the_exit_code(run, query):
    def fail(_):
        raise ValueError("the weights are missing\x1b[31m")

    output = query(adapters=[CountingAdapter(on_send=fail)], code=2)
    assert "counting: 0 of 12 versions have labels" in output
    assert "12 times: ValueError: the weights are missing\n" in output
    assert "\x1b" not in output + str(answers_of(run)["reason"].tolist())
    bad = run.path("images/gender/1/step2.png").read_bytes()
    with LoopbackService(lambda _, images: "never" if bad in images else None) as service:
        adapter = LoopbackAdapter(service.url)
        assert "loopback: 11 of 12 versions" in query("--only", adapters=[adapter], code=4)
        service.fault = lambda *_: None
        query(adapters=[adapter])


@pytest.mark.parametrize(("works", "calls"), [(False, 100), (True, 300)])
def test_function_that_always_fails_is_stopped(tmp_path, works, calls):
    def fail(images):
        if images != [b"0"] or not works:
            raise ValueError("broken")

    adapter = CountingAdapter(on_send=fail)
    with Store(tmp_path / "responses.sqlite") as store:
        counts = query_adapter(adapter, write_images(tmp_path / "images", [str(n) for n in range(300)]), store)
    assert adapter.calls == calls
    message = "100 requests in a row failed, the last with: ValueError: broken"
    assert (message in str(counts.stopped)) is not works


def test_unreadable_answers_are_resent_only_with_retry(run, query):
    bad = run.path("images/gender/1/step2.png").read_bytes()
    with LoopbackService(lambda _, images: "html" if bad in images else None) as service:
        adapter = LoopbackAdapter(service.url)
        assert "1 times: not an answer: JSONDecodeError" in query("--sentinels", "0", adapters=[adapter], code=4)
        times = len(service.times)
        assert "11 of 12 images answered" in query(adapters=[adapter], code=4)
        assert len(service.times) == times
        assert Run(run.folder).record.query["loopback"].unreadable == 1
        service.fault = lambda *_: None
        query("--retry", "unreadable", adapters=[adapter])
        assert len(service.times) == times + 1
        assert set(answers_of(run)["status"]) == {"ok"}
        query("--retry", "failed", adapters=[adapter])
        assert len(service.times) == times + 1, "nothing is left to send again"
    assert "unreadable" in query("--retry", "all", code=2)


def tag_service(request: Request) -> Response:
    scores = pixel_scores(request.body)
    rows = [{"tag": name, "topicality": score / 2, "score": score} for name, score in scores.items()]
    return Response(200, json.dumps(rows).encode())


def http_options(url: str, **options: str) -> list[str]:
    words = ["--adapter", "http", "--sentinels", "0", "--rate", "1000"]
    for name, value in ({"url": url, "label": "[*].tag"} | options).items():
        words += ["--adapter-option", f"http.{name}={value}"]
    return words


def scores_of(run: Run) -> pd.Series:
    return read_frame(run.path("labels.parquet")).set_index(["photo", "step", "label"])["score"]


def test_changed_parse_options_relabel_without_a_call(run, query):
    with FakeServer(tag_service) as server:
        query(*http_options(server.url, score="[*].topicality"))
        first = scores_of(run)
        calls = len(server.requests)
        query("--adapter-option", "http.score=[*].score")
        pd.testing.assert_series_equal(scores_of(run), 2 * first)
        query("--adapter-option", "http.score=[*].topicality", command="labels")
        pd.testing.assert_series_equal(scores_of(run), first)
        assert len(server.requests) == calls
        elsewhere = ("--adapter-option", f"http.url={server.url}/elsewhere")
        assert "there is no answer of http" in query(*elsewhere, command="labels", code=2)


def test_labels_need_no_credentials(run, query, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret-0123456789")
    with FakeServer(tag_service) as server:
        query(*http_options(server.url, score="[*].score", headers='{"X-Key": "${MY_TOKEN}"}'))
    monkeypatch.delenv("MY_TOKEN")
    query(command="labels")
    assert "MY_TOKEN" in query(code=2)


def test_max_cost_includes_earlier_costs_of_the_run(run, query):
    price = Price(100.0, date(2026, 1, 1), "a page")
    with LoopbackService() as one, LoopbackService() as two:
        a, b = LoopbackAdapter(one.url, name="a", price=price), LoopbackAdapter(two.url, name="b", price=price)
        query("--sentinels", "0", "--max-cost", "1.2", adapters=[a])
        output = query("--sentinels", "0", "--max-cost", "2.3", adapters=[b], code=2)
        assert "about US$ 1.2000 on top of the US$ 1.2000 that the run has cost, more than the US$ 2.3000" in output
        assert not two.times
        query("--sentinels", "0", "--max-cost", "2.3", "--drop", "a", adapters=[b], code=2)
        assert not two.times, "the cost of a dropped classifier counts"
        query("--sentinels", "0", "--max-cost", "2.4", "--drop", "a", adapters=[b])
        assert Run(run.folder).record.spent == pytest.approx({"a": 1.2, "b": 1.2})


def test_refused_query_keeps_earlier_answers(run, query):
    with LoopbackService() as one, LoopbackService() as two:
        query(adapters=[LoopbackAdapter(one.url, name="a")])
        query("--max-calls", "1", adapters=[LoopbackAdapter(two.url, name="b")], code=2)
        assert not two.times
    stage = Run(run.folder).record.stages["query"]
    assert (stage.state, stage.counts["ok"]) == ("done", IMAGES)


def test_missing_images_stop_the_query_before_any_call(run, query):
    for path in run.path("images").rglob("*.png"):
        path.unlink()
    with LoopbackService() as service:
        assert "the 12 images to send are missing" in query(adapters=[LoopbackAdapter(service.url)], code=2)
        assert not service.times


def test_failures_name_the_photo(run, query, caplog):
    with LoopbackService(lambda number, _: "500" if number == 1 else None) as service:
        output = query("--verbose", "--sentinels", "0", adapters=[LoopbackAdapter(service.url, concurrency=1)])
    assert "loopback: 0.png (step1.png): HTTP 500" in output + caplog.text


def test_patience_option_reaches_the_client(query, monkeypatch):
    from pipeline.querying import plan

    patience = []
    policy = plan.CallPolicy

    def record(**options):
        patience.append(options["breaker"].patience)
        return policy(**options)

    monkeypatch.setattr(plan, "CallPolicy", record)
    with LoopbackService() as service:
        query(adapters=[LoopbackAdapter(service.url)])
        assert set(patience) == {600.0}
        patience.clear()
        query("--patience", "5", adapters=[LoopbackAdapter(service.url, name="other")])
        assert set(patience) == {5.0}


def test_account_has_tokens_and_cut_offs(run, query):
    class Chat(CountingAdapter):
        def __init__(self) -> None:
            super().__init__(remote=True)
            price = Price(5.0, date(2026, 1, 1), "a page", tokens=(1.0, 10.0))
            service = replace(self.capabilities.service, price=price)
            self.capabilities = replace(self.capabilities, service=service, top_k=1, cut_off=0.1)

        def send(self, images: Sequence[bytes]) -> list[Any]:
            usage = {"prompt_tokens": 1000, "completion_tokens": 100}
            return [RawAnswer(json.dumps({"labels": [["x", 0.5]], "usage": usage}).encode()) for _ in images]

    query("--sentinels", "0", "--rate", "1000", adapters=[Chat()])
    account = Run(run.folder).record.query["counting"]
    assert (account.tokens.sent, account.tokens.received) == (12_000, 1_200)
    assert account.usd_so_far == pytest.approx(12 * (1000 * 1.0 + 100 * 10.0) / 1e6)
    assert (account.top_k, account.cut_off, account.full) == (1, 0.1, 12)


def test_plan_needs_no_key(monkeypatch, run, invoke):
    for name in ("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "VISION_ENDPOINT", "VISION_KEY", KEY):
        monkeypatch.delenv(name, raising=False)
    for adapter in ("google", "azure", "imagga", "clarifai"):
        result = invoke("plan", run.folder, "--adapter", adapter, "--price", "1")
        assert result.exit_code == 0, result.output
        assert "On top" not in result.output


def test_no_report_skips_only_the_report(run, query, monkeypatch):
    estimated = []
    monkeypatch.setattr("pipeline.stages.audit._estimate", lambda work, *, report: estimated.append(report))
    with LoopbackService() as service:
        adapter = LoopbackAdapter(service.url)
        query("--no-report", adapters=[adapter])
        query(adapters=[adapter])
        query("--no-report", command="labels")
    assert estimated == [False, True, False]
