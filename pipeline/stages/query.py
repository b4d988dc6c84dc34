"""The query stage of a run: plan, consent, calls, labels and accounts."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import date
from time import monotonic
from typing import TYPE_CHECKING

from adapters.base import AdapterError
from pipeline.config.options import QueryOptions
from pipeline.run.engine import IN_PROCESS
from pipeline.run.files import digest
from pipeline.run.folder import Run
from pipeline.run.progress import Advance
from pipeline.run.tables import read_frame
from pipeline.stages.base import Audit
from pipeline.stages.plan import placebo_images, versions_of

if TYPE_CHECKING:
    import pandas as pd

    from adapters.base import Adapter
    from pipeline.querying.counts import RequestCounts
    from pipeline.querying.plan import AdapterPlan, AdapterRequest, Plan, Retry
    from pipeline.querying.runner import AdapterOutcome, Progress
    from pipeline.run.record import Account

RESPONSES = "responses.sqlite"
OUTPUTS = ("answers.parquet", "labels.parquet")
FEW_IMAGES = 100  # up to this many, starting worker processes takes longer than it saves
REASONS = 5  # stored per classifier
LOG = logging.getLogger("counterslope.querying")


def query_stage(
    audit: Audit,
    upstream: str,
    adapters: "Sequence[Adapter]",
    *,
    keep: Sequence[str] = (),
    retry: "Retry | None" = None,
    send: bool = True,
) -> None:
    """Send every classifier the versions that it has not answered yet, and derive the labels.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the versions.
        adapters: the classifiers.
        keep: names of other classifiers of the run, whose answers and labels do not change.
        retry: "failed": also resend requests whose answers have no labels; "unreadable": resend only unreadable
            answers.
        send: if False, derive the labels again from the stored answers and send nothing.

    Raises:
        PlanError: a limit would be exceeded, consent is missing, or a service has ended; nothing was sent.
        AdapterError: no classifier could be used.
    """
    run, options = audit.run, audit.settings.query
    prints = {adapter.name: adapter_fingerprint(adapter, upstream, options) for adapter in adapters}
    prints |= {name: run.record.query[name].fingerprint for name in keep}
    fingerprint = digest(["query", sorted(prints.items())])
    if run.is_done("query", fingerprint) and retry is None and send:
        return
    from pipeline.querying.account import account_after, account_before, totals
    from pipeline.querying.counts import RequestCounts
    from pipeline.querying.labels import full_answers, write_run_labels
    from pipeline.querying.plan import adapter_requests, plan_of, unreadable_requests
    from pipeline.querying.runner import AdapterOutcome, run_adapters
    from pipeline.querying.store import Store
    from pipeline.querying.worker_adapter import in_workers

    table = read_frame(run.path("counterfactuals.parquet"))
    kept = {name: run.record.query[name] for name in keep}
    spent = sum(usd for name, usd in run.record.spent.items() if name not in prints or name in kept)
    if retry is None:
        _check_store_is_there(run, prints)
    with (
        run.stage("query", fingerprint, outputs=OUTPUTS, try_again="unanswered", engine=audit.engine) as counts,
        Store(run.path(RESPONSES)) as store,
    ):
        store.check()
        requests = adapter_requests(
            adapters,
            versions_of(run, table, faces=any(one.capabilities.faces for one in adapters)),
            options,
            folder=run.path("sent"),
            store=store,
            spent=spent,
            retry=retry,
            make=send,
        )
        plan = replace(plan_of(requests, spent=spent), placebos=placebo_images(table))
        if send:
            _check(plan, requests, audit)
            run.note(query=kept | {one.adapter.name: account_before(one) for one in requests})
            with _watched(audit, plan) as progress:
                few = sum(one.to_send for one in plan.adapters) <= FEW_IMAGES
                engine = IN_PROCESS if few else audit.engine
                calls = [in_workers(one, engine, processes=options.processes(one.adapter.name)) for one in requests]
                outcomes = run_adapters(calls, store, progress=progress, log=LOG.info)
        else:
            _check_answers(plan)
            nothing = {one.adapter: RequestCounts(one.images, one.known, not_sent=one.to_send) for one in plan.adapters}
            outcomes = {name: AdapterOutcome(one) for name, one in nothing.items()}
        accounts = {one.adapter.name: account_after(one, outcomes[one.adapter.name], store) for one in requests}
        run.note(query=kept | accounts, spent=run.record.spent | {n: a.usd_so_far or 0.0 for n, a in accounts.items()})
        counts |= totals(outcomes.values(), accounts.values())
        counts["unanswered"] += sum(one.failed + one.waiting + one.not_asked for one in kept.values())
        _stop_if_none_can_be_used(outcomes.values())
        sent = {one.adapter.name: one.sent for one in requests}
        planned, statuses = write_run_labels(
            run.folder, table, adapters, store, sent=sent, keep=keep, watch=audit.watch
        )
        counts |= planned
        for request in requests:
            name = request.adapter.name
            account = accounts[name]
            _note_statuses(account, statuses[statuses["adapter"] == name])
            if account.without_labels:
                account.unreadable = len(unreadable_requests(request.adapter, request.images, store))
            if account.top_k is not None:
                account.full = full_answers(run.path("labels.parquet"), adapter=name, top_k=account.top_k)
            account.versions, account.fingerprint = upstream, prints[name]
        run.note(query=kept | accounts)


def _check_store_is_there(run: Run, adapters: Collection[str]) -> None:
    """Check that the file of answers exists if answers were paid for; otherwise they would be paid for again.

    Raises:
        PlanError: the file is missing.
    """
    from pipeline.querying.plan import PlanError

    kept = {name: run.record.query[name] for name in adapters if name in run.record.query}
    paid = {name: one.known_before + one.answered_now for name, one in kept.items() if one.service is not None}
    if not run.path(RESPONSES).exists() and any(paid.values()):
        answers = ", ".join(f"{count:,} of {name}" for name, count in paid.items() if count)
        raise PlanError(
            f"{run.path(RESPONSES)} is gone, with paid answers: {answers}. Put it back; "
            f"to pay for them again: `counterslope query {run.folder} --retry failed`"
        )


def adapter_fingerprint(adapter: "Adapter", upstream: str, options: QueryOptions) -> str:
    """Hash everything on which a classifier's labels depend: versions, model, parameters and parsing options."""
    given = options.options.get(adapter.name, {})
    return digest([upstream, adapter.name, adapter.model, dict(adapter.parameters), given])


