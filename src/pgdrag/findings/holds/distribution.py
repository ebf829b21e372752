"""How long, how often and by which kind of holder was the horizon held on a server: a capture.

It is a small file (`pgdrag.horizon.distribution_file`), fits in an experiment's level on one line, and
holds are drawn from it to replay them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from pgdrag.adapters import adapter_of
from pgdrag.errors import HoldsError
from pgdrag.findings.holds.levels import HolderKind
from pgdrag.stats.hold_lengths import LengthCurve
from pgdrag.units import format_duration

if TYPE_CHECKING:
    import random

FORMAT_VERSION: Literal[1] = 1
FEWEST_GAPS = 5  # with fewer, holds are drawn as if they began independently of each other

_Count = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Length = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1)]


def _falling(steps: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    if any(a >= b for (a, _), (b, _) in pairwise(steps)):
        raise ValueError("the seconds must be in ascending order")
    if any(a <= b for a, b in pairwise((1.0, *(share for _, share in steps)))):
        raise ValueError("the shares must descend from under 1")
    if steps and steps[-1][1] != 0:
        raise ValueError("it must end with a share of 0: every hold ends")
    return steps


# Seconds, and the share that lasts longer: to where none does.
Steps = Annotated[
    tuple[tuple[_Length, _Share], ...], Field(max_length=1000), AfterValidator(_falling)
]

_STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True)
class Capture:
    """Where, when and how holds were sampled.

    Attributes:
        server: what was captured, without a password.
        postgres: the server's version.
        began: when, ISO 8601 in UTC.
        captured_s: how long the capture took, without the time in which the server could not be reached.
        every_s: from one sample to the next, on average.
        looks: how many samples there were.
        shortest_s: shorter holds are left out: too few of them were met to estimate their number.
        blind_s: how long the server could not be reached.
        look_s: how long one sample took, on average.
        cannot_see: what this role could not see, in sentences.
    """

    __pydantic_config__ = _STRICT

    server: str
    postgres: str
    began: str
    captured_s: _Length
    every_s: _Length
    looks: Annotated[int, Field(ge=1)]
    shortest_s: _Seconds
    blind_s: _Seconds = 0.0
    look_s: _Seconds = 0.0
    cannot_see: tuple[str, ...] = ()


@dataclass(frozen=True)
class KindOfHolds:
    """Holds of one kind of holder.

    Attributes:
        seen: how many were seen.
        per_hour: how many began in an hour, as estimated.
        in_progress_at_begin: of those seen: held before the first sample.
        in_progress_at_end: of those seen: still held at the last one, so their end is not known.
        begin_unknown: of those seen: their beginning is not known; they are left out of the curve.
        ends_between_looks: of those seen: only the two samples between which they ended are known.
        estimated_share: of all such holds: the share that was not seen, estimated from similar ones.
        open_share: of all such holds: the share whose end was not seen and that lasts at least as
            long as the longest of the curve.
        oldest_transactions: how many transactions had begun since the oldest of them, at most.
        longer_than: (seconds, the share of holds that lasts longer), the lengths ascending.
        applications: how many of those seen each application_name had, on request.
    """

    __pydantic_config__ = _STRICT

    seen: _Count
    per_hour: _Seconds
    in_progress_at_begin: _Count = 0
    in_progress_at_end: _Count = 0
    begin_unknown: _Count = 0
    ends_between_looks: _Count = 0
    estimated_share: _Share = 0.0
    open_share: _Share = 0.0
    oldest_transactions: _Count = 0
    longer_than: Steps = ()
    applications: Mapping[str, int] = field(default_factory=dict)

    @property
    def curve(self) -> LengthCurve | None:
        """How long they last; None where that is not known."""
        return curve_of(self.longer_than, self.open_share)


@dataclass(frozen=True)
class HoldDistribution:
    """All holds of a capture.

    Attributes:
        pgdrag_holds: version of the file's format.
        kinds: by kind of holder, of those that were seen.
        gaps: (seconds, share that is longer) from the beginning of one hold to that of the next, of any
            kind; empty where too few were seen.
        at_once: how many held at the same time, and in which share of the samples.
    """

    __pydantic_config__ = _STRICT

    capture: Capture
    kinds: Mapping[HolderKind, KindOfHolds] = field(default_factory=dict)
    pgdrag_holds: Literal[1] = FORMAT_VERSION
    gaps: Steps = ()
    at_once: Mapping[str, _Share] = field(default_factory=dict)

    @property
    def can_be_drawn(self) -> bool:
        """Whether any hold's length and frequency is known."""
        return any(x.per_hour > 0 and x.curve is not None for x in self.kinds.values())

    @property
    def lengths(self) -> LengthCurve:
        """How long holds of all kinds that can be drawn last, each kind as often as it began."""
        kinds = self._drawable()
        total = math.fsum(weight for _, weight, _ in kinds)
        shares: dict[float, float] = defaultdict(float)
        for _, weight, curve in kinds:
            for length_s, share in curve.steps():
                shares[length_s] += share * weight / total
        lengths_s = sorted(shares)
        return LengthCurve.of_shares(lengths_s, [shares[x] for x in lengths_s])

    @property
    def words(self) -> str:
        """A summary: "412 holds, half of them longer than 1.02 s, the longest 5.1 s"."""
        seen = sum(kind.seen for kind in self.kinds.values())
        if not self.can_be_drawn:
            return f"{seen:,} holds of no known length" if seen else "no hold"
        curve = self.lengths
        if len(curve.lengths_s) == 1:
            return f"{seen:,} holds of {format_duration(curve.lengths_s[0])}"
        half, longest = format_duration(curve.quantile(0.5)), format_duration(curve.lengths_s[-1])
        return f"{seen:,} holds, half of them longer than {half}, the longest {longest}"

    def draw(self, rng: random.Random) -> tuple[HolderKind, float]:
        """Return the holder and the length, in seconds, of one hold."""
        kinds = self._drawable()
        [at] = rng.choices(range(len(kinds)), [weight for _, weight, _ in kinds])
        return kinds[at][0], kinds[at][2].quantile(1 - rng.random())

    def draw_gap(self, rng: random.Random) -> float:
        """Return the time from the beginning of a hold to that of the next, in seconds."""
        curve = curve_of(self.gaps)
        if curve is not None:
            return curve.quantile(1 - rng.random())
        return rng.expovariate(sum(weight for _, weight, _ in self._drawable()) / 3600)

    def _drawable(self) -> list[tuple[HolderKind, float, LengthCurve]]:
        found = [
            (holder, kind.per_hour, curve)
            for holder, kind in sorted(self.kinds.items())
            if kind.per_hour > 0 and (curve := kind.curve) is not None
        ]
        assert found, "nothing can be drawn from a capture without a hold"
        return found


