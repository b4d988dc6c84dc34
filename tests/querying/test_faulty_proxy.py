"""All remote adapters behind a proxy that corrupts 24 % of the replies."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pandas as pd
import pytest
from fakes.chat_service import chat_service
from fakes.clouds import CLOUDS, environment
from fakes.faulty_proxy import AFTER, BEFORE, FaultyProxy
from fakes.http_server import FakeServer
from fakes.pixel_scores import LABELS
from fakes.rest_service import rest_service
from unqueried_run import PHOTOS, STEPS, unqueried_run

from adapters import registry
from adapters.base import Adapter
from pipeline.config.sources import load_settings
from pipeline.querying.limits import RetryPolicy
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame
from pipeline.stages.base import Audit
from pipeline.stages.query import query_stage

SHARE = 0.24
KEYS = {"OPENAI_API_KEY": "planted-openai-key", "CLINIC_KEY": "planted-clinic-key"}
CLINIC = {"items": "result.tags", "label": "tag.en", "score": "p", "headers": {"X-Api-Key": "${CLINIC_KEY}"}}
PRICE = 10.0  # US$ for 1,000 images


@dataclass(frozen=True)
class QuickRetry(RetryPolicy):
    """Short waits between retries, for tests."""

    first: float = 0.02


@contextmanager
def services(share: float) -> Iterator[tuple[list[Adapter], list[FaultyProxy]]]:
    """Every remote adapter, each with a proxy between it and its service."""
    with ExitStack() as stack:
        variables = dict(KEYS)
        for cloud in CLOUDS.values():
            variables |= cloud.environment
        stack.enter_context(environment(variables))
        urls = {name: stack.enter_context(cloud.service()).url for name, cloud in CLOUDS.items()}
        urls["openai"] = stack.enter_context(FakeServer(chat_service(KEYS["OPENAI_API_KEY"]))).url
        urls["http:clinic"] = stack.enter_context(FakeServer(rest_service(KEYS["CLINIC_KEY"]))).url
        adapters, proxies = [], []
        for seed, (name, url) in enumerate(urls.items()):
            proxies.append(stack.enter_context(FaultyProxy(url, share=share, seed=seed)))
            adapters.append(registry.create(name, options_of(name, proxies[-1].url)))
        yield adapters, proxies


def options_of(name: str, url: str) -> dict[str, object]:
    if name == "openai":
        return {"endpoint": f"{url}/v1", "model": "seer", "labels": LABELS}
    if name == "http:clinic":
        return {"url": url, **CLINIC}
    return {"endpoint": url} | ({"batch": 1} if name in ("google", "clarifai") else {})


def query(run: Run, adapters: list[Adapter], *, max_cost: float | None = None, again: bool = False) -> None:
    names = [adapter.name for adapter in adapters]
    given = {"price": dict.fromkeys(names, PRICE), "rate": dict.fromkeys(names, 500.0), "max_cost": max_cost}
    settings = load_settings(given={"query": given}, environment={})
    audit = Audit(run, settings, (), consent=lambda plan: True)
    query_stage(audit, "v", adapters, retry="failed" if again else None)


def tables(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the tables of answers and labels, sorted by all columns."""
    return tuple(
        frame.sort_values([*frame.columns]).reset_index(drop=True)
        for frame in (read_frame(run.path(f"{name}.parquet")) for name in ("answers", "labels"))
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.querying.plan.RetryPolicy", QuickRetry)


def test_corrupted_replies_change_no_table_and_exceed_no_cost_limit(tmp_path):
    clean, faulty = (unqueried_run(tmp_path / name, side=96) for name in ("clean", "faulty"))
    with services(0.0) as (adapters, proxies):
        query(clean, adapters)
        images = sum(proxy.answered for proxy in proxies)
    with services(SHARE) as (adapters, proxies):

        def billed():
            return sum(proxy.answered for proxy in proxies) * PRICE / 1000

        cap = images * PRICE / 1000  # enough only if no reply is lost
        query(faulty, adapters, max_cost=cap)
        assert billed() <= cap + 1e-9
        for _ in range(4):
            if faulty.record.stages["query"].state == "done" and not unlabelled(faulty):
                break
            query(faulty, adapters, max_cost=2 * cap, again=True)
        assert billed() <= 2 * cap + 1e-9
        faults = {fault for proxy in proxies for fault in proxy.faults}
    assert faults == {"", *BEFORE, *AFTER}, "every fault occurred"
    for expected, found in zip(tables(clean), tables(faulty), strict=True):
        pd.testing.assert_frame_equal(expected, found)
    assert (tables(faulty)[0]["status"] == "ok").sum() == PHOTOS * STEPS * len(adapters)
    secrets = [*KEYS.values(), *(secret for cloud in CLOUDS.values() for secret in cloud.secrets)]
    for path in faulty.folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [secret for secret in secrets if secret.encode() in content], path


def unlabelled(run: Run) -> int:
    return sum(account.without_labels for account in run.record.query.values())
