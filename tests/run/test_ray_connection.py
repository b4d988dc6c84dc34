"""Retries of the connection to a Ray cluster."""

import socket

import pytest

from pipeline.config.options import ConfigError
from pipeline.run import ray_engine
from pipeline.run.ray_engine import connected
from pipeline.run.record import RunError

ray = pytest.importorskip("ray")


@pytest.fixture
def pauses(monkeypatch):
    """The durations of pauses, which are skipped."""
    found = []
    monkeypatch.setattr(ray_engine.time, "sleep", found.append)
    return found


@pytest.fixture
def closed_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def test_unreachable_cluster_raises_after_retries(pauses, closed_port):
    address = f"127.0.0.1:{closed_port}"
    with pytest.raises(RunError, match=rf"no Ray cluster answers at {address} in 30 seconds .*check --ray-address"):
        connected(None, address=address, gpus=False).__enter__()
    assert pauses == [2, 4, 8, 16]


def test_connection_to_a_starting_cluster_is_retried(pauses, monkeypatch):
    answers = iter([ConnectionError("Could not find any running Ray instance"), TimeoutError("timed out"), None])

    def init(**_):
        if (error := next(answers)) is not None:
            raise error

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray_engine.RayEngine, "_add", lambda engine: None)
    with connected(None, address="auto", gpus=False) as engine:
        assert engine.size == 2
    assert pauses == [2, 4]


def test_invalid_address_raises_without_retry(pauses):
    with pytest.raises(ConfigError, match=r"nonsense .*check --ray-address"):
        connected(None, address="nonsense", gpus=False).__enter__()
    assert pauses == []
