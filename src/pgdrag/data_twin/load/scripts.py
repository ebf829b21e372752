"""How does a transaction of the load read as a script of the driver's language?

Each step takes a row of its statement's pool. A parameter that was equal to an earlier one is its variable, and one
that has to be new is made of the client's own serial number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pgdrag.data_twin.load.constants import OWNER, Home, drawn_variables
from pgdrag.data_twin.load.fresh import Fresh
from pgdrag.data_twin.load.job import NOTHING
from pgdrag.data_twin.load.kinds import Link, Loop, Part, Step, TransactionType
from pgdrag.data_twin.load.links import Place
from pgdrag.data_twin.load.statements import cast_type
from pgdrag.data_twin.load.texts import change_of
from pgdrag.literals import sql_tokens
from pgdrag.twins.transactions import QUANTILES

WHOLE_NUMBERS = frozenset(["smallint", "integer", "bigint"])
_SHARES = 1_000_000


@dataclass(frozen=True)
class Sendable:
    """A statement that the twin's server takes.

    Attributes:
        text: with $1, $2 …
        types: of its parameters.
        pool: its pool's name; "" where it has no parameter.
        keys: for each unique key of what it inserts, which parameters can be fresh.
        is_in_turn: its pool's rows are taken one after the other, and not by lot.
        deviation: by how many rows and blocks executions with its pool's rows differ.
        is_there: no row of its pool asks for a key that the table does not have.
        belonging: returns of parameters that are equal to earlier ones those that its row of the pool has to agree with.
    """

    text: str
    types: Sequence[str]
    pool: str
    keys: Sequence[Sequence[Fresh]] = ()
    is_in_turn: bool = False
    deviation: float = 0.0
    is_there: bool = True
    belonging: Callable[[Iterable[int]], Iterable[int]] = lambda _: ()

    @property
    def is_insert(self) -> bool:
        """Whether it makes a new row."""
        return change_of(self.text).kind == "insert"


@dataclass(frozen=True)
class Draw:
    """A row of a pool for a step.

    Attributes:
        prefix: of its variables.
        like: of the pool's variables, those that have to be equal to a variable of an earlier draw.
    """

    pool: str
    prefix: str
    like: Mapping[str, str] = field(default_factory=dict)


@dataclass
class ScriptText:
    """A script, and which rows of pools it takes."""

    lines: list[str] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole script."""
        return "".join(self.lines)


def script_of(
    kind: TransactionType,
    statements: Mapping[int, Sendable],
    starts: Mapping[Place, int] | None = None,
    homes: Mapping[int, Home] | None = None,
) -> ScriptText:
    """Return a transaction's script; statements that are not there are left out of it.

    Args:
        starts: what counters of loops begin with, where that is known: see `counters_of`.
        homes: where sessions get the values of constants from, by their groups.
    """
    return _Writer(kind, statements, starts or {}, homes or {}).written()


def counters_of(kind: TransactionType) -> Iterator[tuple[Place, int, int]]:
    """Yield parameters that grow by a number in each round of a loop: which, by how much, in how many rounds at most."""
    for link in kind.links:
        is_own = (link.step, link.parameter) == (link.from_step, link.from_parameter)
        rounds = [x.most for x in kind.loops if x.first <= link.step <= x.last]
        if link.is_of_round and is_own and len(link.differences) == 1 and rounds:
            yield (link.step, link.parameter), link.differences[0], min(rounds)


