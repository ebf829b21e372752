"""Published numbers against found ones, a case for each answer."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.findings.claims import answer_step, answer_total
from pgdrag.findings.values import Answer, Comparison, Interval, Verdict
from pgdrag.model import Claim


def found(low, center, high, *, detectable=1.1, equivalent=False):
    if low > 1:
        verdict = Verdict.SLOWER
    elif high < 1:
        verdict = Verdict.FASTER
    else:
        verdict = Verdict.EQUIVALENT if equivalent else Verdict.INCONCLUSIVE
    return Comparison(verdict, Interval(low, center, high, 0.95, "by hand"), detectable)


def answer(published, comparison, **options):
    claim = answer_total(Claim(published * 1.0), Claim(1.0), comparison, **options)
    assert claim is not None
    return claim


@pytest.mark.parametrize(
    ("published", "comparison", "expected"),
    [
        (7.0, found(6.0, 6.5, 7.0), Answer.REPRODUCED),
        (7.0, found(3.2, 3.6, 4.0), Answer.REPRODUCED),  # half of it
        (7.0, found(2.7, 3.2, 3.6), Answer.PARTLY),  # only the end of the interval is
        (7.0, found(2.0, 3.0, 9.0), Answer.REPRODUCED),  # the interval holds it
        (42_000, found(2_700, 8_240, 25_200), Answer.PARTLY),  # wide is not near
        (7.0, found(1.5, 2.0, 2.5), Answer.PARTLY),  # slower, but by far less
        (7.0, found(30, 35, 40), Answer.PARTLY),  # slower, by far more
        (7.0, found(0.3, 0.4, 0.5), Answer.NOT_REPRODUCED),  # the opposite
        (7.0, found(0.9, 1.0, 1.1), Answer.NOT_REPRODUCED),  # 7× would have been seen
        (7.0, found(0.99, 1.0, 1.01, equivalent=True), Answer.NOT_REPRODUCED),
        (1.5, found(0.6, 0.97, 1.6, detectable=1.9), Answer.INCONCLUSIVE),
        (7.0, found(0.1, 1.0, 9.0, detectable=20), Answer.INCONCLUSIVE),
        (7.0, found(0.5, 1.0, 2.0, detectable=math.inf), Answer.INCONCLUSIVE),
        (0.6, found(0.5, 0.55, 0.7), Answer.REPRODUCED),  # a gain, and a gain here
        (0.6, found(1.5, 1.6, 1.7), Answer.NOT_REPRODUCED),
        (0.6, found(0.93, 0.95, 0.97), Answer.PARTLY),  # 5 % of 67 %
        (1.65, found(1.2, 1.3, 1.4), Answer.REPRODUCED),  # half of its logarithm
        (1.65, found(1.2, 1.22, 1.25), Answer.PARTLY),
        (1.65, found(2.8, 2.9, 3.0), Answer.PARTLY),
        (1.0, found(0.99, 1.0, 1.01, equivalent=True), Answer.REPRODUCED),  # no change claimed
        (1.0, found(1.1, 1.2, 1.3), Answer.NOT_REPRODUCED),
        (1.0, found(0.8, 1.0, 1.2), Answer.INCONCLUSIVE),
        (7.0, found(5.0, math.inf, math.inf), Answer.REPRODUCED),  # nothing committed
        (400_000, found(300.0, math.inf, math.inf), Answer.PARTLY),
        (7.0, found(300.0, math.inf, math.inf), Answer.PARTLY),
    ],
)
def test_each_answer(published, comparison, expected):
    assert answer(published, comparison).answer is expected


def test_a_wide_interval_that_holds_the_published_size_says_so():
    assert answer(7.0, found(2.0, 3.0, 9.0)).why.endswith(
        "same direction, and the interval holds it"
    )


def test_why_states_both_numbers_and_what_would_have_been_seen():
    why = answer(7.0, found(0.9, 1.0, 1.11, detectable=1.9)).why
    assert why == (
        "published 7× slower, found 1.00× slower (0.9× to 1.11×): no significant change here; "
        "these trials can detect 1.9× or more"
    )


def test_a_rung_that_lacks_a_setting_shows_its_number_but_answers_nothing():
    claim = answer(7.0, found(6.0, 6.5, 7.0), why_untestable="run without io_workers")
    assert claim.answer is Answer.UNTESTABLE
    assert claim.found is not None
    assert "run without io_workers; found 6.5× slower" in claim.why


def test_a_rung_without_a_number_is_untestable():
    claim = answer(7.0, None, why_untestable="A1: did not start")
    assert (claim.answer, claim.found) == (Answer.UNTESTABLE, None)
    assert claim.why == "published 7× slower; A1: did not start"


def test_large_published_ratios_keep_their_digits():
    assert "published 442,625× slower" in answer(442_625, None, why_untestable="x").why


def test_a_step_is_answered_by_the_ratio_of_its_own_two_numbers():
    claim = answer_step(Claim(485), Claim(293), found(1.5, 1.6, 1.7))
    assert claim is not None
    assert claim.published == pytest.approx(485 / 293)


@pytest.mark.parametrize("tps", [None, 0.0, -1.0])
def test_words_alone_are_no_published_ratio(tps):
    assert answer_total(Claim(7000), Claim(tps, "slower"), found(6, 7, 8)) is None


@given(
    st.floats(1e-6, 1e6),
    st.lists(st.floats(0.0, 1e12), min_size=3, max_size=3).map(sorted),
    st.floats(1.0, 1e6) | st.just(math.inf),
)
def test_an_answer_in_the_published_direction_needs_an_interval_without_one(
    published, bounds, detectable
):
    claim = answer(published, found(*bounds, detectable=detectable))
    if claim.answer in (Answer.REPRODUCED, Answer.PARTLY):
        assert bounds[0] > 1 or bounds[2] < 1


def test_a_ratio_may_be_published_without_rates() -> None:
    claim = answer_total(Claim(), Claim(speedup=1.65), found(0.6, 0.62, 0.65))
    assert claim is not None
    assert (claim.answer, claim.published) == (Answer.REPRODUCED, pytest.approx(1 / 1.65))


def test_a_claim_on_another_quantity_says_so() -> None:
    published = Claim(speedup=1.65, of="operational speed")
    claim = answer_total(Claim(), published, found(0.6, 0.62, 0.65))
    assert claim is not None
    assert claim.why.startswith(
        "published for operational speed, measured for committed transactions"
    )


def test_a_step_is_claimed_by_rates_alone() -> None:
    assert answer_step(Claim(), Claim(speedup=1.65), found(0.6, 0.62, 0.65)) is None
