"""How many read and write system calls did the server make, and how many bytes did they move?

Everything between the two readings counts, so also what it costs the driver's clients to connect,
and the session from which `waits` looks: it connects only after the first reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import ClassVar

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window, detailed
from pgdrag.collectors._metric import NO_READING, total
from pgdrag.collectors._proc import (
    SAMPLE_INTERVAL_S,
    ProcessIo,
    ShareSampler,
    read_server_io,
)
from pgdrag.collectors.counters import CounterCollector, Counters, attempt
from pgdrag.model.recordings import ProcessIoUse, Recordings


class Reads(CounterCollector):
    """The kernel's account of all server processes but the collectors' own session."""

    name: ClassVar[str] = "reads"
    summary: ClassVar[str] = "read and write system calls and bytes of the server's processes"
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            "{split}",
            Metric("read_syscalls_per_transaction", "read system calls per transaction", "read_calls"),
            Metric("read_syscalls_per_s", "read system calls per second", "read_calls", "1/s"),
        ),
        Metric("write_syscalls_per_transaction", "write system calls per transaction", "write_calls"),
        Metric(
            "read_bytes_per_transaction", "bytes read by system calls per transaction", "read_bytes", "bytes/transaction",
            detail="From the kernel's page cache or a device.",
        ),
        Metric(
            "storage_read_bytes_per_transaction", "bytes read from storage per transaction", "storage_read_bytes", "bytes/transaction",
            detail="Only what a device had to deliver.",
        ),
        Metric(
            "written_bytes_per_transaction", "bytes written by system calls per transaction", "written_bytes", "bytes/transaction",
            detail="Into the kernel's page cache or to a device; the server's log is among them.",
        ),
        Metric(
            "storage_written_bytes_per_transaction", "bytes to be written to storage per transaction", "storage_written_bytes", "bytes/transaction",
            detail="Counted when a page becomes dirty, not when a device has it.",
        ),
    )
    # fmt: on

    def __init__(self) -> None:
        super().__init__()
        self._sampler: ShareSampler | Unseen = NO_READING
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

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return which kinds of processes made the read calls."""
        return {"split": self._split(total(amounts, "read_calls"))}

    def recordings(self, window: Window) -> Recordings:
        """Return the calls and bytes of each kind of process, the busiest first, and what cannot be attributed.

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

    def _split(self, read_calls: float) -> str:
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
