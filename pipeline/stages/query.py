"""The query stage: the plan, whether it is wanted, the calls, the labels and the account, with the run's folder."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from time import monotonic
from typing import TYPE_CHECKING

from adapters.base import AdapterError
from pipeline.run.files import digest
from pipeline.run.folder import Run
from pipeline.run.progress import Advance, Watch
from pipeline.run.tables import read_frame
from pipeline.stages.stages import Audit

if TYPE_CHECKING:
    import pandas as pd

    from adapters.base import Adapter
    from pipeline.querying.client import RequestCounts
    from pipeline.querying.encoding import Version
    from pipeline.querying.plan import AdapterPlan, Plan
    from pipeline.querying.runner import AdapterOutcome, Progress

LOG = logging.getLogger("counterslope.querying")


def query_stage(audit: Audit, upstream: str, adapters: "Sequence[Adapter]") -> None:
    """Send every classifier each version that it has not answered yet, and derive the labels.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the versions.
        adapters: the classifiers.

    Raises:
        PlanError: a limit would be passed, nobody consents, or a service is gone; nothing was sent.
        AdapterError: no classifier could be used.
    """
    classifiers = [[adapter.name, adapter.model, dict(adapter.parameters)] for adapter in adapters]
    fingerprint = digest(["query", upstream, classifiers])
    if audit.run.is_done("query", fingerprint):
        return
    from pipeline.querying.account import account_after, account_before, totals
    from pipeline.querying.labels import derive_blocks, write_derived
    from pipeline.querying.plan import adapter_requests, check_consent, check_lifecycles, check_limits, plan_of
    from pipeline.querying.runner import run_adapters
    from pipeline.querying.store import Store

    run, options = audit.run, audit.settings.query
    table = read_frame(run.path("counterfactuals.parquet"))
    versions = versions_of(run, table)
    with (
        run.stage("query", fingerprint, try_again="unanswered") as counts,
        Store(run.path("responses.sqlite")) as store,
    ):
        requests = adapter_requests(adapters, versions, options, folder=run.path("sent"), store=store)
        plan = plan_of(requests)
        check_lifecycles(plan, today=date.today())
        check_limits(plan, max_calls=options.max_calls, max_cost=options.max_cost)
        check_consent(plan, consent=audit.consent)
        run.note(query={one.adapter: account_before(one) for one in plan.adapters})
        with _watched(audit.watch, plan) as progress:
            outcomes = run_adapters([request.calls for request in requests], store, progress=progress, log=LOG.info)
        accounts = {one.adapter.name: account_after(one, outcomes[one.adapter.name], store) for one in requests}
        run.note(query=accounts)
        counts |= totals(outcomes.values(), accounts.values())
        _stop_if_none_can_be_used(outcomes.values())
        counts |= write_derived(
            derive_blocks(table, adapters, store, sent={one.adapter.name: one.sent for one in requests}),
            answers=run.path("answers.parquet"),
            labels=run.path("labels.parquet"),
            planned=len(table) * len(adapters),
        )


def versions_of(run: Run, table: "pd.DataFrame") -> "list[Version]":
    """The versions that were made, of a table of counterfactuals."""
    from pipeline.querying.encoding import Version

    made = table[table["status"] == "ok"]
    return [
        Version(photo, sha, run.path(file))
        for photo, sha, file in zip(made["photo"], made["sha256"], made["file"], strict=True)
    ]


@contextmanager
def _watched(watch: Watch, plan: "Plan") -> "Iterator[Progress]":
    """One bar for each classifier, with its rate now and what it cost so far."""
    started = monotonic()
    with ExitStack() as stack:
        bars: dict[str, Advance] = {}
        for one in plan.adapters:
            bars[one.adapter] = stack.enter_context(watch(f"query {one.adapter}", total=one.images))
        prices = {one.adapter: one for one in plan.adapters}
        seen = dict.fromkeys(bars, 0)

        def progress(name: str, counts: "RequestCounts") -> None:
            bars[name](counts.done - seen[name], _note(prices[name], counts, seconds=monotonic() - started))
            seen[name] = counts.done

        yield progress


def _note(plan: "AdapterPlan", counts: "RequestCounts", *, seconds: float) -> str:
    from pipeline.querying.account import usd_of

    usd = usd_of(counts.answered, plan)
    parts = [f"{counts.answered / max(seconds, 1e-3):.1f}/s" if counts.answered else ""]
    parts += [f"US$ {usd:.2f}" if usd else "", f"{counts.failed} failed" if counts.failed else ""]
    return " · ".join(part for part in parts if part)


def _stop_if_none_can_be_used(outcomes: "Iterable[AdapterOutcome]") -> None:
    """Where there is nothing to derive labels from, the reason is the run's outcome.

    Raises:
        AdapterError: no classifier could be used, and none has an answer.
    """
    found = list(outcomes)
    if found and all(one.problem is not None and not one.counts.known + one.counts.answered for one in found):
        raise AdapterError("; ".join(str(one.problem) for one in found))
