"""docs/cli.md equals the output of --help, and the examples of pages and epilogs are valid commands."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from pipeline.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples_of_page(text):
    """The command lines of a page's console blocks; continued lines are joined."""
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for line in re.findall(r"^\$ ((?:.*\\\n)*.*)", block, flags=re.MULTILINE):
            words = shlex.split(line.replace("\\\n", " "), comments=True)
            while words and re.fullmatch(r"\w+=\S*", words[0]):
                words = words[1:]
            if words and words[0].endswith("scripts/audit"):
                yield ["audit", *words[1:]]
            elif words and words[0].endswith("counterslope"):
                yield words[1:]


COMMAND = typer.main.get_command(app)


def parse(words):
    """Parse a command line without running it; an unknown command or option, or an invalid value, raises."""
    command = COMMAND
    while getattr(command, "commands", {}) and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    with command.make_context("counterslope", list(words), resilient_parsing=False):
        pass


def test_cli_page_is_up_to_date(reference):
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run scripts/docs.py"


def test_cli_page_does_not_depend_on_the_terminal(reference, monkeypatch):
    once = reference.page()
    monkeypatch.setenv("COLUMNS", "31")
    monkeypatch.setenv("TERM", "dumb")
    assert reference.page() == once


def test_readme_names_every_command():
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| command |")[1].split("\n\n")[0]
    named = {words.split()[0] for words in re.findall(r"`([a-z][^`]*)`", table)}
    assert set(COMMAND.commands) <= named


def test_every_command_has_help_and_an_example(reference):
    for name, command in reference.commands():
        assert command.help, name
        assert name.startswith("counterslope adapters") or f"{name} " in f"{command.epilog} ", name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_pages_are_valid_commands(page):
    for words in examples_of_page(page.read_text(encoding="utf-8")):
        parse(words)


def test_examples_of_epilogs_are_valid_commands(epilog_examples):
    assert len(epilog_examples) >= 15
    for words in epilog_examples:
        parse(words)
