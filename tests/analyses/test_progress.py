"""Progress bars of analyses, reports and figures."""

import sys
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from finished_run import responses, write_run

from pipeline.analyses.registry import compute
from pipeline.run.progress import Bars
from pipeline.stages.audit import estimate_run, keep_result
from pipeline.stages.run_view import RunView


class Recorder:
    """Counts the updates of each bar."""

    def __init__(self):
        self.totals, self.updates, self.done = {}, Counter(), Counter()

    @contextmanager
    def __call__(self, stage, *, total):
        self.totals[stage] = total

        def advance(count, note=""):
            self.updates[stage] += 1
            self.done[stage] += count

        yield advance


@pytest.fixture
def run(tmp_path):
    parts = [(adapter, "gender", "edit", responses(effect=0.3, seed=1)) for adapter in ("opencv", "mine")]
    return write_run(tmp_path / "may", parts)


def test_local_bias_advances_with_every_permutation(tmp_path):
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"group": ["a", "b"] * 50, "guess": random.integers(0, 2, 100)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    np.save(tmp_path / "features.npy", random.normal(size=(100, 3)))
    for null in ("rerun", "fixed"):
        watch = Recorder()
        options = {"attribute": "group", "prediction": "guess", "features": tmp_path / "features.npy"}
        options |= {"clusters": 2, "min_rows": 5, "permutations": 7, "null": null}
        compute("local", tmp_path / "rows.csv", options, watch=watch)
        assert watch.updates["local"] == watch.done["local"] == watch.totals["local"] == 14


@pytest.mark.parametrize(
    ("name", "options", "updates"),
    [
        ("amplification", {"base": {"l0": 0.7, "l1": 0.2}, "base_group": "female", "resamples": 50}, 2),
        ("amplification", {"base": {"l0": 0.7}, "base_group": "female", "values": [(-2, 2), (-4 / 3, 4 / 3)]}, 4),
        ("subgroups", {"by": "perceived"}, 2),
        ("comparison", {"adapters": ["opencv", "mine"]}, 1),
    ],
)
def test_analyses_of_a_run_advance_with_its_sweeps(run, name, options, updates):
    watch = Recorder()
    compute(name, run, options, watch=watch)
    assert watch.updates[name] == watch.totals[name] == updates


def test_slopes_advance_with_their_labels(run):
    watch = Recorder()
    estimate_run(run, changes={"statistics": {"by": "perceived"}}, watch=watch)
    assert watch.done["slopes"] == watch.totals["slopes"] == 6
    assert watch.updates["slopes"] > 2
    assert watch.done["tables"] == watch.totals["tables"]
    assert watch.done["comparison"] == watch.totals["comparison"] == 1
    assert watch.done["subgroups"] == watch.totals["subgroups"] == 2


def test_report_after_an_analysis_has_a_bar(run):
    estimate_run(run, changes={})
    watch = Recorder()
    keep_result(run, "power", compute("power", run, {}), watch=watch)
    assert watch.updates["report"] > 0


def test_figures_advance_one_by_one(run, tmp_path):
    estimate_run(run, changes={})
    watch = Recorder()
    files = RunView(run).figures(tmp_path / "figures", format="svg", watch=watch)
    assert watch.updates["figures"] == watch.totals["figures"] == len(files) / 2 > 1


def test_fractional_advances_add_up_to_the_total(capsys):
    with Bars()("counterfactuals", total=24) as advance:
        for _ in range(24 * 13):
            advance(1 / 13)
    assert "24/24" in capsys.readouterr().err


class Output:
    """IPython's display handle: an output that can be updated."""

    def __init__(self):
        self.lines = []

    def update(self, data, *, raw):
        self.lines.append(data)


def test_notebook_shows_a_bar_per_stage_by_default(run, monkeypatch):
    outputs = {}

    def display(data, *, raw, display_id):
        return outputs.setdefault(data["text/plain"].split()[0], Output())

    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="a kernel"))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    RunView(run).estimate(min_slope=0.05)
    assert {"tables", "slopes", "report"} <= set(outputs)
    last = outputs["tables"].lines[-1]
    total = int(last["text/plain"].split()[3])
    assert last["text/plain"].startswith(f"tables {total} of {total} · ")
    assert f'value="{total}" max="{total}"' in last["text/html"]
    outputs.clear()
    RunView(run).estimate(min_slope=0.04, progress=False)
    assert not outputs
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=SimpleNamespace))  # IPython in a terminal
    RunView(run).estimate(min_slope=0.03)
    assert not outputs
