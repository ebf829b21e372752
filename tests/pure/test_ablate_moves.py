"""Which quantities does a change move? Told from trials whose throughput says nothing of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.designs._moves import Quantities
from pgdrag.designs._subsets import Observed
from pgdrag.designs.ablate import Procedure
from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.findings.quantities import Quantity
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome

# Standard deviations of the logarithm between equal trials of 3 s, as measured in a run of 120.
NOISE = {"server_cpu": 0.074, "wal_bytes": 0.049, "blocks_read": 0.054, "wal_records": 0.015}


def play(moves, loss, *, changes=29, noise=0.1, seed=1, target_is_unsteady=False, once=()):
    """Play to the end: `moves` is by change the quantities that it moves, on the log scale.

    The first trial of the sets in `once` is slowed down three times, which moves what runs by the clock, too. A target that crawls commits little: quantities differ four times as much there, and sometimes far more.
    """
    rng = np.random.default_rng(seed)
    slowed_down = set(once)
    ablation = Procedure(changes, AblateParameters(seed=seed))

    def trial(some, is_brief):
        is_unsteady = target_is_unsteady and len(some) > changes / 2
        logs = {name: (4 if is_unsteady else 1) * rng.normal(0, sd) for name, sd in NOISE.items()}
        if is_unsteady and rng.random() < 0.1:
            logs["wal_records"] += 0.3
        for change in some & moves.keys():
            for name, size in moves[change].items():
                logs[name] += size
        slowed = math.log(3) * (some in slowed_down)
        slowed_down.discard(some)
        logs["wal_bytes"] += slowed / 3
        reading = Reading(
            7 - slowed - loss(some) + rng.normal(0, noise), noise / 10, False, 1, is_brief
        )
        seen = {name: Quantity(log) for name, log in logs.items()}
        return Observed(some, is_brief, reading, Outcome.MEASURED, seen)

    while (wanted := ablation.request) is not None:
        ablation.tell([trial(one, wanted.is_brief) for one in wanted.sets])
    return ablation.screening


@pytest.mark.parametrize("seed", range(5))
def test_a_change_whose_effect_hides_in_the_noise_is_named_by_what_it_moves(seed):
    # wal_compression in a file of 29 changes: 1.27 times slower, equal trials differ by 10 %.
    compression = {"wal_bytes": math.log(0.287), "server_cpu": math.log(1.28)}
    found = play({11: compression}, lambda s: math.log(1.27) * (11 in s), seed=seed)
    moved = {change: [one.quantity for one in moves] for change, moves in found.moves().items()}
    assert "wal_bytes" in moved.pop(11)
    assert not any(moved.values())
    one = next(x for x in found.moves()[11] if x.quantity == "wal_bytes")
    assert one.more.center == pytest.approx(math.log(0.287), abs=4 * one.more.se)
    assert found.screened()[11].label is not Label.INERT


def test_a_change_that_moves_work_and_no_throughput_is_named_as_well():
    found = play({3: {"wal_records": 0.3}}, lambda s: 0.0)
    assert [one.quantity for one in found.moves()[3]] == ["wal_records"]
    assert found.screened()[3].label in (Label.INERT, Label.UNDECIDED)


@pytest.mark.parametrize("seed", range(5))
def test_one_trial_slowed_down_by_something_else_accuses_nobody(seed):
    # The group that the change is in was slow, too.
    slow = {"wal_bytes": 2.0, "server_cpu": 2.0}
    once = [frozenset({7}), frozenset({5, 6, 7, 8, 9})]
    found = play({0: slow}, lambda s: 3.0 * (0 in s), seed=seed, once=once)
    assert found.screened()[0].label is Label.BOTH
    assert found.screened()[7].label in (Label.INERT, Label.UNDECIDED)
    assert not found.moves().get(7)


def test_where_nothing_moves_hardly_anything_is_said_to_move():
    false = 0
    for seed in range(40):
        found = play({}, lambda s: 0.0, seed=seed)
        false += bool(found.fingerprint()) + sum(map(bool, found.moves().values()))
    assert false <= 2


def test_a_target_that_is_less_steady_than_the_reference_has_nobody_accused():
    false = 0
    for seed in range(20):
        slow = {0: {"wal_records": 2.0, "wal_bytes": 3.0}}
        found = play(slow, lambda s: 3.0 * (0 in s), seed=seed, target_is_unsteady=True)
        assert found.moves().pop(0)
        false += sum(bool(moved) for change, moved in found.moves().items() if change)
    assert false <= 2


def test_inert_is_only_what_certainly_makes_no_difference():
    for noise in (0.005, 0.1):
        labels = {one.label for one in play({}, lambda s: 0.0, noise=noise).screened().values()}
        assert labels == {Label.INERT if noise < 0.01 else Label.UNDECIDED}


def test_what_did_not_happen_is_not_called_more_where_fewer_transactions_ran():
    # No deadlock on either side, of 100,000 transactions and of 1,000; and WAL, ten times as much.
    def side(transactions: int, wal: float) -> list[dict[str, Quantity]]:
        never = Quantity(math.log(1 / transactions), 1.0, is_bound=True)
        return [
            {"deadlocks": never, "wal_bytes": Quantity(math.log(wal * (1 + at / 100)))}
            for at in range(6)
        ]

    whole = (frozenset[int](), frozenset({0}))
    found = Quantities({whole[0]: side(100_000, 1.0), whole[1]: side(1_000, 10.0)})
    assert [one.quantity for one in found.fingerprint(whole)] == ["wal_bytes"]
    # Nor is a bound on one side more than what was seen on the other; that it is less can be said.
    rare = [{"deadlocks": Quantity(math.log(1 / 20_000) + at / 100)} for at in range(6)]
    found = Quantities({whole[0]: rare, whole[1]: side(1_000, 1.0)})
    assert found.fingerprint(whole) == ()
    found = Quantities({whole[0]: side(10_000_000, 1.0), whole[1]: rare})
    assert [one.quantity for one in found.fingerprint(whole)] == ["deadlocks"]


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 3)).map(frozenset),
            st.dictionaries(
                st.sampled_from(["wal_bytes", "deadlocks"]),
                st.builds(Quantity, st.floats(-3, 3), st.floats(0, 1), st.booleans()),
            ),
        ),
        max_size=12,
    )
)
def test_what_is_kept_between_trials_is_what_all_of_them_say(trials):
    whole = (frozenset(), frozenset(range(4)))
    pairs = {at: (whole[0], frozenset({at})) for at in range(4)}
    kept, so_far = Quantities(), {}
    for changes, seen in trials:
        kept.add(changes, seen)
        so_far.setdefault(changes, []).append(seen)
        fresh = Quantities(so_far)
        assert kept.fingerprint(whole) == fresh.fingerprint(whole)
        assert kept.moves(whole, pairs) == fresh.moves(whole, pairs)
