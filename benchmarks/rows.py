"""What does one comparison answer, and is its goal met?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.rounds import Ratio

WIDE = 130
_GOAL = re.compile(r"(<=|>=) (\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Row:
    """One ratio of pgdrag to a peer, as it stands in build/bench.json.

    Attributes:
        name: what was compared, and which way round the ratio is.
        subject: the program under test, with its version and mode.
        peer: what it is compared with.
        ratio: subject / peer, the geometric mean over the rounds; None where nothing was measured.
        low, high: 95 % interval of the ratio over further rounds; None with a single round.
        goal: such as "<= 0.85"; empty where the row is for information.
        met: whether the ratio meets the goal; None without a goal or a ratio.
        certain: whether the whole interval lies on the side of the goal that `met` says.
        noise: by which part one round's ratio differs from another's (standard deviation).
        rounds: how many rounds are behind it.
        subject_value, peer_value: medians over the rounds, in `unit`.
        unit: unit of the two values.
        note: what a reader should know, such as how to install a peer that is missing.
    """

    name: str
    subject: str
    peer: str
    ratio: float | None
    low: float | None
    high: float | None
    goal: str
    met: bool | None
    certain: bool | None = None
    noise: float | None = None
    rounds: int = 0
    subject_value: float | None = None
    peer_value: float | None = None
    unit: str = ""
    note: str = ""


def measured_row(
    name: str,
    subject: str,
    peer: str,
    ratio: Ratio,
    goal: str,
    *,
    values: tuple[float, float] | None = None,
    unit: str = "",
    note: str = "",
) -> Row:
    """Return the row of a comparison that was measured."""
    ends = None if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)
    met = meets(ratio.center, goal)
    return Row(
        name,
        subject,
        peer,
        ratio.center,
        ratio.low,
        ratio.high,
        goal,
        met,
        certain=None if met is None or ends is None else all(meets(x, goal) == met for x in ends),
        noise=ratio.noise,
        rounds=ratio.rounds,
        subject_value=values[0] if values else None,
        peer_value=values[1] if values else None,
        unit=unit,
        note=note,
    )


def missing_row(name: str, subject: str, peer: str, goal: str, note: str) -> Row:
    """Return the row of a comparison that could not be made; `note` says what to do."""
    return Row(name, subject, peer, None, None, None, goal, None, note=note)


def meets(ratio: float, goal: str) -> bool | None:
    """Whether a ratio meets a goal such as "<= 0.85"; None where there is no goal."""
    if not goal:
        return None
    found = _GOAL.fullmatch(goal)
    assert found, f"not a goal: {goal!r}"
    bound = float(found[2])
    return ratio <= bound if found[1] == "<=" else ratio >= bound


def to_json(rows: Iterable[Row]) -> str:
    """Return the rows as build/bench.json has them."""
    return json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n"


def from_json(path: Path) -> list[Row]:
    """Read what `to_json` wrote; a file that is not there has no rows."""
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def merged(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Return the old rows with those of the same name replaced, then the rows that are new."""
    by_name = {row.name: row for row in new}
    kept = [by_name.pop(row.name, row) for row in old]
    return [*kept, *by_name.values()]


def table(rows: Sequence[Row], *, width: int) -> Table:
    """Return the rows for a terminal so wide; a narrow one does without the values and the noise."""
    drawn = Table(box=None, pad_edge=False)
    is_wide = width >= WIDE
    drawn.add_column("comparison", overflow="fold", ratio=1)
    values = ["pgdrag", "peer"] if is_wide else []
    for heading in [*values, "ratio", "95 % interval", *(["noise"] if is_wide else [])]:
        drawn.add_column(heading, justify="right", no_wrap=True)
    for heading in ("goal", "met"):
        drawn.add_column(heading, no_wrap=True)
    for row in rows:
        cells = [row.name]
        if is_wide:
            cells += [_value(value, row.unit) for value in (row.subject_value, row.peer_value)]
        ends = [row.low, row.high]
        cells += [_number(row.ratio), " … ".join(map(_number, ends)) if row.low else ""]
        if is_wide:
            cells.append("" if row.noise is None else f"{row.noise:.1%}")
        drawn.add_row(*cells, row.goal, _met(row))
    return drawn


def summary(rows: Sequence[Row]) -> str:
    """Return how many goals are met, in one line."""
    goals = [row for row in rows if row.goal]
    met = sum(row.met is True for row in goals)
    missed = sum(row.met is False for row in goals)
    return f"Goals: {met} met, {missed} not met, {len(goals) - met - missed} not measured."


def notes(rows: Sequence[Row]) -> list[str]:
    """Return the different notes of the rows, each with the names it belongs to."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.note:
            names.setdefault(row.note, []).append(row.name)
    return [f"{'; '.join(of)}: {note}" for note, of in names.items()]


def _met(row: Row) -> str:
    if row.ratio is None:
        return "not measured"
    if row.met is None:
        return "–"
    word = "yes" if row.met else "no"
    if row.certain is None:
        return f"{word}, one round"
    return word if row.certain else f"{word}, within noise"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:#.3g}".rstrip(".")


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".replace(" /", "/")
