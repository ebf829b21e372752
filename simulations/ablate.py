"""Does an ablation find the effects of 32 changes, without false positives, and do its shares' intervals hold?

Systems are made up: plain effects, a pair that needs both, a pair of which either suffices, and two
whose effects interact. The procedure is the one that the design runs; only the trials are simulated.
One-at-a-time and leave-one-out run on the same machine, for comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgdrag.designs._subsets import Observed, Request
from pgdrag.designs.ablate import Procedure
from pgdrag.designs.ablate.history import SetTrials
from pgdrag.designs.ablate.labels import Call, Label, call_all, effect
from pgdrag.designs.ablate.long_trials import Together
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.model import Outcome
from simulations.rows import Row, share_row, value_row
from simulations.systems import (
    CHANGES,
    FILE,
    Machine,
    Quantities,
    System,
    file_of_45,
    hidden_pair,
    mixed,
    small,
    threes,
    two_pairs,
)

SYSTEMS = 1000
HIDDEN_SYSTEMS = 200

_NOISE = "noise of 3 %"
_COVERAGE = "0.93 .. 0.97"
# What drifts, or is slowed down now and then, counts as noise of all trials: wider than need be.
_WIDE = ">= 0.93"
MACHINES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("noise of 1 %", {"noise": 0.01, "brief_noise": 0.015}, _COVERAGE),
    ("noise of 6 %", {"noise": 0.06, "brief_noise": 0.09}, _COVERAGE),
    ("noise of 3 % that lasts (autocorrelation 0.7)", {"memory": 0.7}, _COVERAGE),
    ("noise of 3 %, drift of 0.1 % per trial", {"drift": -0.001}, _WIDE),
    ("noise of 3 %, two trials in a hundred at half speed", {"disturbed": 0.02}, _WIDE),
    ("1,000 commits/s, counted", {"rate_per_s": 1000.0}, ""),
)
_LABELS = {"both needed": Label.NEEDS_PARTNER, "either suffices": Label.REDUNDANT}
_TOGETHER = {"both needed": Together.BOTH_NEEDED, "either suffices": Together.EITHER}


# How many times slower each of three effects is, the machine, and settings that only move work.
_FILES: tuple[tuple[str, float, float, dict[str, Any], int], ...] = (
    ("five that matter, noise of 5 %", 1.2, 3.0, {"brief_noise": 0.05}, 4),
    ("five that matter, noise of 10 %", 1.2, 3.0, {"brief_noise": 0.1}, 4),
    (
        "five of 1.5× or more, noise of 25 %, of the target 10 %, two trials in a hundred at half speed",
        1.5,
        3.0,
        {"brief_noise": 0.25, "target_noise": 0.4, "disturbed": 0.02},
        4,
    ),
    ("effects of 1.1×, equal trials differ by 1.3×", 1.1, 1.1001, {"brief_noise": 0.19}, 4),
    ("none that matters, noise of 5 %", 1.0, 1.0, {"brief_noise": 0.05}, 0),
    ("none that matters, noise of 10 %", 1.0, 1.0, {"brief_noise": 0.1}, 0),
)


def simulate(scale: float) -> list[Row]:
    """Return what an ablation, one-at-a-time and leave-one-out find, and what they cost."""
    systems = max(round(SYSTEMS * scale), 10)
    rows = _method_rows(systems)
    some = max(systems // 4, 10)
    found = _play_many(threes, some, seed=7)
    rows += [*found.found_rows("threes that interact"), *found.promise_rows("threes that interact")]
    for name, machine, coverage in MACHINES:
        found = _play_many(mixed, some, seed=5, machine=machine)
        rows += [*found.found_rows(name), found.false_row(name)]
        if coverage:  # with bounds no interval can hold
            rows += found.promise_rows(name, coverage)
    for name, make in (
        ("five of 1.15×", small),
        ("(a and b) or c", hidden_pair),
        ("(a and b) or (c and d)", two_pairs),
    ):
        found = _play_many(make, max(round(HIDDEN_SYSTEMS * scale), 5), seed=6)
        rows += [*found.found_rows(name), *found.cost_rows(f"ablate, {name}", with_long=False)]
    return [*rows, *_file_rows(max(round(HIDDEN_SYSTEMS * scale), 5))]


def played(system: System, machine: Machine, seed: int) -> Procedure:
    """Return an ablation played to its end."""
    procedure = Procedure(CHANGES, AblateParameters(seed=seed))
    while (request := procedure.request) is not None:
        procedure.tell(_block(request, system, machine))
    return procedure


def _block(
    request: Request, system: System, machine: Machine, quantities: Quantities | None = None
) -> list[Observed]:
    """Run the trials of a block, in random order as in the laboratory."""
    sets, is_brief = request.sets, request.is_brief
    return [
        Observed(
            sets[at],
            is_brief,
            machine.run(system, sets[at], is_brief=is_brief),
            Outcome.MEASURED,
            quantities.seen(sets[at], machine.rng) if quantities else {},
        )
        for at in machine.rng.permutation(len(sets))
    ]


def _file_rows(files: int) -> Iterator[Row]:
    """Yield how files of 45 settings fare whose trials measure more than throughput; short trials only."""
    for name, least, most, with_noise, movers in _FILES:
        rng = np.random.default_rng(9)
        planted, found, moved, false = 0, 0, 0, [0, 0]
        until_named = trials = 0
        for seed in range(files):
            system, quantities = file_of_45(rng, least=least, most=most, movers=movers)
            machine = Machine(rng=rng, noise=0.7 * with_noise["brief_noise"], **with_noise)
            procedure = Procedure(FILE, AblateParameters(seed=seed))
            screening = procedure.screening
            while procedure.long_trials is None and (request := procedure.request) is not None:
                until_named += 0 if screening.is_labelled else len(request.sets)
                trials += len(request.sets)
                procedure.tell(_block(request, system, machine, quantities))
            kinds = system.kinds
            called = {
                change
                for change, one in screening.screened().items()
                if one.label not in (Label.INERT, Label.UNDECIDED)
            }
            movers_found = {change for change, moves in screening.moves().items() if moves}
            planted += len(kinds)
            found += len(called & kinds.keys())
            moved += len(movers_found & kinds.keys())
            false[0] += len(called - kinds.keys())
            false[1] += len(movers_found - kinds.keys() - quantities.movers.keys())
        start = f"ablate, 45 settings, {name}"
        if planted:
            goal = ">= 0.95" if with_noise["brief_noise"] < 0.1 else ""
            yield share_row(f"{start}: named as guilty", found, planted, goal)
            yield share_row(f"{start}: named by what they move", moved, planted, ">= 0.75")
        innocent = FILE * files - planted
        yield share_row(f"{start}: accused and innocent", false[0], innocent, "<= 0.01")
        yield share_row(f"{start}: said to move what they do not", false[1], innocent, "<= 0.01")
        yield value_row(f"{start}: short trials until labelled, mean", until_named / files)
        yield value_row(f"{start}: short trials, mean", trials / files)


@dataclass
class _Score:
    """What a method found in many systems: changes, their labels, pairs and shares.

    Attributes:
        planted, found: changes with an effect, by its kind.
        without, false: changes without an effect, and how many of those were said to have one.
    """

    systems: int = 0
    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    without: int = 0
    false: int = 0
    trials: int = 0
    long_trials: int = 0
    covered: int = 0
    shares: int = 0
    precise: int = 0
    with_shares: int = 0
    right: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)

    def add(
        self, system: System, found: set[int], called: set[int], trials: int, long: int
    ) -> None:
        """Count one system: `found` survive, `called` are said to have an effect."""
        kinds = system.kinds
        self.systems += 1
        self.planted.update(kinds.values())
        self.found.update(kind for change, kind in kinds.items() if change in found)
        self.without += CHANGES - len(kinds)
        self.false += len(called - kinds.keys())
        self.trials += trials
        self.long_trials += long

    def add_ablation(self, system: System, played: Procedure) -> None:
        """Count one system that an ablation was played on, with labels, pairs and shares."""
        screened = played.screening.screened()
        no_effect = (Label.INERT, Label.UNDECIDED)
        called = {change for change, one in screened.items() if one.label not in no_effect}
        history, long_trials = played.history, played.long_trials
        long = history.trials - history.brief_trials
        self.add(system, set(played.screening.survivors), called, history.trials, long)
        shares = long_trials.shares() if long_trials else None
        if long_trials is None or shares is None or shares.is_bounded:
            return
        self.with_shares += 1
        self.precise += long_trials.is_precise
        for player, share in zip(long_trials.players, shares.players, strict=True):
            self.shares += 1
            self.covered += share.low <= system.share(player) <= share.high
        for change, kind in system.kinds.items():
            if kind in _LABELS:
                self._judge(f"label, {kind}", screened[change].label is _LABELS[kind])
        crossed = {frozenset(pair): one.together for pair, one in long_trials.crossed().items()}
        for one in system.effects:
            if one.kind in _TOGETHER:
                together = crossed.get(frozenset(one.members))
                self._judge(f"pair, {one.kind}", together is _TOGETHER[one.kind])

    def _judge(self, what: str, is_right: bool) -> None:
        self.judged[what] += 1
        self.right[what] += is_right

    def method_rows(self, method: str, *, goal: str) -> Iterator[Row]:
        """Yield what was found of each kind, and of all, and what it took."""
        for kind in ("plain", "both needed", "either suffices", "interacting"):
            name = f"{method}: effects found, {kind}"
            yield share_row(name, self.found[kind], self.planted[kind], goal)
        name = f"{method}: effects found, all"
        yield share_row(name, self.found.total(), self.planted.total(), goal)
        yield share_row(f"{method}: false positives", self.false, self.without, "<= 0.05")
        yield from self.cost_rows(method)

    def cost_rows(self, method: str, *, with_long: bool = True) -> Iterator[Row]:
        """Yield the mean number of trials."""
        yield value_row(f"{method}: trials of any length, mean", self.trials / self.systems)
        if with_long:
            mean = self.long_trials / self.systems
            yield value_row(f"{method}: trials of full length, mean", mean)

    def found_rows(self, where: str) -> Iterator[Row]:
        """Yield how many effects an ablation found."""
        name = f"ablate, {where}: effects found"
        yield share_row(name, self.found.total(), self.planted.total(), ">= 0.95")

    def false_row(self, where: str) -> Row:
        """Return how many changes without an effect an ablation said to have one."""
        name = f"ablate, {where}: false positives"
        return share_row(name, self.false, self.without, "<= 0.05")

    def promise_rows(self, where: str, coverage: str = _COVERAGE) -> Iterator[Row]:
        """Yield how many intervals, labels and pairs of an ablation were right."""
        if not self.shares:  # every whole was only bounded
            return
        yield share_row(f"ablate, {where}: shares covered", self.covered, self.shares, coverage)
        for what in sorted(self.judged):
            name = f"ablate, {where}: {what} is right"
            yield share_row(name, self.right[what], self.judged[what])
        name = f"ablate, {where}: every share as precise as wanted"
        yield share_row(name, self.precise, self.with_shares)


def _play_many(
    make: Callable[[np.random.Generator], System],
    systems: int,
    *,
    seed: int,
    machine: dict[str, Any] | None = None,
) -> _Score:
    rng = np.random.default_rng(seed)
    score = _Score()
    for at in range(systems):
        system = make(rng)
        score.add_ablation(system, played(system, Machine(rng=rng, **(machine or {})), at))
    return score


def _method_rows(systems: int) -> list[Row]:
    rng = np.random.default_rng(4)
    scores = {name: _Score() for name in ("one-at-a-time", "leave-one-out", "ablate")}
    for seed in range(systems):
        system, machine = mixed(rng), Machine(rng=rng)
        for name, with_others in (("one-at-a-time", False), ("leave-one-out", True)):
            found, trials = _one_comparison(system, machine, with_others=with_others)
            scores[name].add(system, found, found, trials, trials)
        scores["ablate"].add_ablation(system, played(system, machine, seed))
    rows: list[Row] = []
    for name, score in scores.items():
        rows += score.method_rows(name, goal=">= 0.95" if name == "ablate" else "")
    return [*rows, *scores["ablate"].promise_rows(_NOISE)]


def _one_comparison(system: System, machine: Machine, *, with_others: bool) -> tuple[set[int], int]:
    """Return what a single design finds with two trials of each change and eight of its reference."""
    base = frozenset(range(CHANGES)) if with_others else frozenset[int]()
    sets = [base ^ {change} for change in range(CHANGES)]
    trials = SetTrials(CHANGES)
    block = [base] * 8 + sets * 2
    for at in machine.rng.permutation(len(block)):
        reading = machine.run(system, block[at], is_brief=False)
        trials.add(Observed(block[at], False, reading, Outcome.MEASURED))
    effects = [effect(trials.value(base), trials.value(one)) for one in sets]
    calls = call_all(effects, matters=AblateParameters().log_threshold)
    return {at for at, call in enumerate(calls) if call in (Call.SLOWER, Call.FASTER)}, len(block)
