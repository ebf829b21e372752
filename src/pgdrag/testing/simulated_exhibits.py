"""What collectors would bring from a simulated trial beside numbers: a statement, its plans and its reads."""

from __future__ import annotations

from pgdrag.exhibits import Exhibits, Plan, ProcessIoUse, StatementPlan, StatementUse
from pgdrag.measurement import Measurement

QUERY = "SELECT n FROM simulated WHERE id < $1"


def simulated_exhibits(measurement: Measurement, *, is_slowed: bool) -> Exhibits:
    """Return exhibits of a server that reads its table by an index, or whole where it was slowed."""
    committed = measurement.total.committed
    busy_s = measurement.elapsed_s * 0.5
    use = StatementUse(QUERY, committed, committed, busy_s, None, committed, 0, 0, 0, 0)
    plan = _plan(is_slowed=is_slowed)
    plans = StatementPlan(QUERY, plan, plan, _run(plan), transaction="simulated")
    io = ProcessIoUse("sessions", 2 * committed, committed, 2 * 8192 * committed, 8192 * committed)
    return Exhibits(
        statements=(use,) if committed else (),
        plans=(plans,),
        process_io=(io,) if committed else (),
    )


def _plan(*, is_slowed: bool) -> Plan:
    of = {"Relation Name": "simulated", "Alias": "simulated", "Plan Rows": 1}
    if is_slowed:
        return {"Node Type": "Seq Scan", **of, "Total Cost": 2500.0, "Filter": "(id < 17)"}
    by = {"Index Name": "simulated_pkey", "Total Cost": 8.44, "Index Cond": "(id < 17)"}
    return {"Node Type": "Index Scan", **of, **by}


def _run(plan: Plan) -> Plan:
    return {**plan, "Actual Rows": 1000, "Actual Loops": 1}
