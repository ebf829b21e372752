"""Which shapes do transactions have? Equal sequences of statements are one, loops folded, with how their parameters depend.

A loop is folded to one round, so that transactions of 5 and of 15 rounds have the same shape. How parameters follow from
each other is counted over the first transactions of each shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from pgdrag.capture.log.sessions import Executed, Session, Transaction
from pgdrag.capture.log.texts import SeenStatement
from pgdrag.capture.log.values import SpreadCount, ValueAccount, amount_of, rounded
from pgdrag.twins.transactions import ALWAYS, Ending, Loop, ParameterLink, Step, TransactionShape
from pgdrag.units import significant

MOST_SHAPES = 200
_MOST_KEPT = 5_000  # shapes while the log is read
_MOST_FOLDINGS = 5_000
_LONGEST_ROUND = 24  # statements of a loop's round
_MOST_REPEATS = 50  # different ones of a loop in the file
_LEARNT = 2_000  # transactions of a shape whose parameters are compared
_MOST_PLACES = 400  # parameters of a transaction that are compared
_MOST_PAIRS = 300
_MOST_COUNTED = 50_000  # pairs of places of a shape
_MOST_PAIRED = 8  # parameters of a statement
# A parameter is said to follow from another one if it is equal at least this often, chance apart.
_LEAST_SHARE = 0.5
_LEAST_SEEN, _LEAST_OF_SESSIONS = 10, 30
# Of sources that are nearly as good, the first.
_NEARLY = 0.01
_NARROW = 0.2
_SAME = 0.95

Source = Literal["transaction", "loop", "round", "session"]
SameColumn = Callable[[SeenStatement, int, SeenStatement, int], bool]
_RANKS: Mapping[Source, int] = {"transaction": 0, "loop": 1, "round": 2, "session": 3}
Place = tuple[int, int]  # a step, from 0, and n of $n
Key = tuple[bool, Ending, tuple[int, ...]]


@dataclass(frozen=True)
class Folding:
    """A sequence with each loop once.

    Attributes:
        sequence: of statements' numbers.
        steps: of each statement that ran, the place in `sequence`, from 0.
        loops: first and last place, and how often they ran.
    """

    sequence: tuple[int, ...]
    steps: tuple[int, ...]
    loops: tuple[tuple[int, int, int], ...]


def fold(numbers: Sequence[int]) -> Folding:
    """Fold the loops of a sequence: of all that repeat at a place, the one that covers most."""
    sequence: list[int] = []
    steps: list[int] = []
    loops: list[tuple[int, int, int]] = []
    at, end = 0, len(numbers)
    while at < end:
        size, times = _loop(numbers, at)
        place = len(sequence)
        if times == 1:
            sequence.append(numbers[at])
            steps.append(place)
            at += 1
            continue
        inner = fold(numbers[at : at + size]) if size > 1 else Folding((numbers[at],), (0,), ())
        sequence += inner.sequence
        steps += [place + x for x in inner.steps] * times
        loops += [(place + first, place + last, count) for first, last, count in inner.loops]
        loops.append((place, len(sequence) - 1, times))
        at += size * times
    return Folding(tuple(sequence), tuple(steps), tuple(loops))


def _loop(numbers: Sequence[int], at: int) -> tuple[int, int]:
    """Return the statements of a round of the loop that begins at a place, and its rounds: 1 and 1 where there is none."""
    best = 1, 1
    left = len(numbers) - at
    for size in range(1, min(_LONGEST_ROUND, left // 2) + 1):
        if numbers[at] != numbers[at + size]:
            continue
        round_ = numbers[at : at + size]
        times = 1
        while numbers[at + times * size : at + (times + 1) * size] == round_:
            times += 1
        if times > 1 and size * times > best[0] * best[1]:
            best = size, times
    return best


@dataclass
class _Account:
    """What is counted of a shape."""

    key: Key
    statements: tuple[SeenStatement, ...]
    count: int = 0
    total_s: float = 0.0
    durations: SpreadCount = field(default_factory=SpreadCount)
    pauses: SpreadCount = field(default_factory=SpreadCount)
    last_pauses: SpreadCount = field(default_factory=SpreadCount)
    step_pauses: dict[int, SpreadCount] = field(default_factory=dict)
    loops: dict[tuple[int, int], Counter[int]] = field(default_factory=dict)
    unlike: set[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=set)
    follows: Counter[int] = field(default_factory=Counter)
    equal: Counter[tuple[Place, Source, int, Place]] = field(default_factory=Counter)
    given: Counter[tuple[Place, Source, int]] = field(default_factory=Counter)
    steps_of_rounds: dict[Place, list[float]] = field(default_factory=dict)


class Shapes:
    """The shapes of a log's transactions.

    Attributes:
        transactions: whole ones.
        begun: by the second.
        other: of shapes that are not kept, and of none: how many, and their time.
    """

    def __init__(self, *, has_pauses: bool) -> None:
        self._has_pauses = has_pauses
        self._accounts: dict[Key, _Account] = {}
        self._numbers: dict[Key, int] = {}
        self._foldings: dict[tuple[int, ...], Folding] = {}
        self.transactions = 0
        self.begun: Counter[int] = Counter()
        self.other, self.other_s = 0, 0.0

    def add(self, session: Session, transaction: Transaction) -> None:
        """Take a transaction; what the session's last one was is in the session."""
        self.transactions += 1
        self.begun[int(transaction.begin_s)] += 1
        executed = transaction.executed
        account = None
        if executed and not transaction.is_too_long:
            folding = self._folded(tuple(one.statement.number for one in executed))
            account = self._account(transaction, folding, executed)
        _count_values(executed)
        if account is None:
            self.other += 1
            self.other_s += transaction.end_s - transaction.begin_s
            session.previous = None
            return
        self._count(account, session, transaction, folding)
        is_learnt = account.count <= _LEARNT
        places = _learn(account, folding, executed, session.previous) if is_learnt else {}
        session.previous = _Previous(self._numbers[account.key], places)

    def _folded(self, numbers: tuple[int, ...]) -> Folding:
        found = self._foldings.get(numbers)
        if found is None:
            if len(self._foldings) >= _MOST_FOLDINGS:
                self._foldings.clear()
            found = self._foldings[numbers] = fold(numbers)
        return found

    def _account(self, transaction: Transaction, folding: Folding, executed: Sequence[Executed]) -> _Account | None:  # fmt: skip
        key = transaction.is_block, transaction.ending, folding.sequence
        account = self._accounts.get(key)
        if account is None:
            if 0 in folding.sequence or len(self._accounts) >= _MOST_KEPT:
                return None
            first = {step: one.statement for step, one in zip(folding.steps, executed, strict=True)}
            account = _Account(key, tuple(first[x] for x in range(len(first))))
            self._accounts[key] = account
            self._numbers[key] = len(self._numbers) + 1
        return account

    def _count(self, account: _Account, session: Session, transaction: Transaction, folding: Folding) -> None:  # fmt: skip
        account.count += 1
        duration_s = max(transaction.end_s - transaction.begin_s, 0.0)
        account.total_s += duration_s
        account.durations.add(duration_s)
        _count_loops(account, folding)
        previous = session.previous
        if isinstance(previous, _Previous):
            account.follows[previous.shape] += 1
        elif session.last_end_s is not None:
            account.follows[0] += 1
        if not self._has_pauses:
            return
        if session.last_end_s is not None:
            account.pauses.add(transaction.begin_s - session.last_end_s)
        last_s = transaction.begin_end_s
        for step, one in zip(folding.steps, transaction.executed, strict=True):
            if last_s is not None and one.begin_s != last_s:
                counted = account.step_pauses.get(step)
                if counted is None:
                    counted = account.step_pauses[step] = SpreadCount()
                counted.add(one.begin_s - last_s)
            last_s = one.end_s
        if transaction.closing_s is not None and last_s is not None:
            account.last_pauses.add(transaction.closing_s - last_s)

    def found(
        self, numbers: Mapping[int, int], are_same: SameColumn
    ) -> tuple[tuple[TransactionShape, ...], int, float]:
        """Return the shapes that took the most time; of the others how many transactions, and their time.

        Args:
            numbers: of statements in the file, by their numbers in this reading.
            are_same: whether parameters of two statements are values of one column, or of columns that are compared.
        """
        ranked = sorted(self._accounts.values(), key=lambda x: (-x.total_s, -x.count))
        kept, rest = ranked[:MOST_SHAPES], ranked[MOST_SHAPES:]
        shown = {self._numbers[one.key]: at for at, one in enumerate(kept, start=1)}
        shapes = tuple(
            _shape(one, shown[self._numbers[one.key]], numbers, shown, are_same) for one in kept
        )
        return (
            shapes,
            self.other + sum(one.count for one in rest),
            self.other_s + sum(one.total_s for one in rest),
        )

    def kept_statements(self) -> Iterator[SeenStatement]:
        """Yield the statements of the shapes that `found` returns, in order."""
        ranked = sorted(self._accounts.values(), key=lambda x: (-x.total_s, -x.count))
        for one in ranked[:MOST_SHAPES]:
            yield from one.statements


