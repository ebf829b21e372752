"""How many worker threads did each load driver get where nobody gave a number, and what showed that so many are needed?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgdrag.english import counted, percent_words
from pgdrag.model.recordings import Recording


@dataclass(frozen=True)
class ThreadsProbe:
    """What a short load with so many worker threads showed.

    Attributes:
        threads: of each load driver.
        busy_share: of the time in which its busiest thread ran, or waited for a processor.
        committed_per_s: transactions, over all load drivers.
    """

    threads: int
    busy_share: float
    committed_per_s: float

    @property
    def words(self) -> str:
        """Return `2 threads, 55 % busy`."""
        return f"{counted(self.threads, 'thread')}, {percent_words(self.busy_share)} busy"


@dataclass(frozen=True)
class ChosenThreads(Recording):
    """How many worker threads each load driver has in all trials of a run on a host, chosen by probes at its start.

    Attributes:
        probes: in their order; none where the baseline could not be measured.
        is_limited: they are busier than wanted, and there is no processor or client for more.
    """

    key: ClassVar[str] = "driver_threads"
    threads: int
    probes: tuple[ThreadsProbe, ...] = ()
    is_limited: bool = False

    @property
    def words(self) -> str:
        """Return `2 threads, 55 % busy (tried: 1 thread, 93 % busy)`."""
        chosen = next((one for one in self.probes if one.threads == self.threads), None)
        if chosen is None:
            return f"{counted(self.threads, 'thread')}, as the baseline could not be measured"
        text = chosen.words + ", and no processor or client for more" * self.is_limited
        others = "; ".join(one.words for one in self.probes if one is not chosen)
        if self.probes[-1] is not chosen:
            others += ", and slower"
        return f"{text} (tried: {others})" if others else text
