"""Into which components does the sessions' time on a transaction fall, and each of them into factors?

A component is a sum of waits, or processor time. Its seconds per transaction are a product: so many
blocks needed, such a part of them read, so long a wait for each. What a change added to a component
falls apart into what each factor added by the logarithmic mean Divisia index (Ang, Energy Policy 33,
2005): the parts add up without a rest, and do not depend on an order of the factors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from pgdrag.model import Observation
from pgdrag.model.recordings import SESSION_TYPES, WaitTime

REST = ""  # the last factor of each component: what the others leave
# They last as long as what others do meanwhile, the first ones first.
BUFFER, HELD = "buffer", "held"
_OF_OTHERS = (BUFFER, HELD)
# Sessions, and clients on the same machine, wait for processors as long as others are on them.
CPU, QUEUE, CLIENT = "cpu", "queue", "client"
_CROWDED = (QUEUE, CLIENT)
_MORE = 0.01  # of all processors: who takes less than that more of them keeps nobody waiting


@dataclass(frozen=True)
class Component:
    """A part of the sessions' time.

    Attributes:
        place: where it is spent, for people: "reading blocks".
        waits: patterns of "Type:Event" that belong to it; a wait belongs to the first that matches.
        counts: observations per transaction, each a part or a multiple of the one before: each ratio of
            neighbours is a factor, named after the later one.
    """

    name: str
    place: str
    waits: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()


NEEDED = "blocks_needed_per_transaction"
READ = "blocks_read_per_transaction"
WRITTEN = "session_writes_per_transaction"
BY_SESSIONS = "session_cpu_share"
BY_AUTOVACUUM = "autovacuum_cpu_share"
BY_BACKGROUND = "background_cpu_share"
BY_OTHERS = "others"  # who is not seen: whatever else runs on the machine
_RUNNERS = (BY_SESSIONS, BY_AUTOVACUUM, BY_BACKGROUND)
WAL_BYTES = "wal_bytes_per_transaction"
WAL_WRITES = "wal_writes_per_transaction"

# With some of wal_sync_method a write syncs by itself.
SYNCING = ("IO:WalSync", "IO:WALSync", "IO:WalWrite", "IO:WALWrite")

COMPONENTS = (
    Component(
        "read",
        "reading blocks",
        (
            *("IO:DataFileRead", "IO:DataFilePrefetch", "IO:Aio*", "LWLock:Aio*"),
            *("LWLock:BufferMapping", "LWLock:BufferIO", "IPC:BufferIO", "IPC:BufferIo"),
        ),
        (NEEDED, READ),
    ),
    Component("write", "writing blocks", ("IO:DataFile*",), (WRITTEN,)),
    Component(
        "wal",
        "writing WAL",
        (*SYNCING, "IO:Wal*", "IO:WAL*", "LWLock:WAL*", "LWLock:Wal*", "Timeout:CommitDelay"),
        (WAL_BYTES, WAL_WRITES),
    ),
    Component("standby", "waiting for standbys to confirm commits", ("IPC:SyncRep",)),
    Component(
        "status",
        "looking up transaction status",
        (
            *("IO:SLRU*", "IO:Slru*", "LWLock:*SLRU", "LWLock:*Buffer"),
            *("LWLock:Xact*", "LWLock:Subtrans*", "LWLock:MultiXact*"),
        ),
    ),
    Component(
        BUFFER, "waiting for buffer locks", ("LWLock:BufferContent", "BufferPin:*", "Buffer:*")
    ),
    Component(HELD, "waiting for locks", ("Lock:*",)),
    Component("lwlock", "waiting for other LWLocks", ("LWLock:*",)),
    Component(
        "parallel",
        "waiting for parallel workers",
        (
            *("IPC:Bgworker*", "IPC:BgWorker*", "IPC:Execute*", "IPC:Parallel*", "IPC:Hash*"),
            *("IPC:MessageQueue*", "IPC:Btree*"),
        ),
    ),
    Component("pause", "in pauses", ("Timeout:*",)),
    Component(CLIENT, "waiting for clients", ("Client:*",)),
    Component("other", "in other waits", ("*:*",)),
    Component(CPU, "on CPU", (), (NEEDED,)),
    Component(QUEUE, "waiting for a CPU"),
)
_BY_NAME = {component.name: component for component in COMPONENTS}
_CPU = "session_cpu_s_per_transaction"
_QUEUE = "session_cpu_wait_s_per_transaction"


@dataclass(frozen=True)
class Ledger:
    """Sessions' time on one transaction, in seconds of all sessions together.

    Attributes:
        seconds: by component.
        counts: the observations that factors are made of, and the shares of all processors that kinds of
            processes had; those that were not seen are not there.
        least_s: the smallest time that can be resolved.
        syncing_s: of the WAL's component, the sessions' own writes and syncs; the rest waits for those of others.
    """

    seconds: Mapping[str, float]
    counts: Mapping[str, float]
    least_s: float
    committed: int
    syncing_s: float = 0.0

    @property
    def whole_s(self) -> float:
        """Of all components."""
        return sum(self.seconds.values())


def pooled(ledgers: Sequence[Ledger]) -> Ledger:
    """Return the ledgers of several trials as one: the means over all their transactions."""
    commits = sum(one.committed for one in ledgers)
    seconds = {
        name: sum(one.seconds[name] * one.committed for one in ledgers) / commits
        for name in ledgers[0].seconds
    }
    everywhere = set.intersection(*(set(one.counts) for one in ledgers))
    counts = {
        name: sum(one.counts[name] * one.committed for one in ledgers) / commits
        for name in everywhere
    }
    return Ledger(seconds, counts, min(one.least_s for one in ledgers), commits)


@dataclass(frozen=True)
class Part:
    """What one factor of one component added, in seconds of all sessions per transaction."""

    component: str
    factor: str
    added_s: float

    @property
    def place(self) -> str:
        """Where it was spent."""
        return _BY_NAME[self.component].place


def ledger(
    waits: Sequence[WaitTime], evidence: Sequence[Observation], committed: int
) -> Ledger | None:
    """Return where sessions' time went in a trial; None where that was not watched, or nothing committed."""
    mine = [one for one in waits if one.backend_type in SESSION_TYPES]
    if not mine or committed <= 0:
        return None
    seen = {one.name: one for one in evidence if one.value is not None}
    values = {name: one.value for name, one in seen.items() if one.value is not None}
    seconds = dict.fromkeys(_BY_NAME, 0.0)
    running_s = 0.0
    for one in mine:
        if one.wait:
            seconds[component_of(one.wait)] += one.time_s / committed
        else:
            running_s += one.time_s / committed
    seconds = _with_processors(seconds, running_s, values)
    # Zero counts as the resolution: a factor has no logarithm of zero.
    counts = {
        name: max(values[name], seen[name].resolution)
        for name in (*(name for one in COMPONENTS for name in one.counts), *_RUNNERS)
        if name in values
    }
    # One look that saw one session, where that is known; else the shortest time seen.
    look = seen.get("on_cpu_s_per_transaction")
    least_s = look.resolution if look else min(one.time_s for one in mine) / committed
    syncing_s = sum(one.time_s for one in mine if one.wait in SYNCING) / committed
    return Ledger(seconds, counts, least_s, committed, syncing_s)


