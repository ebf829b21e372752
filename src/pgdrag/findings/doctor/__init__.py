"""What costs time on a server now, by mechanism? Symptoms, each a condition on numbers of a `LiveWindow`.

A symptom is registered by being a `Symptom` in a module of this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pgdrag import registry
from pgdrag.findings.doctor._sights import NotSeen, SessionTimes, Sights
from pgdrag.model.live import LiveWindow
from pgdrag.units import format_bytes, format_duration, format_number

__all__ = [
    "Diagnoses",
    "Diagnosis",
    "NotSeen",
    "Reading",
    "SessionTimes",
    "Sights",
    "Symptom",
    "all_symptoms",
    "diagnose",
    "examine",
]

Reading = Mapping[str, "float | str"]
_UNITS = {"bytes": format_bytes, "duration": format_duration}


@dataclass(frozen=True)
class Symptom:
    """One mechanism by which a server loses time, and by which numbers it is recognised.

    Attributes:
        name: "lock-queue".
        measure: returns numbers, and words for the sentences below; None where there is nothing of it at all. It is
            ranked by "share", of sessions' time, or by "severity", an estimate of that. A hazard that will stop the
            server may have more than 1.
        at_least, at_most: the condition: numbers of the reading, and where their thresholds are.
        why: of these thresholds.
        says: the headline; names in braces are of the reading.
        evidence: what stands behind it, and where that comes from.
        step: what to do, or to look at, next.
        unless: symptoms that explain this one, which is not named beside them.
    """

    name: str
    measure: Callable[[Sights], Reading | None]
    at_least: Mapping[str, float]
    why: str
    says: str
    evidence: str
    step: str
    at_most: Mapping[str, float] = field(default_factory=dict)
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """A symptom that a server has.

    Attributes:
        share: of sessions' time that it costs; None where that is not known.
        severity: by which diagnoses are ranked.
        numbers: of which it is made.
    """

    name: str
    headline: str
    evidence: str
    step: str
    why: str
    share: float | None
    severity: float
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class Diagnoses:
    """All that was found on a server, the worst first.

    Attributes:
        looked_for: names of the symptoms that could be looked for.
        unseen: those that could not, by name, with the reason.
    """

    found: tuple[Diagnosis, ...]
    looked_for: tuple[str, ...]
    unseen: Mapping[str, str]

    def with_others(self, others: Iterable[Diagnosis]) -> Diagnoses:
        """Return them with those that something else than a symptom told, in one order."""
        return replace(self, found=_worst_first((*self.found, *others)))


def all_symptoms() -> dict[str, Symptom]:
    """Return every registered symptom, by name."""
    return registry.registered_values("pgdrag.findings.doctor", Symptom)


def diagnose(window: LiveWindow, symptoms: Mapping[str, Symptom] | None = None) -> Diagnoses:
    """Return what costs time in a window."""
    sights, found, unseen = Sights(window), [], {}
    wanted = all_symptoms() if symptoms is None else symptoms
    for name, symptom in wanted.items():
        try:
            if (diagnosis := examine(symptom, sights)) is not None:
                found.append((symptom, diagnosis))
        except NotSeen as reason:
            unseen[name] = str(reason)
    names = {symptom.name for symptom, _ in found}
    kept = [diagnosis for symptom, diagnosis in found if not names & set(symptom.unless)]
    looked_for = tuple(name for name in wanted if name not in unseen)
    return Diagnoses(_worst_first(kept), looked_for, unseen)


def _worst_first(found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    return tuple(sorted(found, key=lambda one: -one.severity))


def examine(symptom: Symptom, sights: Sights) -> Diagnosis | None:
    """Return whether a server has a symptom.

    Raises:
        NotSeen: what it needs was not seen.
    """
    reading = symptom.measure(sights)
    if reading is None:
        return None
    numbers = {name: x for name, x in reading.items() if isinstance(x, int | float)}
    if any(numbers[name] < least for name, least in symptom.at_least.items()):
        return None
    if any(numbers[name] > most for name, most in symptom.at_most.items()):
        return None
    told = {**reading, **{name: _shown(x) for name, x in numbers.items()}}
    return Diagnosis(
        symptom.name,
        symptom.says.format_map(told),
        " ".join(symptom.evidence.format_map(told).split()),
        symptom.step.format_map(told),
        symptom.why,
        numbers.get("share"),
        numbers["severity"] if "severity" in numbers else numbers["share"],
        numbers,
    )


class _shown(float):  # noqa: N801 (a number in a sentence)
    """A number with three significant digits, unless the sentence formats it: also "bytes" and "duration" are formats."""

    def __format__(self, spec: str) -> str:
        if spec in _UNITS:
            return _UNITS[spec](float(self))
        if spec.endswith("%"):
            return super().__format__(spec).replace("%", " %")
        return super().__format__(spec) if spec else format_number(float(self))
