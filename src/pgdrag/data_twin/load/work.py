"""What does an execution of a statement take, and how do several together take as much as the original's calls did?

Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pgdrag.data_twin.load.statements import Analysed

SOME = 6  # executions that are enough to tell a mean, where each takes long
_CLOSE = 0.05  # of what was wanted
_NEARLY = 1.2  # times as far from it as the nearest
# What a share of the rows, or of the blocks, costs that is missing or too much.
_ROWS_WEIGHT, _BLOCKS_WEIGHT = 100.0, 4.0
_ROWS_NEAR = 0.08  # of the rows: what is as near counts no more than blocks do
_PAGE_BYTES = 8192

Values = Sequence[str | None]
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Work:
    """What an execution took, or executions on average."""

    rows: float
    blocks: float
    temp: float = 0.0
    wal_bytes: float = 0.0
    wal_images: float = 0.0


def wanted(one: Analysed) -> Work:
    """Return what a call of the original took, on average."""
    x = one.wanted
    calls = max(x.calls, 1)
    return Work(
        x.rows / calls, (x.shared_hit + x.shared_read) / calls, (x.temp_read + x.temp_written) / calls,
        x.wal_bytes / calls, x.wal_full_pages / calls,
    )  # fmt: skip


def work_of(plan: Mapping[str, Any]) -> Work:
    """Return what EXPLAIN (ANALYZE, BUFFERS, WAL) says of a plan: rows returned or changed, blocks, WAL."""
    rows = float(plan["Actual Rows"])
    if plan["Node Type"] == "ModifyTable" and not rows:
        feeding = [x for x in plan.get("Plans", ()) if x.get("Parent Relationship") in ("Outer", "Member")]  # fmt: skip
        rows = sum(float(x["Actual Rows"]) * float(x.get("Actual Loops", 1)) for x in feeding)
        rows -= float(plan.get("Conflicting Tuples", 0)) if plan.get("Conflict Resolution") == "NOTHING" else 0  # fmt: skip
    return Work(
        rows, float(plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)),
        float(plan.get("Temp Read Blocks", 0) + plan.get("Temp Written Blocks", 0)),
        float(plan.get("WAL Bytes", 0)), float(plan.get("WAL FPI", 0)),
    )  # fmt: skip


def balanced(executed: Sequence[tuple[Values, Work]], target: Work) -> list[tuple[Values, Work]]:
    """Return executions in an order in which any number of the first ones do on average about what they should.

    For a statement of few calls, each of which may take much more than another: values by lot would miss by chance. As many as
    do together what they should, or as nearly as any can, are taken; what would spoil the average is left out.
    """
    left, found, rows, blocks = list(executed), list[tuple[Values, Work]](), 0.0, 0.0
    errors: list[float] = []

    def error(work: Work) -> float:
        count = len(found) + 1
        of_rows = abs((rows + work.rows) / count - target.rows) / max(target.rows, 0.5)
        return of_rows + abs((blocks + work.blocks) / count - target.blocks) / max(target.blocks, 1.0)  # fmt: skip

    while left:
        at = min(range(len(left)), key=lambda x: error(left[x][1]))
        work = left[at][1]
        errors.append(error(work))
        rows, blocks = rows + work.rows, blocks + work.blocks
        found.append(left.pop(at))
    first = min(SOME, len(found)) - 1
    best = min(errors[first:], default=0.0)
    near = [
        at for at, each in enumerate(errors) if at >= first and each <= max(_CLOSE, _NEARLY * best)
    ]
    return found[: max(near, default=-1) + 1]


def own_wal(work: Work) -> float:
    """Return bytes of WAL without pages that are logged whole since a checkpoint."""
    return max(work.wal_bytes - _PAGE_BYTES * work.wal_images, 0.0)


def squared_error(values: Sequence[float]) -> float:
    """Return the square of the standard error of their mean; of a few, one that differs is assumed."""
    count = len(values)
    mean_ = math.fsum(values) / count
    return (math.fsum((x - mean_) ** 2 for x in values) + mean_**2 / count) / count**2


def average(works: Sequence[Work]) -> Work:
    """Return the mean of executions; there is at least one."""
    return Work(*(math.fsum(getattr(x, name) for x in works) / len(works) for name in vars(works[0])))  # fmt: skip


def deviation(works: Sequence[Work]) -> float:
    """Return by how much executions differ: the standard deviation of their rows and blocks together."""
    return statistics.pstdev(x.rows + x.blocks for x in works) if works else 0.0


def mean(shares: Mapping[_Key, float], known: Mapping[_Key, Work]) -> Work:
    """Return what executions take whose values have these shares."""
    zero = Work(0.0, 0.0)
    total = math.fsum(shares.values())
    return replace(zero, **{
        name: math.fsum(share / total * getattr(known[x], name) for x, share in shares.items())
        for name in vars(zero)
    })  # fmt: skip


def best_shares(
    works: Sequence[Work], target: Work, *, weighs_blocks: bool, costs: Sequence[float],
    together: tuple[Sequence[bool], float] | None = None, at_most: tuple[Sequence[bool], float] | None = None,
) -> tuple[float, list[float]]:  # fmt: skip
    """Return shares, whose sum is 1, that come as near to the target as any do, behind what they cost.

    Rows count more than blocks, until they are near; of shares that are as near, those whose executions are each like the
    target, and not only on average, with the lower costs.

    Args:
        together: some of the works, and the share that these have together.
        at_most: some, but not all, of the works, and the share that these have at most.
    """
    from scipy.optimize import linprog

    count = len(works)
    kinds = [("rows", 0.05), ("blocks", 4.0)] if weighs_blocks else [("rows", 0.05)]
    own = [
        cost + 0.2 * sum(abs(math.log((getattr(x, k) + 1) / (getattr(target, k) + 1))) for k, _ in kinds)
        for x, cost in zip(works, costs, strict=True)
    ]  # fmt: skip
    # Further variables: how much more, and how much less it is than the target, as a share of that; first what is near.
    apart: list[tuple[str, float, float | None]] = [("rows", _ROWS_WEIGHT, None)]
    apart += [("rows", _BLOCKS_WEIGHT, _ROWS_NEAR), ("blocks", _BLOCKS_WEIGHT, None)] * weighs_blocks  # fmt: skip
    objective = own + [weight for _, weight, _ in apart for _ in range(2)]
    most_of_each = [None] * count + [most for _, _, most in apart for _ in range(2)]
    none = [0.0] * (2 * len(apart))
    equal, sums = [[1.0] * count + none], [1.0]
    for kind, least in kinds:
        goal = max(getattr(target, kind), least)
        slack = [sign * (of == kind) for of, _, _ in apart for sign in (-1.0, 1.0)]
        equal.append([getattr(x, kind) / goal for x in works] + slack)
        sums.append(getattr(target, kind) / goal)
    if together is not None:
        equal.append([*map(float, together[0]), *none])
        sums.append(together[1])
    upper = None if at_most is None else [[*map(float, at_most[0]), *none]]
    most = None if at_most is None else [at_most[1]]
    solved = linprog(objective, A_ub=upper, b_ub=most, A_eq=equal, b_eq=sums, bounds=[(0, x) for x in most_of_each], method="highs")  # fmt: skip
    assert solved.success, "any shares are a solution, more or less near"
    return float(solved.fun), [max(float(x), 0.0) for x in solved.x[:count]]


def is_near(value: float, target: float) -> bool:
    """Return whether a mean is as near to what was wanted as is asked for."""
    return abs(value - target) <= _CLOSE * max(target, 0.05)
