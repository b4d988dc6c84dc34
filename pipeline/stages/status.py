"""The state of a run: its stages, the accounts of its classifiers, and why they stopped or have few labels or
slopes."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import Settings
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import plain, pluralise
from pipeline.run.locks import is_locked
from pipeline.run.record import RunError
from pipeline.run.tables import plain_rows

if TYPE_CHECKING:
    import pandas as pd

ENOUGH = 0.95  # share of versions with labels below which a command ends with its own exit code


def summary(folder: Path) -> dict[str, Any]:
    """Summarise a run in plain values: its stages, accounts, validity card and findings, as far as they exist.

    Raises:
        RunError: the folder contains no run.
    """
    from pipeline.statistics.slopes import findings

    run = Run(folder)
    settings, busy = settings_of(run), is_locked(folder)
    tables = {}
    for name in ("validity", "slopes", "edit_balance"):
        with suppress(RunError):  # missing or damaged, as the state of the stage shows
            tables[name] = run.read_csv(name)
    slopes, found = tables.get("slopes"), None
    if slopes is not None:
        edits = slopes[slopes["arm"] == EDIT_ARM]  # placebos are no findings
        found = findings(edits, max_p=settings.statistics.max_p, min_slope=settings.statistics.min_slope)
    stages = {name: stage.model_dump(exclude={"outputs"}) for name, stage in run.record.stages.items()}
    for name, stage in stages.items():
        if stage["state"] == "running" and not busy:  # its process died
            stage["state"] = "interrupted"
        elif stage["state"] == "done" and run.damaged(name):
            stage["state"] = "damaged"
    report = run.path("report.html")
    return {
        "run": str(folder),
        "running": busy,
        "poles": {name: attribute.poles for name, attribute in settings.sweep.chosen().items()},
        "stages": stages,
        "query": _accounts(run),
        "validity": plain_rows(tables["validity"]) if "validity" in tables else [],
        "warnings": _one_sided(tables.get("edit_balance"), settings),
        "findings": [] if found is None else plain_rows(found),
        "no_slopes": [] if slopes is None else no_slopes(run, slopes),
        "report": str(report) if report.exists() else None,
        "copy": None if run.copy is None else run.copy.store.url,
    }


def _one_sided(sides: "pd.DataFrame | None", settings: Settings) -> list[str]:
    """Return warnings about attributes for which most photos are on one side."""
    from pipeline.analyses.edit_size import one_sided

    swept = settings.sweep.chosen()
    rows = [] if sides is None else [row for row in sides.to_dict("records") if row["attribute"] in swept]
    found = (one_sided(row, swept[row["attribute"]]) for row in rows)
    return [words for words in found if words is not None]


def stop_reasons(folder: Path) -> list[str]:
    """Return the reasons why classifiers of a run stopped before all images were sent."""
    return [account.stopped for account in Run(folder).record.query.values() if account.stopped is not None]


def few_labels(folder: Path) -> list[tuple[str, float]]:
    """Return text with reasons, and the labelled share, of each classifier that labelled less than ``ENOUGH``."""
    few = []
    for name, account in Run(folder).record.query.items():
        wanted = account.ok + account.without_labels
        if wanted and account.ok < ENOUGH * wanted:
            lines = [f"{name}: {account.ok:,} of {wanted:,} versions have labels; the others have none because:"]
            lines += [f"  {one.count:,} times: {one.reason}" for one in account.reasons]
            few.append(("\n".join(lines), account.ok / wanted))
    return few


def no_slopes(run: Run, slopes: "pd.DataFrame") -> list[str]:
    """Return sentences on classifiers that have labels but no slope, the reasons, and what to do.

    Args:
        run: the run.
        slopes: its table of slopes.
    """
    from pipeline.statistics.photo_slopes import NEVER_AT_CENTRE, TOO_FEW_PHOTOS, TOO_RARE

    options, reasons, lines = settings_of(run).statistics, set[str](), []
    edits = slopes[slopes["arm"] == EDIT_ARM]
    for adapter, rows in edits.groupby("adapter", sort=False):
        if rows["estimable"].any():
            continue
        counts = rows["reason"].value_counts()
        reasons |= {*counts.index}
        lines.append(f"{adapter}: no slope of {pluralise(len(rows), 'label')}: " + _counted(counts))
        if options.response == "presence" and counts.get(NEVER_AT_CENTRE, 0) >= len(rows) / 2:
            lines.append(
                f"{adapter}'s scores hardly reach the threshold from which a label is present, as those of a softmax: "
                f"take the mean scores with `counterslope report {run.folder} --response confidence --min-count 0`"
            )
    if TOO_FEW_PHOTOS in reasons:
        lines.append("A slope needs two photos or more of which every version has labels.")
    if TOO_RARE in reasons:
        photos, fewest = edits["photos"].max(), max(1, int(edits["photos"].max() // 4))
        lines.append(
            f"A label is too rare below {plain(options.min_count)} photos with it at a = 0, of {photos:,} here. For a "
            f"first look: `counterslope report {run.folder} --min-count {fewest}`; "
            f"how many photos it takes: `counterslope power {run.folder} --min-count {fewest}`"
        )
    return lines


def _counted(reasons: "pd.Series[int]") -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())


def _accounts(run: Run) -> dict[str, dict[str, Any]]:
    """Return the account of each classifier, with the current number of answers on disk."""
    from pipeline.querying.account import LATELY, tallies

    accounts = {name: facts.model_dump(mode="json", exclude_none=True) for name, facts in run.record.query.items()}
    for tally in tallies(run.path("responses.sqlite")):
        account = accounts.get(tally.adapter)
        if account is None:
            continue
        images, answered = account["images"], min(tally.answered - account.get("unreadable", 0), account["images"])
        rate = tally.lately / LATELY.total_seconds() or account.get("rate_limit")
        account |= {
            "answered": answered,
            "without_outcome": tally.unresolved,
            "waiting": tally.waiting,
            "answers_last_minute": tally.lately,
            "seconds_left": round((images - answered) / rate, 1) if rate and answered < images else None,
        }
    return accounts
