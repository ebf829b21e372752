"""Into what did the sessions' time on a transaction go, and what of it was added by a change?

Sessions are in one state at a time, so that the parts add up: what a change added to each part, divided
by what it added to all, is the part's share of the added time. It says where the time was spent, which
is where to look for the cause; it is not the cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.model import Observation

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


@dataclass(frozen=True)
class SpentTime:
    """A part of the sessions' time on one transaction.

    Attributes:
        name: of the observation.
        place: where it was spent: "in I/O".
        before_s, now_s: seconds of all sessions per transaction, on the reference rung and on this.
        share: part of the time that was added since, or saved; parts may be negative and above 1, and
            their sum is 1. None where there is no reference, or hardly any difference.
    """

    name: str
    place: str
    before_s: float | None
    now_s: float
    share: float | None


def spent_time(
    before: Sequence[Observation], after: Sequence[Observation], *, is_noise: bool = False
) -> tuple[SpentTime, ...]:
    """Return the parts of the sessions' time on a transaction, all of them or none.

    Args:
        before: evidence of the reference rung; empty where there is none.
        after: evidence of this rung.
        is_noise: their throughput does not differ significantly, so that no share of it is given.
    """
    now, earlier = _seconds(after), _seconds(before)
    if now is None:
        return ()
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
        for name, place in PLACES.items()
    )


def _seconds(evidence: Sequence[Observation]) -> dict[str, float] | None:
    found = {
        one.name: one.value for one in evidence if one.name in PLACES and one.value is not None
    }
    return found if len(found) == len(PLACES) else None


@dataclass(frozen=True)
class SessionTime:
    """All parts of the sessions' time on a transaction."""

    parts: tuple[SpentTime, ...] = ()


def _session_time(one: Compared, _: Treatments) -> SessionTime | None:
    step = one.to_previous
    parts = spent_time(
        () if one.is_baseline else one.reference.evidence,
        one.trials.evidence,
        is_noise=step is None or not step.is_significant,
    )
    return SessionTime(parts) if parts else None


SESSION_TIME = TreatmentAnalysis("spent", SessionTime, _session_time)