def _check(plan: "Plan", requests: "Sequence[AdapterRequest]", audit: Audit) -> None:
    """Check everything that can stop a run before anything is sent; consent last.

    Raises:
        PlanError: a check fails.
    """
    from pipeline.querying.plan import check_consent, check_images, check_lifecycles, check_limits

    options = audit.settings.query
    check_lifecycles(plan, today=date.today())
    check_images(requests)
    check_limits(plan, max_calls=options.max_calls, max_cost=options.max_cost)
    check_consent(plan, consent=audit.consent)


def _check_answers(plan: "Plan") -> None:
    """Check that there are answers from which labels can be derived.

    Raises:
        PlanError: a classifier has no answer.
    """
    from pipeline.querying.plan import PlanError

    for one in plan.adapters:
        if one.images and not one.known:
            raise PlanError(
                f"there is no answer of {one.adapter} with these options, so no labels can be derived; "
                "`counterslope query` sends the images"
            )


def _note_statuses(account: "Account", statuses: "pd.DataFrame") -> None:
    """Store the number of versions with labels and the most frequent reasons of the others."""
    from pipeline.run.record import Reason

    failed = statuses[statuses["status"] == "failed"].sort_values(["count", "reason"], ascending=[False, True])
    account.ok = int(statuses.loc[statuses["status"] == "ok", "count"].sum())
    account.without_labels = int(failed["count"].sum())
    account.reasons = [
        Reason(reason=reason, count=count)
        for reason, count in zip(failed["reason"].head(REASONS), failed["count"].head(REASONS), strict=True)
    ]


@contextmanager
def _watched(audit: Audit, plan: "Plan") -> "Iterator[Progress]":
    """Show a bar per classifier with its rate and cost so far, and copy the answers to the store periodically."""
    started = monotonic()
    with ExitStack() as stack:
        bars: dict[str, Advance] = {}
        for one in plan.adapters:
            bars[one.adapter] = stack.enter_context(audit.watch(f"query {one.adapter}", total=one.images))
        prices = {one.adapter: one for one in plan.adapters}
        seen = dict.fromkeys(bars, 0)

        def progress(name: str, counts: "RequestCounts") -> None:
            bars[name](counts.done - seen[name], _note(prices[name], counts, seconds=monotonic() - started))
            seen[name] = counts.done
            audit.run.checkpoint_if_due()

        yield progress


def _note(plan: "AdapterPlan", counts: "RequestCounts", *, seconds: float) -> str:
    from pipeline.querying.account import usd_of

    usd = usd_of(counts.answered, plan)
    parts = [f"{counts.answered / max(seconds, 1e-3):.1f}/s" if counts.answered else ""]
    parts += [f"US$ {usd:.2f}" if usd else "", f"{counts.failed} failed" if counts.failed else ""]
    parts += [f"{counts.waiting} wait in jobs" if counts.waiting else ""]
    return " · ".join(part for part in parts if part)


def _stop_if_none_can_be_used(outcomes: "Iterable[AdapterOutcome]") -> None:
    """Fail with the reasons if there is nothing from which labels could be derived.

    Raises:
        AdapterError: no classifier could be used, and none has an answer.
    """
    found = list(outcomes)
    if found and all(one.problem is not None and not one.counts.known + one.counts.answered for one in found):
        raise AdapterError("; ".join(str(one.problem) for one in found))