@dataclass(frozen=True)
class _Previous:
    """A session's last transaction: its shape, and the values of its places."""

    shape: int
    places: Mapping[Place, str]


def _count_loops(account: _Account, folding: Folding) -> None:
    """Note how often loops ran, and which of them not as often as each other; one that is not there ran once."""
    own = {(first, last): times for first, last, times in folding.loops}
    for loop in own.keys() - account.loops.keys():
        account.loops[loop] = Counter()
        # Before, it ran once, and the others more often.
        account.unlike |= {(loop, x) for x, counts in account.loops.items() if counts}
    for loop, times in own.items():
        account.loops[loop][times] += 1
        account.unlike |= {(loop, x) for x in account.loops if own.get(x, 1) != times}


def _count_values(executed: Sequence[Executed]) -> None:
    for statement, values, begin_s, _ in executed:
        accounts = statement.values
        for parameter, value in values:
            account = accounts.get(parameter)
            if account is None:
                account = accounts[parameter] = ValueAccount()
            account.add(value, begin_s)
        if 1 < len(values) <= _MOST_PAIRED and statement.calls < 4 * _MOST_PAIRS:
            _pair(statement, values)


def _pair(statement: SeenStatement, values: Sequence[tuple[int, str | None]]) -> None:
    """Keep some pairs of values of one statement, to see whether one is the other and a width."""
    for (one, left), (other, right) in combinations(values, 2):
        if left is not None and right is not None and one != other:
            pairs = statement.pairs.setdefault((one, other), [])
            if len(pairs) < _MOST_PAIRS:
                pairs.append((left, right))


