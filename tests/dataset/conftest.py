"""The small dataset and the run of an audit with the same edits, made once."""

import multiprocessing
import os
import shutil
import sys
from contextlib import contextmanager

import pytest
import small_dataset
from small_dataset import PORTRAITS, Portraits, make, settings_with, small_chunks

from pipeline.photos import SAMPLE
from pipeline.run.folder import Run
from pipeline.stages.audit import make_counterfactuals, start_run


@pytest.fixture(scope="session")
def portraits(tmp_path_factory) -> Portraits:
    folder = tmp_path_factory.mktemp("private-folder")
    # Names start like those of a split; two photos show the same person.
    names = [f"test_{number}_jane-doe.jpg" for number in range(PORTRAITS)]
    for name, path in zip(names, sorted(SAMPLE.glob("*.jpg"))[::7], strict=False):
        shutil.copy(path, folder / name)
    lines = [f"{name},person {number // 2}" for number, name in enumerate(names)]
    (folder / "list.csv").write_text("\n".join(["photo,person", *lines]) + "\n")
    return Portraits(folder / "list.csv", names)


@pytest.fixture(scope="session")
def bars():
    """Stage -> [total, progress] of its progress bar, while ``dataset`` was made."""
    return {}


@pytest.fixture(scope="session")
def dataset(portraits, tmp_path_factory, bars):
    @contextmanager
    def watch(stage, *, total):
        bars[stage] = [total, 0]
        yield lambda count, note="": bars[stage].__setitem__(1, bars[stage][1] + count)

    return make(portraits.manifest, tmp_path_factory.mktemp("made") / "faces", watch=watch)


@pytest.fixture(scope="session")
def audit_run(portraits, tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "audit")
    with small_chunks():
        make_counterfactuals(start_run(run, [portraits.manifest], settings=settings_with(), given={}))
    return run


@pytest.fixture
def process(monkeypatch):
    """Start a process that calls a function, forked from a server that has imported the networks."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([small_dataset.__name__])

    def start(function, *args, **options):
        child = context.Process(target=function, args=args, kwargs=options)
        child.start()
        return child

    return start
