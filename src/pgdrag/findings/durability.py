"""Which treatments trade durability for speed? A faster server that loses data is no finding without that.

The settings are PostgreSQL's, by what may be lost with a value; which of them a run compares comes from its levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from pgdrag.english import listed
from pgdrag.findings.analysis import RunAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.model import Level, Rung
from pgdrag.units import parse_bool


class Loss(StrEnum):
    """What may be lost, as a clause."""

    NEWEST = "a crash may lose the last transactions that were reported as committed"
    CORRUPTED = "a crash of the operating system may corrupt the database"
    TORN = "a crash of the operating system may leave half-written pages"
    SILENT = "damaged data may be dropped or returned without an error"
    ARCHIVE = "without enough WAL for a standby, an archive or a backup of the running server"
    EMPTIED = "a crash empties the tables"


# By the value that risks it: a Boolean in any spelling, or a word.
_RISKS: Mapping[str, tuple[bool | str, Loss]] = {
    "synchronous_commit": (False, Loss.NEWEST),
    "fsync": (False, Loss.CORRUPTED),
    "data_sync_retry": (True, Loss.CORRUPTED),
    "full_page_writes": (False, Loss.TORN),
    "zero_damaged_pages": (True, Loss.SILENT),
    "ignore_checksum_failure": (True, Loss.SILENT),
    "ignore_invalid_pages": (True, Loss.SILENT),
    "wal_level": ("minimal", Loss.ARCHIVE),
    "unlogged": (True, Loss.EMPTIED),  # of a workload's tables
}
# Options of a file system, of which one level names several.
_RISKY_OPTIONS = frozenset({"nobarrier", "barrier=0"})


@dataclass(frozen=True)
class Risk:
    """A level that trades durability for speed.

    Attributes:
        treatment: name of the rung that has it, and not all have.
    """

    treatment: str
    setting: str
    value: str
    loss: Loss


@dataclass(frozen=True)
class DurabilityFinding:
    """What some of a run's treatments risk, and others do not."""

    risks: tuple[Risk, ...]


def loss_of(name: str, value: str) -> Loss | None:
    """Return what may be lost with a level; None where nothing may."""
    if not _RISKY_OPTIONS.isdisjoint(value.replace(" ", "").split(",")):
        return Loss.CORRUPTED
    risky, loss = _RISKS.get(name.lower(), (None, None))
    word = value.strip().strip("'").lower()
    is_risky = parse_bool(word) is risky if isinstance(risky, bool) else word == risky
    return loss if risky is not None and is_risky else None


def risks_between(rungs: Iterable[Rung]) -> tuple[Risk, ...]:
    """Return what some of the rungs risk and others do not; each level with the first rung that has it."""
    of_rung = {rung.name: set(_risky(rung.treatment.levels)) for rung in rungs}
    common = set.intersection(*of_rung.values()) if of_rung else set()
    found: dict[Level, Risk] = {}
    for rung, levels in of_rung.items():
        for level in sorted(levels - common):
            loss = loss_of(level.name, level.value)
            assert loss is not None, level
            found.setdefault(level, Risk(rung, level.name, level.value, loss))
    return tuple(found.values())


def durability_words(found: DurabilityFinding) -> str:
    """Return a sentence for each treatment with what it risks."""
    sentences = []
    for treatment, of_one in groupby(found.risks, key=lambda risk: risk.treatment):
        parts = [f"{risk.setting} = {risk.value} ({risk.loss})" for risk in of_one]
        sentences.append(f"{treatment} trades durability for speed: {listed(parts)}.")
    return " ".join(sentences)


def _risky(levels: Iterable[Level]) -> Iterator[Level]:
    return (level for level in levels if loss_of(level.name, level.value) is not None)


def _find(treatments: Treatments) -> DurabilityFinding | None:
    run = treatments.run
    risks = risks_between(run.study.rungs) if run.results else ()
    return DurabilityFinding(risks) if risks else None


DURABILITY = RunAnalysis("durability", DurabilityFinding, _find, durability_words)
