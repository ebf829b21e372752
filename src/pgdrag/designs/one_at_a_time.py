"""What does each rung do by itself, upon the baseline alone?"""

from __future__ import annotations

from pgdrag.designs.rungs import EveryRung, RungsParameters


class OneAtATimeParameters(RungsParameters):
    """Parameters of a one-at-a-time study."""


class OneAtATime(EveryRung):
    """The baseline and every rung once a block; the laboratory adds replicates.

    It sees what suffices by itself. What only counts together with another rung it cannot see: that is
    what `ablate` is for.
    """

    name = "one-at-a-time"
    summary = "each rung by itself upon the baseline"
    Parameters = OneAtATimeParameters
