"""What does the doctor say, in about ten lines and as JSON?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.english import capital, counted, percent_words
from pgdrag.findings.doctor import Diagnoses, Diagnosis, NotSeen, SessionTimes, Sights
from pgdrag.findings.doctor.since import Since
from pgdrag.findings.mechanisms.ledger import COMPONENTS, CPU, component_of
from pgdrag.model.live import LiveWindow
from pgdrag.units import format_duration, format_number

IN_FULL = 3
_NAMED_PLACES = 3


@dataclass(frozen=True)
class Diagnosed:
    """What costs time on a live server.

    Attributes:
        transactions: committed in the window; None: not known.
        sessions: at work, on average; None: not seen.
        waits_s: sessions' time by wait; None: not seen.
        looked_for: names of the symptoms that could be looked for.
        not_seen: names of the others, with the reason.
        own_queries, own_share: what pgdrag asked the server, and the share of the window that this took.
        since: None without --since.
    """

    server: str
    version: str
    window_s: float
    transactions: int | None
    sessions: float | None
    waits_s: Mapping[str, float] | None
    is_healthy: bool
    diagnoses: tuple[Diagnosis, ...]
    looked_for: tuple[str, ...]
    not_seen: Mapping[str, str]
    notes: tuple[str, ...]
    own_queries: int
    own_share: float
    since: Since | None


def doctor_lines(window: LiveWindow, found: Diagnoses, *, in_full: int = IN_FULL) -> Iterator[str]:
    """Yield lines for people: the server, what costs time, the worst first, and what was not seen.

    Args:
        in_full: how many to print with evidence and a next step; of the others only the headlines.
    """
    yield f"{window.server}, PostgreSQL {window.version}: {_load_words(window)}"
    yield from window.notes
    if not found.found:
        looked = len(found.looked_for)
        yield f"Nothing stands out: none of {counted(looked, 'mechanism')} reaches its threshold."
    for number, one in enumerate(found.found[:in_full], 1):
        yield f"{number}. {capital(one.headline)}. [{one.name}]"
        yield f"   {capital(one.evidence)}"
        yield f"   Next: {one.step}"
    for number, one in enumerate(found.found[in_full:], in_full + 1):
        yield f"{number}. {capital(one.headline)}. [{one.name}]"
    for reason, names in _by_reason(found.unseen).items():
        yield f"Not seen: {', '.join(names)} ({reason})"
    of = "the time" if window.own_cpu_s is None else "one processor"
    yield f"Looking took {counted(window.own_queries, 'query')}, {percent_words(window.own_share, 1)} of {of}."


def diagnosed(window: LiveWindow, found: Diagnoses, since: Since | None = None) -> Diagnosed:
    """Return the same, whole."""
    times = _times(window)
    return Diagnosed(
        server=window.server,
        version=window.version,
        window_s=window.length_s,
        transactions=window.transactions,
        sessions=None if times is None else times.sessions,
        waits_s=None if times is None else times.by_wait,
        is_healthy=not found.found,
        diagnoses=tuple(found.found),
        looked_for=tuple(found.looked_for),
        not_seen=found.unseen,
        notes=tuple(window.notes),
        own_queries=window.own_queries,
        own_share=window.own_share,
        since=since,
    )


def _times(window: LiveWindow) -> SessionTimes | None:
    try:
        return Sights(window).time
    except NotSeen:
        return None


def _load_words(window: LiveWindow) -> str:
    parts = [format_duration(round(window.length_s, 1))]
    if window.transactions is not None:
        rate = format_number(window.transactions / window.length_s)
        parts.append(f"{rate} transactions/s")
    times = _times(window)
    if times is None:
        return ", ".join(parts)
    parts.append(f"{times.sessions:.1f} sessions at work")
    places = _places(times)
    return ", ".join(parts) + (f" ({', '.join(places)})" if places else "")


def _places(times: SessionTimes) -> Sequence[str]:
    """Return where sessions' time went: `on CPU 62 %`."""
    named = {one.name: one.place for one in COMPONENTS}
    sums: dict[str, float] = {}
    for wait, time_s in times.by_wait.items():
        place = named[component_of(wait) if wait else CPU]
        sums[place] = sums.get(place, 0.0) + time_s
    ranked = sorted(sums.items(), key=lambda each: -each[1])[:_NAMED_PLACES]
    return [f"{place} {percent_words(times.share(s))}" for place, s in ranked if s]


def _by_reason(unseen: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, reason in unseen.items():
        found.setdefault(reason, []).append(name)
    return found
