"""How do counters become numbers that can be compared? A table of metrics, and one function that evaluates it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from pgdrag.model import Observation, Unit
from pgdrag.model.recordings import Series, SeriesUnit

T = TypeVar("T")


@dataclass(frozen=True)
class Window:
    """The measured window, as collectors need it.

    Attributes:
        elapsed_s: its length in seconds, as the driver measured it.
        committed: transactions that the driver saw committed; 0 is possible.
        started_unix_s: its begin by `CLOCK`, to select log lines.
        finished_unix_s: wall-clock end; clients may have connected and ended between the two.
    """

    elapsed_s: float
    committed: int
    started_unix_s: float
    finished_unix_s: float

    @property
    def length_s(self) -> float:
        """Seconds from the wall-clock start to the wall-clock end: the time that log lines cover."""
        return self.finished_unix_s - self.started_unix_s


class Unseen(Exception):
    """Something cannot be observed here; its text is the reason, for `Observation.missing`."""

    @property
    def reason(self) -> str:
        """Why not: a clause without a full stop."""
        return str(self)


NO_READING = Unseen("no reading was taken")
NO_LENGTH = Unseen("the window has no length")
NO_COMMIT = Unseen("nothing committed in the window")

# By name: growth of a counter over the window, what a collector worked out, or why it is not known; and
# words for details.
Amounts: TypeAlias = Mapping[str, "float | str | Unseen"]


def attempt(read: Callable[[], T]) -> T | Unseen:
    """Return what `read` returns, or why it could not."""
    try:
        return read()
    except Unseen as unseen:
        return unseen


def known(found: T | Unseen) -> T:
    """Return what was found; raise `Unseen` where nothing was."""
    if isinstance(found, Unseen):
        # The reason may be raised for each metric, and must not keep all those frames.
        raise found.with_traceback(None)
    return found


@dataclass(frozen=True)
class Metric:
    """A number: an amount, divided by transactions, by seconds, or by another amount.

    Attributes:
        name, label, unit: of the observation. The unit says what the amount is divided by: committed
            transactions, seconds, or nothing.
        of: the amounts to add up; "reads *" means all amounts whose names begin with "reads ".
        per: amounts to divide by instead.
        size: what 1 of the amounts is in `unit`: 1e-6 for microseconds.
        step: the smallest change of the amounts, or the name of the amount that says it.
        nothing: why the metric has no value where `per` is 0.
        detail: of the observation; names in braces are replaced by amounts.
    """

    name: str
    label: str
    of: str | tuple[str, ...]
    unit: Unit = "1/transaction"
    per: str | tuple[str, ...] = ()
    size: float = 1
    step: float | str = 1
    nothing: str = ""
    detail: str = ""

    def evaluate(
        self,
        amounts: Amounts | Unseen,
        window: Window,
        *,
        seconds: float,
        absent: Mapping[str, str],
        is_of_machine: bool = False,
    ) -> Observation:
        """Return the observation, or the reason why there is none.

        Args:
            seconds: over which amounts were counted.
            absent: why an amount is not there, by its name.
        """
        value, resolution, detail, reason = None, 1.0, "", ""
        try:
            value, resolution = self._value(known(amounts), window, seconds, absent)
            detail = " ".join(self.detail.format_map(known(amounts)).split())
        except Unseen as unseen:
            reason = unseen.reason
        return Observation(
            self.name, self.label, value, self.unit, resolution, reason, detail, is_of_machine
        )

    def _value(
        self, amounts: Amounts, window: Window, seconds: float, absent: Mapping[str, str]
    ) -> tuple[float, float]:
        is_per_transaction = self.unit.endswith("/transaction")
        if is_per_transaction and not window.committed:
            raise NO_COMMIT
        value = self.size * total(amounts, self.of, absent)
        step = total(amounts, self.step, absent) if isinstance(self.step, str) else self.step
        resolution = self.size * step
        if self.per or is_per_transaction or self.unit.endswith("/s"):
            by_time = window.committed if is_per_transaction else seconds
            divisor = total(amounts, self.per, absent) if self.per else by_time
            if divisor <= 0:
                raise Unseen(self.nothing) if self.nothing else NO_LENGTH
            value, resolution = value / divisor, resolution / divisor
        if self.unit == "ratio":
            return min(value, 1.0), min(resolution, 1.0)
        return value, resolution


def detailed(detail: str, *metrics: Metric) -> tuple[Metric, ...]:
    """Return metrics that share a detail."""
    return tuple(replace(metric, detail=detail) for metric in metrics)


def total(
    amounts: Amounts, names: str | Sequence[str], absent: Mapping[str, str] | None = None
) -> float:
    """Return the sum of amounts.

    Raises:
        Unseen: one of them is not there; the message is that of `absent`.
    """
    found: list[float] = []
    for name in [names] if isinstance(names, str) else names:
        if name.endswith(" *"):
            found += of_kind(amounts, name.removesuffix(" *")).values()
        elif name not in amounts:
            raise Unseen((absent or {}).get(name) or f"this server version does not count {name}")
        else:
            amount = known(amounts[name])
            assert isinstance(amount, int | float), name
            found.append(amount)
    return sum(found)


def of_kind(amounts: Amounts, kind: str) -> dict[str, float]:
    """Return the amounts named "KIND X" of one kind, by X."""
    prefix = f"{kind} "
    return {
        name.removeprefix(prefix): amount
        for name, amount in amounts.items()
        if name.startswith(prefix) and isinstance(amount, int | float)
    }


def most_named(heading: str, counts: Mapping[str, float]) -> str:
    """Return a sentence that names the three largest counts: "Heading: one 1,234, another 5."; "" where all are 0."""
    ranked = sorted(counts.items(), key=lambda each: -each[1])[:3]
    named = [f"{name} {count:,}" for name, count in ranked if count]
    return f"{heading}: {', '.join(named)}." if named else ""


def series_of(
    name: str,
    label: str,
    unit: SeriesUnit,
    points: Iterable[tuple[float, float | None]],
    window: Window,
    *,
    is_of_machine: bool = False,
) -> Iterator[Series]:
    """Yield a series of the known values with their clock times; yield nothing without any."""
    known_points = [(at, value) for at, value in points if value is not None]
    if known_points:
        times_s = tuple(round(at - window.started_unix_s, 3) for at, _ in known_points)
        values = tuple(value for _, value in known_points)
        yield Series(name, label, unit, times_s, values, is_of_machine)
