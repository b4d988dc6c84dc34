"""How fast photos become a dataset, and whether memory grows with their number:

    python scripts/bench/dataset.py PHOTOS --out /tmp/bench --sizes 200,2000

Makes a dataset of the first photos of a folder for each size, in a process of its own, and prints photos per second (of
the clock and of the processor) and the peak memory.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pipeline.config.sources import load_settings
from pipeline.dataset.make import make_dataset, run_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, help="a folder")
    parser.add_argument("--out", type=Path, required=True, help="a folder of its own; emptied first")
    parser.add_argument("--sizes", default="200,2000", help="numbers of photos")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.one:
        print(json.dumps(measure(options.photos, options.out, sizes[0])))
        return
    for size in sizes:
        command = [
            sys.executable,
            __file__,
            str(options.photos),
            "--out",
            str(options.out),
            "--sizes",
            str(size),
            "--one",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{size:>7,} photos, {found['images']:,} images: {size / found['seconds']:.1f} photos/s by the clock, "
            f"{size / found['processor']:.1f} a processor's second; peak {found['peak_mib']:.0f} MiB"
        )
        for name, stage in found["stages"].items():
            print(f"        {name:<16} {stage['seconds']:8.2f} s   peak {stage['peak_mib']:7.0f} MiB")


def measure(photos: Path, out: Path, size: int) -> dict[str, object]:
    """One dataset of the first ``size`` photos."""
    for folder in (out, run_folder(out)):
        shutil.rmtree(folder, ignore_errors=True)
    settings = load_settings(given={}, environment={})
    started = time.perf_counter()
    made = make_dataset(sorted(photos.glob("*.jpg"))[:size], out, settings=settings, given={})
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.perf_counter() - started,
        "processor": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
        "images": made.facts.images,
        "stages": made.run.record.plain()["stages"],
    }


if __name__ == "__main__":
    main()
