"""The promises of `make simulate` for bisections and screenings, in short."""

from simulations import bisect, screen
from simulations.seed_systems import NAMES, SeedSystem


def test_bisections_of_made_up_systems_of_slow_42k_end_with_a_small_set_that_keeps_nearly_90_percent():
    runs = [bisect.seed_run(seed)[0] for seed in range(60)]
    right = [
        len(one.found) <= bisect.MOST
        and one.trials <= bisect.GOAL.limit
        and one.share >= bisect.GOAL.share - bisect.TOLERANCE
        for one in runs
    ]
    # 96 of 100 in the long run.
    assert sum(right) >= 53
    assert sum(one.covers for one in runs) >= 53


def test_the_made_up_systems_are_what_they_say():
    system = SeedSystem.drawn(3)
    assert len(NAMES) == 32
    assert system.share(NAMES) == 1
    assert system.lost({"random_page_cost"}) == system.lost(
        {"random_page_cost", "cpu_index_tuple_cost"}
    )
    assert system.lost({"autovacuum_naptime"}) == 0


def test_no_promise_is_broken_on_a_few_systems():
    for module in (bisect, screen):
        rows = module.simulate(0.02)
        assert rows
        assert [row.name for row in rows if row.met is False] == []
