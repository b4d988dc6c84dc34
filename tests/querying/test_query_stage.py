"""The query stage of a run: consent, limits, run record, status and secrets."""

import json
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import pytest
from counting_adapter import CountingAdapter
from loopback_service import KEY, LoopbackAdapter, LoopbackService
from PIL import Image
from unqueried_run import PHOTOS, STEPS

from adapters.answers import to_answer
from adapters.base import AdapterError, Label, Landmarks, Limits, Price, RawAnswer
from pipeline.cli.console import consent, print_plan, show_run
from pipeline.config.options import Settings
from pipeline.config.sources import load_settings
from pipeline.querying.limits import RetryPolicy
from pipeline.querying.plan import Plan, PlanError, no_consent
from pipeline.report.words import account_words
from pipeline.run.folder import Run
from pipeline.run.record import Drift, Prepared
from pipeline.run.tables import FACES, read_frame, to_table, write_table
from pipeline.stages.base import Audit
from pipeline.stages.plan import plan_of_run
from pipeline.stages.query import query_stage
from pipeline.stages.status import summary

SECRET = "planted-secret-0123456789"


@dataclass(frozen=True)
class QuickRetry(RetryPolicy):
    """Short waits between retries, for tests."""

    first: float = 0.01


def settings(**options: object) -> Settings:
    return load_settings(given={"query": options}, environment={})


def query(run: Run, *adapters: LoopbackAdapter, yes: bool = True, **options: object) -> None:
    audit = Audit(run, settings(**options), (), consent=(lambda plan: True) if yes else no_consent)
    query_stage(audit, "v", adapters)


def test_query_without_consent_sends_nothing(run):
    with LoopbackService() as service:
        with pytest.raises(PlanError, match="--yes"):
            query(run, LoopbackAdapter(service.url), yes=False)
        assert not service.times
        assert run.record.stages["query"].state == "stopped"
        query(run, LoopbackAdapter(service.url))
        assert run.record.stages["query"].state == "done"
        sent = len(service.times)
        query(run, LoopbackAdapter(service.url), yes=False)
        assert len(service.times) == sent, "consent is not needed where nothing is left to send"


class FaceAdapter(CountingAdapter):
    """A local classifier that receives the landmarks of faces, and returns the third as its label."""

    def __init__(self) -> None:
        super().__init__(batch=5)
        self.capabilities = replace(self.capabilities, faces=True)

    def send_faces(self, images: Sequence[bytes], faces: Sequence[Landmarks | None]) -> list[RawAnswer]:
        return [to_answer([Label(str(face and face[2]), 0.5)]) for face in faces]


def test_face_adapter_gets_landmarks_of_the_photo(run):
    with_face = range(PHOTOS - 1)  # the last photo has no landmarks
    rows = [{"photo": f"{photo}.png", "status": "ok", "landmarks": [photo + 0.5] * 10} for photo in with_face]
    write_table(to_table(rows, FACES), run.path("faces.parquet"))
    query_stage(Audit(run, settings()), "v", [FaceAdapter()])
    labels = read_frame(run.path("labels.parquet"))
    found = labels[labels["returned"]].groupby("photo")["label"].agg(list).to_dict()
    assert found == {f"{photo}.png": [str((photo + 0.5,) * 2)] * STEPS for photo in range(3)} | {"3.png": ["None"] * 3}


def test_consent_is_requested_with_the_exact_plan(run):
    plans: list[Plan] = []

    def agree(plan):
        plans.append(plan)
        return True

    with LoopbackService() as service:
        price = Price(2.0, date(2026, 1, 1), "a page")
        adapter = LoopbackAdapter(service.url, price=price)
        before = plan_of_run(run, [adapter], settings())
        query_stage(Audit(run, settings(), (), consent=agree), "v", [adapter])
        assert plans == [before]
        assert before.calls == len(service.times) == PHOTOS * STEPS + 3 * 3
        assert before.usd == pytest.approx(before.calls * 2.0 / 1000)
        account = run.record.query["loopback"]
        assert account.price == price
        assert account.usd_so_far == pytest.approx(before.usd)
        assert account.service.host.startswith("127.0.0.1")
        assert account.drift == Drift(sentinels=3, answers=9, versions=["model_version=v1"])


def test_progress_bars_cover_query_and_labels(run):
    bars: dict[str, list[float]] = {}

    @contextmanager
    def watch(stage, *, total):
        bars[stage] = [total, 0.0]
        yield lambda count, note="": bars[stage].__setitem__(1, bars[stage][1] + count)

    with LoopbackService() as service:
        query_stage(
            Audit(run, settings(), (), watch=watch, consent=lambda plan: True), "v", [LoopbackAdapter(service.url)]
        )
    assert bars == {stage: [PHOTOS * STEPS] * 2 for stage in ("query loopback", "labels")}


