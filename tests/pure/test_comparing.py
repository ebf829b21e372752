"""When is a comparison decided, and what is its verdict?"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from analysis_runs import measurement, result, run_of, rung, setting
from pgdrag.designs.compare import Compare
from pgdrag.designs.compare.findings import CompareFinding, Direction
from pgdrag.designs.compare.rules import (
    CompareParameters,
    End,
    Pairing,
    pairing,
    pairs_needed,
    progress,
)
from pgdrag.findings.find import find
from pgdrag.findings.values import Gate, Verdict
from pgdrag.model import Outcome, Result, Treatment
from pgdrag.model.design import parameters_of
from pgdrag.model.measurement import Latency
from pgdrag.stats.paired import PairedLogs

LEVEL = setting("jit", "on")
RUNGS = (rung("A"), rung("B", added=[LEVEL]))
NOISE = (0.0, 0.004, -0.003, 0.002, -0.004, 0.001, 0.003, -0.002, -0.001, 0.0)


def trial(name: str, committed: int | None, block: int, number: int, **rest) -> Result:
    made = result(name, committed, block=block, number=number, **rest)
    levels = (LEVEL,) if name == "B" else ()
    return replace(made, trial=replace(made.trial, treatment=Treatment(name, levels)))


def pair(block: int, before: float, after: float) -> list[Result]:
    """Make a pair; in every other one the reference runs second."""
    first, second = 2 * block - 1, 2 * block
    if block % 2 == 0:
        first, second = second, first
    return [trial("A", round(before), block, first), trial("B", round(after), block, second)]


def slower_by(ratio: float, pairs: int, noise: float = 1.0) -> list[Result]:
    """Make pairs whose treatment is slower by `ratio`, give or take the noise."""
    return [
        one
        for at in range(pairs)
        for one in pair(
            at + 1,
            60_000 * math.exp(noise * NOISE[at % 10]),
            60_000 / ratio * math.exp(noise * NOISE[(at + 3) % 10]),
        )
    ]


def paired(results: list[Result]) -> Pairing:
    return pairing(results, RUNGS[0].treatment, RUNGS[1].treatment)


def found(results: list[Result], **parameters: object) -> CompareFinding:
    run = run_of(RUNGS, results, design="compare")
    run = replace(
        run, study=replace(run.study, design_parameters=parameters_of("compare", parameters))
    )
    return find(run).found


def test_trials_of_a_block_are_a_pair_and_know_their_order():
    trials = paired(slower_by(2.0, 3))
    assert [one.is_reference_first for one in trials.pairs] == [True, False, True]
    assert not trials.failed


def test_a_thing_is_compared_with_itself_by_name_and_else_by_lot():
    same = Treatment("again")
    blocks = [
        [
            replace(one, trial=replace(one.trial, treatment=Treatment(name), seed=seed))
            for one, name in zip(pair(1, 100, 200), names, strict=True)
        ]
        for names, seed in ((("again", "once"), 1), (("x", "x"), 1), (("x", "x"), 2))
    ]
    by_name = pairing(blocks[0], Treatment("once"), same).pairs[0]
    assert by_name.reference.trial.treatment.name == "once"
    odd, even = (
        pairing(block, Treatment("x"), Treatment("x")).pairs[0].is_reference_first
        for block in blocks[1:]
    )
    assert odd != even


def test_short_trials_are_in_no_pair():
    results = slower_by(2.0, 1)
    brief = [replace(one, trial=replace(one.trial, is_brief=True)) for one in results]
    assert not paired(brief).pairs


@pytest.mark.parametrize(
    ("ratio", "pairs", "noise", "verdict"),
    [
        (2.0, 4, 1, Verdict.SLOWER),
        (0.5, 4, 1, Verdict.FASTER),
        (1.0, 8, 1, Verdict.EQUIVALENT),
        (1.0, 8, 10, Verdict.INCONCLUSIVE),
        (2.0, 3, 1, Verdict.INCONCLUSIVE),
    ],
)
def test_the_verdict_follows_from_effect_noise_and_pairs(ratio, pairs, noise, verdict):
    assert found(slower_by(ratio, pairs, noise)).verdict is verdict


def test_the_first_interim_analysis_that_decides_ends_it():
    stands = progress(paired(slower_by(2.0, 9)), CompareParameters())
    assert (stands.end, [one.pairs for one in stands.interims]) == (End.DECIDED, [2, 4])
    assert found(slower_by(2.0, 9)).slowdown == found(slower_by(2.0, 4)).slowdown


def test_an_interim_analysis_is_not_repeated():
    trials = paired(slower_by(1.0, 6, 10))
    first = progress(trials.first(4), CompareParameters())
    assert (
        progress(trials, CompareParameters(), known=first.interims).interims[:2] == first.interims
    )


def test_the_interval_excludes_no_change_exactly_where_the_verdict_does():
    compared = found(slower_by(1.05, 8))
    assert compared.slowdown is not None
    assert (compared.verdict, compared.slowdown.low > 1) == (Verdict.SLOWER, True)
    equal = found(slower_by(1.0, 8))
    assert equal.slowdown is not None
    assert 1 / 1.02 < equal.slowdown.low < equal.slowdown.high < 1.02


def test_a_significant_difference_too_small_to_count_is_equivalent():
    tiny = found(slower_by(1.01, 10, noise=0.1))
    assert tiny.verdict is Verdict.EQUIVALENT
    assert "The difference is significant, but too small to count." in tiny.answer


@pytest.mark.parametrize(
    ("ratio", "gate"), [(1.0, Gate.PASS), (1.03, Gate.INCONCLUSIVE), (1.2, Gate.FAIL)]
)
def test_a_gate_passes_or_fails_where_the_interval_lies_on_one_side(ratio, gate):
    assert found(slower_by(ratio, 8), fail_if_slower=0.03).gate is gate


def test_without_a_margin_there_is_no_gate():
    assert found(slower_by(1.2, 8)).gate is None


def test_a_precision_is_what_it_goes_on_for():
    results = slower_by(1.5, 10)
    assert progress(paired(results), CompareParameters()).end is End.DECIDED
    assert progress(paired(results), CompareParameters(precision=0.001)).end is End.GOING_ON
    assert progress(paired(results), CompareParameters(precision=0.02)).end is End.DECIDED


def test_two_pairs_are_enough_where_the_treatment_commits_next_to_nothing():
    stalled = [one for at in (1, 2) for one in pair(at, 60_000, 3)]
    compared = found(stalled)
    assert (compared.verdict, compared.end) == (Verdict.SLOWER, End.DECIDED)
    assert compared.slowdown is not None
    assert compared.slowdown.low > 1_000


def test_a_stalled_treatment_has_a_bound():
    none = [one for at in (1, 2) for one in pair(at, 60_000, 0)]
    compared = found(none)
    assert compared.slowdown is not None
    assert math.isinf(compared.slowdown.high)
    assert re.match(r"B is at least [\d,]+× slower than A, 2 pairs\.", compared.answer)


def test_nothing_committed_on_either_side_is_no_comparison():
    compared = found([one for at in (1, 2) for one in pair(at, 0, 0)])
    assert compared.end is End.NOTHING_COMMITTED
    assert compared.answer.startswith("Nothing to compare: neither A nor B committed anything")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.DID_NOT_START, "B did not start: no room."),
        (Outcome.CRASHED, "B crashed: no room."),
    ],
)
def test_a_side_that_fails_is_tried_once_more_and_then_is_the_answer(outcome, words):
    def failing(block: int) -> list[Result]:
        return [
            trial("A", 60_000, block, 2 * block),
            trial("B", None, block, 2 * block + 1, outcome=outcome, reason=reason),
        ]

    reason = "server did not start: no room" if outcome is Outcome.DID_NOT_START else "no room"
    assert progress(paired(failing(1)), CompareParameters()).end is End.GOING_ON
    compared = found([*failing(1), *failing(2)], fail_if_slower=0.03)
    assert (compared.end, compared.gate) == (End.TREATMENT_FAILED, Gate.FAIL)
    assert words in compared.answer
    assert compared.treatment_outcomes == {outcome.value: 2}


def test_a_reference_that_fails_neither_passes_nor_fails_the_treatment():
    def failing(block: int) -> list[Result]:
        gone = trial("A", None, block, 2 * block, outcome=Outcome.CRASHED)
        return [gone, trial("B", 60_000, block, 2 * block + 1)]

    compared = found([*failing(1), *failing(2)], fail_if_slower=0.03)
    assert (compared.end, compared.gate) == (End.REFERENCE_FAILED, Gate.INCONCLUSIVE)


def test_a_failed_trial_is_named_and_the_rest_compared():
    crashed = [trial("A", 1, 9, 99), trial("B", None, 9, 100, outcome=Outcome.CRASHED)]
    compared = found([*crashed, *slower_by(2.0, 4)])
    assert compared.verdict is Verdict.SLOWER
    assert any(
        "left out: 1 trial of B without a number, the last one crashed" in one
        for one in compared.warnings
    )


def test_an_order_effect_is_named_and_subtracted():
    drifting = [
        one
        for at in range(10)
        for one in (
            pair(at + 1, 60_000, 57_000 * math.exp(NOISE[at]))
            if at % 2 == 0
            else pair(at + 1, 57_000 * math.exp(NOISE[at]), 60_000)
        )
    ]
    compared = found(drifting)
    assert compared.verdict is not Verdict.SLOWER
    assert compared.order == pytest.approx(60 / 57, rel=0.005)
    assert any("the second trial of a pair was 5.3 % slower" in one for one in compared.warnings)


def test_a_drift_of_the_machine_is_named():
    results = []
    for at in range(8):
        for one in pair(at + 1, 60_000 * 0.98**at, 30_000 * 0.98**at):
            results.append(replace(one, started_unix_s=60.0 * one.trial.number))
    # Decided after four pairs: the drift is that of these.
    compared = found(results)
    assert compared.trend is not None
    assert compared.trend.change == pytest.approx(0.98**3, rel=1e-3)
    assert any("both sides became 6.2 % slower over the 6 min" in one for one in compared.warnings)


def test_more_noise_than_the_machines_own_is_a_warning():
    floor = {"log_sd": 0.0001, "pairs": 20, "when": "on 1 May"}
    compared = found(slower_by(1.0, 8), noise_floor=floor)
    assert compared.noise_floor is not None
    assert compared.noise_floor.when == "on 1 May"
    assert any("it is noisier now" in one for one in compared.warnings)
    calm = found(slower_by(1.0, 8), noise_floor={**floor, "log_sd": 0.005})
    assert not any("noisier" in one for one in calm.warnings)


def test_too_few_pairs_say_so():
    few = found(slower_by(2.0, 3))
    assert few.answer == "No answer yet: 3 of at least 4 pairs have run."
    assert any("fewer than 4 pairs" in one for one in few.warnings)
    assert found([]).answer == "No answer yet: no pair of trials of A and B is complete."


def test_the_pairs_still_needed_grow_with_the_noise_and_are_capped():
    def logs(sd: float) -> PairedLogs:
        return PairedLogs(tuple(0.01 + sd * z for z in (-1.5, -0.5, 0.5, 1.5)), (1, -1, 1, -1))

    few, many = (pairs_needed(logs(sd), CompareParameters()) for sd in (0.01, 0.02))
    assert few is not None
    assert many is not None
    assert 3 < many / few < 5
    assert pairs_needed(logs(1.0), CompareParameters()) is None


def test_the_noise_says_how_many_pairs_tell_which_slowdown():
    compared = found(slower_by(1.0, 8, 3))
    pairs = [one.pairs for one in compared.prospects]
    assert [one.slowdown for one in compared.prospects] == [1.01, 1.02, 1.05, 1.1]
    assert all(one is not None for one in pairs)
    assert pairs == sorted(pairs, key=lambda one: -(one or 0))
    assert pairs[0] != pairs[-1]
    assert found(slower_by(1.0, 3)).prospects == ()


def test_a_thing_compared_with_itself_answers_with_its_noise():
    run = run_of((RUNGS[0], rung("again")), [], design="compare")
    results = [
        replace(one, trial=replace(one.trial, treatment=Treatment(name)))
        for one in slower_by(1.0, 8, 3)
        for name in ("A" if one.trial.treatment.name == "A" else "again",)
    ]
    compared = find(replace(run, results=tuple(results))).found
    assert compared.is_same
    assert re.match(
        r"Two trials of the same treatment differ by [\d.]+ % here \(standard deviation over \d+ pairs\)\. "
        r"To detect a slowdown, 1\.01× takes \d+ pairs, ",
        compared.answer,
    )
    assert not found(slower_by(1.0, 8)).is_same


def with_latency(results: list[Result], slower: float) -> list[Result]:
    made = []
    for one in results:
        assert one.measurement is not None
        us = 8e3 * (slower if one.trial.treatment.name == "B" else 1.0) + one.trial.number
        latency = {"payment": Latency(60_000, us, us, us, us, us)}
        made.append(replace(one, measurement=replace(one.measurement, latency=latency)))
    return made


def test_latency_is_compared_like_throughput():
    compared = found(with_latency(slower_by(1.5, 4), slower=3.0))
    p99 = next(one for one in compared.quantities if one.name == "latency_p99_us payment")
    assert p99.direction is Direction.HIGHER
    assert p99.ratio.center == pytest.approx(3.0, rel=0.01)
    assert p99.reference == pytest.approx(8e-3, rel=0.01)


def test_a_percentile_beyond_which_hardly_anything_lies_is_not_compared():
    few = [
        replace(
            one,
            measurement=replace(
                measurement(60_000), latency={"payment": Latency(100, 1, 1, 1, 1, 1)}
            ),
        )
        for one in slower_by(1.5, 4)
    ]
    names = [one.name for one in found(few).quantities]
    assert "latency_p95_us payment" in names
    assert "latency_p99_us payment" not in names


def test_the_design_asks_for_pairs_until_it_is_decided():
    design = Compare(RUNGS, CompareParameters())
    assert design.forecast().most == 40
    asked = 0
    while design.ask().treatments:
        asked += 1
        design.tell(slower_by(2.0, 4)[2 * asked - 2 : 2 * asked])
    assert asked == 4
    assert design.forecast().most == 0


def test_after_a_failed_pair_no_more_are_foretold_than_may_come():
    design = Compare(RUNGS, CompareParameters(max_pairs=4))
    assert (design.forecast().least, design.forecast().most) == (4, 8)
    failed = [trial("A", 60_000, 1, 1), trial("B", None, 1, 2, outcome=Outcome.CRASHED)]
    design.tell(failed)
    # When that side fails again, it is over.
    assert (design.forecast().least, design.forecast().most) == (2, 8)


def test_a_comparison_that_the_budget_ended_says_so_and_how_many_pairs_it_takes():
    run = run_of(RUNGS, slower_by(1.02, 6, 3), design="compare")
    parameters = parameters_of("compare", {"equivalence": 0.0})
    study = replace(run.study, design_parameters=parameters, budget_s=100.0)
    cut = find(replace(run, study=study, planned_trials=14)).found
    assert cut.end is End.BUDGET
    assert cut.more_pairs
    assert f"about {6 + cut.more_pairs} pairs in all would decide it" in cut.answer
    going_on = find(replace(run, study=study, planned_trials=14, status="running")).found
    assert going_on.end is End.GOING_ON
