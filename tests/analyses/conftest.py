"""Commands whose exit code is checked."""

import io

import pandas as pd
import pytest


@pytest.fixture
def run_command(invoke):
    """Run a command that must succeed."""

    def run(*words):
        result = invoke(*words)
        assert result.exit_code == 0, result.output
        return result

    return run


@pytest.fixture
def frame_of(run_command):
    """Run a command that must succeed; return the CSV that it prints as a frame."""
    return lambda *words: pd.read_csv(io.StringIO(run_command(*words, "--format", "csv").stdout))


@pytest.fixture
def error_of(invoke):
    """Run a command that must fail with exit code 2; return its output on one line."""

    def run(*words):
        result = invoke(*words)
        assert result.exit_code == 2, result.output
        return " ".join(result.output.split())

    return run
