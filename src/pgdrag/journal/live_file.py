"""Where does a run leave what happens in it, so that another process can show it while it happens?

In a file of lines beside the journal, which lasts as long as the run. It holds what is going on now and the samples of
the trial under way, no results: the journal has those. A run goes on where it cannot be written.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO, get_args

from pydantic import FiniteFloat, ValidationError

from pgdrag.adapters import adapter_of
from pgdrag.host.clock import CLOCK
from pgdrag.model.events import (
    BlockPlanned,
    Event,
    HostChanged,
    Listener,
    OnHost,
    PhaseStarted,
    Progress,
    Sampled,
    Throughput,
    TimeLeft,
    TrialFinished,
    TrialStarted,
)

# About an hour of one trial; after that the file starts again with the current state.
MOST_BYTES = 4 << 20
_SUFFIX = ".jsonl"


@dataclass(frozen=True)
class TrialsLeft:
    """How many trials a run has at least and at most, by its design."""

    fewest: int
    greatest: int


@dataclass(frozen=True)
class TrialBegan:
    """A trial began, on a host of the fleet, if there is one."""

    number: int
    treatment: str
    replicate: int
    host: str = ""


@dataclass(frozen=True)
class TrialEnded:
    """A trial is in the journal; `so_far`: what the design knows by now, in a few words."""

    number: int
    host: str
    so_far: str


Noted = (
    TrialsLeft
    | TrialBegan
    | TrialEnded
    | TimeLeft
    | PhaseStarted
    | Progress
    | Throughput
    | Sampled
    | OnHost
    | HostChanged
)
_KINDS: dict[str, type[Any]] = {one.__name__: one for one in get_args(Noted)}
# What stays true when the file starts again: the newest of each kind, of each host.
_LASTING = (TrialsLeft, TrialBegan, TrialEnded, TimeLeft, PhaseStarted, OnHost, HostChanged)


def live_path(journal: Path, run_id: str) -> Path:
    """Return the file of a run of a journal."""
    return journal.parent / "live" / f"{run_id}{_SUFFIX}"


@contextmanager
def live_file(path: Path, *, is_over: Callable[[str], bool]) -> Iterator[Listener]:
    """Write what happens to a file until the block has ended.

    Args:
        is_over: tells of the run of another file there whether it has ended; the file then goes.
    """
    writer = _Writer(path)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        for other in path.parent.glob(f"*{_SUFFIX}"):
            if other != path and is_over(other.stem):
                other.unlink(missing_ok=True)
    try:
        yield writer.listen
    finally:
        writer.close()


class _Writer:
    """Appends a line an event, from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept: dict[tuple[type, str], str] = {}
        self._file: TextIO | None = None
        self._bytes = 0
        self._is_closed = False

    def listen(self, event: Event) -> None:
        noted = _noted(event)
        if noted is None:
            return
        fields = adapter_of(type(noted)).dump_python(noted, mode="json")
        kind = type(noted).__name__
        line = json.dumps([round(CLOCK.unix_s(), 3), kind, fields], separators=(",", ":")) + "\n"
        with self._lock, suppress(OSError):
            host = str(getattr(noted, "host", ""))
            if isinstance(noted, _LASTING):
                self._kept.pop((type(noted), host), None)  # the newest comes last
                self._kept[type(noted), host] = line
            begins_anew = isinstance(noted, TrialBegan) and not host
            if begins_anew:
                self._kept.pop((PhaseStarted, ""), None)
            if self._file is None or begins_anew or self._bytes + len(line) > MOST_BYTES:
                self._begin_anew()
                if isinstance(noted, _LASTING):
                    return
            if self._file is not None:
                self._file.write(line)
                self._bytes += len(line)

    def _begin_anew(self) -> None:
        """Replace the file by one with what is still true: a reader notices that the old one is gone."""
        if self._is_closed:
            return
        fresh = self._path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        # A line at a time, so that none is seen in part.
        file = os.fdopen(os.open(fresh, flags, 0o600), "w", buffering=1, encoding="utf-8")
        file.writelines(self._kept.values())
        fresh.replace(self._path)
        if self._file is not None:
            self._file.close()
        self._file, self._bytes = file, sum(map(len, self._kept.values()))

    def close(self) -> None:
        with self._lock, suppress(OSError):
            self._is_closed = True
            if self._file is not None:
                self._file.close()
            self._file = None
            self._path.unlink(missing_ok=True)


def _noted(event: Event) -> Noted | None:
    """Return what is written of an event; None: nothing."""
    match event:
        case BlockPlanned(trials, _, left):
            before = trials[0].number - 1
            fewest = max(before + left.fewest, trials[-1].number)
            return TrialsLeft(fewest, max(fewest, before + left.greatest))
        case TrialStarted(trial, host):
            return TrialBegan(trial.number, trial.treatment.name, trial.replicate, host)
        case TrialFinished(result, so_far):
            return TrialEnded(result.trial.number, result.host, so_far)
        case TimeLeft() | PhaseStarted() | Progress() | Throughput() | Sampled() | OnHost():
            return event
        case HostChanged():
            return event
        case _:
            return None


class LiveReader:
    """Reads the file of a run as it grows.

    Attributes:
        is_anew: the last `read` began at the file's beginning: nothing that was read before counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self.is_anew = True

    def read(self) -> list[tuple[float, Noted]]:
        """Return what was written since the last time, each with its time in Unix seconds; what cannot be read is left out."""
        self.is_anew = False
        try:
            found = self._path.stat()
            if self._file is None or os.fstat(self._file.fileno()).st_ino != found.st_ino:
                self.close()
                self._file = self._path.open("rb")
                self.is_anew = True
        except OSError:  # the run has ended
            self.close()
            return []
        return [one for line in self._lines() if (one := _read(line)) is not None]

    def _lines(self) -> Iterator[bytes]:
        assert self._file is not None
        for line in self._file:
            if not line.endswith(b"\n"):  # not written to its end yet
                self._file.seek(-len(line), os.SEEK_CUR)
                return
            yield line

    def close(self) -> None:
        """Close the file; the next `read` opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None


class _Line(NamedTuple):
    at_unix_s: FiniteFloat
    kind: str
    fields: Any


def _read(line: bytes) -> tuple[float, Noted] | None:
    with suppress(KeyError, ValidationError):
        at_unix_s, kind, fields = adapter_of(_Line).validate_json(line)
        return at_unix_s, adapter_of(_KINDS[kind]).validate_python(fields)
    return None