def distribution_of(values: object) -> HoldDistribution:
    """Return the distribution that JSON values describe.

    Raises:
        ValidationError: they describe none.
    """
    # Strict validation of JSON takes an array as a tuple.
    return adapter_of(HoldDistribution).validate_json(json.dumps(values, default=str))


def distribution_json(found: HoldDistribution) -> dict[str, Any]:
    """Return a distribution as JSON values."""
    content = adapter_of(HoldDistribution).dump_python(found, mode="json")
    assert isinstance(content, dict)
    return content


def as_level(found: HoldDistribution, name: str) -> str:
    """Return the level's value for a distribution: a summary, then all of it, on one line."""
    text = json.dumps(distribution_json(found), separators=(",", ":"))
    return f"{name}, {found.words} {text}"


def from_level(value: str) -> HoldDistribution:
    """Return the distribution in a level's value.

    Raises:
        HoldsError: it has none.
    """
    begin = value.find("{")
    try:
        return adapter_of(HoldDistribution).validate_json(value[begin:] if begin >= 0 else "null")
    except ValidationError:
        name = value[:begin] if begin >= 0 else value
        raise HoldsError(f'"{name.strip()[:60]}" contains no distribution of holds') from None


def curve_of(steps: tuple[tuple[float, float], ...], open_share: float = 0.0) -> LengthCurve | None:
    """Return the curve of a file's steps; None where there are none."""
    if not steps:
        return None
    lengths_s, longer = zip(*steps, strict=True)
    return LengthCurve(lengths_s, longer, open_share)


def steps_of(curve: LengthCurve | None) -> tuple[tuple[float, float], ...]:
    """Return a curve's steps as a file has them: three significant digits, at most 40 steps."""
    if curve is None:
        return ()
    found: dict[float, float] = {}
    above = 1.0
    thin = curve.thinned()
    for length_s, longer in zip(thin.lengths_s, thin.longer, strict=True):
        share = round(longer, 4)
        if share < above:
            found[float(f"{length_s:.3g}")] = above = share
    if above > 0:  # the last step was rounded away
        found[float(f"{thin.lengths_s[-1]:.3g}")] = 0.0
    return tuple(found.items())