@pytest.mark.parametrize(("limit", "words"), [({"max_calls": 20}, "--max-calls"), ({"max_cost": 0.01}, "--max-cost")])
def test_run_beyond_a_limit_sends_nothing_and_can_be_resumed(run, limit, words):
    with LoopbackService() as service:
        adapter = LoopbackAdapter(service.url)
        with pytest.raises(PlanError, match=words):
            query(run, adapter, **limit, price={"*": 1.0})
        assert not service.times
        query(run, adapter, max_calls=21, max_cost=1.0, price={"*": 1.0})
        assert len(service.times) == 21


def test_unreadable_answers_are_retried_but_not_resent(run):
    bad = (run.folder / "images" / "gender" / "1" / "step2.png").read_bytes()
    with LoopbackService(lambda _, images: "html" if bad in images else None) as service:
        adapter = LoopbackAdapter(service.url, concurrency=1)
        query(run, adapter, sentinels=0)
        stage = run.record.stages["query"]
        assert (stage.state, stage.counts["failed"], stage.counts["unanswered"]) == ("done", 1, 0)
        assert run.record.query["loopback"].unreadable == 1
        query(run, adapter, sentinels=0)
        assert sorted(service.received.values()) == [1] * 11 + [3]


def test_unanswered_images_leave_the_run_incomplete(run):
    with LoopbackService(lambda number, _: "redirect" if number == 1 else None) as service:
        adapter = LoopbackAdapter(service.url, concurrency=1)
        query(run, adapter, sentinels=0)
        assert run.record.stages["query"].state == "incomplete"
        query(run, adapter, sentinels=0)
        assert run.record.stages["query"].state == "done"
        assert sorted(service.received.values()) == [1] * 11 + [2]


def test_unusable_classifier_keeps_answers_of_the_others(run):
    with LoopbackService(lambda *_: "unauthorised") as locked, LoopbackService() as fine:
        broken, works = LoopbackAdapter(locked.url, name="broken"), LoopbackAdapter(fine.url, name="works")
        with pytest.raises(AdapterError, match=f"set {KEY}"):
            query(run, broken)
        query(run, broken, works)
        answers = read_frame(run.path("answers.parquet"))
        assert answers.groupby("adapter")["status"].unique().map(list).to_dict() == {
            "broken": ["failed"], "works": ["ok"],
        }  # fmt: skip
        assert f"set {KEY}" in run.record.query["broken"].stopped
        assert run.record.stages["query"].state == "incomplete"


def test_images_beyond_the_limits_are_re_encoded(run):
    with LoopbackService() as service:
        query(run, LoopbackAdapter(service.url, limits=Limits(min_side=80)), sentinels=0)
        labels = read_frame(run.path("labels.parquet"))
        assert len(labels) == PHOTOS * STEPS * 2
        versions = set(read_frame(run.path("counterfactuals.parquet"))["sha256"])
        assert versions.isdisjoint(service.received)
        prepared = run.record.query["loopback"].prepared
        assert prepared == Prepared(re_encoded={"side lengths × 2, png": PHOTOS * STEPS})
        query(run, LoopbackAdapter(service.url, name="other", limits=Limits(max_bytes=20)), sentinels=0)
        answers = read_frame(run.path("answers.parquet"))
        assert set(answers["status"]) == {"excluded"}
        assert answers["reason"].str.contains("it cannot be sent: .*20 are accepted").all()
        assert run.record.stages["query"].state == "done"


def test_status_of_a_killed_run(run):
    with LoopbackService(lambda number, _: "unauthorised" if number == 6 else None) as service:
        query(run, LoopbackAdapter(service.url, concurrency=1), sentinels=0)
    run.record.stages["query"].state = "running"  # as a killed process leaves it
    run.note()
    content = summary(run.folder)
    assert content["running"] is False
    assert content["stages"]["query"]["state"] == "interrupted"
    facts = content["query"]["loopback"]
    assert (facts["images"], facts["answered"], facts["not_asked"] + facts["failed"]) == (12, 5, 7)
    assert f"set {KEY}" in facts["stopped"]
    with run.locked():
        assert summary(run.folder)["running"] is True
        assert summary(run.folder)["stages"]["query"]["state"] == "running"


def test_secrets_are_in_no_file_and_no_output(run, monkeypatch, caplog, invoke):
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setattr("pipeline.stages.audit._estimate", lambda work, **_: None)
    monkeypatch.setattr("pipeline.querying.plan.RetryPolicy", QuickRetry)
    output = ""
    # Errors of the service and of the adapter contain the key.
    for fault in ("unauthorised", "500"):
        with LoopbackService(lambda number, _, fault=fault: fault if number % 2 else None) as service:
            adapter = LoopbackAdapter(service.url, concurrency=1)
            monkeypatch.setattr("pipeline.stages.audit.make_adapters", lambda settings, out, adapter=adapter: [adapter])
            result = invoke("query", run.folder, "--adapter", "loopback", "--yes", "--verbose", "--rate", "500")
            assert set(service.authorizations) == {f"Bearer {SECRET}"}
            output += result.output + str(result.exception)
    assert "HTTP 500" in output
    assert f"[{KEY}]" in output
    assert SECRET not in output + caplog.text
    for path in run.folder.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    assert f"[{KEY}]".encode() in run.path("responses.sqlite").read_bytes()