def component_of(wait: str) -> str:
    """Return the name of the component that a wait, "Type:Event", belongs to."""
    return next(
        one.name for one in COMPONENTS if any(fnmatchcase(wait, pattern) for pattern in one.waits)
    )


def _with_processors(
    waits: Mapping[str, float], running_s: float, values: Mapping[str, float]
) -> dict[str, float]:
    """Add the time on a processor and that before one, which the kernel knows, to the waits.

    A session that was woken stands under the wait that it slept in until it runs again. So far as the
    kernel counts more time before a processor than sessions without a wait have, it is taken out of all
    waits alike.
    """
    cpu_s, queue_s = values.get(_CPU), values.get(_QUEUE)
    if cpu_s is None or queue_s is None:
        return {**waits, CPU: running_s}
    cpu_s = min(cpu_s, running_s)
    asleep_s = sum(waits.values())
    woken_s = min(max(queue_s - (running_s - cpu_s), 0.0), asleep_s)
    rest = 1 - woken_s / asleep_s if asleep_s else 1.0
    shortened = {name: time_s * rest for name, time_s in waits.items()}
    return {**shortened, CPU: cpu_s, QUEUE: running_s - cpu_s + woken_s}


def added(before: Ledger, after: Ledger) -> tuple[Part, ...]:
    """Return what the factors of those components added that take longer now.

    The sum is by how much longer a transaction takes in all. Where one factor of a component grew and
    another fell, or one component and another, only what is left of the growth was added.
    Waiting for others lasts as long as these others take: its part that grew with all else is spread
    over all else, and only the rest is the component's own.
    """
    least_s = max(before.least_s, after.least_s)
    parts = [
        part
        for component in COMPONENTS
        if component.name not in (*_OF_OTHERS, *_CROWDED)
        for part in _factors(component, before, after, least_s)
    ]
    parts += [part for name in _CROWDED for part in _crowded(parts, name, before, after)]
    for number, name in enumerate(_OF_OTHERS):
        parts = _with_waits_for_others(parts, name, _OF_OTHERS[number:], before, after, least_s)
    grown_s = sum(part.added_s for part in parts)
    longer_s = after.whole_s - before.whole_s
    if longer_s <= 0 or grown_s <= 0:
        return ()
    return tuple(replace(part, added_s=part.added_s * longer_s / grown_s) for part in parts)


