"""What may a configuration need, beside being fast? Observations of its trials that have a greatest value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgdrag.designs.search.findings import LimitFinding
from pgdrag.findings.wording import value_words
from pgdrag.model import Result


def is_beyond(result: Result, limits: Mapping[str, float]) -> bool:
    """Tell whether a trial exceeded a limit, or what it needed was not observed."""
    seen = {one.name: one.value for one in result.evidence}
    return any((value := seen.get(name)) is None or value > most for name, most in limits.items())


def kept_limits(results: Iterable[Result], limits: Mapping[str, float]) -> tuple[LimitFinding, ...]:
    """Return what trials of one configuration needed at most, by the limits; a limit that was never seen is left out."""
    found = []
    seen = [one for result in results for one in result.evidence]
    for name, most in limits.items():
        known = [one for one in seen if one.name == name and one.value is not None]
        if known:
            highest = max(known, key=lambda one: one.value or 0.0)
            assert highest.value is not None
            found.append(
                LimitFinding(
                    label=highest.label,
                    limit=value_words(highest, most),
                    highest=value_words(highest, highest.value),
                    is_kept=highest.value <= most,
                )
            )
    return tuple(found)
