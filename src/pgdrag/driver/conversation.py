"""How does pgdrag talk with the load driver's process?

Every wait is bounded, and whatever happens, the process has ended when the conversation has.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pgdrag.driver.contract import (
    CONTRACT,
    DoneLine,
    ErrorLine,
    HelloLine,
    Line,
    breach,
    measurement_of,
    parse_line,
)
from pgdrag.errors import DriverError
from pgdrag.host.confinement import mark
from pgdrag.host.guardian import guarded_session
from pgdrag.host.server_user import ServerUser
from pgdrag.host.spawn import clean_environment, spawn

# The longest have what a script sends, with values.
LARGEST_LINE_BYTES = 16 * 2**20
# How long the driver waits for work that it has cancelled.
GRACE_S = 5.0
# After its grace the driver gives threads that do not end this long, and then ends without them.
THREADS_GIVEN_UP_S = 10.0
# How much of its last output is shown.
_LAST_BYTES = 2000
# So a driver that was asked to end has ended, whatever its threads do.
CANCELLED_S = GRACE_S + THREADS_GIVEN_UP_S + 1.0

L = TypeVar("L", bound=Line)
Listener = Callable[[Line], None]


def ignore(line: Line) -> None:
    """Listen to a driver without caring what it says."""


def error_of(line: ErrorLine) -> DriverError:
    """Return what a driver says that could not do its job."""
    where = f"The load driver was in its phase {line.phase}." if line.phase else None
    return DriverError(line.message, sqlstate=line.sqlstate, phase=line.phase, detail=where)


@dataclass(frozen=True)
class Confined:
    """Where a program that an experiment names is confined.

    Attributes:
        cluster: the data directory of the throw-away cluster with which it ends.
        user: the user that runs it; None: the user of pgdrag.
    """

    cluster: Path
    user: ServerUser | None


@contextlib.contextmanager
def conversation(
    command: Sequence[str | Path],
    job: Mapping[str, Any],
    listen: Listener,
    *,
    cancelled_s: float | None = None,
    confined: Confined | None = None,
    starts_programs: bool = False,
) -> Iterator[Conversation]:
    """Start the driver and send it its job; leaving the block before the end stops it.

    Args:
        command: runs the driver, here or elsewhere, with the ends of the conversation as its standard streams; one
            that is confined is a binary.
        confined: where the driver, and what it starts, is a client of a throw-away cluster and nothing more.
        starts_programs: have these ended, too, if this process dies.
        cancelled_s: how long it may take then to cancel what runs on the server; by default what it needs
            to count what it had done.

    Raises:
        DriverError: the driver cannot be executed.
    """
    with (
        _process(command, confined) as (process, last_words),
        guarded_session(process.pid, confined.user if confined else None)
        if starts_programs
        else contextlib.nullcontext(),
    ):
        talk = Conversation(process, last_words, listen)
        try:
            talk.say(job)
            yield talk
        except BaseException:
            # The driver cancels its statements, then ends.
            process.terminate()
            talk.drain(CANCELLED_S if cancelled_s is None else cancelled_s)
            if cancelled_s is not None:
                process.kill()
            raise


class Conversation:
    """What is said to a driver's process, and what it answers; every wait is bounded."""

    def __init__(
        self, process: subprocess.Popen[bytes], last_words: _LastWords, listen: Listener
    ) -> None:
        assert process.stdout is not None
        self._process = process
        self._last_words = last_words
        self._listen = listen
        self._pipe = process.stdout
        self._held = b""
        self._has_greeted = False
        # By the monotonic clock: when what was read last had come.
        self.heard_s = time.monotonic()

    @property
    def pid(self) -> int:
        """The driver's process."""
        return self._process.pid

    def say(self, line: Mapping[str, Any]) -> None:
        """Write a line to the driver."""
        assert self._process.stdin is not None
        # A driver that has died already says why on its standard error.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()

    def until(self, kind: type[L], timeout_s: float, note: Listener = ignore) -> L:
        """Return the next line of a kind; the lines before it go to the listeners.

        Raises:
            DriverError: the driver ended before it, with its own error or without a word, broke
                the contract, or took longer than `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                line = self.next_line(deadline)
                note(line)
                self._listen(line)
                if isinstance(line, kind):
                    return line
                if isinstance(line, ErrorLine):
                    raise error_of(line)
                if isinstance(line, DoneLine):
                    # Before the window was asked for: `measurement_of` says why, if it was stopped.
                    measurement_of(line, ())
                    raise breach("it was done before it was asked to measure")
        except TimeoutError:
            raise DriverError(f"load driver did not end within {timeout_s:.0f} s") from None

    def next_line(self, deadline: float) -> Line:
        """Return the next line.

        Args:
            deadline: by the monotonic clock.

        Raises:
            TimeoutError: it is too late for one.
            DriverError: the driver ended without a last word, or broke the contract.
        """
        if (text := self._line(deadline)) is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1)
            raise DriverError(
                f"load driver ended without a result, exit status {self._process.poll()}",
                detail=self._last_words.text() or "It wrote nothing to its standard error.",
            )
        line = parse_line(text)
        if not self._has_greeted and not isinstance(line, HelloLine | ErrorLine):
            raise breach(f"its first line is of type {line.type}")
        if isinstance(line, HelloLine) and line.contract != CONTRACT:
            raise breach(f"it speaks version {line.contract}, not {CONTRACT}")
        self._has_greeted = True
        return line

    def end(self) -> None:
        """Ask the driver to cancel what it has begun, and to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End the driver, whatever its state."""
        self._process.kill()

    def drain(self, timeout_s: float) -> None:
        """Wait for the end of what the driver says, so that it is not kept from saying it."""
        deadline = time.monotonic() + timeout_s
        # An interruption may have closed the pipe before.
        with contextlib.suppress(TimeoutError, DriverError):
            while not self._pipe.closed and self._line(deadline) is not None:
                pass

    def _line(self, deadline: float) -> bytes | None:
        """Return the next line; None at end of file.

        Raises:
            TimeoutError: it is too late for one.
            DriverError: it has no end.
        """
        waiting = select.poll()
        waiting.register(self._pipe, select.POLLIN)
        while b"\n" not in self._held:
            left_s = deadline - time.monotonic()
            # A driver that talks without end is late as well.
            if left_s < 0 or not waiting.poll(left_s * 1000):
                raise TimeoutError
            chunk = os.read(self._pipe.fileno(), 1 << 16)
            self.heard_s = time.monotonic()
            if not chunk:
                return None
            self._held += chunk
            if len(self._held) > LARGEST_LINE_BYTES and b"\n" not in chunk:
                raise breach(f"it wrote a line of more than {LARGEST_LINE_BYTES >> 20} MB")
        line, _, self._held = self._held.partition(b"\n")
        return line


class _LastWords:
    """The end of what a process writes on its standard error, which is read meanwhile: it fills no disk or memory.

    A script's commands write there, too, and those that outlive the driver keep it open.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._pipe = process.stderr
        self._end = b""
        self._left, self._leave = os.pipe()
        self._thread = threading.Thread(target=self._read, name="pgdrag-last-words", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, even if a process that outlives the driver keeps the pipe open."""
        os.write(self._leave, b"!")
        self._thread.join()
        self._pipe.close()
        os.close(self._left)
        os.close(self._leave)

    def text(self) -> str:
        """Return the end of what it wrote, once it has ended."""
        self._thread.join(timeout=1)
        return self._end[-_LAST_BYTES:].decode(errors="replace").strip()

    def _read(self) -> None:
        waiting = select.poll()
        waiting.register(self._pipe, select.POLLIN)
        waiting.register(self._left, select.POLLIN)
        while self._left not in dict(waiting.poll()):
            chunk = os.read(self._pipe.fileno(), 1 << 16)
            if not chunk:
                return
            self._end = (self._end + chunk)[-_LAST_BYTES:]


@contextlib.contextmanager
def _process(
    command: Sequence[str | Path], confined: Confined | None
) -> Iterator[tuple[subprocess.Popen[bytes], _LastWords]]:
    """Run the driver in a session of its own, so that Ctrl-C reaches pgdrag alone; end it."""
    try:
        process = (
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            if confined is None
            else _confined_process(Path(command[0]), confined)
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DriverError(f'could not execute load driver "{command[0]}": {reason}') from error
    last_words = _LastWords(process)
    try:
        yield process, last_words
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        for wait_s, number in ((1.0, signal.SIGTERM), (CANCELLED_S, signal.SIGKILL)):
            try:
                process.wait(timeout=wait_s)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(number)
        process.wait(timeout=10)
        last_words.close()


def _confined_process(binary: Path, confined: Confined) -> subprocess.Popen[bytes]:
    # Opened as this user: that of the cluster may not go where pgdrag is installed.
    program = os.open(binary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return spawn(
            [f"/proc/self/fd/{program}"],
            user=confined.user,
            cwd=Path("/"),
            death_signal=signal.SIGKILL,
            output=subprocess.PIPE,
            stdin=subprocess.PIPE,
            errors=subprocess.PIPE,
            environment={**clean_environment(), **mark(confined.cluster)},
            pass_fds=(program,),
        )
    finally:
        os.close(program)