def _crowded(parts: Sequence[Part], name: str, before: Ledger, after: Ledger) -> list[Part]:
    """Share what waiting for a processor grew by out among those that are on the processors more.

    The sessions' own part is shared out by what made them longer on a processor.
    """
    grown_s = after.seconds[name] - before.seconds[name]
    if grown_s <= 0:
        return []
    more = {
        runner: max(after.counts[runner] - before.counts[runner], 0.0)
        for runner in _RUNNERS
        if runner in before.counts and runner in after.counts
    }
    whole = sum(more.values())
    if whole < _MORE:
        return [Part(name, BY_OTHERS, grown_s)]
    added_s = {runner: grown_s * share / whole for runner, share in more.items() if share}
    working = [part for part in parts if part.component == CPU]
    worked_s = sum(part.added_s for part in working)
    own_s = added_s.pop(BY_SESSIONS, 0.0) if worked_s else 0.0
    found = [Part(name, part.factor, own_s * part.added_s / worked_s) for part in working if own_s]
    return found + [Part(name, runner, time_s) for runner, time_s in added_s.items()]


def _with_waits_for_others(
    parts: Sequence[Part],
    name: str,
    left_out: Sequence[str],
    before: Ledger,
    after: Ledger,
    least_s: float,
) -> list[Part]:
    """Spread what a wait for others grew by as they did over what they do, and add the rest as its own."""
    grown_s = max(after.seconds[name] - before.seconds[name], 0.0)
    whole_s = sum(part.added_s for part in parts)
    (others_then, then), (others_now, now) = (
        (
            max(x.whole_s - sum(x.seconds[one] for one in left_out), least_s),
            max(x.seconds[name], least_s),
        )
        for x in (before, after)
    )
    as_they_did_s = _logarithmic_mean(then, now) * math.log(others_now / others_then)
    spread_s = min(max(as_they_did_s, 0.0), grown_s) if whole_s else 0.0
    if spread_s:
        parts = [replace(part, added_s=part.added_s * (1 + spread_s / whole_s)) for part in parts]
    own_s = grown_s - spread_s
    return [*parts, *([Part(name, REST, own_s)] if own_s > 0 else [])]


def _factors(component: Component, before: Ledger, after: Ledger, least_s: float) -> list[Part]:
    """Return the factors that made a component longer, scaled to what it grew by in all."""
    name = component.name
    then_s, now_s = before.seconds[name], after.seconds[name]
    if now_s <= then_s:
        return []
    counts = [x for x in component.counts if x in before.counts and x in after.counts]
    then = [*(before.counts[x] for x in counts), max(then_s, least_s)]
    now = [*(after.counts[x] for x in counts), max(now_s, least_s)]
    weight = _logarithmic_mean(then[-1], now[-1])
    logs = [math.log(b / a) for a, b in zip(then, now, strict=True)]
    added_s = [weight * (x - y) for x, y in zip(logs, [0.0, *logs], strict=False)]
    # What the floor took away or added, so that the sum is exact.
    added_s[-1] += (now_s - then_s) - sum(added_s)
    scale = (now_s - then_s) / sum(x for x in added_s if x > 0)
    return [
        Part(name, factor, x * scale)
        for factor, x in zip([*counts, REST], added_s, strict=True)
        if x > 0
    ]


def _logarithmic_mean(a: float, b: float) -> float:
    """Return (b - a) / ln(b / a), which lies between the two."""
    ratio = math.log(b / a)
    return a if abs(ratio) < 1e-12 else (b - a) / ratio
