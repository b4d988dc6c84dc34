"""docs/cli.md is what --help says, and every example in the pages and epilogs is a command that there is."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from script_modules import load_script
from typer.testing import CliRunner

from pipeline.cli.app import app
from pipeline.review.answers import keep_answer
from pipeline.review.questions import face_questions
from pipeline.run.tables import read_frame

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What cannot be run here: minutes of work, another's service, or files only the reader has.
NOT_RUN = (
    "audit", "generate", "adapters", "labels", "plan portraits/ --adapter google", "compare runs/may --adapters google",
    "review ",  # a page that waits for answers
    "mask photos/",  # annotations that only the reader has
    "collect",  # searches of public services
    "captions", "mask photos/",  # files that only the reader has
    "interactions",  # three sweeps: tests/analyses/test_interactions.py
)  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    return load_script("docs")


def examples_of_page(text):
    """Command lines in blocks of a console, joined where they are broken."""
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for line in re.findall(r"^\$ ((?:.*\\\n)*.*)", block, flags=re.MULTILINE):
            words = shlex.split(line.replace("\\\n", " "), comments=True)
            while words and re.fullmatch(r"\w+=\S*", words[0]):
                words = words[1:]
            if words and words[0].endswith("scripts/audit"):
                yield ["audit", *words[1:]]
            elif words and words[0].endswith("counterslope"):
                yield words[1:]


def epilog_examples(reference):
    for _, command in reference.commands():
        for example, _ in reference.examples_of(command.epilog or ""):
            yield shlex.split(example)[1:]


def parse(words):
    """Raises where a command or an option does not exist or a value does not fit; runs nothing."""
    command = typer.main.get_command(app)
    while getattr(command, "commands", {}) and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    with command.make_context("counterslope", list(words), resilient_parsing=False):
        pass


def test_the_reference_is_what_help_says(reference):
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run scripts/docs.py"


def test_the_reference_does_not_depend_on_the_terminal(reference, monkeypatch):
    once = reference.page()
    monkeypatch.setenv("COLUMNS", "31")
    monkeypatch.setenv("TERM", "dumb")
    assert reference.page() == once


def test_the_readme_names_every_command():
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| command |")[1].split("\n\n")[0]
    named = {words.split()[0] for words in re.findall(r"`([a-z][^`]*)`", table)}
    assert set(typer.main.get_command(app).commands) <= named


def test_every_command_has_help_and_an_example(reference):
    for name, command in reference.commands():
        assert command.help, name
        assert name.startswith("counterslope adapters") or f"{name} " in f"{command.epilog} ", name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_the_pages_are_commands(page):
    for words in examples_of_page(page.read_text(encoding="utf-8")):
        parse(words)


def test_examples_of_the_epilogs_are_commands(reference):
    examples = list(epilog_examples(reference))
    assert len(examples) >= 15
    for words in examples:
        parse(words)


def test_examples_of_the_epilogs_work(reference, at_home):
    runner = CliRunner()
    portraits = at_home / "runs/portraits"
    tables = [read_frame(portraits / f"{name}.parquet") for name in ("photos", "faces")]
    question = face_questions(*tables, unsure=1, sure=0)[0]
    keep_answer(portraits, question, question.choices[0], reviewer="anna")
    for words in epilog_examples(reference):
        if not " ".join(words).startswith(NOT_RUN):
            done = runner.invoke(app, words)
            assert done.exit_code == 0, f"counterslope {' '.join(words)}: {done.output}"
    assert (at_home / "validity.tex").is_file()
    assert list((at_home / "paper").glob("*.svg"))
