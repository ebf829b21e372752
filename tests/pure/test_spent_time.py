"""Where the time went that a change added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import observation
from pgdrag.collectors import observation_names
from pgdrag.findings.spent_time import PLACES, spent_time
from pgdrag.report.rung_words import spent_sentence

NAMES = list(PLACES)


def evidence(*seconds):
    return [
        observation(name, value, "s/transaction")
        for name, value in zip(NAMES, seconds, strict=True)
    ]


BEFORE = evidence(0.003, 0.001, 0.0, 0.0, 0.001, 0.0)


def test_the_parts_are_what_a_collector_sees():
    assert set(NAMES) <= observation_names()


@given(*[st.lists(st.floats(0, 1e3), min_size=6, max_size=6) for _ in range(2)])
def test_shares_of_the_difference_sum_to_one_or_are_not_told(before, after):
    parts = spent_time(evidence(*before), evidence(*after))
    assert [part.name for part in parts] == NAMES
    shares = [part.share for part in parts if part.share is not None]
    assert not shares or sum(shares) == pytest.approx(1, abs=1e-6)
    assert len(shares) in (0, 6)


def test_added_time_is_told_by_where_it_went():
    parts = spent_time(BEFORE, evidence(2.003, 0.801, 0.2, 0.0, 0.001, 0.0))
    assert spent_sentence(parts, "A3") == (
        "Each transaction takes 3 s longer than on A3: 67 % on CPU, 27 % in I/O and 7 % waiting for LWLocks."
    )


def test_saved_time_is_told_as_such():
    told = spent_sentence(spent_time(evidence(2.003, 0.801, 0, 0, 0.001, 0), BEFORE), "A4")
    assert told.startswith("Each transaction takes 2.8 s less than on A4: 71 % on CPU")


def test_hardly_any_difference_has_no_shares():
    parts = spent_time(BEFORE, evidence(0.0031, 0.001, 0.0, 0.0, 0.001, 0.0))
    assert {part.share for part in parts} == {None}
    assert spent_sentence(parts, "A0") == ""


def test_what_may_be_noise_has_no_shares():
    parts = spent_time(BEFORE, evidence(2.003, 0.801, 0.2, 0.0, 0.001, 0.0), is_noise=True)
    assert {part.share for part in parts} == {None}


def test_a_part_that_was_not_seen_leaves_none_of_them():
    assert spent_time(BEFORE, BEFORE[1:]) == ()
    assert {part.before_s for part in spent_time(BEFORE[1:], BEFORE)} == {None}
