"""Into what did the sessions' time on a transaction go, and what of it was added by a change?

Sessions are in one state at a time, so that the parts add up: what a change added to each part, divided
by what it added to all, is the part's share of the added time. It says where the time was spent, which
is where to look for the cause; it is not the cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.english import listed, percent_words
from pgdrag.findings.values import SpentTime
from pgdrag.model import Observation
from pgdrag.units import format_duration

# By the name of the observation, where it was spent.
PLACES: Mapping[str, str] = {
    "on_cpu_s_per_transaction": "on processors or waiting for one",
    "io_wait_s_per_transaction": "in I/O",
    "lwlock_wait_s_per_transaction": "waiting for the server's own locks",
    "lock_wait_s_per_transaction": "waiting for locks of other transactions",
    "client_wait_s_per_transaction": "waiting for clients",
    "other_wait_s_per_transaction": "in other waits",
}
_CHANGED = 0.1  # of the time before, at least, for a share of the difference to say anything
_NAMED_SHARE = 0.05
_NAMED = 3


def spent_time(
    before: Sequence[Observation], after: Sequence[Observation], *, is_noise: bool = False
) -> tuple[SpentTime, ...]:
    """Return the parts of the sessions' time on a transaction, all of them or none.

    Args:
        before: evidence of the reference rung; empty where there is none.
        after: evidence of this rung.
        is_noise: the two cannot be told apart by their throughput, so that no share of it is told.
    """
    now, earlier = _seconds(after), _seconds(before)
    if now is None:
        return ()
    if earlier is None:
        return tuple(SpentTime(name, PLACES[name], None, now[name], None) for name in PLACES)
    whole = sum(now.values()) - sum(earlier.values())
    is_changed = not is_noise and abs(whole) >= _CHANGED * sum(earlier.values()) and whole != 0
    return tuple(
        SpentTime(
            name,
            PLACES[name],
            earlier[name],
            now[name],
            (now[name] - earlier[name]) / whole if is_changed else None,
        )
        for name in PLACES
    )


def spent_sentence(parts: Sequence[SpentTime], previous: str) -> str:
    """Say where the time that was added (or saved) went, the largest part first; "" where none was."""
    told = [(part.share, part) for part in parts if part.share is not None]
    if not told:
        return ""
    whole_s = sum(part.now_s - (part.before_s or 0.0) for _, part in told)
    ranked = sorted(told, key=lambda each: -each[0])[:_NAMED]
    named = [
        f"{percent_words(share)} {part.place}" for share, part in ranked if share >= _NAMED_SHARE
    ]
    verb = "more" if whole_s > 0 else "less"
    return (
        f"Sessions spent {format_duration(abs(whole_s))} {verb} on each transaction than on {previous}: "
        f"{listed(named)}."
    )


def _seconds(evidence: Sequence[Observation]) -> dict[str, float] | None:
    found = {
        one.name: one.value for one in evidence if one.name in PLACES and one.value is not None
    }
    return found if len(found) == len(PLACES) else None
