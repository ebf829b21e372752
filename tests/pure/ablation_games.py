"""An ablation played on numbers: each set of changes has a planted loss, and trials have noise."""

from __future__ import annotations

import numpy as np

from pgdrag.designs.ablate.history import Observed
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.procedure import Procedure
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome


def play(loss, *, changes=32, noise=0.03, seed=1, fails=None, floor=None, options=None):
    """Play to the end.

    Args:
        loss: how much slower a set makes the server, on the log scale.
        fails: the outcome of a set that has no number, or None.
        floor: short trials see nothing slower than this loss, long ones see three times further.
    """
    rng = np.random.default_rng(seed)
    ablation = Procedure(changes, options or AblateParameters(seed=seed))
    while (wanted := ablation.ask()) is not None:
        ablation.tell(
            [_trial(one, wanted.is_brief, loss, noise, rng, fails, floor) for one in wanted.sets]
        )
    return ablation


def answer_all(ablation, wanted):
    """Answer one block: change 1 makes the server three times slower, without noise."""
    rng = np.random.default_rng(1)
    ablation.tell(
        [
            _trial(one, wanted.is_brief, lambda s: 1.1 * (1 in s), 0.02, rng, None, None)
            for one in wanted.sets
        ]
    )


def _trial(some, is_brief, loss, noise, rng, fails, floor):
    if fails is not None and (outcome := fails(some)) is not None:
        return Observed(some, is_brief, None, outcome)
    lost = loss(some) + rng.normal(0, noise * (1.5 if is_brief else 1))
    deepest = np.inf if floor is None else floor + (0 if is_brief else np.log(3))
    is_bound = lost > deepest
    reading = Reading(7 - min(lost, deepest), noise / 10, bool(is_bound), 1, is_brief)
    return Observed(some, is_brief, reading, Outcome.STALLED if is_bound else Outcome.MEASURED)
