"""Time and memory from photos to counterfactuals, a dataset or an audited run, for increasing numbers of photos:

    python scripts/bench/photos.py PHOTOS --out /tmp/bench --sizes 200,2000 --what audit

Each size uses the first photos of the folder in a new process; the times of the stages come from the run's record.
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
    photos: Annotated[Path, typer.Argument(help="A folder of photos.")],
    out: Annotated[Path, typer.Option(help="Output folder; emptied first.")],
    sizes: Annotated[str, typer.Option(help="Numbers of photos, joined by commas.")] = "200",
    attribute: str = "gender",
    editor: str = "residual",
    placebo: Annotated[str, typer.Option(help="Placebos, joined by commas, or none.")] = "random,colour",
    what: Annotated[What, typer.Option(help="Only the versions, a dataset, or an audit.")] = "versions",
    workers: Annotated[int | None, typer.Option(help="Worker processes. [default: all cores]")] = None,
) -> None:
    """Print photos per second of wall-clock and processor time, and the peak memory, by size and stage."""
    found = sorted(photos.glob("*.jpg"))
    for size in map(int, sizes.split(",")):
        placebos = [] if placebo == "none" else placebo.split(",")
        sweep = {"attributes": [attribute], "editor": editor, "placebos": placebos}
        done = measured(make, found[:size], out, sweep=sweep, what=what, workers=workers)
        count = len(found[:size])
        rates = f"{count / done.seconds:.1f} per second, {count / done.processor:.1f} per second of processor time"
        print(f"{size:>7,} photos: {rates}; {done}")
        for name, stage in done.result.items():
            print(f"        {name:<16} {stage.seconds:8.2f} s   peak {stage.peak_mib:7.0f} MiB   {stage.counts}")


def make(
    photos: Sequence[Path], out: Path, *, sweep: Mapping[str, Any], what: What, workers: int | None
) -> dict[str, Stage]:
    """Process photos in an empty folder; return the stages of the run's record."""
    from pipeline.dataset.make import make_dataset
    from pipeline.stages.audit import audit, make_counterfactuals, start_run
    from pipeline.stages.base import started_engine

    for folder in (out, out.with_name(f"{out.name}.run")):
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
