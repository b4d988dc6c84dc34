"""A subprocess that answers lines with lines, with a time limit; it is stopped together with all its child processes.

The format of the lines is up to the adapter. No shell is involved.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic

LONGEST_LINE = 4_000_000  # bytes
_WAITING_LINES = 64  # maximum read ahead: a program that floods its output is blocked
_STDERR_KEPT = 4_000  # bytes


class ProgramError(Exception):
    """The program ended, was too slow, or wrote too much; it has been stopped."""


class ProgramEndedError(ProgramError):
    """The program ended by itself."""


class Program:
    """One running program. Not thread-safe.

    Args:
        words: the program and its arguments.
        folder: the working directory.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, words: Sequence[str], *, folder: Path) -> None:
        pipe = subprocess.PIPE
        # A new session, so that its children are stopped with it and Ctrl-C reaches this program first.
        self._process = subprocess.Popen(  # noqa: S603 -- the words are the user's own, and no shell reads them
            words, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        self._lines: Queue[bytes | None] = Queue(_WAITING_LINES)  # None: end of its output
        self._errors = b""
        self._stopped = False
        self._readers = [Thread(target=target, daemon=True) for target in (self._read_lines, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def exchange(self, lines: bytes, enough: Callable[[bytes], bool], *, seconds: float) -> None:
        """Write lines to the program and read its output until ``enough`` is true.

        Args:
            lines: the input, with line ends.
            enough: called with each line of the output without its line end; true ends the exchange.
            seconds: time limit of the exchange.

        Raises:
            ProgramError: the program ended, was too slow, or wrote too much; it has been stopped.
        """
        until = monotonic() + seconds
        Thread(target=self._write, args=(lines,), daemon=True).start()  # it may write before it has read everything
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - monotonic()))
            except Empty:
                self.stop(grace=0)
                raise ProgramError(f"gave no answer within {seconds:g} s{self._last_words()}") from None
            if line is None:
                self.stop(grace=0.2)
                code = self._process.returncode
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                raise ProgramEndedError(f"{how}{self._last_words()}")
            if len(line) > LONGEST_LINE + 1:
                self.stop(grace=0)
                raise ProgramError(f"wrote a line longer than {LONGEST_LINE} bytes")
            if enough(line.rstrip(b"\r\n")):
                return

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        return self._process.poll() is not None

    def end_input(self) -> None:
        """Close the program's input, upon which it should end by itself."""
        if self._process.stdin:
            self._process.stdin.close()

    def stop(self, *, grace: float = 2.0) -> None:
        """Close the program's input and kill whatever has not ended after ``grace`` seconds. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        self.end_input()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        # The whole session: a wrapper such as `conda run` leaves the program itself behind when it ends.
        for sent in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, sent)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2 if sent == signal.SIGTERM else 5)
        until = monotonic() + 1
        while any(reader.is_alive() for reader in self._readers) and monotonic() < until:
            with suppress(Empty):
                self._lines.get(timeout=0.01)

    def _write(self, lines: bytes) -> None:
        left = memoryview(lines)
        with suppress(OSError, ValueError):  # it no longer reads; the readers notice why
            while left and self._process.stdin:
                left = left[self._process.stdin.write(left) :]

    def _read_lines(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 -- it is a pipe
        with BufferedReader(self._process.stdout) as output:  # type: ignore[type-var]  # unbuffered, so raw
            while line := output.readline(LONGEST_LINE + 2):
                self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 -- it is a pipe
        with self._process.stderr as output:
            while piece := output.read(65_536):
                self._errors = (self._errors + piece)[-_STDERR_KEPT:]

    def _last_words(self) -> str:
        """Return the end of the stopped program's standard error as a clause that ends a sentence."""
        text = self._errors.decode(errors="replace").strip()
        return f"; it wrote: {text[-500:]}" if text else ""
