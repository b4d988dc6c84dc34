"""A program that answers lines with lines: started, given a time to answer, stopped with everything it started.

What the lines mean is its adapter's business. No shell is involved.
"""

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

LONGEST_LINE = 4_000_000  # bytes
_STDERR_KEPT = 4_000  # bytes
_PIECE = 65_536


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
        # A session of its own, so that what it starts is stopped with it and Ctrl-C reaches this program first.
        self._process = subprocess.Popen(  # noqa: S603 -- the words are the user's own, and no shell reads them
            words,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._in, self._out, self._err = (
            pipe.fileno() for pipe in (self._process.stdin, self._process.stdout, self._process.stderr) if pipe
        )
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._unread = bytearray()
        self._stderr = bytearray()
        self._stopped = False

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
        to_write = memoryview(lines)
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_WRITE)
            selector.register(self._out, selectors.EVENT_READ)
            selector.register(self._err, selectors.EVENT_READ)
            while not self._lines_until(enough):
                if (left := until - monotonic()) <= 0:
                    self.stop(grace=0)
                    raise ProgramError(f"gave no answer within {seconds:g} s{self._last_words()}")
                for key, _ in selector.select(left):
                    if key.fd == self._in:
                        to_write = to_write[self._write(to_write) :]
                        if not to_write:
                            selector.unregister(self._in)
                    elif key.fd == self._err:
                        if not self._read_stderr():
                            selector.unregister(self._err)
                    elif not self._read_stdout():
                        self._ended(enough)
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
        self._read_stderr()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    def _lines_until(self, enough: Callable[[bytes], bool]) -> bool:
        while (end := self._unread.find(b"\n")) >= 0:
            line = bytes(self._unread[:end]).rstrip(b"\r")
            del self._unread[: end + 1]
            if enough(line):
                return True
        if len(self._unread) > LONGEST_LINE:
            self.stop(grace=0)
            raise ProgramError(f"wrote a line longer than {LONGEST_LINE} bytes")
        return False

    def _ended(self, enough: Callable[[bytes], bool]) -> None:
        """It closed its output: the last line may have no end, and may yet be enough."""
        self._unread += b"\n"
        if self._lines_until(enough):
            return
        self.stop(grace=0.2)
        code = self._process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise ProgramEndedError(f"{how}{self._last_words()}")

    def _write(self, content: memoryview) -> int:
        try:
            return os.write(self._in, content[:_PIECE])
        except BlockingIOError:
            return 0
        except OSError:  # it reads no more; its last words, or its end, are seen on its output
            return len(content)

    def _read_stdout(self) -> bool:
        piece = os.read(self._out, _PIECE)
        self._unread += piece
        return bool(piece)

    def _read_stderr(self) -> bool:
        """Read all there is; false at its end."""
        with suppress(BlockingIOError):
            while piece := os.read(self._err, _PIECE):
                self._stderr += piece
                del self._stderr[:-_STDERR_KEPT]
            return False
        return True

    def _last_words(self) -> str:
        """The end of what it wrote to standard error, as the end of a sentence; it has been stopped before."""
        text = bytes(self._stderr).decode(errors="replace").strip()
        return f"; it wrote: {text[-500:]}" if text else ""
