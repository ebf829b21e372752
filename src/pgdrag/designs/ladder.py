"""What does each step add, when the steps are taken one upon the other, in the order given?"""

from __future__ import annotations

from typing import ClassVar

from pgdrag.designs import DesignParameters
from pgdrag.designs._rungs import EveryRung, RungsParameters


class LadderParameters(RungsParameters):
    """Parameters of a ladder."""


class Ladder(EveryRung):
    """Every rung once a block, cumulatively; the baseline as often as asked.

    What a rung shows depends on the rungs below it: the report says so beside every step.
    """

    name = "ladder"
    summary = "cumulative steps in a given order, as published studies take them"
    Parameters: ClassVar[type[DesignParameters]] = LadderParameters
    is_cumulative: ClassVar[bool] = True
