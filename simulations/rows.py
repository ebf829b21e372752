"""What does a simulation find, and is that what was promised?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import scipy
from rich.table import Table

_GOAL = re.compile(r"(<=|>=) (\d+(?:\.\d+)?)")
_RANGE = re.compile(r"(\d+(?:\.\d+)?) \.\. (\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Row:
    """One promise, as it stands in build/simulate.json.

    Attributes:
        name: what is promised, and under which conditions.
        value: what the simulation found, such as a share of its repeats.
        low, high: 95 % interval of that over further repeats; None where it is no estimate.
        goal: "<= 0.05", ">= 0.8" or "0.93 .. 0.97"; empty where the row is for information.
        met: False where the interval excludes what was promised; None without a goal.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    goal: str
    met: bool | None


def share_row(name: str, hits: int, repeats: int, goal: str = "") -> Row:
    """Return the row of a share of repeats, with its exact interval.

    Source: Clopper and Pearson 1934.
    """
    assert 0 <= hits <= repeats, f"{name}: {hits} of {repeats}"
    found = scipy.stats.binomtest(hits, repeats).proportion_ci(0.95)
    low, high = float(found.low), float(found.high)
    return Row(name, hits / repeats, low, high, goal, _is_met(low, high, goal))


def value_row(name: str, value: float, goal: str = "") -> Row:
    """Return the row of a number that is no estimate."""
    return Row(name, value, None, None, goal, _is_met(value, value, goal))


def _is_met(low: float, high: float, goal: str) -> bool | None:
    """Tell whether the goal lies within the interval or beyond it on the right side."""
    if not goal:
        return None
    if between := _RANGE.fullmatch(goal):
        return high >= float(between[1]) and low <= float(between[2])
    limit = _GOAL.fullmatch(goal)
    assert limit is not None, f"not a goal: {goal!r}"
    return low <= float(limit[2]) if limit[1] == "<=" else high >= float(limit[2])


def write_json(rows: Iterable[Row], path: Path) -> None:
    """Write all rows as a list of objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


def table_of(rows: Iterable[Row]) -> Table:
    """Return the rows for people."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("promise", "found", "95 % interval", "goal", "met"):
        table.add_column(title, justify="left" if title == "promise" else "right")
    for row in rows:
        bounds = "" if row.low is None or row.high is None else f"{row.low:.3g} - {row.high:.3g}"
        met = {True: "yes", False: "NO", None: ""}[row.met]
        table.add_row(row.name, f"{row.value:.4g}", bounds, row.goal, met)
    return table
