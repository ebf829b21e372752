"""Are there too many connections, too few processors, or one lock in the server that all want?"""

from __future__ import annotations

from pgdrag.findings.doctor import Reading, Sights, Symptom

# To fork, authenticate and fill the caches of the catalogs.
_S_PER_SESSION = 0.005


def _churn(sights: Sights) -> Reading | None:
    per_s = sights.value("new_sessions_per_s")
    lost = per_s * _S_PER_SESSION
    if not lost:
        return None
    return {
        "per_s": per_s,
        "each": sights.value("sessions_per_transaction"),
        "transactions": 1 / max(sights.value("sessions_per_transaction"), 1e-9),
        "share": lost / (lost + sights.time.sessions),
    }


CONNECTION_CHURN = Symptom(
    "connection-churn",
    _churn,
    {"per_s": 10.0, "each": 0.2, "share": 0.05},
    why="A new session costs the server about 5 ms of a processor; with fewer than five transactions for each that is "
    "often more than their own work.",
    says="{per_s} new connections a second, about {share:.0%} of sessions' time",
    evidence="One for every {transactions:.1f} transactions (pg_stat_database).",
    step="Let the application keep its connections, or put a pooler such as PgBouncer before the server.",
)


def _full(sights: Sights) -> Reading | None:
    used = sights.value("connections_used_share")
    return {
        "used": used,
        "of": sights.detail("connections_used_share"),
        "active": sights.value("connections_active"),
        "severity": used / 2 if used < 1 else 1.0,
    }


CONNECTION_LIMIT = Symptom(
    "connection-limit",
    _full,
    {"used": 0.8},
    why="At four fifths of max_connections the next peak is refused with an error.",
    says="{used:.0%} of the permitted connections are in use",
    evidence="At most {of} {active:.1f} sessions were at work on average (pg_stat_activity).",
    step="If few are active, use a connection pooler; raising max_connections costs memory and makes snapshots slower.",
    severity="severity",
)


def _cpu(sights: Sights) -> Reading | None:
    processors = sights.value("processors")
    running = sights.time.on_average(sights.time.by_wait.get("", 0.0))
    waiting = max(running - processors, 0.0)
    return {
        "per_processor": running / processors,
        "running": running,
        "processors": processors,
        "share": waiting / sights.time.sessions if sights.time.sessions else 0.0,
    }


CPU_SATURATED = Symptom(
    "cpu-saturated",
    _cpu,
    {"per_processor": 8.0},
    why="With eight sessions that want each processor, each of them waits for seven eighths of its time; a benchmark "
    "at full speed has two to four.",
    says="{running:.0f} sessions compete for {processors:.0f} processors and wait {share:.0%} of their time for one",
    evidence="Sessions at work without a wait (pg_stat_activity).",
    step="Find the statements that take processor time (pg_stat_statements); fewer sessions at once (a pooler) finish sooner.",
)


def _throttled(sights: Sights) -> Reading | None:
    return {"share": sights.value("cpu_throttled_share")}


CPU_THROTTLED = Symptom(
    "cpu-throttled",
    _throttled,
    {"share": 0.1},
    why="In a tenth of its periods the control group had used up its processor time, and all sessions stood still.",
    says="the control group's limit stops the server in {share:.0%} of its periods",
    evidence="nr_throttled of nr_periods (cpu.stat of the server's control group).",
    step="Raise the container's CPU limit, or run fewer sessions at once.",
)


_WAL_LOCKS = ("LWLock:WALWrite", "LWLock:WALBufMapping")


def _lwlock(sights: Sights) -> Reading | None:
    waits = {
        x: time_s for x, time_s in sights.time.matching("LWLock:*").items() if x not in _WAL_LOCKS
    }
    if not waits:
        return None
    top = max(waits, key=lambda name: waits[name])
    lost_s = sum(waits.values())
    return {
        "sessions": sights.time.on_average(lost_s),
        "share": sights.time.share(lost_s),
        "top": top.removeprefix("LWLock:"),
        "top_share": sights.time.share(waits[top]),
    }


LWLOCKS = Symptom(
    "lwlocks",
    _lwlock,
    {"sessions": 1.0, "share": 0.25},
    why="Sessions hold the server's own locks for microseconds; a quarter of the time waiting for them means that all "
    "want the same.",
    says="sessions wait {share:.0%} of their time for the server's own locks, mostly {top}",
    evidence="{sessions:.1f} sessions on average, {top_share:.0%} of the time in LWLock:{top} (pg_stat_activity).",
    step="Look {top} up in the manual's table of LWLock wait events; LockManager: fewer partitions or indexes per "
    "statement; *SLRU: subtransactions or multixacts; BufferContent: one hot page.",
)
