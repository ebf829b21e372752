"""How does a transaction of the load read as a script of the driver's language?

Each step takes a row of its statement's pool. A parameter that was equal to an earlier one is its variable, and one
that has to be new is made of the client's own serial number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pgdrag.data_twin.load.fresh import Fresh
from pgdrag.data_twin.load.job import NOTHING
from pgdrag.data_twin.load.mix import Link, Loop, TransactionType
from pgdrag.data_twin.load.sampling import cast_type
from pgdrag.literals import sql_tokens

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
    """

    text: str
    types: Sequence[str]
    pool: str
    keys: Sequence[Sequence[Fresh]] = ()
    is_in_turn: bool = False


@dataclass
class ScriptText:
    """A script, and which pools it takes rows of, with which prefix."""

    lines: list[str] = field(default_factory=list)
    draws: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole script."""
        return "".join(self.lines)


def script_of(kind: TransactionType, statements: Mapping[int, Sendable]) -> ScriptText:
    """Return a transaction's script; statements that are not there are left out of it."""
    return _Writer(kind, statements).written()


class _Writer:
    def __init__(self, kind: TransactionType, statements: Mapping[int, Sendable]) -> None:
        self._kind = kind
        self._statements = statements
        self._links = {(x.step, x.parameter): x for x in kind.links}
        self._script = ScriptText()
        # The variable of each step's parameter, in its latest round; of those that are fresh, the step.
        self._variables: dict[tuple[int, int | str], str] = {}
        self._fresh: dict[str, int] = {}

    def written(self) -> ScriptText:
        steps = self._kind.steps
        if not any(x.statement in self._statements for x in steps):
            return ScriptText([NOTHING])
        if self._kind.is_block:
            self._add("BEGIN;\n")
        at = 0
        while at < len(steps):
            loop = next((x for x in self._kind.loops if x.first == at), None)
            if loop is None:
                self._step(at, 0)
                at += 1
            else:
                self._loop(loop)
                at = loop.last + 1
        if self._kind.is_block:
            self._add("ROLLBACK;\n" if self._kind.is_rolled_back else "END;\n")
        return self._script

    def _add(self, *lines: str) -> None:
        self._script.lines += lines

    def _loop(self, loop: Loop) -> None:
        """Write the rounds out one after the other: the language has no loops."""
        variable = f"rounds{loop.first + 1}"
        self._add(*_number_of_rounds(variable, loop.repeats))
        least = min(number for number, _ in loop.repeats)
        for round_ in range(loop.most):
            if round_ >= least:
                self._add(f"\\if :{variable} > {round_}\n")
            for at in range(loop.first, loop.last + 1):
                self._step(at, round_)
            if round_ >= least:
                self._add("\\endif\n")

    def _step(self, at: int, round_: int) -> None:
        step = self._kind.steps[at]
        one = self._statements.get(step.statement)
        if one is None:
            return
        prefix = f"s{at + 1}_" if not round_ else f"s{at + 1}r{round_ + 1}_"
        if one.pool:
            self._script.draws.append((one.pool, prefix))
        is_drawn = step.share < 1
        if is_drawn:
            self._add(
                f"\\set drawn random(1, {_SHARES})\n",
                f"\\if :drawn <= {round(step.share * _SHARES)}\n",
            )
        names = {n: f"{prefix}p{n}" for n in range(1, len(one.types) + 1)}
        lines: list[str] = []
        for n in names:
            names[n] = self._linked(at, n, names[n], lines)
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
        end = self._result(at, prefix)
        self._add(*lines, f"{with_variables(one.text, expressions, one.types)}{end}\n")
        if is_drawn:
            self._add("\\endif\n")

    def _linked(self, at: int, parameter: int, own: str, lines: list[str]) -> str:
        """Return the variable of a parameter: its own, or that of an earlier one."""
        link = self._links.get((at, parameter))
        other = self._variables.get((link.from_step, link.returned or link.from_parameter)) if link else None  # fmt: skip
        if link is None or other is None:
            return own
        if not link.differences:
            return other
        name = f"{own}d"
        lines += [*_difference(name, other, link)]
        return name

    def _result(self, at: int, prefix: str) -> str:
        """Return a statement's end, which keeps what it returns where a later one is sent that."""
        returned = {x.returned for x in self._kind.links if x.returned and x.from_step == at}
        for column in returned:
            name = self._variables[at, column] = f"{prefix}r_{column}"
            self._fresh[name] = at
        return f" \\gset {prefix}r_" if returned else ";"

    def _is_fresh(self, at: int, variable: str) -> bool:
        """Whether a variable is new in each execution of a step, and not the same in all rounds of its loop."""
        loop = next((x for x in self._kind.loops if x.first <= at <= x.last), None)
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
            own = [x for x in options if names[x.parameter] == f"{prefix}p{x.parameter}"]
            for option in (own or list(options))[:1]:
                chosen[option.parameter] = option
        yield from chosen.values()


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
