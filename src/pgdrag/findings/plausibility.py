"""Can an observation be true, beside others that count the same flow at another place?

What a server writes is counted by its own statistics, by its system calls, when pages of the page cache
become dirty, and at the device. None of them is known to be right, but some cannot be more than others
come to. What breaks such a bound is not compared, and never explains anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.english import in_sentence, listed
from pgdrag.findings.wording import value_words
from pgdrag.model import Observation

_PAGE_BYTES = 4096  # of the kernel's page cache
_BLOCK_BYTES = 8192  # of the server; blocks may be smaller only in a server that was built so
# Readings of two collectors are some milliseconds apart.
_TOLERANCE = 1.25


@dataclass(frozen=True)
class Bound:
    """A flow counted at one place, which cannot exceed the sum of other counters of the same flow.

    Attributes:
        observation: the one that is bounded.
        size: what 1 of it is in the unit of the bound.
        at_most: by observation, what 1 of it allows.
        why: what is known to make it too large; a clause, or "".
    """

    observation: str
    at_most: Mapping[str, float]
    size: float = 1.0
    why: str = ""


_WRITTEN = {"written_bytes_per_transaction": 1.0}

BOUNDS = (
    Bound(
        "storage_written_bytes_per_transaction",
        # A call may begin and end within a page.
        {**_WRITTEN, "write_syscalls_per_transaction": 2.0 * _PAGE_BYTES},
        why="Linux counts a large folio of the page cache whole when any part of it is written",
    ),
    Bound("wal_bytes_per_transaction", _WRITTEN),
    Bound("block_writes_per_transaction", _WRITTEN, size=_BLOCK_BYTES),
    Bound("temp_bytes_per_transaction", _WRITTEN),
    Bound("log_bytes_per_transaction", _WRITTEN),
    Bound("storage_read_bytes_per_transaction", {"disk_read_bytes_per_transaction": 1.0}),
    Bound("server_cpu_share", {"host_user_share": 1.0, "host_system_share": 1.0}),
)


def implausible(evidence: Sequence[Observation]) -> dict[str, str]:
    """Return why observations cannot be true, by their names: a clause without a full stop.

    A bound is looked at only where all that it is made of was seen. What is itself implausible bounds
    nothing.
    """
    seen = {one.name: one for one in evidence if one.value is not None}
    found: dict[str, str] = {}
    for bound in BOUNDS:
        one = seen.get(bound.observation)
        if (
            one is None
            or one.value is None
            or not bound.at_most.keys() <= seen.keys() - found.keys()
        ):
            continue
        others = [seen[name] for name in bound.at_most]
        most = sum(bound.at_most[x.name] * (x.value or 0.0) for x in others)
        slack = one.resolution + sum(bound.at_most[x.name] * x.resolution for x in others)
        if bound.size * one.value > _TOLERANCE * most + slack:
            said = listed(
                [f"{in_sentence(x.label)}: {value_words(x, x.value or 0.0)}" for x in others]
            )
            why = f"; {bound.why}" if bound.why else ""
            found[one.name] = f"{value_words(one, one.value)} contradicts {said}{why}"
    return found


def implausible_in(trials: Iterable[Sequence[Observation]]) -> dict[str, str]:
    """Return why observations cannot be true in one of several trials.

    They are left out of all: the others would be those in which they are less wrong.
    """
    found: dict[str, str] = {}
    for evidence in trials:
        found = implausible(evidence) | found
    return found


def without(evidence: Sequence[Observation], wrong: Mapping[str, str]) -> tuple[Observation, ...]:
    """Return the observations, those that cannot be true without their value, and with the reason."""
    return tuple(
        replace(one, value=None, missing=wrong[one.name])
        if one.name in wrong and one.value is not None
        else one
        for one in evidence
    )