class _Writer:
    def __init__(
        self,
        kind: TransactionType,
        statements: Mapping[int, Sendable],
        starts: Mapping[Place, int],
        homes: Mapping[int, Home],
    ) -> None:
        self._kind = kind
        self._statements = statements
        self._starts = starts
        self._homes = homes
        self._constants = {(x.step, x.parameter): homes[x.group].variable for x in kind.constants if x.group in homes}  # fmt: skip
        self._links = {(x.step, x.parameter): x for x in kind.links}
        self._script = ScriptText()
        # The variable of each step's parameter, in its latest round, and in each; of those that are fresh, the step.
        self._variables: dict[tuple[int, int | str], str] = {}
        self._of_rounds: dict[tuple[int, int, tuple[int, ...]], str] = {}
        self._fresh: dict[str, int] = {}
        self._drawn: set[str] = set()
        # Steps of which earlier ones have the values.
        self._leading = sorted(
            {x.from_step for x in kind.links if x.from_step > x.step and not x.is_of_round}
        )

    def written(self) -> ScriptText:
        steps = self._kind.steps
        if not any(x.statement in self._statements for x in steps):
            return ScriptText([NOTHING])
        self._draw_homes()
        for at in self._leading:
            self._lead(at)
        if any(x.begins is not None for x in steps):
            self._add(f"\\set branch random(1, {_SHARES})\n")
        for part in self._kind.parts:
            if part.is_sure:
                self._part(part, ())
            else:
                self._rounds(f"times{part.first + 1}", part.repeats, partial(self._repeated, part))
        return self._script

    def _repeated(self, part: Part, round_: int) -> None:
        self._part(part, (round_,))

    def _part(self, part: Part, rounds: tuple[int, ...]) -> None:
        if part.is_block:
            self._add("BEGIN;\n")
        # Of loops that begin at the same step, the widest first: it has the others in each of its rounds.
        inner = [x for x in self._kind.loops if part.first <= x.first and x.last <= part.last]
        self._steps(part.first, part.last, sorted(inner, key=lambda x: (x.first, -x.last)), rounds)
        if part.is_block:
            self._add(*_pause(part.last_pause_s))
            self._add("ROLLBACK;\n" if part.is_rolled_back else "END;\n")

    def _add(self, *lines: str) -> None:
        self._script.lines += lines

    def _steps(self, first: int, last: int, loops: Sequence[Loop], rounds: tuple[int, ...]) -> None:
        at = first
        while at <= last:
            inner = [x for x in loops if x.first >= at and x.last <= last]
            if not inner or inner[0].first > at:
                self._step(at, rounds)
                at += 1
            else:
                self._loop(inner[0], inner[1:], rounds)
                at = inner[0].last + 1

    def _loop(self, loop: Loop, inner: Sequence[Loop], rounds: tuple[int, ...]) -> None:
        first, last = loop.like or (loop.first, loop.last)
        self._rounds(
            f"rounds{first + 1}_{last + 1}", loop.repeats,
            lambda x: self._steps(loop.first, loop.last, inner, (*rounds, x)), is_known=loop.like is not None,
        )  # fmt: skip

    def _rounds(
        self, variable: str, repeats: Sequence[tuple[int, float]], write: Callable[[int], None], *, is_known: bool = False
    ) -> None:  # fmt: skip
        """Write rounds out one after the other: the language has no loops."""
        if not is_known:
            self._add(*_number_of_rounds(variable, repeats))
        least, most = min(x for x, _ in repeats), max(x for x, _ in repeats)
        for round_ in range(most):
            if round_ >= least:
                self._add(f"\\if :{variable} > {round_}\n")
            write(round_)
            if round_ >= least:
                self._add("\\endif\n")

    def _step(self, at: int, rounds: tuple[int, ...]) -> None:
        step = self._kind.steps[at]
        one = self._statements.get(step.statement)
        if one is None:
            return
        prefix = _prefix(at, rounds)
        chosen = [*_chosen(step)]
        self._add(*chosen)
        names = {n: f"{prefix}p{n}" for n in range(1, len(one.types) + 1)}
        lines: list[str] = []
        for n in names:
            names[n] = self._linked(one, at, n, names, lines, rounds)
        if one.pool and at not in self._leading:
            self._draw(one, prefix, names)
        expressions = {n: f":{name}" for n, name in names.items()}
        for fresh in self._needed(at, one.keys, names, prefix):
            if not lines or "fresh" not in lines[0]:
                lines.insert(0, "\\set fresh :fresh + 1\n")
            name = f"{prefix}f{fresh.parameter}"
            lines.append(fresh.setting(name))
            names[fresh.parameter] = name
            expressions[fresh.parameter] = fresh.expression(name)
            if fresh.kind == "number":
                self._fresh[name] = at
        self._variables |= {(at, n): name for n, name in names.items()}
        self._of_rounds |= {(at, n, rounds): name for n, name in names.items()}
        end = self._result(at, one, prefix)
        self._add(*_pause(step.pause_s), *lines)
        self._add(f"{with_variables(one.text, expressions, one.types)}{end}\n")
        if chosen:
            self._add("\\endif\n")

    def _draw_homes(self) -> None:
        """Take a row for each session the first time, and each other time the one that it has."""
        used = {*self._constants.values()}
        for pool, is_own in sorted({(x.pool, x.is_own) for x in self._homes.values() if x.variable in used}):  # fmt: skip
            kept = {x: f"{pool}_{x}" for x in drawn_variables(self._homes, pool)}
            like = {OWNER: "client_id"} if is_own else kept
            self._script.draws.append(Draw(pool, f"{pool}_", like))
            self._drawn |= {*kept.values()}
            if is_own:  # the driver knows only variables that a script has
                self._add("\\set session :client_id\n")

    def _lead(self, at: int) -> None:
        """Take a row for a step whose values earlier ones have."""
        one, prefix = self._statements[self._kind.steps[at].statement], _prefix(at)
        names = {n: f"{prefix}p{n}" for n in range(1, len(one.types) + 1)}
        self._draw(one, prefix, names)
        self._variables |= {(at, n): name for n, name in names.items()}

    def _draw(self, one: Sendable, prefix: str, names: Mapping[int, str]) -> None:
        """Take a row for a step, one that agrees with what an earlier one is about."""
        linked = {n: name for n, name in names.items() if name in self._drawn}
        like = {f"p{n}": linked[n] for n in sorted(one.belonging(linked))}
        self._script.draws.append(Draw(one.pool, prefix, like))
        self._drawn |= {f"{prefix}p{n}" for n in names}

    def _linked(
        self, one: Sendable, at: int, parameter: int, names: Mapping[int, str], lines: list[str], rounds: tuple[int, ...]
    ) -> str:  # fmt: skip
        """Return the variable of a parameter: its own, the session's, or that of an earlier one."""
        if (at, parameter) in self._constants:
            return self._constants[at, parameter]
        own, link = names[parameter], self._links.get((at, parameter))
        if link is None:
            return own
        other = self._variables.get((link.from_step, link.returned or link.from_parameter))
        if link.returned and rounds and rounds[0] and self._goes_on(at, link):
            other = self._variables.get((at, link.returned))  # what the round before returned
        if link.from_step == at and link.from_parameter != parameter and not link.is_of_round:
            other = names[link.from_parameter]  # the end of a range from its beginning
        if link.is_in_step:
            other = self._of_rounds.get((link.from_step, link.from_parameter, rounds), other)
        if other is None and (at, parameter) in self._starts:
            lines.append(f"\\set {own}b {self._starts[at, parameter]}\n")
            return f"{own}b"
        if other is None:
            return own
        if not link.differences:
            return other
        if one.types[parameter - 1] not in WHOLE_NUMBERS:
            return own
        name = f"{own}d"
        lines += [*_difference(name, other, link)]
        return name

    def _result(self, at: int, one: Sendable, prefix: str) -> str:
        """Return a statement's end, which keeps what it returns where a later one is sent that."""
        returned = {
            x.returned for x in self._kind.links
            if x.returned and (x.from_step == at or (x.step == at and self._goes_on(at, x)))
        }  # fmt: skip
        # Other scripts have other steps of this number: what is kept from before is of the same statement at least.
        kept = f"{prefix}r{self._kind.steps[at].statement}_"
        for column in returned:
            name = self._variables[at, column] = f"{kept}{column}"
            if one.is_insert:
                self._fresh[name] = at
        # Where no row is returned, the variable stays as it was.
        return f" \\aset {kept}" if returned else ";"

    def _goes_on(self, at: int, link: Link) -> bool:
        """Whether a step asks for what follows the rows of an earlier one, again and again: the next page."""
        of = next(x for x in self._kind.parts if x.first <= at <= x.last)
        return not of.is_sure and link.from_step < of.first and link.is_bound

    def _is_fresh(self, at: int, variable: str) -> bool:
        """Whether a variable is new in each execution of a step, and not the same in all rounds of its loop."""
        again: list[Loop | Part] = [x for x in self._kind.later if not x.is_sure]
        loops = [x for x in (*self._kind.loops, *again) if x.first <= at <= x.last]
        loop = min(loops, key=lambda x: x.last - x.first, default=None)
        made = self._fresh.get(variable)
        return made is not None and (loop is None or loop.first <= made <= loop.last)

    def _needed(
        self, at: int, keys: Sequence[Sequence[Fresh]], names: Mapping[int, str], prefix: str
    ) -> Iterator[Fresh]:
        """Yield a parameter of each unique key that is to be fresh, unless one of the key's is already."""
        chosen: dict[int, Fresh] = {}
        for options in keys:
            numbers = {x.parameter for x in options}
            if any(self._is_fresh(at, names[n]) for n in numbers) or numbers & chosen.keys():
                continue
            usable = [x for x in options if not x.refers]
            own = [x for x in usable if names[x.parameter] == f"{prefix}p{x.parameter}"]
            for option in (own or usable)[:1]:
                chosen[option.parameter] = option
        yield from chosen.values()