def _learn(
    account: _Account, folding: Folding, executed: Sequence[Executed], previous: object
) -> dict[Place, str]:
    """Count which parameters are equal to earlier ones, and return the first value of each place."""
    before = previous if isinstance(previous, _Previous) else None
    compared = _Comparison(account, before, has_loops=len(folding.loops) > 1)
    for step, one in zip(folding.steps, executed, strict=True):
        for parameter, value in one.values:
            if value is not None and len(compared.latest) < _MOST_PLACES:
                compared.take((step, parameter), value)
    return compared.first


class _Comparison:
    """The values of one transaction, each compared with those before it.

    Attributes:
        first, latest: the values of each place, in the first and in the latest round.
    """

    def __init__(self, account: _Account, previous: _Previous | None, *, has_loops: bool) -> None:
        self._account, self._has_loops = account, has_loops
        self._is_open = len(account.equal) < _MOST_COUNTED
        self.first: dict[Place, str] = {}
        self.latest: dict[Place, str] = {}
        self._rounds: Counter[Place] = Counter()
        self._in_round: dict[tuple[str, int], set[Place]] = {}
        self._where: dict[str, set[Place]] = {}
        self._before = previous.shape if previous is not None and previous.places else 0
        self._before_where: dict[str, list[Place]] = {}
        for place, value in previous.places.items() if previous is not None else ():
            self._before_where.setdefault(value, []).append(place)

    def take(self, place: Place, value: str) -> None:
        """Compare a value with those before it, and note it."""
        if "." in value:
            value = _plain(value)
        given = self._account.given
        last = self.latest.get(place)
        given[place, "transaction", 0] += 1
        if last is not None:
            given[place, "round", 0] += 1
            _note_round(self._account, place, last, value)
        for source in self._where.get(value, ()):
            # What comes later in the round, or is the same, was in the round before.
            kind: Source = "round" if last is not None and source >= place else "transaction"
            self._note(place, kind, 0, source)
        if self._has_loops:
            given[place, "loop", 0] += 1
            for source in self._in_round.get((value, self._rounds[place]), ()):
                self._note(place, "loop", 0, source)
            self._in_round.setdefault((value, self._rounds[place]), set()).add(place)
            self._rounds[place] += 1
        if self._before and last is None:
            given[place, "session", self._before] += 1
            for source in self._before_where.get(value, ()):
                self._note(place, "session", self._before, source)
        self.first.setdefault(place, value)
        if last is not None:
            self._where[last].discard(place)
        self.latest[place] = value
        self._where.setdefault(value, set()).add(place)

    def _note(self, place: Place, kind: Source, shape: int, source: Place) -> None:
        pair = place, kind, shape, source
        if self._is_open or pair in self._account.equal:
            self._account.equal[pair] += 1


