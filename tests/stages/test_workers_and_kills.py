"""Audits with worker processes, on Ray, and after kills have the tables of an uninterrupted single process."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from finished_run import tables_of
from ray_nodes import two_nodes

from pipeline.config.options import EngineOptions
from pipeline.config.sources import load_settings
from pipeline.stages.audit import audit

PORTRAITS = 4
COUNTING_ADAPTER = """
import hashlib, pathlib
def classify(image):
    with open({calls!r}, "a") as calls:
        calls.write(hashlib.sha256(image).hexdigest() + "\\n")
    return {{"bright": image[-20] / 255, "long": min(1.0, len(image) / 2e5)}}
"""


@pytest.fixture(scope="module")
def portraits(sample_folder) -> Path:
    return sample_folder(PORTRAITS)


@pytest.fixture
def run_audit(portraits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[object, float]]:
    """Audit three portraits with an engine; return the tables and the progress of counterfactuals in photos."""
    for name, value in (("base.FEW", 0), ("query.FEW_IMAGES", 0), ("counterfactuals.CHUNK", 2), ("faces.CHUNK", 2)):
        monkeypatch.setattr(f"pipeline.stages.{name}", value)
    three = sorted(portraits.glob("*.jpg"))[:3]
    given = {
        "sweep": {"attributes": ["gender"], "steps": {"gender": 3}, "placebos": []},
        "query": {"adapters": ["opencv", "face-attributes"]},
        "statistics": {"min_count": 1, "resamples": 100},
    }
    settings = load_settings(given=given, environment={})

    def run(engine: EngineOptions, at_first: Callable[[], None] = lambda: None) -> tuple[object, float]:
        steps: list[float] = []

        @contextmanager
        def watch(stage: str, *, total: int) -> Iterator[Callable[..., None]]:
            def advance(count: float, note: str = "") -> None:
                if stage == "counterfactuals":
                    steps.append(count)
                    if len(steps) == 1:
                        at_first()

            yield advance

        folder = tmp_path / f"{engine.kind}{engine.workers}"
        options = settings.model_copy(update={"engine": engine})
        audit(three, folder, settings=options, given={}, watch=watch, report=False)
        return tables_of(folder), sum(steps)

    return run


def test_worker_processes_give_identical_tables(run_audit: Callable[..., tuple[object, float]]) -> None:
    (single, _), (double, counted) = (run_audit(EngineOptions(workers=workers)) for workers in (1, 2))
    assert double == single
    assert counted == pytest.approx(3)


def test_lost_ray_node_does_not_change_the_tables(run_audit: Callable[..., tuple[object, float]]) -> None:
    pytest.importorskip("ray")
    with two_nodes() as cluster:
        engine = EngineOptions(kind="ray", workers=2, ray_address=cluster.address)
        second = next(iter(cluster.worker_nodes))
        lost, counted = run_audit(engine, lambda: cluster.remove_node(second, allow_graceful=False))
    assert lost == run_audit(EngineOptions(workers=1))[0]
    assert counted == pytest.approx(3)


def test_repeatedly_killed_audit_ends_with_identical_tables(portraits: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    calls = tmp_path / "calls"
    (tmp_path / "work" / "counting.py").write_text(COUNTING_ADAPTER.format(calls=str(calls)))
    program = (
        "from pipeline.stages import base, counterfactuals; base.FEW = 0; counterfactuals.CHUNK = 2; "
        "from pipeline.cli.app import main; main()"
    )
    command = [
        sys.executable, "-c", program, "audit", str(portraits), "--attribute", "gender", "--steps",
        "gender=3", "--placebo", "none", "--adapter", "python:counting:classify", "--quiet", "--workers", "2", "--out",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}

    def start(out: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, str(tmp_path / out)], cwd=tmp_path / "work", env=environment, stdout=subprocess.DEVNULL
        )

    assert start("whole").wait(timeout=300) == 0
    requested = calls.read_text().split()
    assert len(requested) == len(set(requested)) == PORTRAITS * 3
    calls.unlink()

    moments = random.Random(4)
    for _ in range(3):
        process = start("killed")
        try:
            process.wait(timeout=moments.uniform(1.0, 6.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert start("killed").wait(timeout=300) == 0
    whole, killed = tables_of(tmp_path / "whole"), tables_of(tmp_path / "killed")
    assert whole == killed
    assert (tmp_path / "whole/report.html").read_bytes() == (tmp_path / "killed/report.html").read_bytes()
    stages = json.loads((tmp_path / "killed" / "run.json").read_text())["stages"]
    requested_again = calls.read_text().split()
    assert len(requested_again) - len(set(requested_again)) <= stages["query"]["counts"]["possibly_asked_twice"]
