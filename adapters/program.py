"""A program that answers lines with lines: started, given a time to answer, stopped with everything it started.

What the lines mean is its adapter's business. No shell is involved.
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
_WAITING_LINES = 64  # read ahead at most: a program that floods its output waits
_STDERR_KEPT = 4_000  # bytes


class ProgramError(Exception):
    """The program ended, was too slow, or wrote too much; it has been stopped."""


class ProgramEndedError(ProgramError):
    """The program ended by itself."""


class Program:
    """One running program. Not for several threads at once.

    Args:
        words: the program and its arguments.
        folder: where it runs.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, words: Sequence[str], *, folder: Path) -> None:
        pipe = subprocess.PIPE
        # A session of its own, so that what it starts is stopped with it and Ctrl-C reaches this program first.
        self._process = subprocess.Popen(  # noqa: S603 -- the words are the user's own, and no shell reads them
            words, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        self._lines: Queue[bytes | None] = Queue(_WAITING_LINES)  # None: its output ended
        self._errors = b""
        self._stopped = False
        self._readers = [Thread(target=work, daemon=True) for work in (self._read_lines, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def exchange(self, lines: bytes, enough: Callable[[bytes], bool], *, seconds: float) -> None:
        """Write lines, and read its lines until one is enough.

        Args:
            lines: what is written, with line ends.
            enough: called with each line it writes, without its end; true when no further one is waited for.
            seconds: how long this may take.

        Raises:
            ProgramError: see there.
        """
        until = monotonic() + seconds
        Thread(target=self._write, args=(lines,), daemon=True).start()  # it may write before it has read them all
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
        """It runs no more."""
        return self._process.poll() is not None

    def end_input(self) -> None:
        """Close its input, at which it should end by itself."""
        if self._process.stdin:
            self._process.stdin.close()

    def stop(self, *, grace: float = 2.0) -> None:
        """End it: its input is closed; what has not ended within ``grace`` seconds is killed. May be called again."""
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
        with suppress(OSError, ValueError):  # it reads no more; its last words, or its end, are seen on its output
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
        """The end of what it wrote to standard error, as the end of a sentence; it has been stopped before."""
        text = self._errors.decode(errors="replace").strip()
        return f"; it wrote: {text[-500:]}" if text else ""
