"""Which settings were measured to make which workload slower or faster, by how much, where and when?

The runs of a machine say it of that machine. What other machines found is shipped in known_effects.json, a row for
each figure; `python -m benchmarks.known_effects` makes the rows from runs, and nobody writes one by hand that
no run or page gives.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files

from pgdrag.adapters import adapter_of
from pgdrag.errors import JournalError
from pgdrag.factors import Phase, is_of
from pgdrag.findings.effects import change_effects
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings, Interval
from pgdrag.findings.wording import inverse
from pgdrag.journal import Journal
from pgdrag.model import Host, RunRecord, Study
from pgdrag.servers.conf import fold, quote
from pgdrag.workloads import all_workloads

MOST_RUNS = 60  # of a machine that are looked at, the newest
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+")


@dataclass(frozen=True)
class KnownChange:
    """A setting's value before and after, as written; None: the server's default."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class KnownEffect:
    """How much slower changes of settings made a workload.

    Attributes:
        low, slowdown, high: times slower; below 1 it is faster. None: no bound, or nothing committed.
        beside: what else was in force: "alone", "on top of A3".
        workload: with its scale and load, in a few words.
        options: of `pgdrag compare`, that make the same workload; "" where none do.
        server_version: such as "18.6".
        date: "2026-11-23".
        source: the run's id, or the page that has the figure.
        machine: in a few words.
        is_own: this machine measured it.
    """

    changes: tuple[KnownChange, ...]
    low: float | None
    slowdown: float | None
    high: float | None
    beside: str
    workload: str
    options: str
    server_version: str
    date: str
    source: str
    machine: str
    is_own: bool = False

    @property
    def interval(self) -> Interval:
        """The slowdown with its bounds."""
        low, center, high = (
            math.inf if x is None else x for x in (self.low or 0.0, self.slowdown, self.high)
        )
        return Interval(low, center, high, 0.95, "as measured")

    def verifying(self, values: Mapping[str, str]) -> str:
        """Return the command that compares the values before with these, by name in lower case, or those after."""
        before = _pairs({x.name: x.before for x in self.changes}) or "default"
        after = _pairs({x.name: values.get(fold(x.name), x.after) for x in self.changes})
        after = after or "default"
        return " ".join(filter(None, ["pgdrag compare", before, after, self.options]))

    @property
    def turned(self) -> KnownEffect:
        """The same figure of the way back."""
        changes = tuple(KnownChange(x.name, x.after, x.before) for x in self.changes)
        found = self.interval
        low, center, high = (inverse(x) for x in (found.high, found.center, found.low))
        return replace(
            self, changes=changes, low=_finite(low), slowdown=_finite(center), high=_finite(high)
        )


def shipped_effects() -> tuple[KnownEffect, ...]:
    """Return the figures that come with pgdrag."""
    return _shipped()


def own_effects(journal: Journal, names: Iterable[str], host: Host) -> tuple[KnownEffect, ...]:
    """Return what the newest runs of this machine say of settings of these names, the newest first."""
    found: list[KnownEffect] = []
    for run_id in journal.runs_naming(names)[:MOST_RUNS]:
        try:
            run = journal.run(run_id, has_recordings=False)
        except JournalError:  # of another version of pgdrag: its report remains
            continue
        if _is_alike(run.host, host):
            found += effects_of(run, is_own=True)
    return tuple(found)


def effects_of(run: RunRecord, *, is_own: bool = False) -> list[KnownEffect]:
    """Return what a run says of settings."""
    return [*_effects(find(run), is_own=is_own)]


def written(effects: Iterable[KnownEffect]) -> str:
    """Return rows as the shipped file has them: one a line."""
    rows = [
        json.dumps(
            {name: x for name, x in asdict(one).items() if name != "is_own"}, ensure_ascii=False
        )
        for one in effects
    ]
    return "[\n" + ",\n".join(rows) + "\n]\n"


def read(text: str) -> tuple[KnownEffect, ...]:
    """Return the rows that `written` wrote."""
    return tuple(adapter_of(tuple[KnownEffect, ...]).validate_json(text))


@cache
def _shipped() -> tuple[KnownEffect, ...]:
    return read(files("pgdrag.experiment").joinpath("known_effects.json").read_text("utf-8"))


def _effects(findings: Findings, *, is_own: bool) -> Iterator[KnownEffect]:
    run = findings.run
    for one in change_effects(findings, lambda level: is_of(Phase.SETTINGS, level.kind)):
        yield KnownEffect(
            changes=tuple(KnownChange(*change) for change in one.changes),
            low=_finite(one.slowdown.low),
            slowdown=_finite(one.slowdown.center),
            high=_finite(one.slowdown.high),
            beside=one.beside,
            workload=_workload_words(run.study),
            options=_options(run.study),
            server_version=run.server_version,
            date=time.strftime("%Y-%m-%d", time.localtime(run.started_unix_s)),
            source=f"run {run.run_id}",
            machine=f"{run.host.cpu_count} × {run.host.cpu_model}, {run.host.memory_bytes / 2**30:.0f} GB",
            is_own=is_own,
        )


def _workload_words(study: Study) -> str:
    kind = all_workloads().get(study.workload.kind)
    size = kind.dataset_size if kind is not None else None
    count = study.workload.parameters.get(size.parameter) if size is not None else None
    words = [study.workload.kind]
    if size is not None and isinstance(count, int):
        words.append(size.describe(count))
    return ", ".join([*words, f"{study.load.connections} connections"])


def _options(study: Study) -> str:
    """Return the options that make a study's workload and load again; "" where it needs a file of its own."""
    kind = all_workloads().get(study.workload.kind)
    if kind is None or study.load.steps:
        return ""
    given = dict(study.workload.parameters)
    size = kind.dataset_size
    count = given.pop(size.parameter, None) if size is not None else None
    scripts = given.pop("scripts", [])
    if not isinstance(scripts, list) or not all(isinstance(x, str) for x in scripts):
        return ""
    words = [f"--workload {study.workload.kind}"]
    if size is not None and count is not None:
        words.append(f"--{size.option.replace('_', '-')} {count}")
    words += [f"--builtin {x}" for x in scripts]
    return " ".join([*words, f"--connections {study.load.connections}"])


def _pairs(values: Mapping[str, str | None]) -> str:
    """Return settings as an arm of the command line, quoted for a shell where that is needed."""
    pairs = [f"{name}={_word(value)}" for name, value in values.items() if value is not None]
    text = ",".join(pairs)
    return f'"{text}"' if set(text) - _PLAIN - set("=,") else text


def _word(value: str) -> str:
    return value if not set(value) - _PLAIN and value else quote(value)


def _is_alike(one: Host, other: Host) -> bool:
    """Tell whether a run was made on this machine: its kernel may have been replaced since."""
    return (one.cpu_model, one.cpu_count, one.memory_bytes) == (
        other.cpu_model,
        other.cpu_count,
        other.memory_bytes,
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
