"""Generate docs/cli.md, the reference of all commands, from their help texts; independent of the terminal.

python scripts/docs.py            # write the page
python scripts/docs.py --check    # exit code 1 if the page is out of date
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from pipeline.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """\
# The command line

Generated from `--help` by `scripts/docs.py`; do not edit. Setting options in a file or by the environment is described
in the [README](../README.md), the Python API in [python.md](python.md).

Exit codes: 0 done; 2 an error, whose message says what to do; 3 the validity card fails and `--strict` was given;
4 a classifier labelled less than 95 % of the versions; 130 stopped by Ctrl-C. The same command again continues where it
stopped.
"""


def page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for name, command in commands():
        context = command.make_context(name, [], resilient_parsing=True)
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        parts += [f"## {name}\n", _prose(command.help or ""), f"```\n{usage}\n```\n"]
        for kind in ("argument", "option"):
            records = [param.get_help_record(context) for param in command.params if param.param_type_name == kind]
            lines = [f"| `{_code(shown)}` | {_cell(meaning)} |" for shown, meaning in filter(None, records)]
            if lines:
                parts.append("\n".join([f"| {kind} | |", "| --- | --- |", *lines]) + "\n")
        parts += _examples(command.epilog or "")
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every executable command with its full name."""
    yield from _commands(typer.main.get_command(app), "counterslope")


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    subcommands = getattr(command, "commands", {})
    if not subcommands or command.invoke_without_command:
        yield name, command
    for part, subcommand in subcommands.items():
        yield from _commands(subcommand, f"{name} {part}")


def _examples(epilog: str) -> list[str]:
    """Format the epilog's examples as a console block; a trailing text in brackets becomes a comment."""
    examples = examples_of(epilog)
    lines = [f"{command}{f'    # {comment}' if comment else ''}" for command, comment in examples]
    return ["```console\n" + "\n".join(f"$ {line}" for line in lines) + "\n```\n"] if lines else []


def examples_of(epilog: str) -> list[tuple[str, str]]:
    """Split ``Examples: counterslope a (b) · counterslope c`` into commands and comments."""
    body = re.sub(r"^Examples?:\s*", "", epilog)
    found = (re.fullmatch(r"(.*?)(?:\s+\((.*)\))?", part.strip()) for part in body.split(" · ") if part.strip())
    return [(match[1], match[2] or "") for match in found if match]


def _prose(text: str) -> str:
    """Join each paragraph of a help text into one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")) + "\n"


def _code(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _cell(text: str) -> str:
    return _code(text).replace("<", r"\<")


def main() -> None:
    """Write the page, or check that it is up to date."""
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE.name} is out of date: run {__file__}")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
