"""How often does an expensive collector take a sample?"""

from __future__ import annotations

import math

LOOK_EVERY_S = 2.0
# A long window needs fewer samples: after this many of them, they are taken less often.
FREQUENT_LOOKS = 30
RARE_LOOK_EVERY_S = 5.0
_EARLY_S = 0.1  # collectors are asked once a second, now and then a little early


class Pace:
    """Says when the next look is due; moments are those of one clock that is never set."""

    def __init__(self) -> None:
        self._began_s = -math.inf

    def begin(self, now_s: float) -> None:
        """Note that a look begins."""
        self._began_s = now_s

    def is_due(self, now_s: float, *, looks: int) -> bool:
        """Tell whether to look again, after so many looks that showed something."""
        every_s = RARE_LOOK_EVERY_S if looks > FREQUENT_LOOKS else LOOK_EVERY_S
        return now_s - self._began_s >= every_s - _EARLY_S
