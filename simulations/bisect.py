"""Does a bisection find a small set that keeps the share wanted, within its trials?

The search is the one that the design runs; only the trials are numbers. Plain delta debugging, which
believes each trial and adds nothing up, is given the same machines, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from pgdrag.designs._subsets import Changes, Observed
from pgdrag.designs.bisect.pieces import units
from pgdrag.designs.bisect.procedure import BisectParameters, Ending, Procedure
from pgdrag.findings.quantities import Quantity
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome
from simulations.rows import Row, share_row, value_row
from simulations.seed_systems import GROUPS, NAMES, SeedSystem
from simulations.systems import CHANGES, FILE, Machine, System, file_of_45, mixed

SYSTEMS = 1000
GOAL = BisectParameters(groups=GROUPS)
MIXED_GOAL = BisectParameters(max_trials=80)
FILE_NOISE = 0.05  # between short trials of a file of 45
MOST = 8  # settings of a set that is small enough
TOLERANCE = 0.02  # of a share: what the counting error of the confirming trials hides

Draw = Callable[[int], SeedSystem]
RunTrial = Callable[[Changes, bool], Reading]


@dataclass(frozen=True)
class Played:
    """How a bisection ended: the set, its true share, its interval and the trials it took."""

    found: Changes
    share: float
    low: float
    high: float
    trials: int
    ending: Ending

    @property
    def covers(self) -> bool:
        """The interval of the share holds the true one."""
        return self.low <= self.share <= self.high

    @property
    def is_small(self) -> bool:
        """As few settings as are wanted, in as few trials."""
        return len(self.found) <= MOST and self.trials <= GOAL.max_trials

    @property
    def is_right(self) -> bool:
        """It is small and keeps what is wanted, to within what the counting error hides."""
        return self.is_small and self.share >= GOAL.share - TOLERANCE


def play(
    names: Sequence[str],
    goal: BisectParameters,
    run: RunTrial,
    seen: Callable[[Changes], dict[str, Quantity]] = lambda _: {},
) -> Procedure:
    """Return a bisection played to its end; `seen` is what a trial measures beside throughput."""
    bisection = Procedure(names, goal)
    while (asked := bisection.request) is not None:
        bisection.tell(
            [
                Observed(x, asked.is_brief, run(x, asked.is_brief), Outcome.MEASURED, seen(x))
                for x in asked.sets
            ]
        )
    return bisection


def seed_run(seed: int, draw: Draw = SeedSystem.drawn) -> tuple[Played, SeedSystem]:
    """Return a bisection of the seed's settings on a machine that is drawn so."""
    system = draw(seed)
    bisection = play(
        NAMES,
        GOAL,
        lambda subset, is_brief: system.run(_named(subset), is_brief=is_brief),
    )
    return _played(bisection, system.share(_named(bisection.found))), system


