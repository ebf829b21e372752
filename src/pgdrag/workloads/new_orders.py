"""How many New-Orders a minute, and may they be called tpmC?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.values import NamedRate
from pgdrag.model import Result, WorkloadSpec
from pgdrag.model.measurement import Counts, Measurement
from pgdrag.stats.interval import Interval
from pgdrag.workloads.tpcc import Tpcc

TPMC = "tpmC"
PLAIN = "new orders/min"
_TYPE = "new_order"


def new_orders(
    workload: WorkloadSpec, tps: Interval | None, trials: Sequence[tuple[Result, Measurement]]
) -> NamedRate | None:
    """Return the New-Orders committed per minute; None for another workload, or without commits.

    The interval is that of the throughput, times the share of New-Orders: the mix is drawn, so that
    the share itself hardly varies.
    """
    if workload.kind != Tpcc.name or tps is None or not tps.center:
        return None
    total = sum((measured.total for _, measured in trials), Counts())
    orders = sum((measured.transactions.get(_TYPE, Counts()) for _, measured in trials), Counts())
    if not orders.committed:
        return None
    per_min = 60 * orders.committed / total.committed
    scaled = replace(
        tps, low=tps.low * per_min, center=tps.center * per_min, high=tps.high * per_min
    )
    return NamedRate(new_order_label(workload), scaled)


def new_order_label(workload: WorkloadSpec) -> str:
    """Return "tpmC" where the specification's terminals and waits make it one, else a plain name.

    Source: TPC-C 5.11, clauses 4.2 (ten terminals a warehouse) and 5.2.5 (keying and think times).
    """
    is_by_rule = (
        workload.parameters.get("terminals") == "specification"
        and workload.parameters.get("wait_scale") == 1
    )
    return TPMC if is_by_rule else PLAIN


NEW_ORDERS = TreatmentAnalysis(
    "new_orders",
    NamedRate,
    lambda one, treatments: new_orders(treatments.run.study.workload, one.tps, one.trials.numbered),
)
