"""docs/cli.md is what --help says, and every example in the pages and epilogs is a command that there is."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer

from pipeline.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


@cache
def whole_command():
    return typer.main.get_command(app)


def parse(words):
    """Raises where a command or an option does not exist or a value does not fit; runs nothing."""
    command = whole_command()
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


def test_examples_of_the_epilogs_are_commands(epilog_examples):
    assert len(epilog_examples) >= 15
    for words in epilog_examples:
        parse(words)
