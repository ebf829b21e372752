"""What is a transaction of the load: which statements, in which order, how often, with which parameters in common?"""

from __future__ import annotations

from dataclasses import dataclass

Repeats = tuple[tuple[int, float], ...]  # pairs of a number and a share
ONCE: Repeats = ((1, 1.0),)
MOST_ROUNDS = 40
MOST_STEPS = 200  # of a script, rounds of loops counted


@dataclass(frozen=True)
class Step:
    """A statement of a transaction.

    Attributes:
        statement: its number.
        share: of the transactions that run it at all.
        begins: where its share begins, from 0 to 1, so that steps that lie side by side exclude each other; None: each
            transaction decides by lot.
        pause_s: how long the application waits before it, at QUANTILES; empty: not at all.
    """

    statement: int
    share: float = 1.0
    begins: float | None = None
    pause_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Loop:
    """Steps, from 0, that run several times.

    Attributes:
        repeats: pairs of a number and a share.
        like: first and last step of an earlier loop that runs as often in each transaction; None: there is none.
    """

    first: int
    last: int
    repeats: Repeats
    like: tuple[int, int] | None = None

    @property
    def most(self) -> int:
        """The most rounds."""
        return max(number for number, _ in self.repeats)

    @property
    def mean(self) -> float:
        """How many rounds there are on average."""
        return sum(x * share for x, share in self.repeats) / sum(share for _, share in self.repeats)


@dataclass(frozen=True)
class Link:
    """That a step's parameter is equal to an earlier one's, or more by one of `differences`.

    Attributes:
        returned: the column of the earlier step's result that it is equal to, instead of a parameter.
        is_of_round: the loop's round before, and not the same one or an earlier statement.
        is_in_step: of an earlier loop's round of the same number.
        is_exact: always; else mostly, as what happens to be equal.
        is_bound: what it asks for begins there, behind the last row of the earlier step's result.
    """

    step: int
    parameter: int
    from_step: int
    from_parameter: int
    is_of_round: bool = False
    differences: tuple[int, ...] = ()
    returned: str = ""
    is_in_step: bool = False
    is_exact: bool = True
    is_bound: bool = False


@dataclass(frozen=True)
class Constant:
    """A parameter whose value a session never changes.

    Attributes:
        group: parameters of one group have the same value.
    """

    step: int
    parameter: int
    group: int


@dataclass(frozen=True)
class Part:
    """Steps, from 0, that are one transaction of the server's, or statements without BEGIN.

    Attributes:
        is_block: with BEGIN and COMMIT, or ROLLBACK.
        last_pause_s: how long the application waits before it ends the block, at QUANTILES; empty: not at all.
        repeats: how often it runs: pairs of a number, which may be 0, and a share.
    """

    first: int
    last: int
    is_block: bool = False
    is_rolled_back: bool = False
    last_pause_s: tuple[float, ...] = ()
    repeats: Repeats = ONCE

    @property
    def is_sure(self) -> bool:
        """Whether it runs once, always."""
        return self.repeats == ONCE


@dataclass(frozen=True)
class TransactionType:
    """Transactions that run the same statements.

    Attributes:
        weight: how many there were.
        is_block: with BEGIN and COMMIT, or ROLLBACK.
        knows_order: a log told the order and the links; else both are guessed.
        last_pause_s: how long the application waits before it ends the block, at QUANTILES; empty: not at all.
        later: what the session always does right after it, about the same rows.
    """

    name: str
    weight: float
    steps: tuple[Step, ...]
    loops: tuple[Loop, ...] = ()
    links: tuple[Link, ...] = ()
    is_block: bool = True
    is_rolled_back: bool = False
    knows_order: bool = False
    last_pause_s: tuple[float, ...] = ()
    constants: tuple[Constant, ...] = ()
    later: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of it, in order."""
        end = self.later[0].first if self.later else len(self.steps)
        first = Part(0, end - 1, self.is_block, self.is_rolled_back, self.last_pause_s)
        return (first, *self.later)