def test_secret_in_options_is_refused_and_not_shown(run, error_of):
    error = error_of("query", run.folder, "--adapter-option", f"google.api_key={SECRET}")
    assert "environment variable" in error
    assert SECRET not in error
    assert SECRET not in error_of("query", run.folder, "--adapter-option", f"google:api_key={SECRET}")
    assert SECRET not in run.path("run.json").read_text()


def test_script_needs_yes_to_query(run, monkeypatch, error_of):
    with LoopbackService() as service:
        adapters = [LoopbackAdapter(service.url, host="cloud.example")]
        for module in ("adapters", "audit"):
            monkeypatch.setattr(f"pipeline.stages.{module}.make_adapters", lambda settings, out: adapters)
        error = error_of("query", run.folder, "--adapter", "loopback")
        assert not service.times
    assert "cloud.example" in error
    assert "--yes" in error


def test_plan_states_recipient_price_and_calls(run, monkeypatch, invoke):
    with LoopbackService() as service:
        adapters = [LoopbackAdapter(service.url, host="cloud.example")]
        monkeypatch.setattr("pipeline.stages.adapters.make_adapters", lambda settings, out: adapters)
        shown = invoke("plan", run.folder, "--price", "1.5").output
        plan = json.loads(invoke("plan", run.folder, "--json").output)
        assert not service.times
    for text in ("cloud.example (Nobody Ltd)", "kept for a day", "given by you"):
        assert text in shown
    assert plan["exact"]
    assert plan["calls"] == 21


def test_plan_for_photos_is_an_upper_bound(tmp_path, monkeypatch, invoke):
    (tmp_path / "in").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 255, (80, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "in" / f"{number}.png")
    (tmp_path / "in" / "broken.jpg").write_bytes(b"no photo")
    adapters = [LoopbackAdapter("http://127.0.0.1:9", batch=4)]
    monkeypatch.setattr("pipeline.stages.adapters.make_adapters", lambda settings, out: adapters)
    words = ["plan", tmp_path / "in", "--attribute", "gender", "--steps", "gender=5"]
    plan = json.loads(invoke(*words, "--json").output)
    assert not plan["exact"]
    assert plan["adapters"][0]["images"] == 3 * (5 + 2 * 3)
    assert plan["placebos"] == 3 * 2 * 3
    assert plan["calls"] == 9 + 3
    shown = " ".join(invoke(*words).output.split())
    assert "18 images of these are placebos; --placebo none omits them." in shown
    plan = json.loads(invoke(*words, "--json", "--placebo", "none").output)
    assert (plan["adapters"][0]["images"], plan["placebos"]) == (15, 0)


def test_control_characters_are_escaped_on_the_terminal(run, capsys):
    with LoopbackService() as service:
        adapter = LoopbackAdapter(service.url, name="evil\x1b[2J\u202e[red]", provider="\x07Nobody", concurrency=1)
        print_plan(plan_of_run(run, [adapter], settings()), error=False)
        service.fault = lambda number, _: "unauthorised" if number > 3 else None
        query(run, adapter, sentinels=0)
    show_run(run.folder, as_json=False)
    shown = capsys.readouterr().out
    assert "evil[U+001B][2J[U+202E][red]" in shown
    assert not set("\x1b\x07\u202e") & set(shown)


@pytest.mark.parametrize("agrees", [True, False])
def test_terminal_shows_plan_and_asks_for_consent(run, agrees, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question, **_: agrees)
    with LoopbackService() as service:
        audit = Audit(run, settings(sentinels=0), (), consent=consent(yes=False))
        if agrees:
            query_stage(audit, "v", [LoopbackAdapter(service.url)])
        else:
            with pytest.raises(PlanError, match="not confirmed"):
                query_stage(audit, "v", [LoopbackAdapter(service.url)])
        assert len(service.times) == (12 if agrees else 0)
    shown = capsys.readouterr().err
    assert "faces are sent to 127.0.0.1" in shown
    assert "kept for a day" in shown


def test_account_is_put_into_words():
    facts = {
        "images": 1200, "known_before": 200, "answered_now": 990, "failed": 4, "not_asked": 6, "usd_so_far": 1.8,
        "possibly_billed": {"intents": 3, "images": []},
        "drift": {"sentinels": 3, "answers": 9, "changed": ["a.jpg: answer at the end of round 1"],
                  "largest_score_change": 0.25, "versions": []},
    }  # fmt: skip
    words = ", ".join(account_words(facts))
    assert words.startswith("1,190 of 1,200 images answered, 4 failed, 6 not sent, about US$ 1.80, 3 requests possibly")
    assert words.endswith("9 answers: 1 change detected, a score by up to 0.25 (a.jpg: answer at the end of round 1)")
