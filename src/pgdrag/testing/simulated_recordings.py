"""What would collectors record in a simulated trial? A statement, its plans, reads and row versions."""

from __future__ import annotations

from pgdrag.findings.plan_nodes import node_words
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import (
    PageStrip,
    Plan,
    ProcessIoUse,
    Recordings,
    Series,
    StatementPlan,
    StatementUse,
    UpdateLook,
)

QUERY = "SELECT n FROM simulated WHERE id < $1"
UPDATE = "UPDATE simulated SET n = n + $1 WHERE id < $2"


def simulated_recordings(measurement: Measurement, *, is_slowed: bool) -> Recordings:
    """Return recordings of a server that reads its table by an index, or whole where it was slowed."""
    committed = measurement.total.committed
    busy_s = measurement.elapsed_s * 0.5
    use = StatementUse(QUERY, committed, committed, busy_s, None, committed, 0, 0, 0, 0)
    plan = _plan(is_slowed=is_slowed)
    plans = StatementPlan(QUERY, plan, plan, _run(plan), transaction="simulated")
    io = ProcessIoUse("sessions", 2 * committed, committed, 2 * 8192 * committed, 8192 * committed)
    return Recordings(
        (
            *((use,) if committed else ()),
            plans,
            *((io,) if committed else ()),
            _old_versions(measurement.elapsed_s, is_slowed=is_slowed),
            _pages(0.0, pages=1, old=0),
            _pages(measurement.elapsed_s, pages=8, old=150 if is_slowed else 20),
            _update(0.0, 5, plan),
            _update(measurement.elapsed_s, 900 if is_slowed else 90, plan),
        )
    )


def _plan(*, is_slowed: bool) -> Plan:
    of = {"Relation Name": "simulated", "Alias": "simulated", "Plan Rows": 1}
    if is_slowed:
        return {"Node Type": "Seq Scan", **of, "Total Cost": 2500.0, "Filter": "(id < 17)"}
    by = {"Index Name": "simulated_pkey", "Total Cost": 8.44, "Index Cond": "(id < 17)"}
    return {"Node Type": "Index Scan", **of, **by}


def _run(plan: Plan) -> Plan:
    return {**plan, "Actual Rows": 1000, "Actual Loops": 1}


def _old_versions(end_s: float, *, is_slowed: bool) -> Series:
    label = "old row versions and dead line pointers per row"
    values = (0.0, 1200.0 if is_slowed else 160.0)
    return Series("dead_versions_per_row", label, "count", (0.0, end_s), values)


def _pages(at_s: float, *, pages: int, old: int) -> PageStrip:
    """Return a table whose newest versions are all on its last page."""
    live = (*[0.0] * (pages - 1), 10.0)
    nothing, olds = (0.0,) * pages, (float(old),) * pages
    free = (8_100 - 40 * old,) * pages
    return PageStrip(
        "public.simulated", at_s, pages, pages, 8192, live, olds, nothing, nothing, nothing, free
    )


def _update(at_s: float, buffers: int, plan: Plan) -> UpdateLook:
    updating = {"Node Type": "ModifyTable", "Operation": "Update", "Plans": [_run(plan)]}
    took_s = buffers * 1e-6
    return UpdateLook(
        "simulated", UPDATE, at_s, buffers, 0, 1.0, took_s, node_words(plan), updating
    )
