"""How fast photos become counterfactuals on disk, and how much memory an audit takes:

    python scripts/bench/stages.py PHOTOS --out /tmp/bench

Runs photos -> faces -> counterfactuals once in a fresh folder and prints the stages' own record.
"""

import argparse
import shutil
import time
from pathlib import Path

from pipeline.config.sources import load_settings
from pipeline.run.folder import Run
from pipeline.stages.audit import make_counterfactuals, start_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="a folder of its own; emptied first")
    parser.add_argument("--attribute", default="gender")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    settings = load_settings(given={"sweep": {"attributes": [options.attribute]}}, environment={})
    started = time.perf_counter()
    run = Run(options.out)
    make_counterfactuals(start_run(run, options.photos, settings=settings, given={}))
    seconds = time.perf_counter() - started
    stages = run.record.stages
    for name, stage in stages.items():
        print(f"{name:<16} {stage.seconds:8.2f} s   peak {stage.peak_mib:7.0f} MiB   {stage.counts}")
    photos = stages["faces"].counts["ok"]
    print(
        f"{photos} photos in {seconds:.1f} s: {photos / seconds:.1f} photos/s with {options.attribute}'s sweep on disk"
    )


if __name__ == "__main__":
    main()
