"""Which transactions ran, where no log tells? What pg_stat_statements has is how often each statement ran.

Statements that ran equally often are taken for one transaction, as many as there were BEGINs for. Two of a kind that
together ran as often as such a transaction are its branches: it runs the one or the other. What ran more often is run
in a loop, of the transaction that it belongs to or of those that nothing else explains; what is left of the BEGINs runs
the other statements as often, on average, as the original did.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pgdrag.data_twin.load.kinds import MOST_ROUNDS, MOST_STEPS, Loop, Step, TransactionType
from pgdrag.data_twin.load.texts import Change, change_of
from pgdrag.twins.mending import limiting
from pgdrag.twins.model import Statement, Twin
from pgdrag.twins.workload import long_waiting

_ALIKE = 0.02  # call counts of one transaction's statements differ by less
_EXACTLY = 0.001  # those of branches together, and what they are branches of
_LOCK = 0.5  # WAL records of an inserted row: fewer are none of a lock
_WAITING = 10  # times the usual time for each block
_TELLING = 20  # times the difference that a window's ends make: fewer calls are equal by chance
_MOST_BRANCHED = 2  # statements of a group that may be branches
_MOST_WHOLE, _MOST_ALIKE = (
    50,
    50,
)  # groups that may have branches, statements of a kind that may be some
_TABLES = re.compile(
    r'\b(?:from|join|into|update)\s+(?:only\s+)?(?:[\w$"]+\.)?("[^"]+"|[\w$]+)', re.IGNORECASE
)
_BEGINS = re.compile(r"\s*(?:begin|start\s+transaction)\b", re.IGNORECASE)
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)


def guessed_types(twin: Twin, sent: Mapping[int, Statement]) -> Iterator[TransactionType]:
    """Yield the transactions that explain how often statements ran."""
    guess = _Guess(twin, sent)
    begins, blocks = guess.blocks, guess.blocks
    rest = guess.take_equal_counts()
    guess.take_loops(rest)
    types, blocks = guess.types, guess.blocks
    left = {number: float(one.calls) for number, one in sent.items()}
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


class _Guess:
    """Transactions as far as they are guessed.

    Attributes:
        blocks: how many transactions with BEGIN nothing explains yet.
    """

    def __init__(self, twin: Twin, sent: Mapping[int, Statement]) -> None:
        self._twin, self._sent = twin, sent
        self._begins = self.blocks = _blocks(twin, sent)
        self.types: list[TransactionType] = []

    def take_equal_counts(self) -> list[list[int]]:
        """Take statements that ran equally often, with their branches, for transactions; return the others."""
        found = [*_equal_counts(self._sent.values(), self._twin.activity.most_active + 3.0)]
        branches = [*_branches(found, self._sent, self._twin, self.blocks)]
        branched = {step.statement for _, steps in branches for step in steps}
        rest = []
        for at, members in enumerate(found):
            group = [x for x in members if x not in branched]
            count = _mean_calls(group, self._sent)
            # Without blocks nothing says that they belong together.
            if len(group) > 1 and count <= self.blocks * (1 + _ALIKE):
                self.blocks = max(self.blocks - count, 0.0)
                steps = {x: Step(x) for x in group}
                steps |= {x.statement: x for place, some in branches if place == at for x in some}
                ordered = _in_order(steps, self._sent, self._twin)
                self.types.append(TransactionType("", count, tuple(steps[x] for x in ordered)))
            elif group:
                rest.append(group)
        return rest

    def take_loops(self, groups: Iterable[Sequence[int]]) -> None:
        """Take statements that ran more often than a transaction for its loops."""
        twin, sent = self._twin, self._sent
        # Commits that no BEGIN was for.
        alone = max(_transactions(twin) - self._begins, 0.0) if twin.activity.commits is not None else math.inf  # fmt: skip
        for group in groups:
            count = _mean_calls(group, sent)
            if count * len(group) <= alone * (1 + _ALIKE):
                alone -= count * len(group)
                continue
            steps, place = (
                _in_order(group, sent, twin),
                _owner(group, count, self.types, sent, twin),
            )
            if place is None and self._is_explained_by(group, count):
                self.types.append(_with_loop(TransactionType("", self.blocks, ()), steps, count))
                self.blocks = 0.0
                continue
            if place is None:
                place = _parent(group, count, self.types, sent, twin)
            if place is not None:
                self.types[place] = self._with_loop(self.types[place], steps, count)

    def _with_loop(
        self, one: TransactionType, steps: Sequence[int], count: float
    ) -> TransactionType:
        """Return a transaction that runs these steps in a loop: in that of others, if those ran nearly as often.

        Each round is then about the same: what is locked first is updated. What ran less often some transactions leave out.
        """
        for at, loop in enumerate(one.loops):
            calls = loop.mean * one.weight
            if abs(calls - count) > _ALIKE * count:
                continue
            most = max(calls, count)
            known = {x.statement: replace(x, share=x.share * calls / most) for x in one.steps[loop.first : loop.last + 1]}  # fmt: skip
            known |= {x: Step(x, count / most) for x in steps}
            inner = [known[x] if known[x].share == 1 else replace(known[x], begins=0.0) for x in _in_order(known, self._sent, self._twin)]  # fmt: skip
            grown = replace(loop, last=loop.last + len(steps), repeats=_repeats(most / one.weight))
            behind = [replace(x, first=x.first + len(steps), last=x.last + len(steps)) for x in one.loops[at + 1 :]]  # fmt: skip
            return replace(
                one, steps=(*one.steps[: loop.first], *inner, *one.steps[loop.last + 1 :]), loops=(*one.loops[:at], grown, *behind)
            )  # fmt: skip
        return _with_loop(one, steps, count)

    def _is_explained_by(self, group: Sequence[int], count: float) -> bool:
        """Whether the blocks that nothing explains may have run a group of statements, several times each."""
        is_there = self.blocks > _ALIKE * self._begins and len(group) > 1
        return is_there and 1 + _ALIKE < count / self.blocks <= MOST_ROUNDS


def _mean_calls(group: Sequence[int], sent: Mapping[int, Statement]) -> float:
    return sum(sent[x].calls for x in group) / len(group) if group else 0.0


@dataclass(frozen=True)
class _Sum:
    """Two statements that ran as often together as the transactions of some groups."""

    off: float
    pair: tuple[int, int]
    groups: tuple[int, ...]


def _branches(
    groups: Sequence[Sequence[int]], sent: Mapping[int, Statement], twin: Twin, blocks: float
) -> Iterator[tuple[int, list[Step]]]:
    """Yield groups, by their place, with the steps of which each of their transactions runs one side.

    Two statements of the same kind on the same tables are branches, where their calls together are exactly those of one
    group, or of two. What ran as often as one of them goes with it.
    """
    weak = {x: at for at, group in enumerate(groups) if len(group) <= _MOST_BRANCHED for x in group}
    gone: set[int] = set()  # groups whose statements are branches of others
    taken: set[int] = set()
    for one in sorted(_sums(groups, weak, sent, twin, blocks), key=lambda x: (len(x.groups), x.off)):  # fmt: skip
        if taken & {*one.pair} or gone & {*one.groups} or any(weak[x] in one.groups for x in taken):
            continue
        taken |= {*one.pair}
        gone |= {weak[x] for x in one.pair}
        total = sum(sent[x].calls for x in one.pair)
        steps, begins = [], 0.0
        for number in one.pair:
            share = sent[number].calls / total
            own = [x for x in groups[weak[number]] if x == number or x not in taken]
            steps += [Step(x, share, begins) for x in own]
            taken |= {*own}
            begins += share
        for at in one.groups:
            yield at, steps


def _sums(
    groups: Sequence[Sequence[int]], weak: Mapping[int, int], sent: Mapping[int, Statement], twin: Twin, blocks: float
) -> Iterator[_Sum]:  # fmt: skip
    counts = {at: _mean_calls(x, sent) for at, x in enumerate(groups) if len(x) > 1}
    whole: list[int] = []
    for at, count in counts.items():
        if count <= blocks * (1 + _ALIKE) and len(whole) < _MOST_WHOLE:
            blocks -= count
            whole.append(at)
    # What runs at once when the view is read has been counted, or has not.
    slack = twin.activity.most_active + 3.0
    for pair in _alike_pairs(weak, sent):
        own = {weak[x] for x in pair}
        total = sum(sent[x].calls for x in pair)
        most = slack + _EXACTLY * total
        if len(own) == 1 or total < _TELLING * most:
            continue
        others = [x for x in whole if x not in own]
        for some in (*combinations(others, 1), *combinations(others, 2)):
            off = abs(sum(counts[x] for x in some) - total)
            if off <= most:
                yield _Sum(off, pair, some)


def _alike_pairs(
    numbers: Iterable[int], sent: Mapping[int, Statement]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of statements of the same kind on the same tables."""
    alike: dict[tuple[str, frozenset[str]], list[int]] = {}
    for number in numbers:
        tables = frozenset(_tables(sent[number].text))
        if tables:
            alike.setdefault((change_of(sent[number].text).kind, tables), []).append(number)
    for some in alike.values():
        yield from combinations(some[:_MOST_ALIKE], 2)


