"""Removal of credentials from everything that is stored or shown: answers, failures and messages."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from adapters.base import NoAnswer, RawAnswer
from adapters.credentials import encoded_forms, sounds_secret, words_of

# Words in the names of variables that adapters read but that are not secret. Their values are common in other text.
_PLACES = frozenset(("region", "endpoint", "profile", "url", "base", "host", "project", "org", "organization"))
_FOLDERS = frozenset(("PWD", "OLDPWD"))  # the shell's working directories, not passwords
_SHORTEST = 6  # characters; shorter values are common in other text
_IN_QUERY = re.compile(r"([?&;]([\w.-]+)=)(?!\*\*\*|\[)[^\s&;#'\"<>()\[\]]+")
_BEFORE_HOST = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/-]{12,}=*", re.IGNORECASE)


def environment_redactor(names: Collection[str] = ()) -> "Redactor":
    """Return a redactor of the variables ``names`` and of all variables whose names sound like credentials."""
    return Redactor([*names, *(name for name in os.environ if sounds_secret(name) and name not in _FOLDERS)])


class Redactor:
    """Replaces the values of environment variables by their names, and masks credentials in addresses and headers.

    Args:
        names: the environment variables that hold credentials. Those that name a place, such as a region, are ignored.
        environment: the variables; default: those of the process.
    """

    def __init__(self, names: Collection[str], environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        values = {
            variables[name].strip(): name for name in names if name in variables and _PLACES.isdisjoint(words_of(name))
        }
        self._names = {
            form: name for value, name in values.items() if len(value) >= _SHORTEST for form in encoded_forms(value)
        }
        alternatives = "|".join(re.escape(form) for form in sorted(self._names, key=len, reverse=True))
        self._pattern = re.compile(alternatives) if alternatives else None
        self._bytes = re.compile(alternatives.encode()) if alternatives else None

    def text(self, text: str) -> str:
        """Return the text with credentials replaced."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: f"[{self._names[found[0]]}]", text)
        text = _IN_QUERY.sub(lambda found: f"{found[1]}***" if sounds_secret(found[2]) else found[0], text)
        return _BEFORE_HOST.sub(r"\1***@", _BEARER.sub(r"\1 ***", text))

    def answer(self, answer: RawAnswer) -> RawAnswer:
        """Return the answer with credentials replaced in its headers and the variables' values in its body."""
        headers = {name: self.text(value) for name, value in answer.headers.items()}
        body = answer.body
        if self._bytes is not None:
            body = self._bytes.sub(lambda found: f"[{self._names[found[0].decode()]}]".encode(), body)
        return replace(answer, body=body, headers=headers)

    def failure(self, failure: NoAnswer) -> NoAnswer:
        """Return the failure with credentials replaced in its reason and reply."""
        reply = None if failure.reply is None else self.answer(failure.reply)
        return replace(failure, reason=self.text(failure.reason), reply=reply)

    def outcome(self, outcome: RawAnswer | NoAnswer) -> RawAnswer | NoAnswer:
        """Return the answer or failure with credentials replaced."""
        return self.failure(outcome) if isinstance(outcome, NoAnswer) else self.answer(outcome)
