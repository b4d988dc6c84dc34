"""Any local program as a classifier, run as a separate process that exchanges lines of JSON."""

import json
import shlex
import shutil
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any
from weakref import finalize

from pydantic import Field

from adapters.answers import LabelAnswers
from adapters.base import AdapterError, Capabilities, NoAnswer, RawAnswer
from adapters.local.files import digest_of
from adapters.options import AdapterOptions, Presence
from adapters.program import Program, ProgramEndedError, ProgramError


class _ProtocolError(Exception):
    """The program wrote a ``line`` that is not an answer to one of its images."""

    def __init__(self, reason: str, line: bytes) -> None:
        super().__init__(reason)
        self.line = line


class Command(LabelAnswers):
    """Your own local program: command:./classify, which exchanges lines of JSON.

    The program reads lines ``{"id": "7", "image": "<base64 of a PNG or JPEG file>"}`` and writes a line for each, in
    any order and flushed: ``{"id": "7", "labels": [["smile", 0.71]]}`` with scores in 0-1, or ``{"id": "7", "error":
    "no face"}``. Lines that do not start with { are ignored. The program is started once for all images and must end
    when its input ends. Its arguments are split as in a shell, but no shell is involved; pass secrets in the
    environment.

    The version is the digest of the files among the arguments (the program, a script, weights), so images are sent
    again after one of them was edited. Give the version of anything else that the program uses as ``version``.
    """

    class Options(AdapterOptions):
        target: str
        """the program's path, or its path and arguments."""
        folder: Path = Path()
        """working directory; default: the current one."""
        version: str = ""
        """version of whatever the program uses; images are sent again when it changes."""
        presence: Presence = 0.5
        processes: int = Field(1, ge=1, le=64)
        """number of processes of the program."""
        batch: int = Field(1, ge=1, le=1024)
        """images sent to a process together."""
        timeout: float = Field(60.0, ge=0.001, le=86_400)
        """seconds per image."""
        start: float = Field(300.0, ge=0, le=86_400)
        """additional seconds for the first image of a process, e.g. to load a network."""
        restarts: int = Field(20, ge=0, le=1_000_000)
        """consecutive failures without an answer that are tolerated (at most 2 before the first answer)."""

    capabilities = Capabilities()

    def __init__(self, options: Options) -> None:
        self.name = f"command:{options.target}"
        self._folder = options.folder.resolve()
        self._words = self._split(options.target)
        self._options = options
        self.capabilities = Capabilities(presence=options.presence, batch=options.batch, concurrency=options.processes)
        self.parameters: Mapping[str, Any] = {"version": options.version}
        self._numbers = count(1)
        self._answered, self._failures, self._lock = False, 0, Lock()
        self._running: list[Program] = []
        self._idle: SimpleQueue[Program | None] = SimpleQueue()
        for _ in range(options.processes):
            self._idle.put(None)
        self._stop = finalize(self, _stop_all, self._running)  # at interpreter exit at the latest

    @cached_property
    def model(self) -> str:
        """The digest of the files among the command's arguments."""
        return f"sha256 {digest_of([Path(self._words[0]), *self._files(self._words[1:])])}"

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Send images to an idle process; a process that ends or hangs is replaced. See ``Adapter.send``."""
        outcomes = self._exchange(images, final=False)
        retried = (
            outcome or self._exchange([image], final=True)[0] for image, outcome in zip(images, outcomes, strict=True)
        )
        return [outcome for outcome in retried if outcome is not None]

    def close(self) -> None:
        """Stop the processes; the next call starts them again."""
        _stop_all(self._running)

    def _exchange(self, images: Sequence[bytes], *, final: bool) -> list[RawAnswer | NoAnswer | None]:
        """Send images to one process; return an outcome or None for each.

        None, never given if ``final``, means that the process failed but the image may not have caused it, and should
        be sent again: it was one of several, or the process had been idle and may have ended by itself.
        """
        numbers = [str(next(self._numbers)) for _ in images]
        answers: dict[str, RawAnswer | NoAnswer] = {}
        program, kept = self._idle.get(), None
        try:
            seconds = self._options.timeout * len(images)
            if fresh := program is None or program not in self._running or program.ended:
                self._drop(program)
                program, seconds = self._started(), seconds + self._options.start
            rows = ({"id": n, "image": b64encode(image).decode()} for n, image in zip(numbers, images, strict=True))
            lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
            program.exchange(lines, partial(_take, answers, numbers), seconds=seconds)
            self._count(answered=True)
            kept = program
        except (ProgramError, _ProtocolError) as error:
            answered = bool(answers)
            blameless = len(images) > 1 or (isinstance(error, ProgramEndedError) and not fresh)
            if final or not blameless:
                reply = RawAnswer(error.line) if isinstance(error, _ProtocolError) else None
                lost = NoAnswer(f"the program {error}", reply=reply)
                answers |= {number: lost for number in numbers if number not in answers}
            self._count(answered=answered, failure=str(error))
        finally:
            if kept is None:
                self._drop(program)
            self._idle.put(kept)
        return [answers.get(number) for number in numbers]

    def _started(self) -> Program:
        try:
            program = Program(self._words, folder=self._folder)
        except OSError as error:
            raise AdapterError(f"{self.name} cannot be started: {error}") from error
        self._running.append(program)
        return program

    def _drop(self, program: Program | None) -> None:
        if program is not None:
            program.stop(grace=0)
            if program in self._running:
                self._running.remove(program)

    def _count(self, *, answered: bool, failure: str | None = None) -> None:
        """Count consecutive failures; AdapterError if there are too many."""
        with self._lock:
            self._answered = self._answered or answered
            self._failures = (0 if answered else self._failures) + (failure is not None)
            allowed = self._options.restarts if self._answered else min(2, self._options.restarts)
            if failure is not None and self._failures > allowed:
                raise AdapterError(
                    f"{self.name} failed {self._failures} times in a row without an answer; the last time, it "
                    f'{failure}. Test it: it must answer the line {{"id": "1", "image": "..."}} with one line of JSON'
                )

    def _split(self, target: str) -> list[str]:
        """Split the command into the path of an executable and its arguments."""
        try:
            words = [target] if _is_file(self._folder / target) else shlex.split(target)
        except ValueError as error:
            raise AdapterError(f"{self.name}: the command cannot be split into words: {error}") from error
        if not words:
            raise AdapterError("command: no program is named: write command:PATH")
        inside = self._folder / words[0]
        found = shutil.which(inside) or (None if "/" in words[0] else shutil.which(words[0]))
        if found is None:
            remedy = "make it executable with chmod +x, or name its interpreter before it"
            remedy = remedy if _is_file(inside) else "check the path"
            raise AdapterError(f"{self.name}: there is no executable program {words[0]!r}: {remedy}")
        return [found, *words[1:]]

    def _files(self, words: Sequence[str]) -> list[Path]:
        """Return the files among the arguments, including --option=FILE."""
        paths = (self._folder / part for word in words for part in dict.fromkeys((word, word.partition("=")[2])))
        return [path for path in paths if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a path: some other argument
        return False


def _take(answers: dict[str, RawAnswer | NoAnswer], numbers: Sequence[str], line: bytes) -> bool:
    """Add the answer in a line of the program; return whether every image has one. Labels are parsed later."""
    if line.lstrip().startswith(b"{"):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _ProtocolError("wrote a line that starts with { and is not JSON", line) from error
        number, answer = content.get("id"), RawAnswer(line)
        if not isinstance(number, str) or number not in numbers or number in answers:
            reason = f"answered {str(number)[:40]!r}, an id that it was not given or had already answered"
            raise _ProtocolError(reason, line)
        reported = f"the program reports: {str(content.get('error'))[:500]}"
        answers[number] = NoAnswer(reported, reply=answer) if "error" in content else answer
    return len(answers) == len(numbers)


def _stop_all(running: list[Program]) -> None:
    for program in running:
        program.end_input()
    while running:
        running.pop().stop()
