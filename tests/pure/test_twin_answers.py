"""What `make twins` counts: guilty configurations on an original and on its twin."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.twins.answers import BASE, ORIGINAL, TWIN, Tried, answers
from benchmarks.twins.databases import databases


def tried(effects: dict[str, tuple[float, float]], noise: float = 0.02) -> list[Tried]:
    """Return trials of both sides, of configurations with these effects on each."""
    rng, found = random.Random(1), []
    for at, (side, base_tps) in enumerate(((ORIGINAL, 1000.0), (TWIN, 300.0))):
        for name, both in {BASE: (1.0, 1.0), **effects}.items():
            for block in range(1, 4):
                tps = base_tps * both[at] * math.exp(rng.gauss(0, noise))
                found.append(Tried("shop", side, name, block, tps))
    return found


def test_a_twin_that_has_the_same_effects_finds_the_guilty() -> None:
    found = answers(tried({"a": (0.5, 0.48), "b": (0.02, 0.021), "c": (1.0, 1.0)}), [("shop", "c")])
    assert [x.configuration for x in found.guilty] == ["a", "b"]
    assert found.found == found.guilty
    assert (found.only_twin, found.accused(TWIN)) == ((), ())
    assert found.median_distance < 0.1
    assert found.is_met


def test_one_that_it_misses_and_one_that_it_invents_are_counted() -> None:
    found = answers(tried({"a": (0.5, 1.0), "c": (1.0, 0.4)}), [("shop", "c")])
    assert (len(found.guilty), len(found.found)) == (1, 0)
    assert [x.configuration for x in found.accused(TWIN)] == ["c"]
    assert not found.is_met


def test_what_is_slower_by_no_more_than_noise_is_not_guilty() -> None:
    effects = {f"c{x}": (1.0, 1.0) for x in range(8)}
    found = answers(tried(effects, noise=0.2), [])
    assert not found.guilty


def test_there_are_forty_configurations_or_more() -> None:
    every = databases()
    assert sum(len(x.configurations) for x in every) >= 40
    for one in every:
        names = [x.name for x in one.configurations]
        assert len(set(names)) == len(names)
        assert any(x.is_harmless for x in one.configurations)


@pytest.mark.parametrize("one", databases(), ids=lambda x: x.name)
def test_each_has_a_load_of_its_own(one) -> None:  # type: ignore[no-untyped-def]
    assert one.workload.job()["kind"] in ("pgbench", "tpcc")
    assert len(one.workload.transactions) > 1
