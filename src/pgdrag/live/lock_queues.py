"""Who do waiting sessions wait for in the end? By the queue of each lock, so that a long queue costs little more than a short one.

`pg_blocking_pids` compares a session with all that wait before it: asked of everybody in a queue of thousands it
would keep a processor busy. Whoever is first in a queue waits for those that hold the lock, and all behind wait for the same.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString, TypeAlias

from pgdrag.collectors import Observer
from pgdrag.model.live import Blocker

# At a time; what others wait for is in proportion.
MOST_QUEUES = 50
_MOST_STEPS = 4  # from a queue to that of whoever holds its lock
_MOST_SHARE = 0.05  # of the time that looking may take, at most
_SHOWN = 5

_QUEUES: LiteralString = """
SELECT locktype, array_agg(pid ORDER BY waitstart)
  FROM pg_locks JOIN pg_stat_activity USING (pid)
 WHERE NOT granted AND backend_type = 'client backend' AND application_name NOT LIKE 'pgdrag %'
 GROUP BY locktype, database, relation, page, tuple, virtualxid, transactionid::text, classid, objid, objsubid
"""
_BLOCKERS: LiteralString = "SELECT pid, pg_blocking_pids(pid) FROM unnest(%s::int[]) AS pid"
_ABOUT: LiteralString = """
SELECT pid, concat_ws(', ', nullif(application_name, ''), usename, backend_type), coalesce(state, ''),
       coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::float8,
       coalesce(upper(substring(query FROM '^\\s*([A-Za-z]+)')), '')
  FROM pg_stat_activity WHERE pid = ANY (%s)
"""

_Queue: TypeAlias = tuple[
    str, list[int]
]  # the kind of the lock, and who waits, the first one first


@dataclass
class _Blocking:
    who: str = ""
    state: str = ""
    transaction_s: float = 0.0
    command: str = ""
    blocked: int = 0
    most: int = 0
    locks: tuple[str, ...] = ()


class LockQueues:
    """Sessions for whose locks others wait, by samples."""

    def __init__(self) -> None:
        self._blocking: dict[int, _Blocking] = defaultdict(_Blocking)
        self._waiting = self._looked_at = 0
        self._due_s = 0.0

    def look(self, observer: Observer, waiting: int) -> None:
        """Look for whom sessions wait just now.

        Args:
            waiting: how many of them there are.

        Raises:
            Unseen: see `Observer.query`.
        """
        self._waiting += waiting
        begin_s = time.monotonic()
        if begin_s < self._due_s:
            return
        queues: list[_Queue] = observer.query(_QUEUES)
        queues.sort(key=lambda queue: -len(queue[1]))
        blockers = _blockers_of(observer, queues)
        behind: Counter[int] = Counter()
        locks: dict[int, set[str]] = defaultdict(set)
        ahead = {pid: found for at, found in blockers.items() for pid in queues[at][1]}
        for at in blockers:
            kind, pids = queues[at]
            for head in heads(pids[0], ahead):
                behind[head] += len(pids)
                locks[head].add(kind)
        looked_at = sum(len(queues[at][1]) for at in blockers)
        self._looked_at += looked_at
        self._note(observer, behind, locks, max(waiting / looked_at, 1.0) if looked_at else 1.0)
        ended_s = time.monotonic()
        self._due_s = ended_s + (ended_s - begin_s) / _MOST_SHARE

    def blockers(self, step_s: float) -> Iterator[Blocker]:
        """Yield those that most sessions waited for.

        Args:
            step_s: the time that each sample represents.
        """
        ranked = sorted(self._blocking.items(), key=lambda each: -each[1].blocked)
        per_seen_s = step_s * self._waiting / self._looked_at if self._looked_at else 0.0
        for pid, x in ranked[:_SHOWN]:
            blocked_s = x.blocked * per_seen_s
            yield Blocker(
                pid, x.who, x.state, blocked_s, x.most, x.transaction_s, x.command, x.locks
            )

    def _note(
        self,
        observer: Observer,
        behind: Mapping[int, int],
        locks: Mapping[int, Iterable[str]],
        each: float,
    ) -> None:
        """Note who is waited for; each waiting session that was examined represents `each`."""
        if not behind:
            return
        about = {pid: rest for pid, *rest in observer.query(_ABOUT, list(behind))}
        for head, count in behind.items():
            one = self._blocking[head]
            # A prepared transaction is no session.
            one.who, one.state, one.transaction_s, one.command = about.get(head, ("", "", 0.0, ""))
            one.blocked += count
            one.most = max(one.most, round(count * each))
            one.locks = tuple(sorted({*one.locks, *locks[head]}))


def _blockers_of(observer: Observer, queues: Sequence[_Queue]) -> dict[int, list[int]]:
    """Return for whom the first one waits, of the longest queues and of those in which their lock's holders wait."""
    place = {pid: at for at, (_, pids) in enumerate(queues) for pid in pids}
    found: dict[int, list[int]] = {}
    wanted = list(range(len(queues)))[:MOST_QUEUES]
    for _ in range(_MOST_STEPS):
        if not wanted:
            break
        firsts = {queues[at][1][0]: at for at in wanted}
        found |= {firsts[pid]: pids for pid, pids in observer.query(_BLOCKERS, list(firsts))}
        holders = dict.fromkeys(pid for at in wanted for pid in found[at])
        further = dict.fromkeys(place[pid] for pid in holders if pid in place)
        wanted = [at for at in further if at not in found][:MOST_QUEUES]
    return found


def heads(waiting: int, blockers: Mapping[int, Iterable[int]]) -> set[int]:
    """Return who a session waits for in the end: those that wait for nobody, so nobody of a circle."""
    found, seen, left = set(), {waiting}, list(blockers.get(waiting, ()))
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        further = list(blockers.get(one, ()))
        if not further:
            found.add(one)
        left += further
    return found
