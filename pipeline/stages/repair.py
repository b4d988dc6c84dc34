"""Repair of a run: recover its file of answers, and list damaged tables with the commands that make them again."""

from pathlib import Path

from pipeline.querying.repair import Repaired, repair_store
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import pluralise
from pipeline.stages.base import remedy
from pipeline.stages.query import RESPONSES


def repair_run(folder: Path) -> list[str]:
    """Repair a run as far as possible without computing or sending anything.

    Args:
        folder: the folder of the run.

    Returns:
        Sentences on what was found and done, and what to do next.

    Raises:
        RunError: the folder contains no run, or another process works on it.
        StoreError: nothing in the file of answers can be read.
    """
    run = Run(folder)
    settings_of(run)
    with run.locked():
        found = []
        if run.path(RESPONSES).exists() or run.record.query:
            found += _words(repair_store(run.path(RESPONSES)), run)
        for stage in run.record.stages:
            found += [f"{name} is gone or damaged; {remedy(stage, folder)}" for name in run.damaged(stage)]
        return found or ["Nothing is damaged."]


def _words(repaired: Repaired, run: Run) -> list[str]:
    answers = pluralise(repaired.answers, "answer")
    if repaired.kept is None:
        return [f"{RESPONSES} is sound: {answers}."]
    lost = "Nothing that was answered is lost."
    if repaired.lost:
        lost = (
            f"{pluralise(repaired.lost, 'answer')} cannot be read. Their labels stay as they are; `counterslope query "
            f"{run.folder} --retry failed` sends those images again."
        )
    return [f"{RESPONSES} was damaged: {answers} saved into a new file; the old one is {repaired.kept.name}.", lost]