def _plain(value: str) -> str:
    """Return a number without zeros behind its decimals."""
    return value.rstrip("0").rstrip(".") if value.lstrip("-").replace(".", "", 1).isdigit() else value  # fmt: skip


def _note_round(account: _Account, place: Place, last: str, value: str) -> None:
    """Keep by how much a parameter differs from the loop's round before."""
    steps = account.steps_of_rounds.setdefault(place, [])
    if len(steps) < _MOST_PAIRS:
        left, right = amount_of(last), amount_of(value)
        if left is not None and right is not None:
            steps.append(right - left)


# --- what is told ---------------------------------------------------------------------------


def _shape(
    one: _Account,
    number: int,
    numbers: Mapping[int, int],
    shown: Mapping[int, int],
    are_same: SameColumn,
) -> TransactionShape:
    follows: Counter[int] = Counter()
    for previous, count in one.follows.items():
        follows[shown.get(previous, 0)] += count
    known = follows.total()
    is_block, ending, _ = one.key
    return TransactionShape(
        number=number,
        steps=tuple(
            Step(
                numbers[statement.number],
                one.step_pauses[at].spread() if at in one.step_pauses else None,
            )
            for at, statement in enumerate(one.statements)
        ),
        transactions=one.count,
        duration_s=one.durations.spread(),
        is_block=is_block,
        ending=ending,
        loops=tuple(_loops(one)),
        links=tuple(_links(one, shown, are_same)),
        pause_s=one.pauses.spread() if one.pauses.count else None,
        last_pause_s=one.last_pauses.spread() if one.last_pauses.count else None,
        follows=tuple((x, significant(count / known)) for x, count in follows.most_common(10)),
    )


def _loops(one: _Account) -> Iterator[Loop]:
    ordered = sorted(one.loops)
    for at, (first, last) in enumerate(ordered):
        like = next(
            (
                earlier + 1
                for earlier, other in enumerate(ordered[:at])
                if not {(other, (first, last)), ((first, last), other)} & one.unlike
            ),
            0,
        )
        yield Loop(first + 1, last + 1, _repeats(one.loops[first, last], one.count), like)


def _repeats(counts: Counter[int], transactions: int) -> tuple[tuple[int, float], ...]:
    """Return how often a loop ran; of many different ones, the means of equal parts."""
    counts = counts.copy()
    once = transactions - counts.total()
    if once > 0:
        counts[1] += once
    total = counts.total()
    ordered = sorted(counts.items())
    if len(ordered) <= _MOST_REPEATS:
        return tuple((times, significant(count / total)) for times, count in ordered)
    found: Counter[int] = Counter()
    part: list[tuple[int, int]] = []
    for times, count in ordered:
        part.append((times, count))
        size = sum(x for _, x in part)
        if size * _MOST_REPEATS >= total or times == ordered[-1][0]:
            found[round(sum(t * x for t, x in part) / size)] += size
            part = []
    return tuple((times, significant(count / total)) for times, count in sorted(found.items()))


