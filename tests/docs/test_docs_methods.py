"""The examples of docs/methods.md run, and its thresholds and names are those of the code."""

import doctest
import re
from pathlib import Path

import pandas as pd
import pytest

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.config.options import ValidityOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.validity import validity_card
from pipeline.run.tables import CHECKS, COUNTERFACTUALS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
PARTS = ("both", "tone", "features")


def test_examples_run():
    """Run the blocks in order, as later ones use names of earlier ones."""
    parser, runner, names = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False), {}
    assert len(EXAMPLES) >= 10
    for number, block in enumerate(EXAMPLES):
        wrong: list[str] = []
        example = parser.get_doctest(block, names, f"example {number + 1}", "methods.md", 0)
        assert example.examples
        runner.run(example, out=wrong.append, clear_globs=False)
        names |= example.globs
        assert not wrong, "".join(wrong)


def test_thresholds_of_the_card():
    table = TEXT.split("## The validity card")[1].split("## ")[0]
    stated = re.findall(r"`(\w+)` (\d[\d.]*)", table)
    assert {name for name, _ in stated} == set(ValidityOptions.model_fields)
    for name, default in stated:
        assert float(default) == getattr(ValidityOptions(), name), name


def test_checks_of_the_card():
    figures = {name: 0.5 for name, kind in COUNTERFACTUALS.items() if kind == "double"}
    versions = pd.DataFrame(
        {"attribute": name, "arm": arm, "photo": "a", "value": value, "status": "ok"} | (figures | {"value": value})
        for name in ATTRIBUTES
        for arm in (EDIT_ARM, "random")
        for value in (-1.0, 0.0, 1.0)
    )
    parts = [{"attribute": "race", "arm": EDIT_ARM, "measure": f"parts: {part}", "figure": 0.5} for part in PARTS]
    pictures = pd.DataFrame(parts, columns=list(CHECKS))
    card = pd.concat(
        validity_card(versions, swept=ATTRIBUTES, groups={}, mode=mode, pictures=pictures)
        for mode in ("delta", "reconstruction")
    )
    computed = {name.partition(":")[0] for name in card["name"]}
    table = TEXT.split("| check | figure |")[1].split("\n\n")[0]
    stated = {line.split("|")[1].strip().partition(":")[0] for line in table.splitlines()[2:]}
    assert stated == computed


def test_region_and_edge_of_the_mask():
    words = re.search(r"probability of \*([^*]+)\*", TEXT)
    assert words
    assert tuple(words[1].split(", ")) == SweepOptions().region
    assert f"{SweepOptions().feather} crop sides" in TEXT


@pytest.mark.parametrize("attribute", ["gender", "race"])
def test_calibration_of_the_strength(attribute):
    from models.training.calibration import STRENGTHS, WANTED

    stated = re.search(r"rises by ([\d.]+) \(gender\) or ([\d.]+)\s+\(race\)", TEXT)
    assert stated
    assert float(stated[1 if attribute == "gender" else 2]) == WANTED[attribute]
    assert f"{STRENGTHS[0]:g}, {STRENGTHS[1]:g}, …, {STRENGTHS[-1]:g}" in TEXT
