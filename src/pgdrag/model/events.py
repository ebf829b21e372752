"""What is happening? The events that a run sends to its listener: a terminal, a test, a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pgdrag.model import Forecast, Result, Study, Trial
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Series
from pgdrag.units import format_duration


@dataclass(frozen=True)
class RunStarted:
    """A run begins or continues: `finished` of its results exist already."""

    run_id: str
    study: Study
    finished: int


@dataclass(frozen=True)
class BlockPlanned:
    """The next trials are known; `finished` of them were run before.

    Attributes:
        left: all trials still to come, these included.
    """

    trials: tuple[Trial, ...]
    finished: int
    left: Forecast


@dataclass(frozen=True)
class BudgetSpent:
    """The run ends before this trial, which would pass the time that it was given."""

    spent_s: float
    trial: Trial


@dataclass(frozen=True)
class TimeLeft:
    """How long the remaining trials will take, in seconds, by experience and within the budget.

    Attributes:
        least_s: of the fewest that may be needed.
        most_s: of the most.
    """

    least_s: float
    most_s: float

    def words(self, spent_s: float) -> str:
        """Return the time left after some time has passed: "about 2 min left, 5 min at most"."""
        least, most = (
            format_duration(round(max(0.0, x - spent_s))) for x in (self.least_s, self.most_s)
        )
        return f"about {least} left" if least == most else f"about {least} left, {most} at most"


@dataclass(frozen=True)
class TrialStarted:
    """A trial begins, on a host of the fleet, if there is one."""

    trial: Trial
    host: str = ""


@dataclass(frozen=True)
class PhaseStarted:
    """Something that takes time begins.

    Attributes:
        expected_s: how long at most, or None if unknown.
        explanation: what a person must know of it at once, such as why it is not what was planned; sentences.
    """

    name: str
    expected_s: float | None = None
    explanation: str = ""


@dataclass(frozen=True)
class Progress:
    """How far the phase has come: `done` of `total` in `unit`."""

    done: float
    total: float
    unit: str


@dataclass(frozen=True)
class Throughput:
    """What the workload does now: in the last interval, and since the phase began.

    Attributes:
        sample: all that is known of the last interval, from the start of the load; None if unknown.
    """

    elapsed_s: float
    committed: int
    last_per_s: float
    mean_per_s: float
    sample: Sample | None = None


@dataclass(frozen=True)
class Sampled:
    """What collectors have just seen of the server.

    Attributes:
        series: each of one moment, in Unix seconds.
        busy: types of background processes that were at work, such as "checkpointer".
    """

    series: tuple[Series, ...]
    busy: tuple[str, ...] = ()


@dataclass
class Doing:
    """What this machine, or a host of a fleet, does now.

    Attributes:
        since_s: when the phase began, on the listener's clock.
    """

    phase: PhaseStarted | None = None
    since_s: float = 0.0
    progress: Progress | None = None
    throughput: Throughput | None = None

    def take(self, event: PhaseStarted | Progress | Throughput | Sampled, at_s: float) -> None:
        """Take in an event; a phase that begins ends what was known of the one before."""
        match event:
            case PhaseStarted():
                self.phase, self.since_s = event, at_s
                self.progress = self.throughput = None
            case Progress():
                self.progress = event
            case Throughput():
                self.throughput = event


@dataclass(frozen=True)
class TrialFinished:
    """A trial has ended and is in the journal; `so_far`: what the design knows by now, in a few words."""

    result: Result
    so_far: str = ""


@dataclass(frozen=True)
class OnHost:
    """Something happens on a host of a fleet."""

    host: str
    event: PhaseStarted | Throughput


HostState = Literal["away", "preparing", "waiting", "ready", "lost", "set aside"]


@dataclass(frozen=True)
class HostChanged:
    """A host of a fleet comes, goes, waits, or gets no more trials; why, where that is not good."""

    host: str
    state: HostState
    reason: str = ""


Event = (
    RunStarted
    | BlockPlanned
    | BudgetSpent
    | TimeLeft
    | TrialStarted
    | PhaseStarted
    | Progress
    | Throughput
    | Sampled
    | TrialFinished
    | OnHost
    | HostChanged
)
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
