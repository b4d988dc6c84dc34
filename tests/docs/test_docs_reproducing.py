"""The figures of docs/reproducing.md are computed again, and its commands exist."""

import importlib
import re
from pathlib import Path

import pytest
import typer
from real_data import COMPAS, needs
from script_modules import load_script

from pipeline.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^\$ (?:\w+=\S+ )?(counterslope|python) (\S+)(.*(?:\\\n.*)*)", re.MULTILINE)


def rows(heading):
    """The cells of the table that starts with a heading, without intervals."""
    table = TEXT[TEXT.index(f"| {heading}") :].split("\n\n")[0]
    lines = [re.sub(r"\([^)]*\)", "", line).replace("−", "-").replace(",", "") for line in table.splitlines()]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


def test_figure_2(monkeypatch):
    from pipeline.statistics.amplification.directional import attribute_to_task
    from pipeline.statistics.amplification.mals import mals

    monkeypatch.syspath_prepend(str(ROOT / "tests" / "statistics"))
    examples = importlib.import_module("published_examples")
    shares, forth, older = rows("women predicted to paint")
    for share, stated, stated_mals in zip(shares[1:], forth[1:], older[1:], strict=True):
        a, t, p = examples.figure_2(round(40 * float(share)))
        assert attribute_to_task(a, t, predictions=p, resamples=0).value == pytest.approx(float(stated), abs=5e-4)
        two, guessed = examples.two_columns(t), examples.two_columns(p)
        found = mals(a, two, predicted_attributes=a, predictions=guessed, resamples=0)
        assert found.value == pytest.approx(float(stated_mals), abs=5e-5)


@needs(COMPAS)
def test_figure_6():
    compas = load_script("reproduce/compas")
    stated = rows("decile from")[1:]
    found = [
        compas.figure_6(compas.people(COMPAS, filtered=kept), resamples=0).set_index("decile_from")
        for kept in (True, False)
    ]
    assert len(stated) == 9
    for decile, forth, rates, everyone in stated:
        line = found[0].loc[int(decile)]
        assert line["amplification"] == pytest.approx(float(forth), abs=6e-5)
        assert line["fpr_difference"] == pytest.approx(float(rates), abs=6e-5)
        assert found[1].loc[int(decile), "amplification"] == pytest.approx(float(everyone), abs=6e-5)


def test_commands_exist():
    known = typer.main.get_command(app).commands
    named = COMMAND.findall(TEXT)
    assert len(named) >= 7
    for program, first, rest in named:
        words = rest.partition(" #")[0].split()
        options = {word for word in words if word.startswith("--")}
        if program == "python":
            assert (ROOT / first).is_file()
            commands = typer.main.get_command(load_script("reproduce/compas").app).commands if words else {}
            command = commands[words[0]] if words else None
        else:
            command = known[first]
        parameters = command.params if command else []
        existing = {name for option in parameters for name in (*option.opts, *option.secondary_opts)}
        assert options <= existing, first


def test_lengths_of_training():
    from models.training.classifiers import PLANS, ClassifierPlan
    from models.training.fader import FaderPlan
    from models.training.parser import ParserPlan

    epochs = ", ".join(f"{PLANS[name][1].epochs:g}" for name in ("guide", "estimator", "judge"))
    for stated in (
        f"{ParserPlan.steps:,} steps of {ParserPlan.batch} photos",
        f"{epochs} and {PLANS['grey-judge'][1].epochs:g} epochs, batches of {ClassifierPlan.batch}",
        f"{FaderPlan.steps:,} steps of {FaderPlan.batch} faces",
    ):
        assert stated in TEXT
