"""Keeping credentials out of everything that is written or shown.

Adapters read them from the environment; here they are refused anywhere else, and taken out of texts that came back.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from adapters.base import NoAnswer, RawAnswer
from adapters.credentials import forms

_WORDS = frozenset(
    (
        *("key", "apikey", "secret", "token", "password", "passwd", "passphrase", "credential", "credentials"),
        *("auth", "authorization", "bearer", "pat", "signature", "cookie"),
    )
)
# An option that names a variable, a file or a place in an answer, not the secret itself.
_NAMES_OF_THINGS = frozenset(("env", "variable", "variables", "var", "vars", "file", "path", "field", "name", "from"))
_SHAPES = re.compile(
    r"^(bearer|basic|key|apikey|token)\s+\S{8,}$|^sk-[\w-]{16,}$|^(AKIA|ASIA)[A-Z0-9]{16}$|^AIza[\w-]{30,}$"
    r"|^-----BEGIN [A-Z ]*PRIVATE KEY",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{?\w+|\{(env:)?\w+\}|^env:\w+|^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$", re.ASCII)
# What adapters read beside credentials; found everywhere in innocent text.
_PLACES = frozenset(("region", "endpoint", "profile", "url", "base", "host", "project", "org", "organization"))
_SHORTEST = 6  # characters; anything shorter would be found in innocent text


def sounds_secret(name: str) -> bool:
    """A name of an option, a header or a variable that promises a credential: ``api_key``, ``Authorization``."""
    words = _words(name)
    return not _WORDS.isdisjoint(words) and _NAMES_OF_THINGS.isdisjoint(words)


def planted_secret(options: Mapping[str, Any]) -> str | None:
    """The name of the first option whose value looks like a credential; None where there is none.

    A reference to an environment variable, such as ``${MY_TOKEN}`` or ``MY_TOKEN``, is none.
    """
    for name, value in _leaves(options):
        if isinstance(value, str) and value.strip() and not _REFERENCE.search(value):
            last = name.rpartition(".")[2]
            if sounds_secret(last) or _SHAPES.match(value.strip()):
                return name
    return None


class Redactor:
    """Puts the name of a variable in the place of its value.

    Args:
        names: the environment variables that hold credentials; those that name a place, such as a region, do not count.
        environment: the process's unless given.
    """

    def __init__(self, names: Collection[str], environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        values = {
            variables[name].strip(): name for name in names if name in variables and _PLACES.isdisjoint(_words(name))
        }
        names_of = {form: name for value, name in values.items() if len(value) >= _SHORTEST for form in forms(value)}
        self._names = names_of
        longest_first = sorted(names_of, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if names_of else None
        self._bytes = re.compile(b"|".join(re.escape(form.encode()) for form in longest_first)) if names_of else None

    def text(self, text: str) -> str:
        """The text without any of the values."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[{self._names[found[0]]}]", text)

    def answer(self, answer: RawAnswer) -> RawAnswer:
        """An answer without any of the values; as it is where they do not occur."""
        if self._pattern is None:
            return answer
        headers = {name: self.text(value) for name, value in answer.headers.items()}
        return replace(answer, body=self._body(answer.body), headers=headers)

    def failure(self, failure: NoAnswer) -> NoAnswer:
        """A failure without any of the values, also in the reply that came with it."""
        if self._pattern is None:
            return failure
        reply = None if failure.reply is None else self.answer(failure.reply)
        return replace(failure, reason=self.text(failure.reason), reply=reply)

    def outcome(self, outcome: RawAnswer | NoAnswer) -> RawAnswer | NoAnswer:
        """An answer or a failure without any of the values."""
        return self.failure(outcome) if isinstance(outcome, NoAnswer) else self.answer(outcome)

    def _body(self, body: bytes) -> bytes:
        if self._bytes is None:
            return body
        return self._bytes.sub(lambda found: f"[{self._names[found[0].decode()]}]".encode(), body)


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value