def _links(
    one: _Account, shown: Mapping[int, int], are_same: SameColumn
) -> Iterator[ParameterLink]:
    candidates: dict[Place, list[ParameterLink]] = {}
    for (place, kind, shape, source), count in one.equal.items():
        given = one.given[place, kind, shape]
        share = min(count / given, 1.0)
        least = _LEAST_SEEN if share >= ALWAYS else _LEAST_OF_SESSIONS
        is_followed = kind != "session" or (shape in shown and given >= least)
        if share < _LEAST_SHARE or given < _LEAST_SEEN or not is_followed:
            continue
        if _is_more_than_chance(one, place, source, share, kind, are_same):
            candidates.setdefault(place, []).append(
                ParameterLink(
                    place[0] + 1, place[1], kind, source[0] + 1, source[1], significant(share),
                    from_shape=shown[shape] if kind == "session" else 0,
                )
            )  # fmt: skip
    for place in sorted({place for place, _, _ in one.given}):
        # Within the transaction first: what comes from before it is then known, too.
        some = candidates.get(place, [])
        within = [x for x in some if x.source in ("transaction", "loop")]
        found = _nearest(within) or _width(one, place) or _stepped(one, place) or _nearest(some)
        yield from found
        if any(x.source == "round" and not x.differences for x in found):
            # What stays in a loop comes from before it.
            yield from _nearest([x for x in some if x.source == "session"])


def _nearest(links: Sequence[ParameterLink]) -> list[ParameterLink]:
    """Return the link with the largest share; of those that are nearly as good, the first."""
    best = max((x.share for x in links), default=0.0)
    near = [x for x in links if x.share >= best - _NEARLY]
    return sorted(near, key=lambda x: (_RANKS[x.source], x.from_step, x.from_parameter))[:1]


def _is_more_than_chance(
    one: _Account, place: Place, source: Place, share: float, kind: Source, are_same: SameColumn
) -> bool:
    """Whether two parameters are equal more often than values of these would be by lot."""
    left = one.statements[place[0]]
    right = left if kind == "session" else one.statements[source[0]]
    own = left.values[place[1]]
    if own.distinct < 2:
        # What is always the same follows from what is the same thing, if from anything.
        return kind == "transaction" and are_same(left, place[1], right, source[1])
    chance = own.chance_of(own if kind == "session" else right.values[source[1]])
    return share - chance >= _LEAST_SHARE * (1 - chance)


def _stepped(one: _Account, place: Place) -> list[ParameterLink]:
    """Return that a parameter is a certain amount above the loop's round before: a counter."""
    steps = one.steps_of_rounds.get(place, [])
    if len(steps) < 3:
        return []
    (step, count), *_ = Counter(steps).most_common(1)
    if step == 0 or count < _SAME * len(steps):
        return []
    own = place[0] + 1, place[1]
    return [ParameterLink(*own, "round", *own, significant(count / len(steps)), differences=rounded([step]))]  # fmt: skip


def _width(one: _Account, place: Place) -> list[ParameterLink]:
    """Return that a parameter is the end of a range that begins with another one of its statement."""
    statement = one.statements[place[0]]
    for (start, end), pairs in statement.pairs.items():
        if end != place[1] or len(pairs) < 5:
            continue
        amounts = [(amount_of(x), amount_of(y)) for x, y in pairs]
        known = sorted((x, y - x) for x, y in amounts if x is not None and y is not None)
        if len(known) < _SAME * len(pairs):
            continue
        differences = [x for _, x in known]
        spread = _middle(sorted(differences))
        if _middle([x for x, _ in known]) > 0 and spread <= _NARROW * _middle([x for x, _ in known]):  # fmt: skip
            step = place[0] + 1
            return [ParameterLink(step, end, "transaction", step, start, 1.0, differences=rounded(differences))]  # fmt: skip
    return []


def _middle(ordered: Sequence[float]) -> float:
    """Return how far the middle 80 % of ascending numbers reach."""
    return ordered[round(0.9 * (len(ordered) - 1))] - ordered[round(0.1 * (len(ordered) - 1))]
