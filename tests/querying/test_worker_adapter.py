"""Local classifiers in worker processes."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from adapter_calls import make_adapter, scores_of
from drawn_faces import drawn_face, png
from fakes.tiny_networks import tiny_clip, tiny_onnx, tiny_resnet, tiny_transformer

from adapters.base import Adapter, AdapterError, RawAnswer
from adapters.python import PythonFunction
from pipeline.querying.requests import ImageRef, key_maker
from pipeline.querying.runner import AdapterCalls, run_adapters
from pipeline.querying.store import Store
from pipeline.querying.worker_adapter import in_workers
from pipeline.run.engine import IN_PROCESS, Engine, started
from pipeline.run.files import sha256_of

IMAGES = 12
WHEREABOUTS = """
import os, threading, time
def classify(image):
    time.sleep(0.1)  # so that every process gets some
    main = threading.current_thread() is threading.main_thread()
    return {f"process {os.getpid()}": 1.0, "main thread": float(main)}
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[Engine]:
    with started(2) as engine:
        yield engine


@pytest.fixture
def images(tmp_path: Path) -> list[ImageRef]:
    refs = []
    for number in range(IMAGES):
        path = tmp_path / f"{number}.png"
        path.write_bytes(png(drawn_face() // (number + 1)))
        refs.append(ImageRef(sha256_of(path), path))
    return refs


def query(
    adapter: Adapter, images: Sequence[ImageRef], folder: Path, engine: Engine, processes: int | None = None
) -> list[RawAnswer]:
    """The answers to the images, in order."""
    with Store(folder / f"{engine.size}-{processes}.sqlite") as store:
        calls = in_workers(AdapterCalls(adapter, tuple(images)), engine, processes=processes)
        outcome = run_adapters([calls], store)[adapter.name]
        assert outcome.problem is None
        assert outcome.counts.answered == IMAGES
        key = key_maker(adapter)
        found = dict(store.answers([key(image.sha256) for image in images]))
        return [found[key(image.sha256)] for image in images]


def network(kind: str, folder: Path) -> Adapter:
    labels = ("a", "b", "c")
    if kind == "torchvision":
        weights = str(tiny_resnet(folder / "weights.pth"))
        return make_adapter("torchvision", "resnet18", weights=weights, labels=labels, size=32, batch=2)
    if kind == "clip":
        return make_adapter("clip", str(tiny_clip(folder / "tiny")), labels=labels, batch=2)
    if kind == "huggingface":
        return make_adapter("huggingface", str(tiny_transformer(folder / "tiny")), batch=2)
    preprocessing = {"size": 8, "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    return make_adapter("onnx", str(tiny_onnx(folder / "tiny.onnx")), labels=labels, batch=2, **preprocessing)


PACKAGES = {"torchvision": "torchvision", "onnx": "onnxruntime", "clip": "open_clip", "huggingface": "transformers"}


@pytest.mark.parametrize("kind", PACKAGES)
def test_number_of_processes_does_not_change_answers(kind, images, tmp_path, pool):
    pytest.importorskip(PACKAGES[kind], reason=f"{PACKAGES[kind]} is not installed")
    adapter = network(kind, tmp_path)
    here, two, one = (
        query(adapter, images, tmp_path, engine, processes)
        for engine, processes in ((IN_PROCESS, None), (pool, None), (pool, 1))
    )
    assert here == two == one
    assert "_network" not in vars(adapter), "the main process loads no network"


def test_function_runs_in_this_process_by_default(images, tmp_path, pool):
    (tmp_path / "whereabouts.py").write_text(WHEREABOUTS)
    adapter = make_adapter("python", "whereabouts:classify", path=tmp_path)

    def labels(processes):
        answers = query(adapter, images, tmp_path, pool, processes)
        return [scores_of(adapter, answer) for answer in answers]

    try:
        assert all(found == {f"process {os.getpid()}": 1, "main thread": 1} for found in labels(None))
        names = {name for found in labels(2) for name in found if name.startswith("process")}
    finally:
        sys.modules.pop("whereabouts", None)
    assert len(names) == 2
    assert f"process {os.getpid()}" not in names


def test_function_that_cannot_be_pickled_is_explained(tmp_path, pool):
    adapter = PythonFunction.of(lambda image: {"a": 0.5})
    with pytest.raises(AdapterError, match=r"cannot be queried in several processes.*leave it out of --workers-for"):
        in_workers(AdapterCalls(adapter, ()), pool, processes=2)
