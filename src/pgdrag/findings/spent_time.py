"""Where did the sessions' time on a transaction go, and how much of it did a change add?

Sessions are in one state at a time, so that the parts add up: what a change added to each part, divided
by what it added to all, is the part's share of the added time. It says where the time was spent, which
is where to look for the cause; it is not the cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.english import percent_words
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.mechanisms.ledger import COMPONENTS, Ledger, component_of, pooled
from pgdrag.findings.mechanisms.signs import observed
from pgdrag.model import Observation, Result
from pgdrag.model.recordings import SESSION_TYPES, WaitTime

# By the name of the observation, where it was spent.
PLACES: Mapping[str, str] = {
    "on_cpu_s_per_transaction": "on CPU",
    "io_wait_s_per_transaction": "in I/O",
    "lwlock_wait_s_per_transaction": "waiting for LWLocks",
    "lock_wait_s_per_transaction": "waiting for locks",
    "client_wait_s_per_transaction": "waiting for clients",
    "other_wait_s_per_transaction": "in other waits",
}
_CHANGED = 0.1  # of the time before, at least, for a share of the difference to say anything
_NAMED_WAITS = 3


@dataclass(frozen=True)
class SpentTime:
    """A part of the sessions' time on one transaction.

    Attributes:
        name: of the observation, or of the ledger's component.
        place: where it was spent: "in I/O".
        before_s, now_s: seconds of all sessions per transaction, on the reference rung and on this.
        share: part of the time that was added since, or saved; parts may be negative and above 1, and
            their sum is 1. None where there is no reference, or hardly any difference.
        detail: the waits that it mostly consists of on this rung; "" where it is by their type.
    """

    name: str
    place: str
    before_s: float | None
    now_s: float
    share: float | None
    detail: str = ""


def spent_time(
    before: Sequence[Observation], after: Sequence[Observation], *, is_noise: bool = False
) -> tuple[SpentTime, ...]:
    """Return the parts of the sessions' time on a transaction by the type of wait, all of them or none.

    Args:
        before: evidence of the reference rung; empty where there is none.
        after: evidence of this rung.
        is_noise: their throughput does not differ significantly, so that no share of it is given.
    """
    now = _seconds(after)
    return () if now is None else _parts(PLACES, _seconds(before), now, is_noise=is_noise)


def spent_by_component(
    before: Sequence[Ledger], after: Sequence[Ledger], *, is_noise: bool = False
) -> tuple[SpentTime, ...]:
    """Return the parts of the ledger that mechanisms are charged with; as `spent_time`, but of trials' ledgers."""
    if not after:
        return ()
    then = pooled(before).seconds if before else None
    places = {one.name: one.place for one in COMPONENTS}
    return _parts(places, then, pooled(after).seconds, is_noise=is_noise)


def _parts(
    places: Mapping[str, str],
    earlier: Mapping[str, float] | None,
    now: Mapping[str, float],
    *,
    is_noise: bool,
) -> tuple[SpentTime, ...]:
    whole = 0.0 if earlier is None else sum(now.values()) - sum(earlier.values())
    is_changed = (
        earlier is not None
        and not is_noise
        and abs(whole) >= _CHANGED * sum(earlier.values())
        and whole != 0
    )
    return tuple(
        SpentTime(
            name,
            place,
            earlier[name] if earlier else None,
            now[name],
            (now[name] - earlier[name]) / whole if earlier and is_changed else None,
        )
        for name, place in places.items()
    )


def _seconds(evidence: Sequence[Observation]) -> dict[str, float] | None:
    found = {
        one.name: one.value for one in evidence if one.name in PLACES and one.value is not None
    }
    return found if len(found) == len(PLACES) else None


@dataclass(frozen=True)
class SessionTime:
    """All parts of the sessions' time on a transaction.

    Attributes:
        parts: by the type of wait, medians over the trials.
        components: by what was waited for: of the ledger that mechanisms are charged with, so that both
            speak of the same seconds; empty where waits were not recorded.
    """

    parts: tuple[SpentTime, ...] = ()
    components: tuple[SpentTime, ...] = ()

    @property
    def finest(self) -> tuple[SpentTime, ...]:
        """What is shown: components where they are known."""
        return self.components or self.parts


def _session_time(one: Compared, treatments: Treatments) -> SessionTime | None:
    step = one.to_previous
    is_noise = step is None or not step.is_significant
    trials = observed(treatments)
    parts = spent_time(
        () if one.is_baseline else one.reference.evidence, one.trials.evidence, is_noise=is_noise
    )
    components = spent_by_component(
        () if one.is_baseline else trials.ledgers(one.reference.rung.name),
        trials.ledgers(one.name),
        is_noise=is_noise,
    )
    named = tuple(replace(x, detail=_waits_words(x.name, one.trials.results)) for x in components)
    return SessionTime(parts, named) if parts or components else None


def _waits_words(component: str, results: Sequence[Result]) -> str:
    """Name the waits that a component mostly consists of, each with its part of all sessions' time."""
    waits = Counter[str]()
    for one in (x for result in results for x in result.recordings.of(WaitTime)):
        if one.backend_type in SESSION_TYPES:
            waits[one.wait] += one.time_s  # type: ignore[assignment]
    mine = [(x, time_s) for x, time_s in waits.most_common() if x and component_of(x) == component]
    shares = [f"{wait} {percent_words(time_s / waits.total())}" for wait, time_s in mine]
    return f"Of all sessions' time: {', '.join(shares[:_NAMED_WAITS])}." if shares else ""


SESSION_TIME = TreatmentAnalysis("spent", SessionTime, _session_time)
