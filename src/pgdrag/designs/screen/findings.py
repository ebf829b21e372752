"""What a screening found: the values handed to the report."""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.findings.values import DesignFinding, Interval


@dataclass(frozen=True)
class ScreenedChange:
    """A change and its own effect.

    Attributes:
        before, after: its values in the reference and in the target; None: not set there.
        slowdown: how many times slower the change makes it, on average over all settings of the others.
        p: that it is as large by chance, alone.
        p_adjusted: the same, for all changes together (Holm).
        is_significant: significant at 5 %, adjusted for all of them.
    """

    name: str
    before: str | None
    after: str | None
    slowdown: Interval
    p: float
    p_adjusted: float
    is_significant: bool


@dataclass(frozen=True)
class ScreenFinding(DesignFinding):
    """What a screening found.

    Attributes:
        reference, target: names of the two ends.
        changes: with their effects, the largest first; empty where the trials cannot tell them apart.
        names: of all changes.
        method: how the error of the effects was had.
        detectable: the smallest slowdown that would be significant at about even odds; None
            where nothing was.
        is_folded: each trial's mirror image was part of the design.
        trials: of the design, with a number.
        planned: trials of the design.
        failed: trials without a number.
        stalled: trials in which nothing committed; they count with their bound.
    """

    reference: str
    target: str
    changes: tuple[ScreenedChange, ...]
    names: tuple[str, ...]
    method: str
    detectable: float | None
    is_folded: bool
    trials: int
    planned: int
    failed: int
    stalled: int
