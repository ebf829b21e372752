"""Who waits for locks, and who stays in transactions for too long?"""

from __future__ import annotations

from pgdrag.english import counted
from pgdrag.findings.doctor import Reading, Sights, Symptom
from pgdrag.model.live import Blocker
from pgdrag.units import format_duration

_LONG_S = 1.0  # a transaction that keeps its locks for longer is no short one of many


def blocker_words(one: Blocker) -> str:
    """Describe it: `session 4711 (psql, ann; idle in transaction, begun 2 min ago; last statement UPDATE)`."""
    if one.pid == 0:
        return "a prepared transaction"
    parts = [one.who, f"{one.state}, begun {format_duration(one.transaction_s)} ago".strip(", ")]
    if one.command:
        parts.append(f"{'' if one.state == 'active' else 'last '}statement {one.command}")
    return f"session {one.pid} ({'; '.join(part for part in parts if part)})"


def _queue(sights: Sights) -> Reading | None:
    blockers = [x for x in sights.all_of(Blocker, "sessions") if x.transaction_s >= _LONG_S]
    if not blockers:
        return None
    first = max(blockers, key=lambda one: one.blocked_s)
    who = blocker_words(first)
    step = (
        "Find it in pg_prepared_xacts, and COMMIT PREPARED or ROLLBACK PREPARED it."
        if first.pid == 0
        else f"Ask its owner, or end it: SELECT pg_terminate_backend({first.pid}); later, set "
        "idle_in_transaction_session_timeout, and lock_timeout for DDL."
    )
    return {
        **sights.time.lost(first.blocked_s),
        "who": who,
        "most": counted(first.most_blocked, "session"),
        "locks": ", ".join(first.locks),
        "action": step,
    }


LOCK_QUEUE = Symptom(
    "lock-queue",
    _queue,
    {"sessions": 0.4, "share": 0.1},
    why="On average 0.4 or more sessions wait for a transaction that has run for a second or longer. Short "
    "transactions block each other only for milliseconds.",
    says="{sessions:.1f} sessions wait for locks of one transaction, {share:.0%} of sessions' time",
    evidence="{who}; at most {most} waited behind it, lock type {locks} (pg_blocking_pids).",
    step="{action}",
)


def _hot_rows(sights: Sights) -> Reading | None:
    waits = sights.time.matching("Lock:transactionid", "Lock:tuple")
    long_s = sum(
        x.blocked_s for x in sights.all_of(Blocker, "sessions") if x.transaction_s >= _LONG_S
    )
    lost_s = max(sum(waits.values()) - long_s, 0.0)
    if not lost_s:
        return None
    return sights.time.lost(lost_s)


HOT_ROWS = Symptom(
    "hot-rows",
    _hot_rows,
    {"sessions": 1.0, "share": 0.3},
    why="Transactions that update the same rows wait for each other to commit. With less than one session waiting "
    "on average, or less than 30 % of the time, other waits matter more.",
    says="{sessions:.1f} sessions wait for rows that other transactions have changed, {share:.0%} of sessions' "
    "time",
    evidence="Waits Lock:transactionid and Lock:tuple of short transactions (pg_stat_activity).",
    step="Find the contended rows (counters, totals, queue entries). Update them last in the transaction, spread "
    "them over several rows, or take queue entries with SKIP LOCKED.",
    unless=("deadlocks",),
)


def _deadlocks(sights: Sights) -> Reading | None:
    per_s = sights.value("deadlocks_per_s")
    count = per_s * sights.length_s
    waited_s = count * sights.size_of("deadlock_timeout")
    share = sights.time.share(waited_s)
    return {
        "per_s": per_s,
        "count": count,
        "share": share,
        "severity": max(share, 0.2),
        "timeout": format_duration(sights.size_of("deadlock_timeout")),
    }


DEADLOCKS = Symptom(
    "deadlocks",
    _deadlocks,
    {"per_s": 1 / 60, "count": 1.9},
    why="Each deadlock makes its sessions wait for deadlock_timeout and ends a transaction with an error. More "
    "than one a minute is not chance; a single one may be.",
    says="{count:.0f} deadlocks, each ending a transaction with an error after {timeout}, take {share:.0%} of "
    "sessions' time",
    evidence="{per_s} per second (pg_stat_database); deadlock_timeout is {timeout}.",
    step="Find the statements of each deadlock in the server's log, and make all transactions lock rows in the "
    "same order.",
)


def _advisory(sights: Sights) -> Reading | None:
    lost_s = sights.time.seconds("Lock:advisory")
    return sights.time.lost(lost_s)


ADVISORY_LOCKS = Symptom(
    "advisory-locks",
    _advisory,
    {"sessions": 0.5, "share": 0.2},
    why="The application takes advisory locks for its own purposes. The server can tell only that sessions spend "
    "a fifth of their time waiting for them.",
    says="{sessions:.1f} sessions wait for advisory locks, {share:.0%} of sessions' time",
    evidence="Wait Lock:advisory (pg_stat_activity).",
    step="See who holds them: SELECT pid, objid FROM pg_locks WHERE locktype = 'advisory' AND granted.",
    unless=("lock-queue",),
)


def _idle(sights: Sights) -> Reading | None:
    idle_s = sights.value("idle_in_transaction_s")
    return {
        "idle_s": idle_s,
        "count": sights.value("connections_idle_in_transaction"),
        "severity": 0.1,
    }


IDLE_IN_TRANSACTION = Symptom(
    "idle-in-transaction",
    _idle,
    {"idle_s": 10.0},
    why="A client that leaves a transaction open for ten seconds between two statements has usually forgotten it. "
    "The transaction keeps its locks and its snapshot.",
    says="a session has been idle in transaction for {idle_s:duration}",
    evidence="{count:.1f} sessions are idle in transaction on average (pg_stat_activity).",
    step="Find the session with pgdrag horizon show, and set idle_in_transaction_session_timeout.",
    unless=("lock-queue", "held-horizon"),
)


def _rollbacks(sights: Sights) -> Reading | None:
    share = sights.value("rollback_share")
    return {"rolled_back": share, "per_s": sights.value("rollbacks_per_s"), "severity": share / 2}


ROLLBACKS = Symptom(
    "rollbacks",
    _rollbacks,
    {"rolled_back": 0.2, "per_s": 1.0},
    why="A transaction that rolls back has cost as much as one that commits. For comparison, TPC-C rolls back "
    "less than 1 %.",
    says="{rolled_back:.0%} of all transactions are rolled back, {per_s} per second",
    evidence="pg_stat_database, all databases.",
    step="Look for errors in the server's log (log_min_messages = error or lower). A driver that ends read-only "
    "transactions with ROLLBACK does no harm.",
    unless=("deadlocks",),
)
