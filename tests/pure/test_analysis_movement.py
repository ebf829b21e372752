"""Movements of evidence and the sentences made of them."""

import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import observation
from pgdrag.findings.movement import movements
from pgdrag.model import Unit
from pgdrag.report.rung_words import moves_sentence


def moved(name, before, after, unit="1/s", *, resolution=0.01, expects=None):
    sides = (observation(name, value, unit, resolution=resolution) for value in (before, after))
    (found,) = movements(*([side] for side in sides), expects or {})
    return found


def test_a_tenfold_rise_has_the_size_of_its_logarithm():
    found = moved("reads_per_s", 10.0, 100.0)
    assert found.size == pytest.approx(math.log(10))
    assert found.direction == "up"
    assert found.sentence == "reads per s rose from 10/s to 100/s (10×)"


def test_a_share_moves_on_its_odds():
    found = moved("buffer_hit_ratio", 0.999, 0.705, "ratio", resolution=1e-4)
    assert found.size == pytest.approx(math.log(0.999 / 0.001) - math.log(0.705 / 0.295))
    assert found.sentence == "buffer hit ratio fell from 99.9 % to 70.5 %"


def test_a_share_of_one_is_clipped_by_its_resolution():
    found = moved("buffer_hit_ratio", 1.0, 0.5, "ratio", resolution=0.001)
    assert found.size == pytest.approx(math.log(0.999 / 0.001))


def test_one_event_against_none_is_a_movement_of_one_event():
    found = moved("checkpoints_per_s", 0.0, 0.05, resolution=0.01)
    assert found.size == pytest.approx(math.log(5))
    assert found.sentence == "checkpoints per s rose from 0/s to 0.05/s"


@pytest.mark.parametrize(
    ("before", "after", "resolution"),
    [
        (100.0, 109.0, 0.01),  # under 10 %
        (0.0, 0.01, 0.01),  # no more than one event
        (3.0, 3.0, 0.01),
    ],
)
def test_little_is_unmoved(before, after, resolution):
    assert moved("x_per_s", before, after, resolution=resolution).direction == "unmoved"


def test_bytes_and_durations_are_said_in_their_units():
    assert moved("wal", 3072.0, 30720.0, "bytes/transaction").sentence == (
        "wal rose from 3 kB to 30 kB (10×)"
    )
    assert moved("gap", 80.0, 0.5, "s").sentence == "gap fell from 1 min 20 s to 500 ms (1/160)"


def test_a_side_that_was_not_seen_gives_no_movement():
    assert movements([observation("x", None)], [observation("x", 1.0)], {}) == ()
    assert movements([], [observation("x", 1.0)], {}) == ()


def test_what_was_claimed_comes_first_and_then_the_largest():
    before = [observation(name, 1.0) for name in ("a", "b", "c")]
    after = [observation("a", 2.0), observation("b", 50.0), observation("c", 9.0)]
    assert [m.name for m in movements(before, after, {"a": "up"})] == ["a", "b", "c"]


def test_the_sentence_says_what_moved_as_claimed_and_what_did_not():
    before = [observation("hits", 0.99, "ratio"), observation("vacuums", 1.0)]
    after = [observation("hits", 0.5, "ratio"), observation("vacuums", 1.0)]
    expects = {"hits": "down", "vacuums": "up", "reads": "up"}
    told = moves_sentence(movements(before, after, expects), expects, missing={"reads": "no right"})
    assert told == (
        "As claimed, hits fell from 99.0 % to 50.0 %; claimed to rise, but vacuums stayed at 1/s; "
        "reads could not be measured (no right)."
    )


def test_a_claim_that_moved_the_other_way_is_said_so():
    expects = {"hits": "down"}
    moves = movements(
        [observation("hits", 0.5, "ratio")], [observation("hits", 0.9, "ratio")], expects
    )
    assert moves_sentence(moves, expects).startswith("Claimed to fall, but hits rose")


def test_work_by_the_clock_is_not_named_when_throughput_collapses():
    before = [observation("wal", 1000.0, "bytes/transaction"), observation("commits", 100.0)]
    after = [observation("wal", 1_000_000.0, "bytes/transaction"), observation("commits", 0.1)]
    moves = movements(before, after, {})
    assert "wal rose" in moves_sentence(moves, {}, slowdown=1.0)
    told = moves_sentence(moves, {}, slowdown=1000.0)
    assert "wal" not in told
    assert told.startswith("Nothing observed changed by more than throughput")


def test_what_the_whole_machine_did_is_named_only_where_it_is_claimed():
    before, after = (
        [replace(observation("steal", value, "ratio"), is_of_machine=True)] for value in (0.01, 0.4)
    )
    assert "steal" not in moves_sentence(movements(before, after, {}), {})
    expects = {"steal": "up"}
    assert "steal rose" in moves_sentence(movements(before, after, expects), expects)


def test_what_outgrows_the_collapse_is_named_with_a_remark_on_it():
    before = [observation("rows", 10.0, "1/transaction")]
    after = [observation("rows", 1_000_000.0, "1/transaction")]
    told = moves_sentence(movements(before, after, {}), {}, slowdown=100.0)
    assert "Rows rose from 10 to 1,000,000 (100,000×)." in told
    assert "With 100× fewer transactions, each one carries" in told


def test_what_went_the_same_way_as_another_is_the_same_seen_twice():
    found = [
        moved("horizon_age_transactions", 0.0, 630.0, "count", expects=EXPECTS_AGE),
        moved("horizon_age_max_transactions", 0.0, 630.0, "count"),
        moved("buffer_hit_ratio", 0.99, 0.5, "ratio"),
        moved("index_hit_ratio", 0.99, 0.5, "ratio"),
    ]
    assert moves_sentence(found, EXPECTS_AGE) == (
        "As claimed, horizon age transactions rose from 0 to 630; also, buffer hit ratio fell from "
        "99.0 % to 50.0 %."
    )


EXPECTS_AGE = {"horizon_age_transactions": "up"}


def test_nothing_seen_and_nothing_moved_are_told_apart():
    assert moves_sentence((), {}) == "Nothing was observed."
    unmoved = movements([observation("x", 1.0)], [observation("x", 1.0)], {})
    assert moves_sentence(unmoved, {}) == "Nothing observed changed by more than 10 %."


units = st.sampled_from(get_args(Unit))
values = st.floats(allow_nan=True, allow_infinity=True)


@given(units, values, values, st.floats(1e-12, 1e12))
def test_any_two_values_move_or_do_not(unit, before, after, resolution):
    sides = [observation("x", value, unit, resolution=resolution) for value in (before, after)]
    for move in movements(sides[:1], sides[1:], {}):
        assert 0 <= move.size < math.inf
        assert move.direction in ("up", "down", "unmoved")
        assert move.sentence
