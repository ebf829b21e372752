"""Which hosts of a fleet ran the trials, which of them differ from the others, and does an effect depend on the host?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pgdrag.english import counted, listed, percent_words
from pgdrag.findings.analysis import RunAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.findings.readings import rate_if_numbered
from pgdrag.model import Host, Result
from pgdrag.stats.hosts import LEVEL, Measured, differ_between_hosts, fit_hosts, noisier
from pgdrag.stats.multiple_testing import holm
from pgdrag.units import format_ratio

_SPEED_MATTERS = math.log(1.05)
_PARTS = (
    ("processor", "cpu_model"),
    ("number of processors", "cpu_count"),
    ("memory", "memory_bytes"),
    ("kernel", "kernel"),
    ("file system", "file_system"),
)


@dataclass(frozen=True)
class HostFinding:
    """One host.

    Attributes:
        trials: that it ran, whatever came of them.
        speed: how fast it is beside the mean of all hosts, over 1 is faster; None: unknown.
        log_sd: between trials of one treatment on it; None where nothing was repeated.
        notes: how it is unlike the others, in clauses.
    """

    name: str
    machine: Host | None
    trials: int
    invalid: int
    speed: float | None
    log_sd: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EffectByHost:
    """An effect that is not the same on all hosts.

    Attributes:
        slowdowns: by host, how many times slower the treatment is there than the baseline.
        p: that it is the same, adjusted for all treatments.
    """

    treatment: str
    slowdowns: Mapping[str, float]
    p: float


@dataclass(frozen=True)
class HostsFinding:
    """The hosts of a fleet.

    Attributes:
        p: that all of them are equally fast; None where that cannot be said.
        differing: effects that depend on the host.
    """

    hosts: tuple[HostFinding, ...]
    p: float | None
    differing: tuple[EffectByHost, ...]


def find(treatments: Treatments) -> HostsFinding | None:
    """Return what is known of the hosts; None where no fleet ran the trials."""
    results = [one for one in treatments.run.results if one.host]
    names = list(dict.fromkeys(one.host for one in results))
    if not names:
        return None
    by_host = {name: [one for one in results if one.host == name] for name in sorted(names)}
    fit = fit_hosts(list(_measured(results)))
    counts = {name: len(found) for name, found in by_host.items()}
    noisy = noisier(fit, counts) if fit is not None else ()
    usual = _usual([found[-1].machine for found in by_host.values()])
    hosts = []
    for name, found in by_host.items():
        log_speed = fit.log_speeds[name] if fit is not None else None
        log_sd = fit.log_sds[name] if fit is not None else math.nan
        notes = [f"another {what}: {value}" for what, value in _unlike(found[-1].machine, usual)]
        if fit is not None and fit.differ and log_speed and abs(log_speed) > _SPEED_MATTERS:
            ratio = format_ratio(math.exp(abs(log_speed)))
            notes.append(f"{ratio} {'faster' if log_speed > 0 else 'slower'} than the mean")
        if name in noisy:
            notes.append("noisier than the others")
        invalid = sum(one.measurement is None for one in found)
        hosts.append(
            HostFinding(
                name,
                found[-1].machine,
                len(found),
                invalid,
                None if log_speed is None else math.exp(log_speed),
                None if math.isnan(log_sd) else log_sd,
                tuple(notes),
            )
        )
    return HostsFinding(
        tuple(hosts), None if fit is None else fit.p, _differing(treatments, results)
    )


def words(found: HostsFinding) -> str:
    """Return sentences that name hosts that differ from the others, and effects that depend on the host."""
    sentences = [
        f"Host {one.name} is unlike the others ({'; '.join(one.notes)})."
        for one in found.hosts
        if one.notes
    ]
    for effect in found.differing:
        each = [f"{format_ratio(x)} on {name}" for name, x in effect.slowdowns.items()]
        sentences.append(f"The slowdown of {effect.treatment} depends on the host: {listed(each)}.")
    if not sentences and len(found.hosts) > 1:
        sentences = [f"{counted(len(found.hosts), 'host')} ran the trials and agree."]
    return " ".join(sentences)


def _measured(results: Sequence[Result]) -> Iterator[Measured]:
    for one in results:
        rate = rate_if_numbered(one)
        if rate is not None and rate.committed:
            key = (one.trial.treatment.identity, one.trial.is_brief)
            yield Measured(key, one.host, math.log(rate.per_s))


def _differing(treatments: Treatments, results: Sequence[Result]) -> tuple[EffectByHost, ...]:
    """Return the treatments whose log ratio to the baseline differs between hosts, from blocks that have both."""
    baseline = treatments.run.study.rungs[0].treatment.identity
    blocks: dict[tuple[int, bool], list[Result]] = {}
    for one in results:
        blocks.setdefault((one.trial.block, one.trial.is_brief), []).append(one)
    ratios: dict[str, dict[str, list[float]]] = {}
    for of_block in blocks.values():
        logs: dict[str, list[float]] = {}
        names: dict[str, str] = {}
        for one in of_block:
            rate, treatment = rate_if_numbered(one), one.trial.treatment
            if rate is not None and rate.committed:
                names[treatment.identity] = treatment.name
                logs.setdefault(treatment.identity, []).append(math.log(rate.per_s))
        for identity, found in logs.items():
            if identity != baseline and baseline in logs:
                of_host = ratios.setdefault(names[identity], {})
                ratio = fmean(logs[baseline]) - fmean(found)
                of_host.setdefault(of_block[0].host, []).append(ratio)
    tested = [
        EffectByHost(name, {host: math.exp(fmean(x)) for host, x in sorted(of.items())}, p)
        for name, of in ratios.items()
        if (p := differ_between_hosts(of)) is not None
    ]
    adjusted = holm([one.p for one in tested])
    return tuple(replace(one, p=p) for one, p in zip(tested, adjusted, strict=True) if p < LEVEL)


def _usual(machines: Sequence[Host | None]) -> Host | None:
    known = [x for x in machines if x is not None]
    return max(known, key=known.count) if len(known) > 1 else None


def _unlike(machine: Host | None, usual: Host | None) -> Iterator[tuple[str, str]]:
    if machine is None or usual is None:
        return
    for what, name in _PARTS:
        value, expected = getattr(machine, name), getattr(usual, name)
        if name == "memory_bytes":
            # Firmware keeps some of it, here more and there less.
            if abs(value - expected) > 0.02 * expected:
                yield what, f"{value / 2**30:.0f} GB"
        elif value != expected:
            yield what, str(value)


def share_words(log_sd: float) -> str:
    """Return how much trials of one treatment differ, as a share: "3.0 %"."""
    return percent_words(math.expm1(log_sd), 1)


HOSTS = RunAnalysis("hosts", HostsFinding, find, words)
