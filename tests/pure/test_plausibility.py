"""Counters of one flow are held against each other; what cannot be true is no headline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import observation, result, run_of, rung
from pgdrag.collectors import all_observations
from pgdrag.findings.find import find
from pgdrag.findings.movement import Movements
from pgdrag.findings.plausibility import BOUNDS, implausible, implausible_in, without
from pgdrag.findings.quantities import quantities
from pgdrag.report.markdown import render_markdown
from pgdrag.report.rung_words import change_sentence

DIRTIED = "storage_written_bytes_per_transaction"


def written(dirtied: float, *, by_calls: float = 12_500.0, calls: float = 1.9):
    """Return what one trial counted of its writes, in bytes and calls per transaction."""
    return [
        observation(DIRTIED, dirtied, "bytes/transaction"),
        observation("written_bytes_per_transaction", by_calls, "bytes/transaction"),
        observation("write_syscalls_per_transaction", calls, "1/transaction"),
    ]


def test_a_kernel_that_counts_whole_large_folios_is_not_believed():
    """12.5 kB by calls, 13.7 kB at the device, and 1.01 MB by /proc/PID/io: as found."""
    (why,) = implausible(written(1.01e6)).values()
    assert why == (
        "986 kB contradicts written bytes per transaction: 12.2 kB and write syscalls per transaction: 1.9; "
        "Linux counts a large folio of the page cache whole when any part of it is written"
    )


@pytest.mark.parametrize("dirtied", [0.0, 12_500.0, 12_500.0 + 1.9 * 8192])
def test_pages_that_a_call_writes_in_part_are_dirtied_whole(dirtied):
    assert implausible(written(dirtied)) == {}


def test_without_what_bounds_it_nothing_is_implausible():
    assert implausible(written(1.01e6)[:2]) == {}
    assert implausible([replace(x, value=None, missing="gone") for x in written(1.01e6)]) == {}


def test_what_is_itself_implausible_bounds_nothing():
    """A server that wrote less than its WAL: of the two only the WAL is doubted, not what it would bound."""
    seen = [*written(1e4, by_calls=100.0), observation("wal_bytes_per_transaction", 1e6)]
    assert list(implausible(seen)) == ["wal_bytes_per_transaction"]


def test_its_value_is_left_out_and_the_reason_stays():
    seen = written(1.01e6)
    found = {one.name: one for one in without(seen, implausible(seen))}
    assert found[DIRTIED].value is None
    assert "large folio" in found[DIRTIED].missing
    assert found["written_bytes_per_transaction"].value == 12_500.0


def test_what_cannot_be_true_in_one_trial_is_left_out_of_all():
    assert list(implausible_in([written(20e3), written(1.01e6), written(20e3)])) == [DIRTIED]
    found = found_by_comparing(odd=20e3)
    (move,) = [x for x in found.rungs[1].get(Movements).moves if x.name == DIRTIED]
    assert move.implausible


def test_an_ablation_knows_no_change_by_what_cannot_be_true():
    assert DIRTIED not in quantities(result("A0", 60_000, evidence=written(1.01e6)))
    assert DIRTIED in quantities(result("A0", 60_000, evidence=written(20e3)))


def test_bounds_are_of_observations_that_exist_and_of_one_kind():
    units = {one.name: one.unit for each in all_observations().values() for one in each}
    for bound in BOUNDS:
        assert {bound.observation, *bound.at_most} <= units.keys()
        is_share = units[bound.observation] == "ratio"
        assert {units[x] == "ratio" for x in bound.at_most} == {is_share}, bound.observation


@given(st.lists(st.floats(0, 1e9), min_size=3, max_size=3))
def test_what_is_below_its_bound_is_plausible(values):
    dirtied, by_calls, calls = values
    seen = written(dirtied, by_calls=by_calls, calls=calls)
    assert (DIRTIED in implausible(seen)) == (dirtied > 1.25 * (by_calls + 8192 * calls) + 81.94)


def found_by_comparing(odd=263e3):
    """Return findings of three trials each: dirtied bytes seem to quadruple, while calls stay.

    Args:
        odd: the reference's, where they are not a quarter of the treatment's.
    """
    results = []
    for number, jitter in enumerate((0.99, 1.0, 1.01), start=1):
        sides = (("A0", 60_000, written(odd * jitter)), ("A1", 30_000, written(1.01e6 * jitter)))
        for at, (name, committed, seen) in enumerate(sides):
            results.append(result(name, committed, evidence=seen, number=2 * number - 1 + at))
    return find(run_of([rung("A0"), replace(rung("A1"), expects={DIRTIED: "up"})], results))


def test_what_is_implausible_is_no_headline_also_where_it_was_claimed_and_is_shown_as_such():
    found = found_by_comparing()
    (move,) = [x for x in found.rungs[1].get(Movements).moves if x.name == DIRTIED]
    assert move.implausible
    assert move.chance is None
    words = change_sentence(found.rungs[1])
    assert "as claimed" not in words
    assert "rose from" not in words
    assert "storage written bytes per transaction could not be measured" in words.lower()
    text = render_markdown(found)
    assert "implausible on A1:" in text