def _prefix(at: int, rounds: tuple[int, ...] = ()) -> str:
    """Return what the names of a step's variables begin with, in each round of its loops."""
    return f"s{at + 1}{''.join(f'r{x + 1}' for x in rounds) if any(rounds) else ''}_"


def _chosen(step: Step) -> Iterator[str]:
    """Yield the beginning of a step that not all transactions run."""
    if step.share >= 1:
        return
    if step.begins is None:
        yield f"\\set drawn random(1, {_SHARES})\n"
        yield f"\\if :drawn <= {round(step.share * _SHARES)}\n"
        return
    first, last = (round(x * _SHARES) for x in (step.begins, step.begins + step.share))
    yield f"\\if :branch > {first} and :branch <= {last}\n"


def _pause(quantiles_s: Sequence[float]) -> Iterator[str]:
    """Yield what waits as long as the application did, by lot between two quantiles each."""
    if not quantiles_s:
        return
    times = [round(1_000_000 * x) for x in quantiles_s]
    cases = [
        f"WHEN :drawn <= {round(share * _SHARES)} THEN random({low}, {max(low, high)})"
        for share, low, high in zip(QUANTILES[1:], times, times[1:], strict=False)
    ]
    yield f"\\set drawn random(1, {_SHARES})\n"
    yield f"\\set pause CASE {' '.join(cases)} ELSE {times[-1]} END\n"
    yield "\\sleep :pause us\n"


