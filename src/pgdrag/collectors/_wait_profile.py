"""What do samples of processes' waits say? The numbers and recordings of a wait profile, however it was sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Unseen, Window, attempt, known
from pgdrag.collectors._metric import NO_READING
from pgdrag.driver.process import Waits, in_pairs
from pgdrag.english import percent_words
from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.findings.spent_time import PLACES
from pgdrag.model.events import Sampled
from pgdrag.model.recordings import SESSION_TYPES, Recordings, Series, WaitTime

# By the type of the wait in pg_stat_activity; all others are "other". No wait: it works, or would.
_KINDS = {
    "on_cpu": ("", "sessions' time on a processor, or waiting for one, per transaction"),
    "io_wait": ("IO", "sessions' time in I/O per transaction"),
    "lwlock_wait": ("LWLock", "sessions' time waiting for LWLocks per transaction"),
    "lock_wait": ("Lock", "sessions' time waiting for locks per transaction"),
    "client_wait": ("Client", "sessions' time waiting for their clients per transaction"),
    "other_wait": (None, "sessions' time in other waits per transaction"),
}
_OWN_KINDS = frozenset(kind for kind, _ in _KINDS.values())
IO_WORKER = "io worker"
_NAMED_WAITS = 3


class SampledWaits(Collector):
    """Wait events of all processes; a subclass samples them.

    Attributes:
        watched: what was seen, interval by interval; a subclass sets it when the window has ended.
        io_workers: how many there are, likewise.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(f"{name}_s_per_transaction", label, f"{name}_s", "s/transaction", step="look_s", detail=f"{{{name} words}}{{looks:,}} samples.")
            for name, (_, label) in _KINDS.items()
        ),
        Metric(
            "busy_background_processes", "busy background processes of the server, on average", "background", "count", "looks",
            detail="{background words}",
        ),
        Metric(
            "io_workers_busy_share", "share of I/O workers that are busy", "busy workers", "ratio", "workers seen",
            detail="{workers} I/O workers.",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        self.watched: tuple[Waits, ...] | Unseen = NO_READING
        self.io_workers: int | Unseen = NO_READING

    def amounts(self, window: Window) -> Amounts:
        seen = self._within(window)
        looks, sessions, background = sum(x.looks for x in seen), _sessions(seen), Counter[str]()
        for interval in seen:
            for backend, waits in interval.processes.items():
                if backend not in SESSION_TYPES:
                    background[backend] += sum(waits.values())
        look_s = window.elapsed_s / looks
        ranked = [f"{name} {count / looks:.2f}" for name, count in background.most_common()]
        workers = self.io_workers
        found: dict[str, float | str | Unseen] = {
            "look_s": look_s or 1.0,
            "looks": looks,
            "background": background.total(),
            "background words": f"{', '.join(ranked[:_NAMED_WAITS])}." if ranked else "",
            "busy workers": background[IO_WORKER],
            "workers": workers,
            "workers seen": workers if isinstance(workers, Unseen) else workers * looks,
        }
        for name, (kind, _) in _KINDS.items():
            of_kind = Counter({x: count for x, count in sessions.items() if _kind(x) == kind})
            found[f"{name}_s"] = look_s * of_kind.total()
            named = [
                f"{wait or 'no wait'} {percent_words(count / sessions.total())}"
                for wait, count in of_kind.most_common(_NAMED_WAITS)
            ]
            words = f"Of all sessions' time: {', '.join(named)}. " if named else ""
            found[f"{name} words"] = words
        return found

    def recordings(self, window: Window) -> Recordings:
        seen = attempt(lambda: self._within(window))
        if isinstance(seen, Unseen):
            return Recordings(missing={self.name: seen.reason})
        step_s = window.elapsed_s / sum(x.looks for x in seen)
        looks: Counter[tuple[str, str]] = Counter()
        for interval in seen:
            for backend, waits in interval.processes.items():
                looks.update({(backend, wait): count for wait, count in waits.items()})
        profile = [WaitTime(*which, count * step_s) for which, count in looks.most_common()]
        return Recordings((*profile, *_series(seen, window.started_unix_s)))

    def _within(self, window: Window) -> Sequence[Waits]:
        """Return the intervals inside of the window; all, where none is whole within it.

        Raises:
            Unseen: there is none.
        """
        watched, begin, end = known(self.watched), window.started_unix_s, window.finished_unix_s
        inside = [x for x in watched if begin <= x.started_unix_s and x.finished_unix_s <= end]
        if not watched:
            raise Unseen("the window was too short for a sample")
        return inside or watched


def sampled(seen: Sequence[Waits]) -> Sampled:
    """Return neighbouring intervals, of which there is one, as one moment: in which waits sessions were, and who else was at work."""
    while len(seen) > 1:
        seen = in_pairs(seen)
    busy = sorted(x for x, waits in seen[0].processes.items() if waits and x not in SESSION_TYPES)
    return Sampled(tuple(_series(seen, 0.0)), tuple(busy))


def _series(seen: Sequence[Waits], began_unix_s: float) -> Iterator[Series]:
    """Yield how many sessions were in each kind of wait, interval by interval.

    Of the types among the other waits those that were seen at all follow, each under its own name.
    """
    seen = [x for x in seen if x.looks]
    times_s = tuple(x.finished_unix_s - began_unix_s for x in seen)
    each = [_sessions([x]) for x in seen]

    def drawn(name: str, label: str, kind: str | None, of: Callable[[str], str | None]) -> Series:
        values = tuple(
            sum(count for wait, count in waits.items() if of(wait) == kind) / x.looks
            for x, waits in zip(seen, each, strict=True)
        )
        return Series(name, label, "count", times_s, values)

    for name, (kind, _) in _KINDS.items():
        yield drawn(f"{name}_sessions", PLACES[f"{name}_s_per_transaction"], kind, _kind)
    for wait_type, name in WAIT_SERIES.items():
        if _kind(wait_type) is None:
            others = drawn(name, f"waits of type {wait_type}", wait_type, _type)
            if any(others.values):
                yield others


def _kind(wait: str) -> str | None:
    """Return the type of a wait that has a metric of its own; None for all others."""
    kind = _type(wait)
    return kind if kind in _OWN_KINDS else None


def _type(wait: str) -> str:
    found = wait.partition(":")[0]
    return "BufferPin" if found == "Buffer" else found  # its name since 19


def _sessions(seen: Sequence[Waits]) -> Counter[str]:
    waits: Counter[str] = Counter()
    for interval in seen:
        for backend in SESSION_TYPES:
            waits.update(interval.processes.get(backend, {}))
    return waits
