"""What was seen of a server that others use, sample by sample, and what a stretch of time shows?

Times are Unix seconds by the steady clock of the pgdrag that looked, unless said otherwise: they only grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgdrag.model.recordings import Event, SeriesUnit

# The kinds of events that observing itself notices.
RESTARTED = "restart"
RESET = "statistics reset"
GAP = "gap"
SETTINGS = "settings changed"
CLOCK_STEP = "clock step"
BEGAN = "observing began"
# Stands for all statements of a sample that are not among those with most time.
OTHER_STATEMENTS = "(other statements)"
MOST_TEXT = 2000  # characters of a statement


@dataclass(frozen=True)
class Quantity:
    """What is observed.

    Attributes:
        name: `snake_case`, unit last: "commits_per_s".
        label: for people: "transactions committed".
        is_of_machine: of all that runs on the server's machine.
    """

    name: str
    label: str
    unit: SeriesUnit
    is_of_machine: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """One quantity over an interval.

    Attributes:
        mean: by time.
        low, high: of the samples that it is made of.
        known_s: for how long of the interval it is known: `mean * known_s` is its sum.
    """

    mean: float
    low: float
    high: float
    known_s: float

    @classmethod
    def over(cls, parts: Sequence[Spread]) -> Spread:
        """Return a quantity's intervals, one or more, as one."""
        if len(parts) == 1:
            return parts[0]
        known_s = sum(one.known_s for one in parts)
        mean = sum(one.mean * one.known_s for one in parts) / known_s if known_s else 0.0
        return cls(mean, min(one.low for one in parts), max(one.high for one in parts), known_s)


@dataclass(frozen=True)
class Wait:
    """What processes of one type were in: a wait's type and event, "IO:DataFileRead"; "" is on a processor."""

    backend_type: str
    wait: str


@dataclass(frozen=True)
class Statement:
    """One statement of one database; its text has no constants."""

    database: str
    text: str


@dataclass(frozen=True)
class StatementTotals:
    """What a statement took in an interval, by pg_stat_statements."""

    calls: int
    rows: int
    exec_s: float
    plan_s: float
    io_s: float
    blocks_hit: int
    blocks_read: int
    temp_blocks_written: int
    wal_bytes: int

    def __add__(self, other: StatementTotals) -> StatementTotals:
        return StatementTotals(
            *(getattr(self, x) + getattr(other, x) for x in StatementTotals.__dataclass_fields__)
        )

    @property
    def time_s(self) -> float:
        """In execution, and in planning where that is tracked."""
        return self.exec_s + self.plan_s


NO_TOTALS = StatementTotals(0, 0, 0.0, 0.0, 0.0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Sample:
    """What one interval showed, or several that were thinned to one.

    Attributes:
        observed_s: how much of it was observed.
        wall_unix_s: what the machine's clock showed at its end.
        values: by the names of quantities.
        waits: how many processes were in each, on average.
        level: how often it was thinned.
    """

    began_unix_s: float
    ended_unix_s: float
    observed_s: float
    wall_unix_s: float
    values: Mapping[str, Spread] = field(default_factory=dict)
    waits: Mapping[Wait, float] = field(default_factory=dict)
    statements: Mapping[Statement, StatementTotals] = field(default_factory=dict)
    level: int = 0


@dataclass(frozen=True)
class Setting:
    """A server's setting as a session of the observing role has it.

    Attributes:
        value: with its unit; "***" where it could be a secret.
        default: what the server is built with; "" where it has none.
    """

    name: str
    value: str
    default: str


@dataclass(frozen=True)
class ObservedServer:
    """Which server it is: never with a password.

    Attributes:
        name: `database "shop" on db1, port 5432`.
        identifier: the cluster's own number, which its standbys share; "" where it is hidden.
    """

    name: str
    version: str
    identifier: str = ""

    def is_other_than(self, that: ObservedServer) -> bool:
        """Whether it is another server: by the cluster's number where both are known, else by its name."""
        if self.identifier and that.identifier:
            return self.identifier != that.identifier
        return self.name != that.name


@dataclass(frozen=True)
class ObservedSeries:
    """One quantity over a stretch: interval by interval, with gaps where nothing was seen."""

    quantity: Quantity
    begins_unix_s: tuple[float, ...]
    ends_unix_s: tuple[float, ...]
    spreads: tuple[Spread, ...]

    @property
    def whole(self) -> Spread:
        """All intervals as one."""
        return Spread.over(self.spreads)


@dataclass(frozen=True)
class Resolution:
    """How much of a stretch is there in how fine intervals.

    Attributes:
        level: how often these samples were thinned.
        interval_s: the length of one, typically.
    """

    level: int
    interval_s: float
    samples: int
    began_unix_s: float
    ended_unix_s: float


@dataclass(frozen=True)
class Stretch:
    """What the samples of a stretch show.

    Attributes:
        file: the name of the file they are from.
        began_unix_s, ended_unix_s: of its first and its last sample.
        observed_s: how much of it was observed.
        settings: at its end.
        condensed: how many neighbouring samples each interval of the series is made of, at most.
        dropped_until_unix_s: before then the file has forgotten samples; None: none.
    """

    file: str
    server: ObservedServer
    began_unix_s: float
    ended_unix_s: float
    observed_s: float
    resolutions: tuple[Resolution, ...]
    series: tuple[ObservedSeries, ...]
    waits: Mapping[Wait, float]
    statements: Mapping[Statement, StatementTotals]
    events: tuple[Event, ...]
    settings: tuple[Setting, ...]
    dropped_until_unix_s: float | None = None
    condensed: int = 1

    @property
    def length_s(self) -> float:
        """From the first sample's begin to the last one's end."""
        return self.ended_unix_s - self.began_unix_s

    @property
    def samples(self) -> int:
        """How many samples it is made of."""
        return sum(one.samples for one in self.resolutions)

    def of(self, name: str) -> ObservedSeries | None:
        """Return a quantity's series, or None."""
        return next((x for x in self.series if x.quantity.name == name), None)
