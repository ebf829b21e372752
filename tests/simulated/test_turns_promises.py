"""Do intervals of the cost of looking hold what they promise, under noise, drift and lots?"""

from __future__ import annotations

from analysis_runs import run_of, rung
from pgdrag.designs.turns import TurnsFinding
from pgdrag.findings.find import design_finding
from turn_trials import looked_at_in_turns

ROUNDS = 300


def test_the_true_cost_lies_within_the_interval_nineteen_times_in_twenty() -> None:
    held = 0
    for number in range(ROUNDS):
        trials = [
            looked_at_in_turns(
                blocks=5, cost=1.005, noise=0.02, drift_per_s=0.001, seed=10 * number + at + 1
            )
            for at in range(3)
        ]
        found = design_finding(run_of([rung("in turns")], trials, design="turns"))
        assert isinstance(found, TurnsFinding)
        assert found.slowdown is not None
        held += found.slowdown.low <= 1.005 <= found.slowdown.high
    # Three standard errors of 300 rounds below 95 %.
    assert held / ROUNDS >= 0.912
