"""Which functions did the server's processors run? An on-CPU profile with perf, where it is asked for.

perf follows the server's processes and those that they start, and nothing else, ninety-nine times a
second of each processor that they use. It keeps the top of the user stack with each sample, so that stacks
are whole although PostgreSQL is built without frame pointers; they are unwound after the window. perf
lists a stack from the innermost frame out, and with everything from the program's entry on; here stacks
go from the outside in, and begin where the server's processes begin to differ.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt, known
from pgdrag.collectors import _proc as proc
from pgdrag.collectors._metric import NO_READING
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import Recordings, Stack
from pgdrag.servers.processes import CLIENT_BACKEND

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

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# What says why in the recordings that the profile is not all that it could be.
WITHOUT_KERNEL = "profile of the kernel"
CUT_SHORT = "profile to the end"

FIELDS = "pid,time,ip,sym,dso"  # of each sample, for `perf script -F`
MOST_STACKS = 2_000
REST = "…"  # stands for the stacks that are not kept
# As stackcollapse-perf marks the kernel's functions.
KERNEL = "_[k]"

_HEAD = re.compile(r"^\s*(\d+)\s+(\d+\.\d+):\s*$")
# A path may end with " (deleted)"; a function's name may hold anything.
_FRAME = re.compile(r"^\s*([0-9a-f]+) (.*) \(([^()]*(?: \(deleted\))?)\)$")
# What compilers add to the name of a function's copy or part.
_COPY = re.compile(r"\.(?:isra|part|constprop|cold|lto_priv|llvm)\b.*$")
_UNKNOWN = "[unknown]"
_NO_FRAME = "f" * 16  # what the unwinder says where it does not know further

# The function in which a process of each type lives, for those that ended before anybody looked.
_MAINS = {
    "PostgresMain": CLIENT_BACKEND,
    "ParallelWorkerMain": "parallel worker",
    "BackgroundWorkerMain": "background worker",
    "StartBackgroundWorker": "background worker",
    "IoWorkerMain": "io worker",
    "CheckpointerMain": "checkpointer",
    "BackgroundWriterMain": "background writer",
    "WalWriterMain": "walwriter",
    "AutoVacLauncherMain": "autovacuum launcher",
    "AutoVacWorkerMain": "autovacuum worker",
    "WalSummarizerMain": "walsummarizer",
    "PgArchiverMain": "archiver",
    "StartupProcessMain": "startup",
    "SysLoggerMain": "logger",
}
_OTHER = "other process"
SAID_NOTHING = "perf failed and did not say why"


class Profile(Collector):
    """Stacks of the server's processes while they are on a processor."""

    name: ClassVar[str] = "profile"
    summary: ClassVar[str] = "functions that the server's processors run (perf); on request"
    needs: ClassVar[str] = "perf and the right to use it"
    is_optional: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "profile_kernel_share", "kernel's share of the server's processor time in the profile", "in kernel", "ratio", "samples",
            detail="{samples:,} samples, {rate} a second of each processor in use.",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        self._types: dict[int, str] = {}
        self._postmaster: int | None = None
        self._recording: _Recording | Unseen = NO_READING
        self._samples: tuple[Sample, ...] | Unseen = self._recording
        self._warnings: dict[str, str] = {}

    def before(self, observer: Observer) -> None:
        self._recording = attempt(lambda: self._begin(observer))

    def sample(self, observer: Observer) -> None:
        """Note which processes there are: a sample says a process's number, not its type."""
        if self._postmaster is not None:
            attempt(lambda: self._note_types(observer))

    def after(self, observer: Observer) -> None:
        self.sample(observer)
        if not isinstance(self._recording, Unseen):
            self._recording.stop()

    def afterwards(self, observer: Observer) -> None:
        """Unwind the stacks, which takes a processor some seconds."""
        self._samples = attempt(lambda: self._read(known(self._recording)))
        if isinstance(self._samples, Unseen) and self._samples.reason == SAID_NOTHING:
            # perf sees only what /proc shows to this process, and is silent about the rest.
            shown = attempt(lambda: proc.children(observer.postmaster()))
            self._samples = shown if isinstance(shown, Unseen) else self._samples

    def amounts(self, window: Window) -> Amounts:
        samples = self._within(window)
        if WITHOUT_KERNEL in self._warnings:
            raise Unseen(self._warnings[WITHOUT_KERNEL])
        in_kernel = sum(bool(one.frames) and one.frames[-1].endswith(KERNEL) for one in samples)
        return {"in kernel": in_kernel, "samples": len(samples), "rate": _rate()}

    def recordings(self, window: Window) -> Recordings:
        samples = attempt(lambda: self._within(window))
        if isinstance(samples, Unseen):
            return Recordings(missing={self.name: samples.reason})
        return Recordings(fold(samples, self._types), missing=self._warnings)

    def _begin(self, observer: Observer) -> _Recording:
        self._postmaster = observer.postmaster()
        # Those that start within the window are followed, since the postmaster forks them.
        pids = {self._postmaster, *self._note_types(observer)} - {observer.backend_pid}
        try:
            return _Recording(pids)
        except OSError as error:  # no file, no pipe, no process
            raise Unseen(f"perf could not be started: {error.strerror}") from error

    def _note_types(self, observer: Observer) -> set[int]:
        """Note what the postmaster's children are, and return them."""
        assert self._postmaster is not None
        self._types[self._postmaster] = "postmaster"
        with observer.seeing():
            children = proc.children(self._postmaster)
            for pid in children - self._types.keys():
                # A child just forked has no title yet.
                if (found := proc.type_of(pid)) is not None:
                    self._types[pid] = found
        return children

    def _read(self, recording: _Recording) -> tuple[Sample, ...]:
        samples = recording.read()
        if recording.cut_short:
            self._warnings[CUT_SHORT] = recording.cut_short
        has_kernel = any(frame.endswith(KERNEL) for one in samples for frame in one.frames)
        level = _paranoid()
        may_see = os.geteuid() == 0 or (level.lstrip("-").isdigit() and int(level) < 2)
        if samples and not has_kernel and not may_see:
            self._warnings[WITHOUT_KERNEL] = (
                f"this user may not profile the kernel: kernel.perf_event_paranoid is {level};"
                " run pgdrag as root, or set it to 1"
            )
        return samples

    def _within(self, window: Window) -> tuple[Sample, ...]:
        begin, end = window.started_unix_s, window.finished_unix_s
        found = tuple(x for x in known(self._samples) if begin <= CLOCK.of_wall(x.unix_s) <= end)
        if not found:
            raise Unseen("no process of the server was seen on a processor")
        return found


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
        orders, self._orders = os.pipe()
        answers, answer = os.pipe()
        command = [
            *(PERF, "record", "--quiet", "--event", "cpu-clock", "--freq", str(_rate())),
            *("--call-graph", f"dwarf,{_STACK_BYTES}", "--clockid", "CLOCK_REALTIME"),
            *("--no-buildid", f"--max-size={MOST_BYTES >> 20}M", "--output", "-"),
            *("--pid", ",".join(map(str, sorted(pids))), "--control", f"fd:{orders},{answer}"),
        ]
        with os.fdopen(answers, "rb", buffering=0) as answering:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=self._data,
                    stderr=self._errors,
                    env=_environment(),
                    pass_fds=(orders, answer),
                    # A Ctrl-C at the terminal is pgdrag's to handle.
                    start_new_session=True,
                )
            except OSError as error:
                os.close(self._orders)
                self._data.close()
                self._errors.close()
                if isinstance(error, FileNotFoundError):
                    raise Unseen(_NOT_INSTALLED) from error
                raise
            finally:
                os.close(orders)
                os.close(answer)
            # Of a session that starts before perf follows the server it knows no programs. It obeys only
            # then, and an order to begin changes nothing. Where it ends instead, `read` says why.
            with suppress(BrokenPipeError):
                os.write(self._orders, b"enable\n")
            readable, _, _ = select.select([answering], [], [], _BEGIN_TIMEOUT_S)
            self._has_begun = bool(readable) and answering.read(16).startswith(b"ack")

    def stop(self) -> None:
        """Tell perf to end, and do not wait for it."""
        size = os.fstat(self._data.fileno()).st_size
        self._is_full = self._process.poll() is not None and size >= MOST_BYTES * 0.99
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        os.close(self._orders)

    def read(self) -> tuple[Sample, ...]:
        """Return what was seen, when it is stopped.

        Raises:
            Unseen: perf may not look, or failed.
        """
        with self._data, self._errors:
            try:
                self._process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._is_full:
                self.cut_short = f"perf had written {MOST_BYTES >> 20} MB, which is the most"
            elif self._process.returncode == -signal.SIGINT and not self._has_begun:
                raise Unseen("perf had not started sampling when the window ended")
            elif self._process.returncode not in (0, -signal.SIGINT):
                raise Unseen(_reason(self._errors))
            return self._unwound()

    def _unwound(self) -> tuple[Sample, ...]:
        """Let perf unwind the stacks, and read them."""
        self._data.seek(0)
        # Looking up inlined functions would take minutes, in a program started for each file.
        command = [PERF, "script", "--input", "-", "--no-inline", "--fields", FIELDS]
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            status = 0
            try:
                status = subprocess.run(
                    command,
                    stdin=self._data,
                    stdout=output,
                    stderr=errors,
                    env=_environment(),
                    start_new_session=True,
                    timeout=READ_TIMEOUT_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                self.cut_short = f"perf took longer than {READ_TIMEOUT_S:.0f} s to unwind stacks"
            output.seek(0)
            samples = tuple(read_samples(line.decode(errors="replace") for line in output))
            if status > 0 and not samples:
                raise Unseen(_reason(errors))
        return samples


_NOT_INSTALLED = (
    "perf is not installed: it is in the package linux-perf (Debian), linux-tools (Ubuntu)"
    " or perf (Fedora, Arch)"
)


def _environment() -> Mapping[str, str]:
    """Nothing that this user has set for perf, no server that has symbols, no files in the home."""
    kept = {name: x for name, x in os.environ.items() if not name.startswith("DEBUGINFOD")}
    return {**kept, "PERF_CONFIG": os.devnull, "HOME": "/nonexistent", "LC_ALL": "C"}


def _reason(file: IO[bytes]) -> str:
    """Return why perf could not look, by what it wrote."""
    file.seek(0)
    errors = file.read(20_000).decode(errors="replace")
    if "perf_event_paranoid" in errors or "ermission" in errors or "not permitted" in errors:
        return (
            f"this user may not profile: kernel.perf_event_paranoid is {_paranoid()};"
            " run pgdrag as root, or set it to 1 (in a container, CAP_PERFMON is needed, too)"
        )
    lines = [
        line.strip() for line in errors.splitlines() if line.strip(": \t") not in ("", "Error")
    ]
    return f"perf failed: {lines[0].rstrip('.')}" if lines else SAID_NOTHING


def _paranoid() -> str:
    try:
        return _PARANOID.read_text().strip()
    except OSError:
        return "not there"


def _rate() -> int:
    return max(1, min(SAMPLES_PER_S, _MOST_PER_S // (os.cpu_count() or 1)))


@dataclass(frozen=True)
class Sample:
    """A process that was seen on a processor.

    Attributes:
        frames: functions from the outermost in; those of the kernel end with `KERNEL`.
    """

    pid: int
    unix_s: float
    frames: tuple[str, ...]


def read_samples(lines: Iterable[str]) -> Iterator[Sample]:
    """Yield the samples that `perf script -F pid,time,ip,sym,dso` prints; lines may come as they are made."""
    head: tuple[int, float] | None = None
    frames: list[str] = []
    for line in lines:
        if begin := _HEAD.match(line):
            if head is not None:
                yield Sample(*head, tuple(reversed(frames)))
            head, frames = (int(begin[1]), float(begin[2])), []
        elif frame := _FRAME.match(line.rstrip("\n")):
            name = _name(*frame.groups())
            # A run of frames without symbols says no more than one of them.
            if name and not (frames and name == frames[-1] and name.startswith("[")):
                frames.append(name)
    if head is not None:
        yield Sample(*head, tuple(reversed(frames)))


def fold(samples: Iterable[Sample], types: Mapping[int, str]) -> tuple[Stack, ...]:
    """Return how often each stack was seen, most often first; their sum is the number of samples.

    Args:
        types: the known types of processes, by process ID; of others the stack tells it.
    """
    counts = Counter(_stack(sample, types) for sample in samples)
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    kept, left = ranked[:MOST_STACKS], ranked[MOST_STACKS:]
    rest: Counter[str] = Counter()
    for frames, count in left:
        rest[frames[0]] += count
    return (
        *(Stack(frames, count) for frames, count in kept),
        *(Stack((kind, REST), count) for kind, count in rest.most_common()),
    )


def _stack(sample: Sample, types: Mapping[int, str]) -> tuple[str, ...]:
    """Return the type of the process, and its frames from where the server's processes begin to differ."""
    frames = sample.frames
    at = next((x for x in reversed(range(len(frames))) if frames[x] in _MAINS), None)
    if at is not None:
        return (types.get(sample.pid, _MAINS[frames[at]]), *frames[at:])
    first = frames.index("main") + 1 if "main" in frames[:-1] else 0
    return (types.get(sample.pid, _OTHER), *frames[first:])


def _name(address: str, symbol: str, program: str) -> str:
    """Return what a frame is called; "" for one that says nothing."""
    is_kernel = len(address) == 16 and address.startswith("ffff") and address != _NO_FRAME
    if symbol != _UNKNOWN:
        name = _COPY.sub("", symbol.partition("@")[0]) or symbol
    elif program == _UNKNOWN:
        name = "[kernel]" if is_kernel else ""
    else:
        file = program.removesuffix(" (deleted)").rpartition("/")[2]
        name = f"[{file.strip('[]')}]"
    return f"{name}{KERNEL}" if name and is_kernel else name
