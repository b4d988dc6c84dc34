"""How fast photos become counterfactuals, a dataset or an audited run, and whether memory grows with their number:

    python scripts/bench/photos.py PHOTOS --out /tmp/bench --sizes 200,2000 --what audit

Takes the first photos of a folder for each size, in a process of its own, and prints the stages' own record.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from measure import measured

from pipeline.config.sources import load_settings
from pipeline.run.folder import Run
from pipeline.run.record import Stage

What = Literal["versions", "dataset", "audit"]


def main(
    photos: Annotated[Path, typer.Argument(help="A folder.")],
    out: Annotated[Path, typer.Option(help="A folder of its own; emptied first.")],
    sizes: Annotated[str, typer.Option(help="Numbers of photos.")] = "200",
    attribute: str = "gender",
    editor: str = "residual",
    placebo: Annotated[str, typer.Option(help="Joined by commas; none leaves them out.")] = "random,colour",
    what: Annotated[What, typer.Option(help="The stages up to the versions, or a dataset, or an audit.")] = "versions",
    workers: Annotated[int | None, typer.Option(help="Processes; as many as there are cores unless given.")] = None,
) -> None:
    """Print photos per second of the clock and of the processor, and the peak memory, by size and stage."""
    found = sorted(photos.glob("*.jpg"))
    for size in map(int, sizes.split(",")):
        placebos = [] if placebo == "none" else placebo.split(",")
        sweep = {"attributes": [attribute], "editor": editor, "placebos": placebos}
        done = measured(make, found[:size], out, sweep=sweep, what=what, workers=workers)
        rate, own = len(found[:size]) / done.seconds, len(found[:size]) / done.processor
        print(f"{size:>7,} photos: {rate:.1f} a second, {own:.1f} a second of the processor; {done}")
        for name, stage in done.result.items():
            print(f"        {name:<16} {stage.seconds:8.2f} s   peak {stage.peak_mib:7.0f} MiB   {stage.counts}")


def make(
    photos: Sequence[Path], out: Path, *, sweep: Mapping[str, Any], what: What, workers: int | None
) -> dict[str, Stage]:
    """What is wanted of photos in an empty folder, and what the run's record says of its stages."""
    from pipeline.dataset.make import make_dataset, run_folder
    from pipeline.stages.audit import audit, make_counterfactuals, start_run
    from pipeline.stages.base import started_engine

    for folder in (out, run_folder(out)):
        shutil.rmtree(folder, ignore_errors=True)
    settings = load_settings(given={"sweep": sweep, "engine": {"workers": workers}}, environment={})
    if what == "dataset":
        return make_dataset(photos, out, settings=settings, given={}).run.record.stages
    if what == "audit":
        return audit(photos, out, settings=settings, given={}).record.stages
    run = Run(out)
    with started_engine(settings.engine) as engine:
        make_counterfactuals(start_run(run, photos, settings=settings, given={}, engine=engine))
    return run.record.stages


if __name__ == "__main__":
    typer.run(main)
