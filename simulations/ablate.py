"""Does an ablation find the guilty among 32 changes, accuse nobody else, and cover its shares?

Systems are made up: plain effects, a pair that needs both, a pair of which either does it, and two
whose effects interact. The search is the one that the design runs; only the trials are numbers.
One-at-a-time and leave-one-out are given the same machine, for comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from pgdrag.designs.ablate.history import Observed, SetTrials
from pgdrag.designs.ablate.labels import Call, Label, call_all, effect
from pgdrag.designs.ablate.pairs import Together
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.procedure import Procedure
from pgdrag.model import Outcome
from simulations.rows import Row, share_row, value_row
from simulations.systems import (
    CHANGES,
    Machine,
    System,
    hidden_pair,
    mixed,
    small,
    threes,
    two_pairs,
)

SYSTEMS = 1000
HIDDEN_SYSTEMS = 200

MACHINES: tuple[dict[str, object], ...] = (
    {"name": "noise of 1 %", "noise": 0.01, "brief_noise": 0.015},
    {"name": "noise of 6 %", "noise": 0.06, "brief_noise": 0.09},
    {"name": "noise of 3 % that lasts (autocorrelation 0.7)", "memory": 0.7},
    {"name": "noise of 3 %, drift of 0.1 % a trial", "drift": -0.001},
    {"name": "noise of 3 %, two trials in a hundred at half speed", "disturbed": 0.02},
)
COUNTED: dict[str, object] = {"name": "1,000 commits a second, counted", "rate_per_s": 1000.0}


def simulate(scale: float) -> list[Row]:
    """Return what an ablation, one-at-a-time and leave-one-out find, and what it costs."""
    systems = max(round(SYSTEMS * scale), 10)
    rows = _method_rows(systems)
    rows += _threes_rows(max(systems // 4, 10))
    for machine in MACHINES:
        rows += _machine_rows(machine, max(systems // 4, 10))
    rows += _machine_rows(COUNTED, max(systems // 4, 10))[:2]  # with bounds no share can be covered
    hidden = max(round(HIDDEN_SYSTEMS * scale), 5)
    rows += _found_rows("five of 1.15×", small, hidden)
    rows += _found_rows("(a and b) or c", hidden_pair, hidden)
    rows += _found_rows("(a and b) or (c and d)", two_pairs, hidden)
    return rows


def played(system: System, machine: Machine, seed: int) -> Procedure:
    """Return an ablation played to its end."""
    ablation = Procedure(CHANGES, AblateParameters(seed=seed))
    while (wanted := ablation.ask()) is not None:
        # As the laboratory does: in random order within the block.
        order = machine.rng.permutation(len(wanted.sets))
        told = [
            Observed(
                wanted.sets[at],
                wanted.is_brief,
                machine.run(system, wanted.sets[at], is_brief=wanted.is_brief),
                Outcome.MEASURED,
            )
            for at in order
        ]
        ablation.tell(told)
    return ablation


@dataclass
class _Tally:
    """What a method found, over many systems."""

    systems: int = 0
    guilty: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    innocent: int = 0
    accused: int = 0
    trials: int = 0
    long_trials: int = 0

    def add(
        self, system: System, found: set[int], accused: set[int], trials: int, long: int
    ) -> None:
        """Count one system: `found` goes on or is named, `accused` is said to have an effect."""
        kinds = system.kinds
        self.systems += 1
        self.guilty.update(kinds.values())
        self.found.update(kind for change, kind in kinds.items() if change in found)
        self.innocent += CHANGES - len(kinds)
        self.accused += len(accused - kinds.keys())
        self.trials += trials
        self.long_trials += long

    def rows(self, method: str, *, goal: str) -> Iterator[Row]:
        """Yield what was found of each kind, and of all."""
        for kind in ("plain", "both needed", "either does it", "interacting"):
            name = f"{method}: guilty changes found, {kind}"
            yield share_row(name, self.found[kind], self.guilty[kind], goal)
        name = f"{method}: guilty changes found, all"
        yield share_row(name, self.found.total(), self.guilty.total(), goal)
        yield share_row(
            f"{method}: innocent changes accused", self.accused, self.innocent, "<= 0.05"
        )
        yield value_row(f"{method}: trials of any length, mean", self.trials / self.systems)
        yield value_row(
            f"{method}: trials of the whole length, mean", self.long_trials / self.systems
        )


def _method_rows(systems: int) -> list[Row]:
    rng = np.random.default_rng(4)
    tallies = {name: _Tally() for name in ("one-at-a-time", "leave-one-out", "ablate")}
    promises = _Promises()
    for seed in range(systems):
        system, machine = mixed(rng), Machine("noise of 3 %", rng=rng)
        for name, with_others in (("one-at-a-time", False), ("leave-one-out", True)):
            found, trials = _one_comparison(system, machine, with_others=with_others)
            tallies[name].add(system, found, found, trials, trials)
        ablation = played(system, machine, seed)
        tallies["ablate"].add(system, *_outcome(ablation))
        promises.add(system, ablation)
    rows: list[Row] = []
    for name, tally in tallies.items():
        rows += tally.rows(name, goal=">= 0.95" if name == "ablate" else "")
    return [*rows, *promises.rows("noise of 3 %")]


def _outcome(ablation: Procedure) -> tuple[set[int], set[int], int, int]:
    screened = ablation.screening.screened()
    accused = {
        change
        for change, one in screened.items()
        if one.label not in (Label.INERT, Label.UNDECIDED)
    }
    history = ablation.history
    return (
        set(ablation.screening.survivors),
        accused,
        history.trials,
        history.trials - history.brief_trials,
    )


def _one_comparison(system: System, machine: Machine, *, with_others: bool) -> tuple[set[int], int]:
    """Return what a single design finds with two trials of each change and eight of its reference."""
    whole = frozenset(range(CHANGES))
    base = whole if with_others else frozenset()
    sets = [base ^ {change} for change in range(CHANGES)]
    values = SetTrials()
    block = [base] * 8 + sets * 2
    for at in machine.rng.permutation(len(block)):
        values.add(block[at], machine.run(system, block[at], is_brief=False), Outcome.MEASURED)
    effects = [effect(values.value(base), values.value(one), values.noise) for one in sets]
    calls = call_all(effects, matters=AblateParameters().log_threshold)
    return {at for at, call in enumerate(calls) if call in (Call.SLOWER, Call.FASTER)}, len(block)


@dataclass
class _Promises:
    """Labels, pairs and intervals of ablations, over many systems."""

    covered: int = 0
    shares: int = 0
    precise: int = 0
    systems: int = 0
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, system: System, ablation: Procedure) -> None:
        """Count one system."""
        game = ablation.long_trials
        assert game is not None
        found = game.shares()
        if found is None or found.is_bounded:
            return
        self.systems += 1
        self.precise += game.is_precise
        for player, share in zip(game.players, found.players, strict=True):
            self.shares += 1
            self.covered += share.low <= system.share(player) <= share.high
        screened = ablation.screening.screened()
        for change, kind in system.kinds.items():
            if kind in _LABELS:
                self._count(f"label, {kind}", screened[change].label is _LABELS[kind])
        told = {frozenset(pair): one.together for pair, one in game.crossed().items()}
        for one in system.effects:
            if one.kind in _TOGETHER:
                is_right = told.get(frozenset(one.members)) is _TOGETHER[one.kind]
                self._count(f"pair, {one.kind}", is_right)

    def _count(self, what: str, is_right: bool) -> None:
        (self.right if is_right else self.wrong)[what] += 1

    def rows(self, where: str, *, coverage: str = "0.93 .. 0.97") -> Iterator[Row]:
        """Yield what was right."""
        if not self.shares:  # every whole was only bounded
            return
        yield share_row(f"ablate, {where}: shares covered", self.covered, self.shares, coverage)
        for what in sorted(self.right | self.wrong):
            total = self.right[what] + self.wrong[what]
            yield share_row(f"ablate, {where}: {what} is right", self.right[what], total)
        name = f"ablate, {where}: every share as precise as wanted"
        yield share_row(name, self.precise, self.systems)


_LABELS = {"both needed": Label.SYNERGIST, "either does it": Label.REDUNDANT}
_TOGETHER = {"both needed": Together.BOTH_NEEDED, "either does it": Together.EITHER}


def _machine_rows(machine: dict[str, object], systems: int) -> list[Row]:
    rng = np.random.default_rng(5)
    tally, promises = _Tally(), _Promises()
    for seed in range(systems):
        system = mixed(rng)
        ablation = played(system, Machine(rng=rng, **machine), seed)  # type: ignore[arg-type]
        tally.add(system, *_outcome(ablation))
        promises.add(system, ablation)
    where = str(machine["name"])
    found = share_row(
        f"ablate, {where}: guilty changes found",
        tally.found.total(),
        tally.guilty.total(),
        ">= 0.95",
    )
    accused = share_row(
        f"ablate, {where}: innocent changes accused", tally.accused, tally.innocent, "<= 0.05"
    )
    # What drifts, or is disturbed now and then, counts as noise of all trials: wider than need be.
    is_wide = machine.keys() & {"drift", "disturbed"}
    coverage = ">= 0.93" if is_wide else "0.93 .. 0.97"
    return [found, accused, *promises.rows(where, coverage=coverage)]


def _threes_rows(systems: int) -> list[Row]:
    rng = np.random.default_rng(7)
    tally, promises = _Tally(), _Promises()
    for seed in range(systems):
        system = threes(rng)
        ablation = played(system, Machine("noise of 3 %", rng=rng), seed)
        tally.add(system, *_outcome(ablation))
        promises.add(system, ablation)
    name = "ablate, threes that act together: guilty changes found"
    found = share_row(name, tally.found.total(), tally.guilty.total(), ">= 0.95")
    return [found, *promises.rows("threes that act together")]


def _found_rows(
    name: str, make: Callable[[np.random.Generator], System], systems: int
) -> list[Row]:
    rng = np.random.default_rng(6)
    found = guilty = trials = 0
    for seed in range(systems):
        system = make(rng)
        ablation = played(system, Machine("noise of 3 %", rng=rng), seed)
        guilty += len(system.kinds)
        found += len(system.kinds.keys() & set(ablation.screening.survivors))
        trials += ablation.history.trials
    return [
        share_row(f"ablate, {name}: guilty changes found", found, guilty, ">= 0.95"),
        value_row(f"ablate, {name}: trials of any length, mean", trials / systems),
    ]
