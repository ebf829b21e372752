"""Which mechanisms slow a server down, what must each of them move, and what may it account for?

A mechanism is named only where all its signs moved the way that it says. What it accounts for is what
its claims added: a factor of a component of sessions' time (see `ledger`). Of several mechanisms that
claim the same and have moved, those of the lowest rank share it, each by how far its first sign moved:
the lower rank is closer to the cause.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pgdrag.findings.mechanisms.ledger import (
    BUFFER,
    BY_AUTOVACUUM,
    BY_BACKGROUND,
    BY_OTHERS,
    BY_SESSIONS,
    CLIENT,
    CPU,
    HELD,
    NEEDED,
    QUEUE,
    READ,
    REST,
    WAL_BYTES,
    WAL_WRITES,
    WRITTEN,
)

Direction = Literal["up", "down", "is"]

WAL_SYNCS = "wal_syncs_per_transaction"
# Made of a ledger, and not by a collector.
READ_WAIT = "mean_read_wait_s"
WAL_WAIT = "mean_wal_wait_s"
LWLOCK_WAIT = "other_lwlock_wait_s_per_transaction"
PARALLEL_WAIT = "parallel_wait_s_per_transaction"
BUFFER_WAIT = "buffer_wait_s_per_transaction"
COMMIT_WAIT = "wal_wait_s_per_transaction"
SYNC_SHARE = "own_wal_sync_share"
STANDBY_WAIT = "standby_wait_s_per_transaction"
OF_LEDGER = frozenset(
    (
        *(READ_WAIT, WAL_WAIT, LWLOCK_WAIT, PARALLEL_WAIT, BUFFER_WAIT),
        *(COMMIT_WAIT, SYNC_SHARE, STANDBY_WAIT),
    )
)


@dataclass(frozen=True)
class Sign:
    """An observation that must move, and which way; or, where its direction is "is", that need not.

    Attributes:
        least: what it must come to on the slower side to matter at all.
        below: what it must stay under there.
    """

    observation: str
    direction: Direction
    least: float = 0.0
    below: float = math.inf

    @property
    def wanted(self) -> str:
        """What is wanted of it, in words: "down", "up to 100 or more", "below 0.5"."""
        least = f"{self.least:g} or more" if self.least else ""
        below = f"below {self.below:g}" if self.below < math.inf else ""
        bounds = " and ".join(word for word in (least, below) if word)
        if self.direction == "is":
            return bounds
        return f"{self.direction} to {bounds}" if bounds else self.direction


@dataclass(frozen=True)
class Claim:
    """What a mechanism may account for: what a factor of a component added.

    Attributes:
        rank: of those that claim the same and have moved, the lowest has it.
        given: a sign that must have moved for this claim alone.
    """

    component: str
    factor: str = REST
    rank: int = 0
    given: Sign | None = None


@dataclass(frozen=True)
class Mechanism:
    """One way in which a server becomes slower.

    Attributes:
        name: a noun: "cache misses".
        summary: what happens, in a sentence.
        signs: all of them must move; where the change was a gain, each the other way.
    """

    name: str
    summary: str
    signs: tuple[Sign, ...]
    claims: tuple[Claim, ...]


def _up(observation: str, *, least: float = 0.0) -> Sign:
    return Sign(observation, "up", least)


def _down(observation: str) -> Sign:
    return Sign(observation, "down")


# Versions that died under a hold are stepped over, also where it was let go before the window's end.
_STEPPING_OVER_VERSIONS = (_up(NEEDED), _up("horizon_age_max_transactions"))
_CROWDED = _up("cpu_pressure_share")
_VACUUMS = _up("vacuums_per_s")
_LEAST_READ_BYTES = 8192  # one block
# Else they sync the WAL for that, too.
_LEAST_SYNCS = 0.01  # per transaction; below, none waits for them, or writes sync by themselves
_MORE_SWITCHES = _up("context_switches_per_transaction")
_SESSIONS_WRITE_NO_BLOCKS = Sign(WRITTEN, "is", below=0.5)


def _on_processors(factor: str = REST, *, rank: int = 0) -> tuple[Claim, ...]:
    """What makes sessions longer on a processor, and others on the machine wait for one."""
    return (Claim(CPU, factor, rank), *_before_processors(factor, rank=rank))


def _before_processors(factor: str, *, rank: int = 0) -> tuple[Claim, ...]:
    return (Claim(QUEUE, factor, rank), Claim(CLIENT, factor, rank, given=_CROWDED))


_BY_VERSIONS_STEPPED_OVER = (
    Claim("read", NEEDED, rank=1),
    *_on_processors(NEEDED, rank=1),
    *_on_processors(rank=1),
)


def _vacuums_claims(rank: int) -> tuple[Claim, ...]:
    """What vacuum takes from sessions: processors, the reads of others, and room in the WAL."""
    return (
        *_before_processors(BY_AUTOVACUUM, rank=rank),
        # I/O workers and the WAL writer work for vacuum, too.
        *_before_processors(BY_BACKGROUND, rank=rank + 1),
        Claim("read", rank=rank + 1),
        Claim("wal", rank=rank + 3),
        Claim("lwlock", rank=rank),
    )


CATALOGUE = (
    Mechanism(
        "index loss",
        "Statements scan whole tables instead of using an index.",
        (_up("seq_tuples_per_transaction", least=100), _down("index_scan_share")),
        (
            Claim("read", NEEDED),
            *_on_processors(NEEDED),
            *_on_processors(rank=1),
            *_before_processors(BY_BACKGROUND, rank=1),
            Claim("parallel"),
        ),
    ),
    Mechanism(
        "HOT chains",
        "Statements follow chains of dead row versions that cannot be removed yet.",
        (*_STEPPING_OVER_VERSIONS, Sign("hot_version_share", "is", least=0.5)),
        _BY_VERSIONS_STEPPED_OVER,
    ),
    Mechanism(
        "dead tuples",
        "Statements read dead row versions, or index entries that point to them, which cannot be removed yet.",
        (*_STEPPING_OVER_VERSIONS, Sign("hot_version_share", "is", below=0.5)),
        _BY_VERSIONS_STEPPED_OVER,
    ),
    Mechanism(
        "cache misses",
        "Blocks are not in shared_buffers: they are read again, and dirty ones are written to make room.",
        (_down("buffer_hit_ratio"), _up(READ)),
        (
            Claim("read", READ),
            Claim("write", WRITTEN, given=_up(WRITTEN)),
            Claim("write", rank=1, given=_up(WRITTEN)),
            # The WAL is flushed up to a dirty block before that is written.
            Claim("wal", WAL_WRITES, given=_up(WRITTEN)),
            *_before_processors(BY_BACKGROUND, rank=1),
        ),
    ),
    Mechanism(
        "read system calls",
        "Sessions spend CPU time copying blocks from the kernel.",
        # Whoever is woken from a wait reads, too, but a few bytes.
        (
            _up("read_syscalls_per_transaction"),
            _up("read_bytes_per_transaction", least=_LEAST_READ_BYTES),
        ),
        _on_processors(),
    ),
    Mechanism(
        "I/O worker starvation",
        "Reads queue for too few I/O workers.",
        (_up(READ_WAIT), _up("io_workers_busy_share")),
        (Claim("read"),),
    ),
    Mechanism(
        "page cache misses",
        "File pages are evicted from memory and soon read from storage again.",
        (
            _up("page_cache_refaults_per_transaction"),
            _up("storage_read_bytes_per_transaction"),
            _up(READ_WAIT),
        ),
        (Claim("read"),),
    ),
    Mechanism(
        "a slower device",
        "Storage takes longer for each request.",
        (_up("disk_read_wait_s"), _up("storage_read_bytes_per_transaction"), _up(READ_WAIT)),
        (Claim("read"),),
    ),
    Mechanism(
        "checkpoint storm",
        "Checkpoints follow each other closely, and the first change of a block after each logs the whole block.",
        (_up("checkpoints_per_s"), _up("full_page_images_per_transaction")),
        (
            Claim("wal", WAL_BYTES),
            Claim("wal", rank=3, given=_up("checkpoint_time_share")),
            Claim("write", rank=2, given=_up("checkpoint_time_share")),
            Claim("read", rank=2, given=_up("checkpoint_time_share")),
        ),
    ),
    Mechanism(
        "full-page images",
        "More whole blocks are logged.",
        (_up("full_page_images_per_transaction"), _up(WAL_BYTES)),
        (Claim("wal", WAL_BYTES, rank=1),),
    ),
    Mechanism(
        "WAL volume",
        "Each transaction writes more WAL.",
        (_up(WAL_BYTES), _up("wal_records_per_transaction")),
        (Claim("wal", WAL_BYTES, rank=2),),
    ),
    Mechanism(
        "synchronous commits",
        "More commits wait for a sync of the WAL, or fewer share one.",
        (_up(WAL_SYNCS), _up(COMMIT_WAIT)),
        (
            Claim("wal", WAL_WRITES, rank=1),
            # Without fsync the WAL is written as often. And where hardly any commit waits, how long
            # such a wait takes is not known well enough to compare it.
            Claim("wal", rank=1, given=_SESSIONS_WRITE_NO_BLOCKS),
            # Whoever slept in a commit takes time to sleep and to wake up, and waits for a processor again.
            Claim(CPU, rank=4, given=_MORE_SWITCHES),
            Claim(QUEUE, rank=4, given=_MORE_SWITCHES),
            Claim(QUEUE, BY_OTHERS, rank=4, given=_MORE_SWITCHES),
            Claim(CLIENT, BY_OTHERS, rank=4, given=_MORE_SWITCHES),
        ),
    ),
    Mechanism(
        "WAL sync",
        "Commits wait longer until their WAL is on storage.",
        (_up(WAL_WAIT),),
        (Claim("wal", rank=2), Claim("wal", WAL_WRITES, rank=2)),
    ),
    Mechanism(
        "group commit",
        "Commits wait for others that share their sync of the WAL.",
        # Where storage is slower, commits share syncs, too, but those that sync take longer as well.
        (_up(WAL_WAIT), Sign(WAL_SYNCS, "down", least=_LEAST_SYNCS), _down(SYNC_SHARE)),
        (Claim("wal", rank=1),),
    ),
    Mechanism(
        "synchronous replication",
        "Commits wait until standbys have confirmed them.",
        (_up(STANDBY_WAIT),),
        (Claim("standby"),),
    ),
    Mechanism(
        "futile vacuum",
        "Vacuum scans tables again and again and finds nothing that it can remove.",
        (_VACUUMS, _up("futile_vacuum_share")),
        _vacuums_claims(0),
    ),
    Mechanism(
        "vacuum contention",
        "Autovacuum competes with sessions for processors, storage and WAL.",
        (_VACUUMS, _up("autovacuum_cpu_share")),
        _vacuums_claims(1),
    ),
    Mechanism(
        "CPU saturation",
        "More processes want to run than there are processors.",
        (_up("session_cpu_wait_s_per_transaction"), _CROWDED),
        tuple(
            claim
            for factor in (REST, NEEDED, BY_SESSIONS, BY_AUTOVACUUM, BY_BACKGROUND, BY_OTHERS)
            for claim in _before_processors(factor, rank=3)
        ),
    ),
    Mechanism(
        "log volume",
        "The server writes more to its log.",
        (_up("log_bytes_per_transaction", least=500),),
        (*_on_processors(), Claim("other")),
    ),
    Mechanism(
        "JIT compilation",
        "Statements are compiled before they run.",
        (_up("jit_s_per_transaction"),),
        _on_processors(),
    ),
    Mechanism(
        "planning",
        "Statements take longer to plan.",
        (_up("planning_s_per_transaction"),),
        _on_processors(),
    ),
    Mechanism(
        "parallel workers",
        "Statements start parallel workers, and wait for them.",
        (_up(PARALLEL_WAIT),),
        (Claim("parallel", rank=1),),
    ),
    Mechanism(
        "buffer contention",
        "Sessions wait for blocks that others are changing.",
        (_up(BUFFER_WAIT),),
        (Claim(BUFFER),),
    ),
    Mechanism(
        "lock contention",
        "Transactions wait for each other's locks.",
        (_up("lock_wait_s_per_transaction"),),
        (Claim(HELD),),
    ),
    Mechanism(
        "LWLock contention",
        "Sessions wait for each other inside the server.",
        (_up(LWLOCK_WAIT),),
        (Claim("lwlock", rank=2),),
    ),
    Mechanism(
        "lookups of transaction state",
        "The caches of transaction status are too small.",
        (_up("slru_reads_per_transaction"), _up("slru_miss_ratio")),
        (Claim("status"),),
    ),
)