def _owner(
    group: Sequence[int], count: float, types: Sequence[TransactionType], sent: Mapping[int, Statement], twin: Twin
) -> int | None:  # fmt: skip
    """Return which transaction inserts the rows that those of a group belong to, as an order's lines do."""
    parents = {
        (x.table, x.references[1])
        for x in twin.schema.constraints
        if x.kind == "f" and x.references is not None
    }
    own = _inserted(group, sent)
    for at, one in enumerate(types):
        above = _inserted([x.statement for x in one.steps], sent)
        if any((x, y) in parents for x in own for y in above) and 1 + _ALIKE < count / one.weight <= MOST_ROUNDS:  # fmt: skip
            return at
    return None


def _inserted(numbers: Iterable[int], sent: Mapping[int, Statement]) -> set[str]:
    changes = [change_of(sent[x].text) for x in numbers]
    return {x.table[-1] for x in changes if x.kind == "insert" and x.table}


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
        if found > score and 1 + _ALIKE < count / one.weight <= MOST_ROUNDS:
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


def _equal_counts(statements: Iterable[Statement], cut_off: float) -> Iterator[list[int]]:
    """Yield statements that ran equally often, give or take what a window cuts off.

    One statement that ran a little less often than others is of the same transaction: some end early. Several that ran
    equally often are another one.

    Args:
        cut_off: calls that may be in the window and not others of the same transaction.
    """
    groups: list[list[Statement]] = []
    for one in sorted(statements, key=lambda x: (-x.calls, x.number)):
        if groups and groups[-1][0].calls - one.calls <= cut_off + _EXACTLY * one.calls:
            groups[-1].append(one)
        else:
            groups.append([one])
    group: list[Statement] = []
    for more in groups:
        is_near = group and group[0].calls - more[-1].calls <= _ALIKE * more[-1].calls + 3
        if is_near and min(len(group), len(more)) == 1:
            group += more
            continue
        if group:
            yield [x.number for x in group]
        group = [*more]
    if group:
        yield [x.number for x in group]


