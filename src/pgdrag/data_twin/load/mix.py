"""Which transactions does a twin's load have, and how often each?

A server's log tells: its shapes are the transactions. Without one, they are guessed: see `guessed.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.data_twin.load.constants import session_constants
from pgdrag.data_twin.load.following import with_later
from pgdrag.data_twin.load.guessed import guessed_types
from pgdrag.data_twin.load.kinds import (
    MOST_ROUNDS,
    MOST_STEPS,
    Constant,
    Link,
    Loop,
    Step,
    TransactionType,
)
from pgdrag.data_twin.load.texts import change_of, refusal, sendable
from pgdrag.twins.model import Statement, Twin
from pgdrag.twins.transactions import ALWAYS, QUANTILES, LoggedTransactions, Spread

_LEAST_LINK = 0.5  # share of the cases in which two parameters were equal
_LONGEST_NAME = 40
_LEAST_PAUSE_S = 0.001  # of half of the transactions
_MEDIAN_AGE = 2  # place among the quantiles of ages


@dataclass(frozen=True)
class Mix:
    """What the clients do.

    Attributes:
        statements: all that are sent, by number.
        left_out: clauses on those that are not.
    """

    types: tuple[TransactionType, ...]
    statements: Mapping[int, Statement]
    left_out: tuple[str, ...] = ()


def mix_of(twin: Twin) -> Mix:
    """Return the transactions of a twin's load; none where its file has no statement that can be sent."""
    left_out = [*_left_out(twin)]
    sent = {x.number: x for x in twin.workload.statements if _is_sent(x) and not refusal(sendable(x.text))}  # fmt: skip
    logged = twin.transactions
    if logged is not None and logged.shapes:
        sent |= {x.number: x for x in _texts_of_log(logged, sent)}
        types = [*_logged_types(logged, sent)]
    else:
        types = [*_with_pauses([*guessed_types(twin, sent)], twin)]
    return Mix(_with_names(types, sent), sent, tuple(left_out))


def _is_sent(statement: Statement) -> bool:
    return statement.is_toplevel and statement.is_plannable and statement.calls > 0


def _left_out(twin: Twin) -> Iterator[str]:
    for one in twin.workload.statements:
        if not one.is_toplevel or _is_control(one.text):
            continue
        why = "" if one.is_plannable else "it has no plan"
        if why := why or refusal(sendable(one.text)):
            yield f"statement {one.number} ({shortened(one.text)}, {one.calls} calls) is not sent: {why}"  # fmt: skip


def _is_control(text: str) -> bool:
    return re.match(r"\s*(begin|start|commit|end|rollback|abort|savepoint|release|set|show|reset|discard|deallocate)\b", text, re.IGNORECASE) is not None  # fmt: skip


