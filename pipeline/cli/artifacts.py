"""How a command over a run leaves its tables there, and has the run's report show them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.artifacts import Inputs


def keep(
    folder: Path,
    name: str,
    tables: "Mapping[str, pd.DataFrame]",
    *,
    sources: "Inputs",
    about: Mapping[str, Any] | None = None,
    by: Sequence[str] = (),
) -> None:
    """Add tables to a run (see ``additions.add``), write its report anew if it has one, and say so on standard error.

    Raises:
        RunError: another process is working on the run.
    """
    from pipeline.analyses.artifacts import add
    from pipeline.run.folder import Run
    from pipeline.stages.audit import estimate_again

    run = Run(folder)
    add(run, name, tables, sources=sources, about=about, by=by)
    written = ", ".join(str(Path("tables") / f"{each}.csv") for each in tables)
    if run.path("report.html").exists():
        estimate_again(folder, changes={})
        typer.echo(f"Kept in {folder}: {written}; report.html shows it.", err=True)
    else:
        typer.echo(f"Kept in {folder}: {written}", err=True)


def run_options(changes: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    """Those options of a run that hold because the command was not given its own."""
    return tuple(name for name in names if changes.get(name) is None)
