"""What was found on mechanisms: the values that the analysis hands to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["up", "down", "is"]


@dataclass(frozen=True)
class SignFinding:
    """Whether an observation moved as a mechanism says.

    Attributes:
        observation: its name.
        wanted: "up" or "down"; "is": it need not move, but be within bounds on the slower side.
        p: probability of such a movement or a larger one by chance alone; None: unknown.
        has_moved: by 10 % or more the wanted way; or is within the bounds.
        sentence: "buffer hit ratio fell from 99.9 % to 70.5 %"; where it was not tested, why.
    """

    observation: str
    wanted: Direction
    p: float | None
    has_moved: bool
    sentence: str


@dataclass(frozen=True)
class MechanismFinding:
    """What became of one mechanism on one rung.

    Attributes:
        name, summary: as in the catalogue.
        signs: all that it must move.
        q: rate of false discoveries if this mechanism is believed in, and all that are as sure; None
            where its signs could not be tested.
        is_shown: all of its signs moved, and that is no chance.
        share: part of the added (or saved) time that it accounts for; None where it is not shown, or
            where nobody watched where time went.
        share_low, share_high: the same by each pair of trials alone, the lowest and the highest; None
            where there is only one pair.
        added_s: seconds of all sessions per transaction that are that share.
        places: where they were spent, the most first: "in reads of blocks".
    """

    name: str
    summary: str
    signs: tuple[SignFinding, ...]
    q: float | None
    is_shown: bool
    share: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    added_s: float | None = None
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class MechanismsFinding:
    """Which mechanisms a step's slowdown (or speedup) is made of.

    Attributes:
        found: those shown first, by the share of time that they account for; then the others.
        is_gain: the step made the server faster: each mechanism is one that fell away, or weighs less.
        added_s: seconds of all sessions that the step added to (or took from) each transaction; None
            where that was not watched.
        unexplained: part of it that no mechanism shown accounts for; None as for `added_s`.
        why_none: why none is named, or "".
        reference: the rung that it was compared with: the one before, or, where the step from that may be
            noise and the whole way from the baseline is not, the baseline.
    """

    found: tuple[MechanismFinding, ...] = ()
    is_gain: bool = False
    added_s: float | None = None
    unexplained: float | None = None
    why_none: str = ""
    reference: str = ""

    @property
    def named(self) -> tuple[MechanismFinding, ...]:
        """Those that are shown and account for a part worth a word."""
        return tuple(
            one for one in self.found if one.is_shown and (one.share or 0.0) >= NAMED_SHARE
        )


NAMED_SHARE = 0.05