def _mixed_block(
    twin: Twin, sent: Mapping[int, Statement], left: dict[int, float], blocks: float
) -> Iterator[TransactionType]:
    """Yield a transaction that runs the statements that are left as often, on average, as they were run in blocks."""
    alone = _alone(twin, sent, left, blocks)
    most = min(MOST_ROUNDS, max(MOST_STEPS // len(left), 1))
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
    """Return statements in the order that holds hot rows for the shortest time: reads, then changes, small tables last.

    Who takes from a queue looks for its first row and removes it at once. A change that waited for others comes before those
    that did not: who waits for a row must not hold what they want. A row that refers to one which is updated comes before that, if it
    wrote no lock of it: of a row that was locked to be updated the server writes none, of its new version it does.
    """
    numbers = [*numbers]
    tuples = {x.name: x.tuples for x in twin.relations if not x.table}
    parents = {
        (x.table, x.references[1])
        for x in twin.schema.constraints
        if x.kind == "f" and x.references is not None and x.references[1] != x.table
    }

    def depth(table: str, most: int = 8) -> int:
        above = [parent for child, parent in parents if child == table]
        return 1 + max(depth(x, most - 1) for x in above) if above and most else 0

    changes = {x: change_of(sent[x].text) for x in numbers}
    waiting = _waiting(changes, sent, twin)
    removed, updated, inserted = (
        {x.table[-1] for x in changes.values() if x.kind == kind and x.table} for kind in ("delete", "update", "insert")
    )  # fmt: skip

    def place(number: int) -> tuple[int, float, float, int]:
        change = changes[number]
        table = change.table[-1] if change.table else ""
        if change.kind == "select":
            return 0, 0 if _first_of(sent[number].text) in removed else 2, 0.0, number
        if change.kind == "delete" and any(_first_of(sent[x].text) == table for x in numbers):
            return 0, 1, 0.0, number
        is_insert = change.kind == "insert"
        above = {parent for child, parent in parents if child == table}
        if is_insert and above & updated and not above & inserted and _locks_none(sent[number], table, twin):  # fmt: skip
            return 1, -1, 0.0, number
        rank = depth(table) if is_insert else number not in waiting
        return 1 + is_insert, rank, -tuples.get(table, 0.0), number

    return sorted(numbers, key=place)


def _locks_none(one: Statement, table: str, twin: Twin) -> bool:
    """Whether an INSERT wrote as much WAL as its rows and their entries in indexes, and no locks of rows that they refer to."""
    indexes = sum(x.kind == "index" and x.table == table for x in twin.relations)
    return one.rows > 0 and one.wal_records / one.rows < 1 + indexes + _LOCK


def _waiting(
    changes: Mapping[int, Change], sent: Mapping[int, Statement], twin: Twin
) -> frozenset[int]:
    """Return the changes that took far longer than their blocks explain, where sessions were seen waiting for locks."""
    found = long_waiting([*sent.values()], twin.activity, times=_WAITING)
    return frozenset(
        x.number for x in found
        if x.number in changes and changes[x.number].kind in ("update", "delete")
    )  # fmt: skip


def _first_of(text: str) -> str:
    """Return the table of which a query looks for the first rows, or ""."""
    tables = _tables(text)
    return (
        next(iter(tables)) if len(tables) == 1 and _ORDERED.search(text) and limiting(text) else ""
    )
