"""What does a trial say beside its throughput? Work and waits per transaction, on the logarithm.

Throughput is the noisiest quantity that a trial yields. Processor time, WAL, blocks, system calls and waits
per transaction are measured in the same trial, many of them to within a per cent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pgdrag.findings.plausibility import implausible, without
from pgdrag.model import Observation, Result


@dataclass(frozen=True)
class Quantity:
    """One trial's amount per transaction.

    Attributes:
        log: its natural logarithm; what is under the observation's resolution counts as that.
        counting_variance: of that, by chance in counting what it is made of.
        is_bound: the amount is under the resolution, and lies anywhere below.
    """

    log: float
    counting_variance: float = 0.0
    is_bound: bool = False


def is_quantity(seen: Observation) -> bool:
    """Tell whether an observation is an amount per transaction of this server."""
    return seen.unit.endswith("/transaction") and not seen.is_of_machine


def quantities(result: Result) -> Mapping[str, Quantity]:
    """Return each amount per transaction that a trial measured, by the observation's name."""
    return {
        one.name: Quantity(
            math.log(max(one.value, one.resolution)),
            1 / max(one.value / one.resolution, 1.0),
            one.value < one.resolution,
        )
        for one in without(result.evidence, implausible(result.evidence))
        if is_quantity(one) and one.value is not None and math.isfinite(one.value)
    }
