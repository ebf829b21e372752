"""Which functions were the server's processes in? What `perf script` prints, read and folded.

perf lists a stack from the innermost frame out, and with everything from the program's entry on;
here stacks go from the outside in, and begin where the server's processes begin to differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.model.recordings import Stack
from pgdrag.servers.processes import CLIENT_BACKEND

FIELDS = "pid,time,ip,sym,dso"  # of each sample, for `perf script -F`
MOST_STACKS = 2_000
REST = "…"  # stands for the stacks that are not kept
# As stackcollapse-perf marks the kernel's functions, so that those who know it need not learn anew.
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
# From the program's entry to there, the stacks of all server processes are the same.
_TRUNK = {
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "main",
    "PostmasterMain",
    "ServerLoop",
    "BackendStartup",
    "StartChildProcess",
    "AuxiliaryProcessMain",
    "postmaster_child_launch",
}


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
        types: type of process by its number, as far as known; a stack tells its own otherwise.
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
    frames = sample.frames
    at = next((x for x in reversed(range(len(frames))) if frames[x] in _MAINS), None)
    if at is not None:
        kind = types.get(sample.pid, _MAINS[frames[at]])
        return (kind, *frames[at:])
    return (types.get(sample.pid, _OTHER), *_without_trunk(frames))


def _without_trunk(frames: Sequence[str]) -> Sequence[str]:
    first = next((at for at, name in enumerate(frames) if name not in _TRUNK), len(frames) - 1)
    return frames[max(first, 0) :]


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
