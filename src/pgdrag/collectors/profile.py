"""Which functions did the server's processors run? An on-CPU profile with perf, where it is asked for.

perf follows the server's processes and those that they start, and nothing else, ninety-nine times a
second of each processor that they use. It keeps the top of the user stack with each sample, so that stacks
are whole although PostgreSQL is built without frame pointers; they are unwound after the window.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window
from pgdrag.collectors import _proc as proc
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors._perf_script import FIELDS, KERNEL, Sample, fold, read_samples
from pgdrag.collectors.counters import attempt
from pgdrag.model.recordings import Recordings

PERF = "perf"
# Not 100: a sampler in step with the server's timers would always see the same.
SAMPLES_PER_S = 99
# Of all processors together, so that profiling does not use up a large machine.
_MOST_PER_S = 400
_STACK_BYTES = 8192
MOST_BYTES = 256 << 20  # about 28,000 samples
_BEGIN_TIMEOUT_S = 5.0
_END_TIMEOUT_S = 20.0
READ_TIMEOUT_S = 120.0

_NO_SAMPLE = Unseen("no process of the server was seen on a processor")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# What says why in the recordings that the profile is not all that it could be.
WITHOUT_KERNEL = "profile of the kernel"
CUT_SHORT = "profile to the end"


class Profile(Collector):
    """Stacks of the server's processes while they are on a processor."""

    name: ClassVar[str] = "profile"
    summary: ClassVar[str] = "functions that the server's processors run (perf); if asked for"
    needs: ClassVar[str] = "perf and the right to use it"
    is_optional: ClassVar[bool] = True
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "profile_kernel_share", "kernel's share of the server's processor time in the profile", "in kernel", "ratio", "samples",
            detail="{samples:,} samples, {rate} a second of each processor in use.",
        ),
    )
    # fmt: on

    def __init__(self) -> None:
        self._types: dict[int, str] = {}
        self._postmaster: int | None = None
        self._recording: _Recording | Unseen = NO_READING
        self._samples: tuple[Sample, ...] | Unseen = self._recording
        self._warnings: dict[str, str] = {}

    def before(self, observer: Observer) -> None:
        """Begin to record."""
        self._recording = attempt(lambda: self._begin(observer))

    def sample(self, observer: Observer) -> None:
        """Note which processes there are: a sample says a process's number, not its type."""
        if self._postmaster is not None:
            with suppress(Unseen):
                self._note_types(self._postmaster)

    def after(self, observer: Observer) -> None:
        """Stop recording."""
        self.sample(observer)
        if not isinstance(self._recording, Unseen):
            self._recording.stop()

    def afterwards(self, observer: Observer) -> None:
        """Unwind the stacks, which takes a processor some seconds."""
        recording = self._recording
        self._samples = (
            recording if isinstance(recording, Unseen) else attempt(lambda: self._read(recording))
        )

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return samples, and those in the kernel."""
        samples = self._within(window)
        if isinstance(samples, Unseen):
            return samples
        if WITHOUT_KERNEL in self._warnings:
            return Unseen(self._warnings[WITHOUT_KERNEL])
        in_kernel = sum(_is_in_kernel(one) for one in samples)
        return {"in kernel": in_kernel, "samples": len(samples), "rate": _rate()}

    def recordings(self, window: Window) -> Recordings:
        """Return the stacks seen within the window."""
        samples = self._within(window)
        if isinstance(samples, Unseen):
            return Recordings(missing={self.name: samples.reason})
        return Recordings(fold(samples, self._types), missing=self._warnings)

    def _begin(self, observer: Observer) -> _Recording:
        postmaster = observer.postmaster()
        self._note_types(postmaster)
        self._postmaster = postmaster
        # Those that start within the window are followed, since the postmaster forks them.
        pids = {postmaster, *proc.children(postmaster)} - {observer.backend_pid}
        try:
            return _Recording(pids)
        except OSError as error:  # no file, no pipe, no process
            raise Unseen(f"perf could not be started: {error.strerror}") from error

    def _read(self, recording: _Recording) -> tuple[Sample, ...]:
        samples = recording.read()
        if recording.cut_short:
            self._warnings[CUT_SHORT] = recording.cut_short
        if samples and not any(map(_has_kernel, samples)) and not _may_see_kernel():
            self._warnings[WITHOUT_KERNEL] = (
                f"this user may not look into the kernel: kernel.perf_event_paranoid is {_paranoid()};"
                " run pgdrag as root, or set it to 1"
            )
        return samples

    def _within(self, window: Window) -> tuple[Sample, ...] | Unseen:
        if isinstance(self._samples, Unseen):
            return self._samples
        begin, end = window.started_unix_s, window.finished_unix_s
        return tuple(x for x in self._samples if begin <= x.unix_s <= end) or _NO_SAMPLE

    def _note_types(self, postmaster: int) -> None:
        self._types[postmaster] = "postmaster"
        for pid in proc.children(postmaster) - self._types.keys():
            with suppress(Unseen):
                known = proc.type_of(pid)
                # A child just forked has no title yet.
                if known is not None:
                    self._types[pid] = known


class _Recording:
    """perf, which runs until it is stopped; its output file has no name, so nothing is left behind.

    It also ends by itself: when all processes that it follows have, as the server does with pgdrag.

    Attributes:
        cut_short: why samples are missing from some moment on, or "".
    """

    def __init__(self, pids: set[int]) -> None:
        """Begin.  Raises Unseen where there is no perf."""
        self.cut_short = ""
        self._is_full = False
        self._data = tempfile.TemporaryFile(prefix="pgdrag-perf-")  # noqa: SIM115 (closed by `read`)
        self._errors = tempfile.TemporaryFile(prefix="pgdrag-perf-")  # noqa: SIM115
        command = [
            *(PERF, "record", "--quiet", "--event", "cpu-clock", "--freq", str(_rate())),
            *("--call-graph", f"dwarf,{_STACK_BYTES}", "--clockid", "CLOCK_REALTIME"),
            *("--no-buildid", f"--max-size={MOST_BYTES >> 20}M", "--output", "-"),
            *("--pid", ",".join(map(str, sorted(pids)))),
        ]
        orders, self._orders = os.pipe()
        answers, answer = os.pipe()
        try:
            self._process = _start(
                [*command, "--control", f"fd:{orders},{answer}"],
                None,
                self._data,
                self._errors,
                inherited=(orders, answer),
            )
        except (Unseen, OSError):
            os.close(self._orders)
            os.close(answers)
            self._close()
            raise
        finally:
            os.close(orders)
            os.close(answer)
        self._has_begun = self._wait_for_begin(answers)

    def stop(self) -> None:
        """Tell perf to end, and do not wait for it."""
        self._is_full = self._process.poll() is not None and _size(self._data) >= MOST_BYTES * 0.99
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        os.close(self._orders)

    def read(self) -> tuple[Sample, ...]:
        """Return what was seen, when it is stopped.

        Raises:
            Unseen: perf may not look, or failed.
        """
        try:
            self._wait_for_end()
            if self._is_full:
                self.cut_short = f"perf had written {MOST_BYTES >> 20} MB, which is the most"
            elif self._process.returncode == -signal.SIGINT and not self._has_begun:
                raise Unseen("perf had not begun to look when the window ended")
            elif self._process.returncode not in (0, -signal.SIGINT):
                raise Unseen(_reason(_text(self._errors)))
            return self._unwound()
        finally:
            self._close()

    def _wait_for_begin(self, answers: int) -> bool:
        """Wait until perf follows the server: of a session that starts earlier it knows no programs.

        It obeys only then, and an order to begin changes nothing. Where it ends instead, `read` says why.
        """
        with open(answers, "rb", buffering=0) as answer:
            with suppress(BrokenPipeError):
                os.write(self._orders, b"enable\n")
            readable, _, _ = select.select([answer], [], [], _BEGIN_TIMEOUT_S)
            return bool(readable) and answer.read(16).startswith(b"ack")

    def _wait_for_end(self) -> None:
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _unwound(self) -> tuple[Sample, ...]:
        """Let perf unwind the stacks, and read them."""
        self._data.seek(0)
        # Looking up inlined functions would take minutes, in a program started for each file.
        command = [PERF, "script", "--input", "-", "--no-inline", "--fields", FIELDS]
        with tempfile.TemporaryFile() as errors:
            process = _start(command, self._data, subprocess.PIPE, errors)
            took_too_long = threading.Event()

            def end() -> None:
                took_too_long.set()
                process.kill()

            timer = threading.Timer(READ_TIMEOUT_S, end)
            timer.start()
            assert process.stdout is not None
            try:
                lines = (line.decode(errors="replace") for line in process.stdout)
                samples = tuple(read_samples(lines))
                status = process.wait()
            finally:
                timer.cancel()
                process.kill()
                process.wait()
                process.stdout.close()
            if took_too_long.is_set():
                self.cut_short = f"perf took longer than {READ_TIMEOUT_S:.0f} s to unwind stacks"
            elif status > 0 and not samples:
                raise Unseen(_reason(_text(errors)))
        return samples

    def _close(self) -> None:
        self._data.close()
        self._errors.close()


def _start(
    command: Sequence[str],
    stdin: IO[bytes] | None,
    stdout: IO[bytes] | int,
    errors: IO[bytes],
    *,
    inherited: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    # Nothing that this user has set for perf, no server that has symbols, no files in the home.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("DEBUGINFOD")
    }
    environment |= {"PERF_CONFIG": os.devnull, "HOME": "/nonexistent", "LC_ALL": "C"}
    try:
        # In a session of its own, since a Ctrl-C at the terminal is pgdrag's to handle.
        return subprocess.Popen(
            command,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=stdout,
            stderr=errors,
            env=environment,
            pass_fds=inherited,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Unseen(
            "perf is not installed: it is in the package linux-perf (Debian), linux-tools (Ubuntu)"
            " or perf (Fedora, Arch)"
        ) from error


def _reason(errors: str) -> str:
    """Return why perf could not look, by what it wrote."""
    if "perf_event_paranoid" in errors or "ermission" in errors or "not permitted" in errors:
        return (
            f"this user may not profile: kernel.perf_event_paranoid is {_paranoid()};"
            " run pgdrag as root, or set it to 1 (in a container, CAP_PERFMON is needed, too)"
        )
    lines = [
        line.strip() for line in errors.splitlines() if line.strip(": \t") not in ("", "Error")
    ]
    return f"perf failed: {lines[0].rstrip('.')}" if lines else "perf failed and did not say why"


def _paranoid() -> str:
    try:
        return _PARANOID.read_text().strip()
    except OSError:
        return "not there"


def _may_see_kernel() -> bool:
    level = _paranoid()
    return os.geteuid() == 0 or (level.lstrip("-").isdigit() and int(level) < 2)


def _rate() -> int:
    return max(1, min(SAMPLES_PER_S, _MOST_PER_S // (os.cpu_count() or 1)))


def _is_in_kernel(sample: Sample) -> bool:
    return bool(sample.frames) and sample.frames[-1].endswith(KERNEL)


def _has_kernel(sample: Sample) -> bool:
    return any(frame.endswith(KERNEL) for frame in sample.frames)


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(20_000).decode(errors="replace")
