"""Where did the sessions' time go: on processors, in I/O, in locks, or waiting for their clients?

The load driver's program looks at all processes twenty times a second, from a session of its own, at
random moments. The mean number of sessions seen in a state, times the window, is the time that
they spent in it; divided by the transactions, a share of what each of them took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors.counters import attempt, require_sight_of_others
from pgdrag.driver.process import Driver, Waits, Watching, find_driver
from pgdrag.english import percent_words
from pgdrag.errors import DriverError
from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.findings.spent_time import PLACES
from pgdrag.model.recordings import SESSION_TYPES, Recordings, Series, WaitTime

EVERY_S = 0.05
# By the type of the wait in pg_stat_activity; all others are "other". No wait: it works, or would.
_KINDS = {
    "on_cpu": ("", "sessions' time on a processor, or waiting for one, per transaction"),
    "io_wait": ("IO", "sessions' time in I/O per transaction"),
    "lwlock_wait": ("LWLock", "sessions' time waiting for the server's own locks per transaction"),
    "lock_wait": ("Lock", "sessions' time waiting for locks of others per transaction"),
    "client_wait": ("Client", "sessions' time waiting for their clients per transaction"),
    "other_wait": (None, "sessions' time in other waits per transaction"),
}
IO_WORKER = "io worker"
_NAMED_WAITS = 3


class WaitProfile(Collector):
    """Wait events of all processes, sampled by the load driver's program."""

    name: ClassVar[str] = "waits"
    summary: ClassVar[str] = "where sessions' time goes: processors, I/O, locks, clients"
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(
                f"{name}_s_per_transaction",
                label,
                f"{name}_s",
                "s/transaction",
                step="look_s",
                detail=f"{{{name} words}}{{looks:,}} looks.",
            )
            for name, (_, label) in _KINDS.items()
        ),
        Metric(
            "busy_background_processes", "the server's own processes at work, on average", "background", "count", "looks",
            detail="{background words}",
        ),
        Metric(
            "io_workers_busy_share", "I/O workers at work, of all that there are", "busy workers", "ratio", "workers seen",
            detail="{workers} I/O workers.",
        ),
    )
    # fmt: on

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._watching: Watching | Unseen = NO_READING
        self._watched: tuple[Waits, ...] | Unseen = self._watching
        self._io_workers: int | Unseen = self._watching

    def before(self, observer: Observer) -> None:
        """Begin to watch."""
        self._watching = attempt(lambda: self._begin(observer))

    def pause(self) -> None:
        """Let the program that watches rest."""
        if isinstance(self._watching, Watching):
            self._watching.rest()

    def resume(self) -> None:
        """Let it look again."""
        if isinstance(self._watching, Watching):
            self._watching.look()

    def after(self, observer: Observer) -> None:
        """Stop watching, and count the I/O workers, which it does not see when they are idle."""
        watching = self._watching
        with self._stack:
            self._watched = (
                watching if isinstance(watching, Unseen) else attempt(lambda: _end(watching))
            )
        self._io_workers = attempt(lambda: _io_workers(observer))

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return sessions' time by what it went into, and what else was at work."""
        seen = self._within(window)
        if isinstance(seen, Unseen):
            return seen
        looks, sessions = sum(x.looks for x in seen), _sessions(seen)
        look_s = window.elapsed_s / looks
        spent = {
            f"{name}_s": look_s * sum(n for wait, n in sessions.items() if _kind(wait) == kind)
            for name, (kind, _) in _KINDS.items()
        }
        workers = self._io_workers
        return {
            **spent,
            "look_s": look_s or 1.0,
            "looks": looks,
            "background": _background(seen).total(),
            "busy workers": sum(sum(x.processes.get(IO_WORKER, {}).values()) for x in seen),
            "workers": workers,
            "workers seen": workers if isinstance(workers, Unseen) else workers * looks,
        }

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return the waits of each kind that took most, and which processes were at work."""
        seen = self._within(window)
        if isinstance(seen, Unseen):
            return {}
        looks, sessions = sum(x.looks for x in seen), _sessions(seen)
        ranked = [f"{name} {count / looks:.2f}" for name, count in _background(seen).most_common()]
        found = {"background words": f"{', '.join(ranked[:_NAMED_WAITS])}." if ranked else ""}
        for name, (kind, _) in _KINDS.items():
            of_kind = {wait: count for wait, count in sessions.items() if _kind(wait) == kind}
            found[f"{name} words"] = _most(of_kind, sessions.total())
        return found

    def _within(self, window: Window) -> Sequence[Waits] | Unseen:
        return (
            self._watched if isinstance(self._watched, Unseen) else _within(self._watched, window)
        )

    def recordings(self, window: Window) -> Recordings:
        """Return every wait of every type of process, and how many sessions were in which over time."""
        seen = self._within(window)
        if isinstance(seen, Unseen):
            return Recordings(missing={self.name: seen.reason})
        return Recordings((*_profile(seen, window), *_series(seen, window)))

    def _begin(self, observer: Observer) -> Watching:
        observer.postmaster()  # refuses a server that does not run here
        require_sight_of_others(observer, "the sessions")
        try:
            driver = Driver(find_driver())
            watching = self._stack.enter_context(
                driver.watching(observer.cluster.target, every_s=EVERY_S)
            )
        except DriverError as error:
            raise Unseen(_reason(error)) from error
        observer.programs.add(watching.pid)
        return watching


def _io_workers(observer: Observer) -> int:
    [(count,)] = observer.query(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = %s", IO_WORKER
    )
    if not count:
        raise Unseen("the server has no I/O workers")
    return int(count)


def _end(watching: Watching) -> tuple[Waits, ...]:
    try:
        return watching.end()
    except DriverError as error:
        raise Unseen(_reason(error)) from error


def _reason(error: DriverError) -> str:
    return f"the server's processes could not be watched: {error.message}"


def _within(watched: tuple[Waits, ...], window: Window) -> Sequence[Waits] | Unseen:
    """Return the intervals inside of the window; all, where the wall clock was set meanwhile."""
    inside = [
        x
        for x in watched
        if window.started_unix_s <= x.started_unix_s and x.finished_unix_s <= window.finished_unix_s
    ]
    return inside or watched or Unseen("the window was too short for a look")


def _profile(seen: Sequence[Waits], window: Window) -> tuple[WaitTime, ...]:
    step_s = window.elapsed_s / sum(x.looks for x in seen)
    looks: Counter[tuple[str, str]] = Counter()
    for interval in seen:
        for backend, waits in interval.processes.items():
            looks.update({(backend, wait): count for wait, count in waits.items()})
    return tuple(
        WaitTime(backend, wait, count * step_s) for (backend, wait), count in looks.most_common()
    )


def _series(seen: Sequence[Waits], window: Window) -> Iterator[Series]:
    """Yield how many sessions were in each kind of wait, interval by interval."""
    seen = [x for x in seen if x.looks]
    times_s = tuple(x.finished_unix_s - window.started_unix_s for x in seen)
    for name, (kind, _) in _KINDS.items():
        values = tuple(
            sum(n for wait, n in _sessions([x]).items() if _kind(wait) == kind) / x.looks
            for x in seen
        )
        yield Series(
            f"{name}_sessions", PLACES[f"{name}_s_per_transaction"], "count", times_s, values
        )
    yield from _other_series(seen, times_s)


def _other_series(seen: Sequence[Waits], times_s: tuple[float, ...]) -> Iterator[Series]:
    """Yield the types among the other waits that were seen at all, each under its own name."""
    for wait_type, name in WAIT_SERIES.items():
        if _kind(wait_type) is not None:
            continue
        values = tuple(
            sum(n for wait, n in _sessions([x]).items() if _type(wait) == wait_type) / x.looks
            for x in seen
        )
        if any(values):
            yield Series(name, f"waits of type {wait_type}", "count", times_s, values)


def _kind(wait: str) -> str | None:
    """Return the type of a wait that has a metric of its own; None for all others."""
    kind = _type(wait)
    return kind if kind in {known for known, _ in _KINDS.values()} else None


def _type(wait: str) -> str:
    return wait.partition(":")[0]


def _sessions(seen: Sequence[Waits]) -> Counter[str]:
    waits: Counter[str] = Counter()
    for interval in seen:
        for backend in SESSION_TYPES:
            waits.update(interval.processes.get(backend, {}))
    return waits


def _most(waits: Mapping[str, int], whole: int) -> str:
    ranked = sorted(waits.items(), key=lambda each: -each[1])[:_NAMED_WAITS]
    named = [f"{wait or 'no wait'} {percent_words(count / whole)}" for wait, count in ranked]
    return f"Of all sessions' time: {', '.join(named)}. " if named else ""


def _background(seen: Sequence[Waits]) -> Counter[str]:
    """Count how often each type of the server's own processes was seen at work."""
    by_type = Counter[str]()
    for interval in seen:
        for backend, waits in interval.processes.items():
            if backend not in SESSION_TYPES:
                by_type[backend] += sum(waits.values())
    return by_type
