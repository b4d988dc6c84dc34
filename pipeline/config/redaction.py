"""Keeping credentials out of everything that is written or shown.

Adapters read them from the environment; here they are refused anywhere else, and taken out of texts that came back.
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from adapters.base import NoAnswer, RawAnswer
from adapters.credentials import encoded_forms, planted_secret, sounds_secret, words_of

__all__ = ["Redactor", "planted_secret", "sounds_secret"]

# What adapters read next to credentials; found everywhere in innocent text.
_PLACES = frozenset(("region", "endpoint", "profile", "url", "base", "host", "project", "org", "organization"))
_FOLDERS = frozenset(("PWD", "OLDPWD"))  # where a shell is; they only sound like passwords
_SHORTEST = 6  # characters; anything shorter would be found in innocent text
_IN_QUERY = re.compile(r"([?&;]([\w.-]+)=)(?!\*\*\*|\[)[^\s&;#'\"<>()\[\]]+")
_BEFORE_HOST = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/-]{12,}=*", re.IGNORECASE)


def environment_redactor(names: Collection[str] = ()) -> "Redactor":
    """Takes out the values of ``names`` and of all variables that sound like credentials."""
    return Redactor([*names, *(name for name in os.environ if sounds_secret(name) and name not in _FOLDERS)])


class Redactor:
    """Puts the name of a variable in the place of its value, and hides what stands where addresses hold credentials.

    Args:
        names: the environment variables that hold credentials; those that name a place, such as a region, do not count.
        environment: the process's unless given.
    """

    def __init__(self, names: Collection[str], environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        values = {
            variables[name].strip(): name for name in names if name in variables and _PLACES.isdisjoint(words_of(name))
        }
        names_of = {
            form: name for value, name in values.items() if len(value) >= _SHORTEST for form in encoded_forms(value)
        }
        self._names = names_of
        longest_first = sorted(names_of, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if names_of else None
        self._bytes = re.compile(b"|".join(re.escape(form.encode()) for form in longest_first)) if names_of else None

    def text(self, text: str) -> str:
        """The text without any of the values, and without what is written where addresses hold credentials."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: f"[{self._names[found[0]]}]", text)
        text = _IN_QUERY.sub(lambda found: f"{found[1]}***" if sounds_secret(found[2]) else found[0], text)
        return _BEFORE_HOST.sub(r"\1***@", _BEARER.sub(r"\1 ***", text))

    def answer(self, answer: RawAnswer) -> RawAnswer:
        """An answer without any of the values; its body stays as it is where they do not occur."""
        headers = {name: self.text(value) for name, value in answer.headers.items()}
        return replace(answer, body=self._body(answer.body), headers=headers)

    def failure(self, failure: NoAnswer) -> NoAnswer:
        """A failure without any of the values, also in the reply that came with it."""
        reply = None if failure.reply is None else self.answer(failure.reply)
        return replace(failure, reason=self.text(failure.reason), reply=reply)

    def outcome(self, outcome: RawAnswer | NoAnswer) -> RawAnswer | NoAnswer:
        """An answer or a failure without any of the values."""
        return self.failure(outcome) if isinstance(outcome, NoAnswer) else self.answer(outcome)

    def _body(self, body: bytes) -> bytes:
        if self._bytes is None:
            return body
        return self._bytes.sub(lambda found: f"[{self._names[found[0].decode()]}]".encode(), body)
