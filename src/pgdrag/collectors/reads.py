"""How many read and write system calls did the server make, and how many bytes did they move?

Everything between the two readings counts, so also what it costs the driver's clients to connect,
and the session from which `waits` looks: it connects only after the first reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    attempt,
    per_second,
    per_transaction,
    pick,
)
from pgdrag.collectors._proc import (
    SAMPLE_INTERVAL_S,
    ProcessIo,
    ShareSampler,
    read_server_io,
)
from pgdrag.model import Observation
from pgdrag.model.recordings import ProcessIoUse, Recordings


class Reads(CounterCollector):
    """The kernel's account of all server processes but the collectors' own session."""

    name: ClassVar[str] = "reads"
    summary: ClassVar[str] = "read and write system calls and bytes of the server's processes"

    def __init__(self) -> None:
        super().__init__()
        self._sampler: ShareSampler | Unseen = Unseen("no reading was taken")
        self._by_kind: Mapping[str, ProcessIo] = {}
        self._io_method = ""

    def read(self, observer: Observer) -> Counters:
        """The account of the processes that live and of those that have ended."""
        account = read_server_io(observer.postmaster(), without=observer.backend_pid)
        return asdict(account.total)

    def before(self, observer: Observer) -> None:
        """Take the first reading and begin to sample."""
        io_method = attempt(lambda: observer.query("SELECT current_setting('io_method', true)"))
        self._io_method = "" if isinstance(io_method, Unseen) else io_method[0][0] or ""
        super().before(observer)
        self._sampler = attempt(
            lambda: ShareSampler(observer.postmaster(), without=observer.backend_pid)
        )

    def pause(self) -> None:
        """Look at no process."""
        if isinstance(self._sampler, ShareSampler):
            self._sampler.is_resting = True

    def resume(self) -> None:
        """Look at processes again."""
        if isinstance(self._sampler, ShareSampler):
            self._sampler.is_resting = False

    def after(self, observer: Observer) -> None:
        """Stop sampling and take the second reading."""
        if isinstance(self._sampler, ShareSampler):
            self._by_kind = self._sampler.stop()
        super().after(observer)

    def observations(self, window: Window) -> Sequence[Observation]:
        """Read calls and bytes, then write calls and bytes."""
        moved = self.moved()
        read_calls = pick(moved, "read_calls")
        detail = "" if isinstance(read_calls, Unseen) else self._split(read_calls)
        moved_bytes = [
            per_transaction(
                f"{name}_per_transaction",
                label,
                pick(moved, counter),
                window,
                unit="bytes/transaction",
                detail=explanation,
            )
            for name, label, counter, explanation in _BYTES
        ]
        return (
            per_transaction(
                "read_syscalls_per_transaction",
                "read system calls per transaction",
                read_calls,
                window,
                detail=detail,
            ),
            per_second(
                "read_syscalls_per_s",
                "read system calls per second",
                read_calls,
                self.observed_s,
                detail=detail,
            ),
            per_transaction(
                "write_syscalls_per_transaction",
                "write system calls per transaction",
                pick(moved, "write_calls"),
                window,
            ),
            *moved_bytes,
        )

    def recordings(self, window: Window) -> Recordings:
        """Return the calls and bytes of each kind of process, the busiest first, and what is nobody's.

        What a process did between the last look at it and its end is in the total alone.
        """
        moved = self.moved()
        if isinstance(moved, Unseen):
            return Recordings()
        named = sum(self._by_kind.values(), ProcessIo())
        left = {name: max(0, count - getattr(named, name)) for name, count in moved.items()}
        kinds = sorted(self._by_kind.items(), key=lambda each: -_calls(each[1]))
        uses = [_use(kind, io) for kind, io in (*kinds, ("not attributed", ProcessIo(**left)))]
        return Recordings(use for use in uses if use.read_calls or use.write_calls)

    def _split(self, read_calls: int) -> str:
        """Who made the calls: the total is exact, the split misses the end of each short life."""
        if read_calls == 0:
            return "No read calls."
        calls = {kind: io.read_calls for kind, io in self._by_kind.items()}
        kinds = sorted(calls.items(), key=lambda each: -each[1])
        shares = [(kind, count / read_calls) for kind, count in kinds]
        named = [f"{kind} {part:.0%}" for kind, part in shares if part >= 0.005]
        rest = max(0.0, 1 - sum(calls.values()) / read_calls)
        named.append(f"not attributed {rest:.0%}")
        # The kernel carries those reads out itself.
        ring = (
            " Reads through io_uring are not among them." if self._io_method == "io_uring" else ""
        )
        return (
            f"{read_calls:,} read calls: {', '.join(named)} (the last {SAMPLE_INTERVAL_S:g} s of"
            f" each process that ended).{ring}"
        )


def _calls(io: ProcessIo) -> int:
    return io.read_calls + io.write_calls


def _use(kind: str, io: ProcessIo) -> ProcessIoUse:
    return ProcessIoUse(kind, io.read_calls, io.write_calls, io.read_bytes, io.written_bytes)


_BYTES = (
    (
        "read_bytes",
        "bytes read by system calls per transaction",
        "read_bytes",
        "From the kernel's page cache or a device.",
    ),
    (
        "storage_read_bytes",
        "bytes read from storage per transaction",
        "storage_read_bytes",
        "Only what a device had to deliver.",
    ),
    (
        "written_bytes",
        "bytes written by system calls per transaction",
        "written_bytes",
        "Into the kernel's page cache or to a device; the server's log is among them.",
    ),
    (
        "storage_written_bytes",
        "bytes to be written to storage per transaction",
        "storage_written_bytes",
        "Counted when a page becomes dirty, not when a device has it.",
    ),
)