def simulate(scale: float) -> list[Row]:
    """Return what a bisection finds, and what it costs."""
    count = max(round(SYSTEMS * scale), 10)
    return [
        *_seed_rows(count),
        *_partner_rows(
            "bisect, the same settings where much shows only together",
            SeedSystem.drawn_interacting,
            max(count // 2, 10),
        ),
        *_partner_rows(
            "bisect, the same settings where one hides what the others do",
            SeedSystem.drawn_hiding,
            max(count // 2, 10),
        ),
        *_ddmin_rows(max(count // 4, 10)),
        *_mixed_rows(max(count // 4, 10)),
        *_file_rows(max(count // 5, 10)),
        *_nothing_rows(max(count // 4, 10)),
        *_outcome_rows(max(count // 4, 10)),
    ]


def _seed_rows(count: int) -> list[Row]:
    runs = [seed_run(seed) for seed in range(count)]
    played = [one for one, _ in runs]
    name = "bisect, 32 settings of slow-42k"
    strict = [one.is_small and one.share >= GOAL.share for one in played]
    confirmed = [one for one in played if one.ending is Ending.FOUND]
    return [
        share_row(
            f"{name}: <= 8 that keep 90 % to within 2 points, in <= 40 trials",
            sum(one.is_right for one in played),
            count,
            ">= 0.95",
        ),
        share_row(f"{name}: the same, 90 % to the letter", sum(strict), count),
        share_row(
            f"{name}: interval of the share covers it",
            sum(one.covers for one in played),
            count,
            "0.93 .. 0.97",
        ),
        share_row(f"{name}: ends with a confirmed set", len(confirmed), count),
        value_row(f"{name}: trials, median", float(np.median([x.trials for x in played]))),
        value_row(
            f"{name}: settings found, median", float(np.median([len(x.found) for x in played]))
        ),
        value_row(
            f"{name}: minutes at the demo scale, 95 of 100 below",
            float(np.percentile([system.seconds for _, system in runs], 95)) / 60,
            "<= 30",
        ),
    ]


def _partner_rows(name: str, draw: Draw, count: int) -> list[Row]:
    """The same on machines where settings interact."""
    played = [seed_run(seed, draw)[0] for seed in range(count)]
    right = sum(one.is_right for one in played)
    return [
        share_row(f"{name}: <= 8 that keep 90 % to within 2 points", right, count, ">= 0.9"),
        value_row(f"{name}: trials, median", float(np.median([x.trials for x in played]))),
    ]


def _ddmin_rows(count: int) -> list[Row]:
    """Plain delta debugging on the same systems: a trial a test, on the right side of the true threshold."""
    right, trials, sizes = 0, [], []
    for seed in range(count):
        system = SeedSystem.drawn(seed)
        found, asked = _debugged(system)
        trials.append(asked)
        sizes.append(len(found))
        right += system.share(_named(found)) >= GOAL.share - TOLERANCE and len(found) <= MOST
    name = "plain ddmin, 32 settings of slow-42k"
    return [
        share_row(
            f"{name}: <= 8 that keep 90 % to within 2 points, in any number of trials", right, count
        ),
        value_row(f"{name}: trials, median, without those for the ends", float(np.median(trials))),
        value_row(f"{name}: settings found, median", float(np.median(sizes))),
    ]


def _debugged(system: SeedSystem) -> tuple[Changes, int]:
    """Return what delta debugging finds, groups first, and the trials that it takes; no set has two."""
    whole = system.lost(NAMES)
    verdicts: dict[Changes, bool] = {}

    def keeps(subset: Changes) -> bool:
        if subset not in verdicts:
            log = system.run(_named(subset), is_brief=True).log_per_s
            verdicts[subset] = system.reference - log >= GOAL.share * whole
        return verdicts[subset]

    kept = _ddmin([node.members for node in units(dict(enumerate(NAMES)), GROUPS)], keeps)
    found = _union(_ddmin([frozenset([one]) for unit in kept for one in sorted(unit)], keeps))
    return found, len(verdicts)


def _ddmin(units: list[Changes], keeps: Callable[[Changes], bool]) -> list[Changes]:
    """Return the units that are left when none more can be left out.

    Source: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input (2002).
    """
    parts = 2
    while len(units) > 1:
        bounds = [round(at * len(units) / parts) for at in range(parts + 1)]
        pieces = [units[low:high] for low, high in pairwise(bounds)]
        complements = [[one for one in units if one not in piece] for piece in pieces]
        # A part alone, else all but a part; the first that keeps enough is reduced further.
        candidates = [*pieces, *(complements if parts > 2 else [])]
        smaller = next((one for one in candidates if keeps(_union(one))), None)
        if smaller is not None:
            parts = max(parts - 1, 2) if len(smaller) > len(pieces[0]) else 2
            units = smaller
        elif parts < len(units):
            parts = min(2 * parts, len(units))
        else:
            break
    return units


def _union(units: Sequence[Changes]) -> Changes:
    return frozenset[int]().union(*units)


def _mixed_rows(count: int) -> list[Row]:
    """Plain effects, a pair that needs both, one of which either does it, and two that interact."""
    rng = np.random.default_rng(5)
    kept, small, trials = 0, 0, []
    for _ in range(count):
        system, machine = mixed(rng), Machine(rng=rng)
        bisection = play([f"s{at}" for at in range(CHANGES)], MIXED_GOAL, _runner(system, machine))
        every = frozenset(range(CHANGES))
        share = system.lost(bisection.found) / system.lost(every)
        kept += share >= MIXED_GOAL.share - TOLERANCE
        small += len(bisection.found) <= _smallest(system) + 1
        trials.append(len(bisection.history.results))
    name = "bisect, made-up systems of 32 changes"
    return [
        share_row(f"{name}: the set keeps 90 % to within 2 points", kept, count, ">= 0.95"),
        share_row(f"{name}: at most one change more than the fewest that can", small, count),
        value_row(
            f"{name}: trials, median (at most {MIXED_GOAL.max_trials})", float(np.median(trials))
        ),
    ]


def _file_rows(count: int) -> list[Row]:
    """Files of 45 settings where equal trials differ by 5 %: throughput alone, and what is measured beside it."""
    rows = []
    for name, has_quantities in (("throughput alone", False), ("quantities, too", True)):
        kept, innocent, trials = 0, [], []
        for seed in range(count):
            rng = np.random.default_rng([11, seed])
            system, quantities = file_of_45(rng, least=1.2, most=3, movers=4)
            machine = Machine(noise=FILE_NOISE / 1.5, brief_noise=FILE_NOISE, rng=rng)
            bisection = play(
                [f"s{at}" for at in range(FILE)],
                MIXED_GOAL,
                _runner(system, machine),
                partial(quantities.seen, rng=rng) if has_quantities else lambda _: {},
            )
            share = system.lost(bisection.found) / system.lost(frozenset(range(FILE)))
            kept += share >= MIXED_GOAL.share - TOLERANCE
            innocent.append(len(bisection.found - system.kinds.keys()))
            trials.append(len(bisection.history.results))
        start = f"bisect, files of 45 settings, {name}"
        rows += [
            share_row(f"{start}: the set keeps 90 % to within 2 points", kept, count),
            value_row(f"{start}: innocent settings in the set, mean", float(np.mean(innocent))),
            value_row(f"{start}: trials, median", float(np.median(trials))),
        ]
    return rows


def _smallest(system: System) -> int:
    """Return how few changes can keep the share: by taking what helps most, again and again."""
    every, kept = frozenset(range(CHANGES)), frozenset[int]()
    needed = MIXED_GOAL.share * system.lost(every)
    moves = [frozenset([one]) for one in system.kinds]
    moves += [frozenset(x.members) for x in system.effects if not x.is_any]
    while system.lost(kept) < needed:
        # A pair that needs both is taken as one, at its price.
        gains = [
            (
                (system.lost(kept | move) - system.lost(kept)) / max(len(move - kept), 1),
                sorted(move),
            )
            for move in moves
            if move - kept
        ]
        kept |= frozenset(max(gains)[1])
    return len(kept)


def _nothing_rows(count: int) -> list[Row]:
    rng = np.random.default_rng(6)
    said = 0
    for _ in range(count):
        machine = Machine(rng=rng)
        bisection = play(NAMES, GOAL, _runner(System(()), machine))
        said += bisection.ending is Ending.NO_DIFFERENCE
    return [share_row("bisect, two ends that do not differ: said so", said, count, ">= 0.95")]


def _outcome_rows(count: int) -> list[Row]:
    """Two settings of which both keep the server from starting, anywhere among 32."""
    rng = np.random.default_rng(7)
    right, trials = 0, []
    for _ in range(count):
        guilty = frozenset(
            int(x) for x in rng.choice(len(NAMES), int(rng.integers(1, 3)), replace=False)
        )
        bisection = Procedure(NAMES, GOAL)
        while (asked := bisection.request) is not None:
            bisection.tell(
                [
                    Observed(x, True, None, Outcome.DID_NOT_START)
                    if guilty <= x
                    else Observed(x, True, Reading(7.0, 0.01, False, 1, True), Outcome.MEASURED)
                    for x in asked.sets
                ]
            )
        right += bisection.found == guilty
        trials.append(len(bisection.history.results))
    name = "bisect, one or two settings that keep the server from starting"
    return [
        share_row(f"{name}: found", right, count, ">= 0.95"),
        value_row(f"{name}: trials, median", float(np.median(trials))),
    ]


def _runner(system: System, machine: Machine) -> RunTrial:
    return lambda subset, is_brief: machine.run(system, subset, is_brief=is_brief)


def _played(bisection: Procedure, share: float) -> Played:
    held = bisection.share_held()
    low, high = (held.log - 1.96 * held.se, held.log + 1.96 * held.se) if held else (0.0, 1.0)
    return Played(
        bisection.found, share, low, high, len(bisection.history.results), bisection.ending
    )


def _named(subset: Changes) -> frozenset[str]:
    return frozenset(NAMES[at] for at in subset)
