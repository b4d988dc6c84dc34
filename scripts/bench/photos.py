"""How fast photos become counterfactuals or a whole dataset on disk, and whether memory grows with their number:

    python scripts/bench/photos.py PHOTOS --out /tmp/bench --sizes 200,2000 --dataset

Takes the first photos of a folder for each size, in a process of its own, and prints the stages' own record.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from measure import measured

from pipeline.config.sources import load_settings
from pipeline.run.folder import Run
from pipeline.run.record import Stage


def main(
    photos: Annotated[Path, typer.Argument(help="A folder.")],
    out: Annotated[Path, typer.Option(help="A folder of its own; emptied first.")],
    sizes: Annotated[str, typer.Option(help="Numbers of photos.")] = "200",
    attribute: str = "gender",
    dataset: Annotated[bool, typer.Option(help="A dataset, up to its checksums; else the stages of an audit.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; as many as there are cores unless given.")] = None,
) -> None:
    """Print photos per second of the clock and of the processor, and the peak memory, by size and stage."""
    found = sorted(photos.glob("*.jpg"))
    for size in map(int, sizes.split(",")):
        done = measured(make, found[:size], out, attribute=attribute, dataset=dataset, workers=workers)
        rate, own = len(found[:size]) / done.seconds, len(found[:size]) / done.processor
        print(f"{size:>7,} photos: {rate:.1f} a second, {own:.1f} a second of the processor; {done}")
        for name, stage in done.result.items():
            print(f"        {name:<16} {stage.seconds:8.2f} s   peak {stage.peak_mib:7.0f} MiB   {stage.counts}")


def make(photos: Sequence[Path], out: Path, *, attribute: str, dataset: bool, workers: int | None) -> dict[str, Stage]:
    """The versions of photos in an empty folder, and what the run's record says of its stages."""
    from pipeline.dataset.make import make_dataset, run_folder
    from pipeline.stages.audit import make_counterfactuals, start_run
    from pipeline.stages.base import started_engine

    for folder in (out, run_folder(out)):
        shutil.rmtree(folder, ignore_errors=True)
    sweep: dict[str, Any] = {"attributes": [attribute]}
    settings = load_settings(given={"sweep": sweep, "engine": {"workers": workers}}, environment={})
    if dataset:
        return make_dataset(photos, out, settings=settings, given={}).run.record.stages
    run = Run(out)
    with started_engine(settings.engine) as engine:
        make_counterfactuals(start_run(run, photos, settings=settings, given={}, engine=engine))
    return run.record.stages


if __name__ == "__main__":
    typer.run(main)
