"""What does a trial say beside its throughput? Work and waits per transaction, on the logarithm.

Throughput is the noisiest quantity that a trial yields. Processor time, WAL, blocks, system calls and waits
per transaction are measured in the same trial, many of them to within a per cent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pgdrag.model import Observation, Result


def is_quantity(seen: Observation) -> bool:
    """Tell whether an observation is an amount per transaction of this server."""
    return seen.unit.endswith("/transaction") and not seen.is_of_machine


def quantities(result: Result) -> Mapping[str, float]:
    """Return the natural logarithm of each amount per transaction, by the observation's name.

    What is under its resolution counts as that.
    """
    return {
        one.name: math.log(max(one.value, one.resolution))
        for one in result.evidence
        if is_quantity(one) and one.value is not None and math.isfinite(one.value)
    }