def shortened(text: str, most: int = _LONGEST_NAME) -> str:
    """Return the first words of a statement."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


# --- from a log -----------------------------------------------------------------------------


def _texts_of_log(logged: LoggedTransactions, sent: Mapping[int, Statement]) -> Iterator[Statement]:
    """Yield statements that only the log has; what their calls took nobody knows."""
    for one in logged.statements:
        if one.text and one.number not in sent and not refusal(sendable(one.text)):
            yield Statement(
                one.number, one.text, is_plannable=True, role="", is_toplevel=True, calls=one.calls, rows=0,
                exec_s=0.0, plans=0, plan_s=None, min_s=0.0, max_s=0.0, mean_s=0.0, stddev_s=0.0, shared_hit=0,
                shared_read=0, shared_dirtied=0, shared_written=0, local_hit=0, local_read=0, local_dirtied=0,
                local_written=0, temp_read=0, temp_written=0, wal_records=0, wal_full_pages=0, wal_bytes=0,
            )  # fmt: skip


def _logged_types(
    logged: LoggedTransactions, sent: Mapping[int, Statement]
) -> Iterator[TransactionType]:
    constants = session_constants(logged.shapes)
    found: dict[int, TransactionType] = {}
    sent_places: dict[int, dict[int, int]] = {}
    for shape in logged.shapes:
        places = [i for i, x in enumerate(shape.steps) if x.statement in sent]
        if not places:
            continue
        new = {old: at for at, old in enumerate(places)}
        sent_places[shape.number] = {old + 1: at for old, at in new.items()}
        spans: list[tuple[int, int] | None] = []
        loops = []
        for loop in shape.loops:
            inside = [new[i] for i in range(loop.first - 1, loop.last) if i in new]
            spans.append((inside[0], inside[-1]) if inside else None)
            if inside:
                like = spans[loop.like - 1] if loop.like else None
                loops.append(Loop(inside[0], inside[-1], tuple(loop.repeats), like))
        links = [
            Link(
                new[x.step - 1], x.parameter, new[x.from_step - 1], x.from_parameter, x.source == "round",
                tuple(round(d) for d in x.differences if abs(d - round(d)) < 1e-9), is_in_step=x.source == "loop",
                is_exact=x.share >= ALWAYS,
            )
            for x in shape.links
            if x.source != "session" and x.share >= _LEAST_LINK
            and x.step - 1 in new and x.from_step - 1 in new
            and (not x.differences or all(abs(d - round(d)) < 1e-9 for d in x.differences))
        ]  # fmt: skip
        found[shape.number] = TransactionType(
            "", float(shape.transactions), tuple(Step(shape.steps[i].statement, pause_s=_pause(shape.steps[i].pause_s)) for i in places),
            tuple(_bounded(loops)), tuple(links),
            is_block=shape.is_block, is_rolled_back=shape.ending != "commit" and shape.is_block, knows_order=True,
            last_pause_s=_pause(shape.last_pause_s),
            constants=tuple(
                Constant(new[step - 1], parameter, group)
                for (number, step, parameter), group in constants.items()
                if number == shape.number and step - 1 in new
            ),
        )  # fmt: skip
    yield from with_later(found, logged.shapes, sent_places)


def _pause(spread: Spread | None) -> tuple[float, ...]:
    """Return quantiles of a pause that an application makes on purpose; () where it is the time of a message."""
    if spread is None or spread.quantiles[QUANTILES.index(0.5)] < _LEAST_PAUSE_S:
        return ()
    return spread.quantiles


def _bounded(loops: Sequence[Loop]) -> Iterator[Loop]:
    """Yield loops with no more rounds than a script can have."""
    rounds = MOST_ROUNDS
    for loop in loops:
        rounds = min(rounds, max(MOST_STEPS // max(len(loops) * (loop.last - loop.first + 1), 1), 1))  # fmt: skip
    for loop in loops:
        cut: dict[int, float] = {}
        for number, share in loop.repeats:
            cut[min(number, rounds)] = cut.get(min(number, rounds), 0.0) + share
        yield replace(loop, repeats=tuple(sorted(cut.items())))


# --- without a log --------------------------------------------------------------------------


def _with_pauses(types: Sequence[TransactionType], twin: Twin) -> Iterator[TransactionType]:
    """Yield transactions whose application waits before each statement, as long as sessions were idle in a transaction.

    No longer than by the ages of open transactions in the samples: one session that stands still for minutes is no such wait.
    """
    pauses = {at: 1 + sum(_executions(x)) for at, x in enumerate(types) if x.is_block}
    blocks = sum(types[at].weight for at in pauses)
    number = sum(types[at].weight * count for at, count in pauses.items())
    pause_s = (twin.activity.idle_in_transaction_s or 0.0) / max(number, 1.0)
    if ages_s := twin.activity.transaction_ages_s:
        median_s = ages_s[_MEDIAN_AGE]
        pause_s = min(pause_s, 2 * median_s * blocks / max(number, 1.0))
    quantiles = (pause_s,) * len(QUANTILES) if pause_s >= _LEAST_PAUSE_S else ()
    for one in types:
        steps = tuple(replace(x, pause_s=quantiles) for x in one.steps)
        yield replace(one, steps=steps, last_pause_s=quantiles) if one.is_block else one


def _executions(one: TransactionType) -> Iterator[float]:
    """Yield how often each step runs in a transaction, on average."""
    for at, step in enumerate(one.steps):
        rounds = (x.mean for x in one.loops if x.first <= at <= x.last)
        yield step.share * math.prod(rounds)


# --- names ----------------------------------------------------------------------------------


def _with_names(
    types: Iterable[TransactionType], sent: Mapping[int, Statement]
) -> tuple[TransactionType, ...]:
    """Name each after its statement that took the most time: "s3 UPDATE accounts", "s1 SELECT orders + 4"."""
    taken: dict[str, int] = {}
    found = []
    for one in types:
        numbers = list(dict.fromkeys(step.statement for step in one.steps))
        first = min(numbers)
        name = f"s{first} {_subject(sent[first].text)}"
        if len(numbers) > 1:
            name += f" + {len(numbers) - 1}"
        if one.is_rolled_back:
            name += ", rolled back"
        taken[name] = count = taken.get(name, 0) + 1
        if count > 1:
            name += f" ({count})"
        found.append(replace(one, name=name))
    return tuple(found)


def _subject(text: str) -> str:
    """Return what a statement is about: "UPDATE accounts"."""
    change = change_of(text)
    if change.table:
        return shortened(f"{change.kind.upper()} {change.table[-1]}")
    found = re.search(r'\bfrom\s+(?:only\s+)?(?:[\w"$]+\.)?("[^"]+"|[\w$]+)', text, re.IGNORECASE)
    verb = "SELECT" if change.kind == "select" else text.split(None, 1)[0].upper()
    return shortened(f"{verb} {found[1].strip(chr(34))}" if found else verb)
