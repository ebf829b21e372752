"""Which transactions did a server's log show, who sent them, and how do their parameters depend on each other?

Shapes, not values: of a parameter's values the file has how often they come again, how long they are, from which other
parameter they follow, and tokens where the planner's statistics have one for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from pgdrag.twins.fields import STRICT, Amount, Count, Share
from pgdrag.twins.tokens import finite, is_small

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
POSITIONS = 20
ALWAYS = 0.98  # share from which on two parameters are taken for equal in any case: what else happens is an exception
_ALL = 0.98  # of the values: the file rounds their shares
MANY_VALUES = 10  # of a parameter, from which on it is equal to another one by no chance

Ordinal = Annotated[int, Field(ge=1)]
Ending = Literal["commit", "rollback", "error"]
Kind = Literal["number", "text", "time", "boolean", "array", "bytea", "other"]


@dataclass(frozen=True)
class Spread:
    """How a quantity is distributed.

    Attributes:
        quantiles: at QUANTILES, to about 5 %: the least, the median, the most …
    """

    __pydantic_config__ = STRICT

    mean: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class Step:
    """A statement of a transaction; in a loop, once for all rounds.

    Attributes:
        statement: its number, see LoggedStatement.
        pause_s: between the end of the statement before it (BEGIN is one), in the same transaction, and its beginning, in
            seconds: the application's own time. None where there was none, and where the log's times are whole seconds.
    """

    __pydantic_config__ = STRICT

    statement: Ordinal
    pause_s: Spread | None = None


@dataclass(frozen=True)
class Loop:
    """Steps that a transaction runs several times in a row, as New-Order of TPC-C does for each item.

    Attributes:
        first, last: places of steps, from 1.
        repeats: how often they ran, with the share of the transactions, ascending; once is a repeat, too.
        like: the place, from 1, of an earlier loop of the shape that ran as often in every transaction; 0: there is none.
    """

    __pydantic_config__ = STRICT

    first: Ordinal
    last: Ordinal
    repeats: tuple[tuple[Ordinal, Share], ...]
    like: Count = 0


@dataclass(frozen=True)
class ParameterLink:
    """That a parameter's value follows from an earlier one.

    Attributes:
        step, parameter: whose: the place of a step, from 1, and n of $n.
        source: of what it follows: "transaction": an earlier statement of the same transaction, or an earlier parameter
            of the same one (in its latest round); "loop": a step of an earlier loop, in its round of the same number;
            "round": the loop's round before; "session": the session's transaction before, if that had the shape
            `from_shape`.
        from_step, from_parameter: which one.
        from_shape: its shape's number; 0 but for "session".
        share: of the cases in which there were both values.
        differences: empty: the two are equal. Else how much more it is than the other one: numbers as they are, times
            in seconds. Whole numbers up to 99 are exact, others are rounded to about 10 % and none is an original's.
    """

    __pydantic_config__ = STRICT

    step: Ordinal
    parameter: Ordinal
    source: Literal["transaction", "loop", "round", "session"]
    from_step: Ordinal
    from_parameter: Ordinal
    share: Share
    from_shape: Count = 0
    differences: tuple[float, ...] = ()

    @property
    def is_always_equal(self) -> bool:
        """Whether both have the same value, but for exceptions."""
        return self.share >= ALWAYS and not self.differences


@dataclass(frozen=True)
class TransactionShape:
    """Transactions that ran the same statements in the same order, loops apart.

    Attributes:
        number: of this file; 1 took the most time.
        is_block: the client sent BEGIN and the statement of `ending`; else the statements were sent without, alone or
            several at once. Neither is a step.
        ending: "error": a statement failed: it is not among the steps, and the transaction ended with it.
        transactions: how many there were.
        duration_s: from the beginning of the first statement to the end of the last.
        pause_s: since the end of the session's transaction before it; None where there was none.
        last_pause_s: of a block: between its last statement's end and the beginning of COMMIT or ROLLBACK.
        links: how parameters follow from earlier ones; of each parameter the one with the largest share, and of one that is
            equal in all rounds of a loop that of its first round.
        follows: which shapes the session's transaction before it had: number (0: one that is not listed), share.
    """

    __pydantic_config__ = STRICT

    number: Ordinal
    steps: tuple[Step, ...]
    transactions: Count
    duration_s: Spread
    is_block: bool = False
    ending: Ending = "commit"
    loops: tuple[Loop, ...] = ()
    links: tuple[ParameterLink, ...] = ()
    pause_s: Spread | None = None
    last_pause_s: Spread | None = None
    follows: tuple[tuple[Count, Share], ...] = ()


@dataclass(frozen=True)
class LoggedPlace:
    """A parameter of a shape's step.

    Attributes:
        step: its place, from 1.
        statement: its number; parameter: n of $n.
    """

    shape: int
    step: int
    statement: int
    parameter: int


def equal_places(
    shapes: Sequence[TransactionShape], distinct: Callable[[int, int], int]
) -> Iterator[tuple[LoggedPlace, LoggedPlace]]:
    """Yield parameters that are always equal to another one, which is no chance as they have many values.

    Args:
        distinct: how many values a parameter of a statement has, by their numbers.
    """
    steps = {x.number: x.steps for x in shapes}
    for shape in shapes:
        for x in shape.links:
            of = x.from_shape or shape.number
            one = LoggedPlace(shape.number, x.step, steps[shape.number][x.step - 1].statement, x.parameter)  # fmt: skip
            if x.is_always_equal and distinct(one.statement, one.parameter) >= MANY_VALUES:
                yield one, LoggedPlace(of, x.from_step, steps[of][x.from_step - 1].statement, x.from_parameter)  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """What values a statement's parameter had, by shape.

    Attributes:
        number: n of $n in the statement's text.
        kind: what they look like.
        seen: how many there were, NULLs among them.
        null_share: of them.
        distinct: how many different ones, to about 3 %.
        top_shares: of the most frequent one, the 10 and the 100 most frequent ones together, NULLs apart.
        ascending_share: of values above all before them: near 1 for new numbers of a sequence and for the time of day.
        lengths: of texts, in characters; of arrays, elements, also of lists that the server cut short to one parameter.
        common: tokens of values that the statistics of the parameter's column have, with their shares, the most
            frequent first; of a parameter of no column all values, where these are whole numbers up to 99.
        positions: shares of the values in POSITIONS equal parts of the column's rows, in the column's order; empty
            where the column is not known, or has no order.
        is_constant: the statement's text always had the same constant in its place: `common` has its token, or the constant itself,
            where that is a whole number up to 99.
        is_sent: clients sent it beside the text, so that its type may be any; else it stood in the text.
        ages: of times that programs take from their clock: how many seconds before the statement, to about 10 %, with
            shares; below zero: after it. Of times without a zone as if they were in UTC.
    """

    __pydantic_config__ = STRICT

    number: Ordinal
    kind: Kind
    seen: Count
    null_share: Share
    distinct: Count
    top_shares: tuple[Share, Share, Share]
    ascending_share: Share
    lengths: Spread | None = None
    common: tuple[tuple[str, Share], ...] = ()
    positions: tuple[Share, ...] = ()
    ages: tuple[tuple[float, Share], ...] = ()
    is_constant: bool = False
    is_sent: bool = False

    @property
    def has_all_numbers(self) -> bool:
        """Whether `common` has all values, and these are whole numbers up to 99."""
        values = (finite(value) for value, _ in self.common)
        is_all = sum(share for _, share in self.common) >= _ALL
        return (
            self.kind == "number" and is_all and all(x is not None and is_small(x) for x in values)
        )


@dataclass(frozen=True)
class LoggedStatement:
    """A statement of the log.

    Attributes:
        number: that of the same statement in Twin.workload, of the role that sent it; larger than all of those, where
            pg_stat_statements did not have it.
        calls: in the log.
        parameters: those that the log has values of.
        text: only where Twin.workload does not have it.
    """

    __pydantic_config__ = STRICT

    number: Ordinal
    calls: Count
    parameters: tuple[Parameter, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class LoggedSessions:
    """The sessions of the log.

    Attributes:
        sessions: how many sent a statement.
        transactions: of each.
        at_once: how many of them were busy within the same second, over the seconds of the window.
    """

    __pydantic_config__ = STRICT

    sessions: Count
    transactions: Spread
    at_once: Spread


@dataclass(frozen=True)
class LoggedTransactions:
    """What a server's log showed.

    Attributes:
        format: of the log.
        window_s: from its first message that was taken to the last.
        messages: that were taken.
        transactions: whole ones; counts are those of the log, also where it is a sample.
        sampled_share: of the transactions that the server logged, by log_transaction_sample_rate; None: unknown.
        is_complete: every statement of the transactions that it has is in the log; else, some are missing: only long ones
            were logged, or single ones by lot.
        statements: those of the shapes, by number.
        shapes: those that took the most time first.
        other_transactions, other_s: of shapes that are not listed, and the time that they took.
        cut_transactions: those of which the log has no beginning or no end.
        prepared_share: of the executions of statements with a plan, those of one that was prepared under a name, so that its
            plan may be kept; None: unknown.
        errors: how many by SQLSTATE; "" where the log does not tell.
        rate_every_s, rate: transactions begun in each `rate_every_s` seconds of the window.
        notes: what is missing and which setting would help, in sentences.
    """

    __pydantic_config__ = STRICT

    format: Literal["csvlog", "jsonlog", "stderr"]
    window_s: Amount
    messages: Count
    transactions: Count
    sampled_share: Share | None = None
    is_complete: bool = True
    statements: tuple[LoggedStatement, ...] = ()
    shapes: tuple[TransactionShape, ...] = ()
    other_transactions: Count = 0
    other_s: Amount = 0.0
    cut_transactions: Count = 0
    sessions: LoggedSessions | None = None
    prepared_share: Share | None = None
    errors: Mapping[str, Count] = field(default_factory=dict)
    rate_every_s: Amount = 1.0
    rate: tuple[Count, ...] = ()
    notes: tuple[str, ...] = ()
