"""Which transactions does a twin's load have, and how often each?

A server's log tells: its shapes are the transactions. Without one, pg_stat_statements has only how often each
statement ran: statements that ran equally often are taken for one transaction, as many as there were BEGINs for;
what is left of the BEGINs runs the other statements as often, on average, as the original did.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.data_twin.load.texts import change_of, refusal, sendable
from pgdrag.twins.model import Statement, Twin
from pgdrag.twins.transactions import LoggedTransactions

_ALIKE = 0.02  # call counts of one transaction's statements differ by less
_MOST_ROUNDS = 40
_MOST_STEPS = 200  # of a script, rounds of loops counted
_LEAST_LINK = 0.5  # share of the cases in which two parameters were equal
_LONGEST_NAME = 40
_TABLES = re.compile(
    r'\b(?:from|join|into|update)\s+(?:only\s+)?(?:[\w$"]+\.)?("[^"]+"|[\w$]+)', re.IGNORECASE
)
_BEGINS = re.compile(r"\s*(?:begin|start\s+transaction)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """A statement of a transaction.

    Attributes:
        statement: its number.
        share: of the transactions that run it at all.
    """

    statement: int
    share: float = 1.0


@dataclass(frozen=True)
class Loop:
    """Steps, from 0, that run several times: `repeats` are pairs of a number and a share."""

    first: int
    last: int
    repeats: tuple[tuple[int, float], ...]

    @property
    def most(self) -> int:
        """The most rounds."""
        return max(number for number, _ in self.repeats)


@dataclass(frozen=True)
class Link:
    """That a step's parameter is equal to an earlier one's, or more by one of `differences`.

    Attributes:
        returned: the column of the earlier step's result that it is equal to, instead of a parameter.
        is_of_round: the loop's round before, and not the same one or an earlier statement.
    """

    step: int
    parameter: int
    from_step: int
    from_parameter: int
    is_of_round: bool = False
    differences: tuple[int, ...] = ()
    returned: str = ""


@dataclass(frozen=True)
class TransactionType:
    """Transactions that run the same statements.

    Attributes:
        weight: how many there were.
        is_block: with BEGIN and COMMIT, or ROLLBACK.
        knows_order: a log told the order and the links; else both are guessed.
    """

    name: str
    weight: float
    steps: tuple[Step, ...]
    loops: tuple[Loop, ...] = ()
    links: tuple[Link, ...] = ()
    is_block: bool = True
    is_rolled_back: bool = False
    knows_order: bool = False


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
        types = [*_guessed_types(twin, sent)]
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
    for shape in logged.shapes:
        places = [i for i, x in enumerate(shape.steps) if x.statement in sent]
        if not places:
            continue
        new = {old: at for at, old in enumerate(places)}
        loops = []
        for loop in shape.loops:
            inside = [new[i] for i in range(loop.first - 1, loop.last) if i in new]
            if inside:
                loops.append(Loop(inside[0], inside[-1], tuple(loop.repeats)))
        links = [
            Link(
                new[x.step - 1], x.parameter, new[x.from_step - 1], x.from_parameter, x.source == "round",
                tuple(round(d) for d in x.differences if abs(d - round(d)) < 1e-9),
            )
            for x in shape.links
            if x.source != "session" and x.share >= _LEAST_LINK
            and x.step - 1 in new and x.from_step - 1 in new
            and (not x.differences or all(abs(d - round(d)) < 1e-9 for d in x.differences))
        ]  # fmt: skip
        yield TransactionType(
            "", float(shape.transactions), tuple(Step(shape.steps[i].statement) for i in places),
            tuple(_bounded(loops)), tuple(links),
            is_block=shape.is_block, is_rolled_back=shape.ending == "rollback" and shape.is_block, knows_order=True,
        )  # fmt: skip


def _bounded(loops: Sequence[Loop]) -> Iterator[Loop]:
    """Yield loops with no more rounds than a script can have."""
    rounds = _MOST_ROUNDS
    for loop in loops:
        rounds = min(rounds, max(_MOST_STEPS // max(len(loops) * (loop.last - loop.first + 1), 1), 1))  # fmt: skip
    for loop in loops:
        cut: dict[int, float] = {}
        for number, share in loop.repeats:
            cut[min(number, rounds)] = cut.get(min(number, rounds), 0.0) + share
        yield Loop(loop.first, loop.last, tuple(sorted(cut.items())))


# --- from counts ----------------------------------------------------------------------------


def _guessed_types(twin: Twin, sent: Mapping[int, Statement]) -> Iterator[TransactionType]:
    blocks = begins = _blocks(twin, sent)
    left = {number: float(one.calls) for number, one in sent.items()}
    types: list[TransactionType] = []
    groups = []
    for group in _equal_counts(sent.values()):
        count = sum(sent[x].calls for x in group) / len(group)
        # Without blocks nothing says that they belong together.
        if len(group) > 1 and count <= blocks * (1 + _ALIKE):
            blocks = max(blocks - count, 0.0)
            types.append(TransactionType("", count, tuple(map(Step, _in_order(group, sent, twin)))))
        else:
            groups.append((count, group))
    # Commits that no BEGIN was for.
    alone = (
        max(_transactions(twin) - begins, 0.0) if twin.activity.commits is not None else math.inf
    )
    for count, group in groups:
        if count * len(group) <= alone * (1 + _ALIKE):
            alone -= count * len(group)
            continue
        place = _parent(group, count, types, sent, twin)
        if place is not None:
            types[place] = _with_loop(types[place], _in_order(group, sent, twin), count)
    for number in {step.statement for one in types for step in one.steps}:
        del left[number]
    # As many statements as transactions are left: each is one.
    is_single = not _begins(twin) and sum(left.values()) <= blocks * (1 + _ALIKE)
    if blocks > _ALIKE * begins and left and not is_single:
        types += _mixed_block(twin, sent, left, blocks)
    yield from types
    for number, calls in left.items():
        if calls >= 1:
            yield TransactionType("", calls, (Step(number),), is_block=False)


def _blocks(twin: Twin, sent: Mapping[int, Statement]) -> float:
    """Return how many transactions had a BEGIN.

    The server does not count one that is prepared: then all transactions had one, if there are fewer of them than statements.
    """
    begins = _begins(twin)
    transactions = _transactions(twin)
    calls = sum(x.calls for x in sent.values())
    return float(begins or (transactions if calls > (1 + 2 * _ALIKE) * transactions else 0))


def _begins(twin: Twin) -> int:
    return sum(x.calls for x in twin.workload.statements if x.is_toplevel and _BEGINS.match(x.text))


def _transactions(twin: Twin) -> int:
    return (twin.activity.commits or 0) + (twin.activity.rollbacks or 0)


def _parent(
    group: Sequence[int], count: float, types: Sequence[TransactionType], sent: Mapping[int, Statement], twin: Twin
) -> int | None:  # fmt: skip
    """Return which transaction runs a group of statements several times: one whose tables belong to theirs."""
    edges = {
        frozenset((x.table, x.references[1]))
        for x in twin.schema.constraints
        if x.kind == "f" and x.references is not None
    }
    own = {table for x in group for table in _tables(sent[x].text)}
    best, score = None, 0
    for at, one in enumerate(types):
        others = {table for step in one.steps for table in _tables(sent[step.statement].text)}
        found = sum(frozenset((x, y)) in edges for x in own for y in others) + len(own & others)
        if found > score and 1 + _ALIKE < count / one.weight <= _MOST_ROUNDS:
            best, score = at, found
    return best


def _tables(text: str) -> set[str]:
    return {x.strip('"') for x in _TABLES.findall(text)}


def _with_loop(one: TransactionType, steps: Sequence[int], count: float) -> TransactionType:
    """Return a transaction that runs these steps behind its own, as often as they ran, on average."""
    first = len(one.steps)
    loop = Loop(first, first + len(steps) - 1, _repeats(count / one.weight))
    return replace(one, steps=(*one.steps, *map(Step, steps)), loops=(*one.loops, loop))


def _repeats(mean: float) -> tuple[tuple[int, float], ...]:
    below = int(mean)
    rest = mean - below
    return ((below, 1 - rest), (below + 1, rest)) if rest > 1 / 1000 else ((below, 1.0),)


def _equal_counts(statements: Iterable[Statement]) -> Iterator[list[int]]:
    """Yield statements that ran equally often, give or take what a window cuts off."""
    group: list[Statement] = []
    for one in sorted(statements, key=lambda x: (-x.calls, x.number)):
        slack = _ALIKE * one.calls + 3
        if group and group[0].calls - one.calls > slack:
            yield [x.number for x in group]
            group = []
        group.append(one)
    if group:
        yield [x.number for x in group]


def _mixed_block(
    twin: Twin, sent: Mapping[int, Statement], left: dict[int, float], blocks: float
) -> Iterator[TransactionType]:
    """Yield a transaction that runs the statements that are left as often, on average, as they were run in blocks."""
    alone = _alone(twin, sent, left, blocks)
    most = min(_MOST_ROUNDS, max(_MOST_STEPS // len(left), 1))
    for number, calls in left.items():
        # More than a script has room for.
        beyond = calls - blocks * most
        if beyond > alone.get(number, 0.0):
            alone[number] = beyond
    steps, loops = [], []
    for number in _in_order([x for x in left if left[x] > alone.get(x, 0.0)], sent, twin):
        mean = (left[number] - alone.get(number, 0.0)) / blocks
        if mean <= 1:
            steps.append(Step(number, mean))
            continue
        loops.append(Loop(len(steps), len(steps), _repeats(mean)))
        steps.append(Step(number))
    left.clear()
    left.update({x: calls for x, calls in alone.items() if calls >= 1})
    if steps:
        yield TransactionType("", blocks, tuple(steps), tuple(loops))


def _alone(
    twin: Twin, sent: Mapping[int, Statement], left: Mapping[int, float], blocks: float
) -> dict[int, float]:
    """Return how many calls were transactions of their own: of reads first, as many as commits that no BEGIN was for."""
    grouped = sum(x.calls for x in sent.values()) - sum(left.values())
    single = min(max(_transactions(twin) - _blocks(twin, sent), 0.0), sum(left.values()))
    if single < _ALIKE * max(grouped + sum(left.values()), 1.0):
        return {}
    found: dict[int, float] = {}
    for number in sorted(left, key=lambda x: (change_of(sent[x].text).kind != "select", -sent[x].calls)):  # fmt: skip
        taken = min(single, left[number])
        if taken > 0:
            found[number] = taken
        single -= taken
    return found


def _in_order(numbers: Iterable[int], sent: Mapping[int, Statement], twin: Twin) -> list[int]:
    """Return statements in the order that holds hot rows for the shortest time: reads, then changes, small tables last."""
    tuples = {x.name: x.tuples for x in twin.relations if not x.table}
    parents = {
        (x.table, x.references[1])
        for x in twin.schema.constraints
        if x.kind == "f" and x.references is not None and x.references[1] != x.table
    }

    def depth(table: str, most: int = 8) -> int:
        above = [parent for child, parent in parents if child == table]
        return 1 + max(depth(x, most - 1) for x in above) if above and most else 0

    def place(number: int) -> tuple[int, int, float, int]:
        change = change_of(sent[number].text)
        if change.kind == "select":
            return 0, 0, 0.0, number
        table = change.table[-1] if change.table else ""
        is_insert = change.kind == "insert"
        return 1 + is_insert, depth(table) if is_insert else 0, -tuples.get(table, 0.0), number

    return sorted(numbers, key=place)


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