def _number_of_rounds(variable: str, repeats: Iterable[tuple[int, float]]) -> Iterator[str]:
    pairs = [*repeats]
    if len(pairs) == 1:
        yield f"\\set {variable} {pairs[0][0]}\n"
        return
    total = sum(share for _, share in pairs)
    yield f"\\set drawn random(1, {_SHARES})\n"
    sum_, cases = 0.0, []
    for number, share in pairs[:-1]:
        sum_ += share / total
        cases.append(f"WHEN :drawn <= {round(sum_ * _SHARES)} THEN {number}")
    yield f"\\set {variable} CASE {' '.join(cases)} ELSE {pairs[-1][0]} END\n"


def _difference(name: str, other: str, link: Link) -> Iterator[str]:
    values = link.differences
    if len(set(values)) == 1:
        yield f"\\set {name} :{other} + {values[0]}\n"
        return
    yield f"\\set drawn random(1, {len(values)})\n"
    cases = [f"WHEN :drawn = {at} THEN {value}" for at, value in enumerate(values[:-1], start=1)]
    yield f"\\set {name} :{other} + CASE {' '.join(cases)} ELSE {values[-1]} END\n"


def with_variables(text: str, expressions: Mapping[int, str], types: Sequence[str]) -> str:
    """Return a statement with expressions in the places of $1, $2 …, so that the driver finds no other variables.

    A parameter that stands in several places becomes several, and each says its type.
    """
    tokens = [*sql_tokens(text)]
    often = Counter(x.text for x in tokens if x.kind == "parameter")
    pieces: list[str] = []
    for at, token in enumerate(tokens):
        piece = token.text
        if token.kind == "parameter":
            number = int(token.text[1:])
            piece = expressions[number]
            if often[token.text] > 1 and number <= len(types) and types[number - 1]:
                piece = f"{piece}::{cast_type(types[number - 1])}"
        elif piece == ":" and _is_word_after(tokens, at) and (not at or tokens[at - 1].text != ":"):
            piece = ": "  # of an array's slice: a[low:high]
        if piece.startswith(":") and pieces and pieces[-1].endswith(":") and piece != ":":
            piece = f" {piece}"
        pieces.append(piece)
    return "".join(pieces)


def _is_word_after(tokens: Sequence[object], at: int) -> bool:
    return at + 1 < len(tokens) and getattr(tokens[at + 1], "kind", "") == "word"
