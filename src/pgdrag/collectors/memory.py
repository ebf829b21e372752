"""How much memory does the server take? Its shared memory, and what its processes have for themselves."""

from __future__ import annotations

from typing import ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt, known
from pgdrag.collectors import _proc as proc
from pgdrag.collectors._metric import NO_READING
from pgdrag.units import format_bytes

_SHARED = "SELECT sum(allocated_size)::bigint FROM pg_shmem_allocations"


class Memory(Collector):
    """The most that a look, once a second, found."""

    name: ClassVar[str] = "memory"
    summary: ClassVar[str] = "memory that the server takes, its shared memory included; on request"
    is_optional: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "server_memory_bytes", "server's memory at its highest", ("shared", "private"), "bytes",
            detail="{shared_words} shared and {private_words} of its processes' own; what parallel queries share is not counted.",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        self._shared_bytes: int | Unseen = NO_READING
        self._private_bytes: int | Unseen = NO_READING

    def before(self, observer: Observer) -> None:
        self._shared_bytes = attempt(lambda: int(observer.query(_SHARED)[0][0]))
        self.sample(observer)

    def sample(self, observer: Observer) -> None:
        found, before = attempt(lambda: _private_bytes(observer)), self._private_bytes
        if isinstance(before, Unseen):
            self._private_bytes = found
        elif not isinstance(found, Unseen):
            self._private_bytes = max(found, before)

    def after(self, observer: Observer) -> None:
        """The window's sessions have ended by now: the last look within it stands."""

    def amounts(self, window: Window) -> Amounts:
        shared, private = known(self._shared_bytes), known(self._private_bytes)
        return {
            "shared": shared,
            "private": private,
            "shared_words": format_bytes(shared),
            "private_words": format_bytes(private),
        }


def _private_bytes(observer: Observer) -> int:
    """Return the memory that no other process of the server has, of all but the collectors' own session."""
    postmaster = observer.postmaster()
    own = {observer.backend_pid} | observer.sessions_of_programs()
    with observer.seeing():
        pids = {postmaster, *proc.children(postmaster)} - own
        return sum(one["private"] for one in proc.accounts_of(pids, proc.private_bytes).values())
