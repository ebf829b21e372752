"""Are there too many connections, too few processors, or one lock in the server that all want?"""

from __future__ import annotations

from pgdrag.findings.doctor import Reading, Sights, Symptom
from pgdrag.units import format_number

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
    why="A new session costs the server about 5 ms of CPU time. With fewer than five transactions per session, "
    "connecting often costs more than the transactions themselves.",
    says="{per_s} new connections per second take about {share:.0%} of sessions' time",
    evidence="One connection for every {transactions:.1f} transactions (pg_stat_database).",
    step="Keep connections open in the application, or put a pooler such as PgBouncer in front of the server.",
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
    why="At 80 % of max_connections, the next peak is likely to be refused.",
    says="{used:.0%} of the permitted connections are in use",
    evidence="Peak: {of} On average {active:.1f} sessions were active (pg_stat_activity).",
    step="If few sessions are active, use a connection pooler. Raising max_connections costs memory and makes "
    "snapshots slower.",
)


def _cpu(sights: Sights) -> Reading | None:
    processors = sights.value("processors")
    running = sights.time.on_average(sights.time.by_wait.get("", 0.0))
    waiting = max(running - processors, 0.0)
    return {
        "per_processor": running / processors,
        "running": running,
        "processors": processors,
        "places": f"{format_number(processors)} processor{'' if processors == 1 else 's'}",
        "share": waiting / sights.time.sessions if sights.time.sessions else 0.0,
    }


CPU_SATURATED = Symptom(
    "cpu-saturated",
    _cpu,
    {"per_processor": 8.0},
    why="With eight sessions competing for each processor, a session waits for CPU seven eighths of its time. A "
    "benchmark at full speed has two to four.",
    says="{running:.0f} sessions compete for {places}; {share:.0%} of sessions' time goes to "
    "waiting for CPU",
    evidence="Active sessions without a wait event (pg_stat_activity). Processors: those that the server's affinity "
    "and control group allow.",
    step="Find the statements that use the most CPU time (pg_stat_statements). Fewer concurrent sessions, for "
    "example through a pooler, finish sooner.",
)


def _throttled(sights: Sights) -> Reading | None:
    return {"share": sights.value("cpu_throttled_share")}


CPU_THROTTLED = Symptom(
    "cpu-throttled",
    _throttled,
    {"share": 0.1},
    why="In a tenth of the periods the control group used up its CPU quota, and all sessions stopped until the "
    "next period.",
    says="the control group's CPU limit stops the server in {share:.0%} of its periods",
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
        **sights.time.lost(lost_s),
        "top": top.removeprefix("LWLock:"),
        "top_share": sights.time.share(waits[top]),
    }


LWLOCKS = Symptom(
    "lwlocks",
    _lwlock,
    {"sessions": 1.0, "share": 0.25},
    why="Sessions normally hold LWLocks for microseconds. If they spend a quarter of their time waiting for them, "
    "many sessions want the same lock.",
    says="sessions spend {share:.0%} of their time waiting for LWLocks, mostly {top}",
    evidence="{sessions:.1f} sessions on average; {top_share:.0%} of the time goes to LWLock:{top} (pg_stat_activity).",
    step="Look up {top} among the LWLock wait events in PostgreSQL's manual. LockManager: touch fewer partitions "
    "or indexes per statement. *SLRU: avoid subtransactions or multixacts. BufferContent: find the contended "
    "page.",
)
