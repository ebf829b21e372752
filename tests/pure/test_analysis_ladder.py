"""From a run to its findings: rungs in every state, sentences, shares, and laws for any run."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis_runs import (
    measurement,
    observation,
    result,
    run_of,
    rung,
    setting,
    three_of,
)
from pgdrag.designs import all_designs
from pgdrag.findings import levels
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.decay.analysis import Drift
from pgdrag.findings.driver_limits import DriverFinding
from pgdrag.findings.find import find
from pgdrag.findings.levels import LevelsFinding
from pgdrag.findings.values import Answer, Verdict
from pgdrag.model import Applied, Outcome, Result
from pgdrag.model.measurement import Counts, DriverCost, Sample
from pgdrag.report.rung_words import change_sentence

CACHE = "shared_buffers"
LADDER = (
    rung("A0", 7000, levels=[setting(CACHE, "10GB")]),
    rung("A1", 1000, added=[setting(CACHE, "8MB")], expects={"hits": "down"}),
    rung("A2", 500, added=[setting(CACHE, "2MB")]),
    rung("A3", 250, added=[setting(CACHE, "8MB"), setting("io_workers", "1")]),
)


def finding(findings, name):
    return next(one for one in findings.rungs if one.rung.name == name)


def full_run(**options):
    results = [
        *three_of("A0", 70_000),
        *three_of("A1", 10_000),
        *three_of("A2", 5_000),
        *three_of("A3", 2_500),
    ]
    return run_of(LADDER, results, **options)


def test_halving_throughput_is_a_step_of_two():
    step = finding(find(full_run()), "A2").to_previous
    assert step is not None
    assert step.verdict is Verdict.SLOWER
    assert step.slowdown.center == pytest.approx(2.0)


def test_the_answer_is_the_whole_ladder_and_its_largest_step():
    assert find(full_run()).answer.startswith("28× slower (95 % CI ")
    # ln 7 of ln 28.
    assert "Step A1 (title of A1) accounts for 58 % of it." in find(full_run()).answer


def test_the_shares_of_a_ladder_add_up_to_one():
    shares = [one.step_share for one in find(full_run()).rungs[1:]]
    assert sum(share for share in shares if share is not None) == pytest.approx(1.0)
    assert shares[1] == pytest.approx(math.log(2) / math.log(28), rel=0.01)


def test_published_numbers_are_answered_in_total_and_for_the_step():
    third = finding(find(full_run()), "A3")
    assert third.get(ClaimsFinding).total is not None
    assert third.get(ClaimsFinding).step is not None
    assert third.get(ClaimsFinding).total.published == pytest.approx(28)
    assert third.get(ClaimsFinding).step.published == pytest.approx(2)
    assert (
        third.get(ClaimsFinding).total.answer
        is third.get(ClaimsFinding).step.answer
        is Answer.REPRODUCED
    )


def test_a_rung_that_slows_nothing_says_what_it_would_have_shown():
    results = [*three_of("A0", 60_000), *three_of("A1", 60_000)]
    told = finding(find(run_of(LADDER[:2], results)), "A1")
    assert told.to_baseline is not None
    assert told.to_baseline.verdict is Verdict.EQUIVALENT
    assert change_sentence(told).startswith("No change: 1.00× slower (")
    assert "These trials can detect" in change_sentence(told)


def test_a_rung_not_run_yet_says_so_and_the_answer_stops_before_it():
    found = find(run_of(LADDER, three_of("A0", 70_000) + three_of("A1", 10_000), status="running"))
    pending = finding(found, "A2")
    assert (pending.state, pending.reason, pending.tps) == ("not run yet", "not run yet", None)
    assert pending.get(ClaimsFinding).total is not None
    assert pending.get(ClaimsFinding).total.answer is Answer.NOT_RUN
    assert found.answer.startswith("7× slower (")
    assert "No number for A2 and A3: not run yet." in found.answer
    assert any("6 of 6 trials" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.DID_NOT_START,
        Outcome.CRASHED,
        Outcome.INVALID,
        Outcome.UNTESTABLE,
        Outcome.INERT,
    ],
)
def test_a_rung_without_a_number_gives_its_reason_and_is_stepped_over(outcome):
    failed = result("A2", None, outcome=outcome, reason="out of shared memory")
    found = find(
        run_of(
            LADDER,
            [*three_of("A0", 70_000), *three_of("A1", 10_000), failed, *three_of("A3", 2_500)],
        )
    )
    second, third = finding(found, "A2"), finding(found, "A3")
    assert (second.outcome, second.reason) == (outcome, "out of shared memory")
    assert second.to_baseline is second.tps is None
    assert "out of shared memory" in change_sentence(second)
    assert third.previous == "A1"
    assert third.get(ClaimsFinding).step is not None
    assert third.get(ClaimsFinding).step.published == pytest.approx(4)  # of A1, not of A2
    assert f"No number for A2: {outcome.value}." in found.answer


def test_a_stalled_rung_is_slower_by_at_least_a_bound():
    stalled = result("A2", 0, outcome=Outcome.STALLED, reason="nothing committed in 60 s")
    found = find(run_of(LADDER[:3], [*three_of("A0", 70_000), *three_of("A1", 10_000), stalled]))
    last = finding(found, "A2")
    assert last.tps is not None
    assert (last.tps.center, last.tps.high) == (0.0, pytest.approx(2.9957 / 60, rel=1e-3))
    assert last.to_baseline is not None
    assert last.to_baseline.slowdown.center == math.inf
    assert found.answer.startswith("At least ")
    assert "A2 committed nothing; up to A1 it is 7× slower" in found.answer


def test_one_crashed_replicate_of_three_is_a_warning():
    crashed = result("A1", None, outcome=Outcome.CRASHED, reason="signal 11", block=3, number=9)
    found = find(
        run_of(LADDER[:2], [*three_of("A0", 70_000), *three_of("A1", 10_000)[:2], crashed])
    )
    told = finding(found, "A1")
    assert (told.outcome, told.trials) == (Outcome.MEASURED, 2)
    assert "trial 9 does not count: crashed (signal 11)" in told.warnings


def test_a_baseline_without_a_number_leaves_no_answer():
    failed = result("A0", None, outcome=Outcome.DID_NOT_START, reason="port in use")
    found = find(run_of(LADDER, [failed, *three_of("A1", 10_000)]))
    assert found.answer == "No answer: the baseline A0 has no number: did not start (port in use)."
    claim = finding(found, "A1").get(ClaimsFinding).total
    assert claim is not None
    assert claim.answer is Answer.UNTESTABLE


def test_a_later_rung_that_takes_a_level_back_undoes_the_earlier_one():
    found = find(full_run())
    assert finding(found, "A2").get(LevelsFinding).overrides == (
        "A2 sets shared_buffers to 2MB in place of A1's 8MB",
    )
    assert finding(found, "A3").get(LevelsFinding).overrides == (
        "A3 sets shared_buffers back to 8MB, which undoes A2's 2MB",
    )
    assert (
        finding(found, "A1").get(LevelsFinding).overrides == ()
    )  # the baseline's level is there to be changed


def test_a_level_that_reads_the_same_as_before_is_inert():
    level = setting("wal_level", "logical")
    same = [Applied(level, "logical")]
    assert levels.inert([level], same, same) == (
        "wal_level = logical changed nothing: it was logical before",
    )
    assert levels.inert([level], same, [Applied(level, "replica")]) == ()
    assert levels.inert([], same, same) == ()


def test_a_step_that_changes_nothing_effective_answers_no_claim():
    same = [Applied(setting(CACHE, "8MB"), "8MB")]
    results = [
        *three_of("A0", 70_000),
        result("A1", 10_000, applied=same),
        result("A3", 10_000, applied=same),
    ]
    rungs = (*LADDER[:2], rung("A3", 250, added=[setting(CACHE, "8MB")]))
    third = finding(find(run_of(rungs, results)), "A3")
    assert third.get(ClaimsFinding).step is not None
    assert third.get(ClaimsFinding).step.answer is Answer.UNTESTABLE
    assert "nothing effective changed from A1 to A3" in third.get(ClaimsFinding).step.why
    assert "nothing effective changed from A1." in change_sentence(third)
    assert (third.outcome, third.state) == (Outcome.INERT, "inert")
    assert third.tps is not None


def test_a_level_that_the_baseline_lacks_too_leaves_the_claims_testable():
    unknown = setting("io_method", "worker")
    rungs = (
        rung("A0", 7000, levels=[unknown]),
        rung("A1", 1000, levels=[unknown, setting(CACHE, "8MB")], added=[setting(CACHE, "8MB")]),
    )
    lacking = Applied(unknown, None, "unknown before 18")
    results = [
        result("A0", 70_000, applied=[lacking]),
        result("A1", 10_000, applied=[lacking, Applied(setting(CACHE, "8MB"), "8MB")]),
    ]
    claim = finding(find(run_of(rungs, results)), "A1").get(ClaimsFinding).total
    assert claim is not None
    assert claim.answer is Answer.REPRODUCED


def ladder_reading(*values, design="ladder"):
    """Run rungs that each set shared_buffers, and read back the values; None: it could not be set."""
    level = setting(CACHE, "8MB")
    rungs = [rung("A0"), *(rung(f"A{at}", added=[level]) for at in range(1, len(values) + 1))]
    read = [result("A0", 70_000)]
    for at, value in enumerate(values, start=1):
        applied = [Applied(level, value, default="128MB")]
        read.append(result(f"A{at}", 10_000, applied=applied, number=at + 1))
    return find(run_of(rungs, read, design=design)).rungs[1:]


def test_a_rung_that_could_not_be_set_is_passed_over_when_looking_for_what_was_before():
    first, untested, third = ladder_reading("8MB", None, "8MB")
    assert (first.outcome, untested.outcome) == (Outcome.MEASURED, Outcome.MEASURED)
    assert third.outcome is Outcome.INERT
    assert third.get(LevelsFinding).inert == (
        "shared_buffers = 8MB changed nothing: it was 8MB before",
    )


def test_where_no_rung_before_could_be_set_the_default_stood():
    _, second = ladder_reading(None, "128MB")
    assert second.outcome is Outcome.INERT
    assert second.get(LevelsFinding).inert == (
        "shared_buffers = 8MB changed nothing: it was 128MB by default",
    )


def test_a_variant_that_is_no_rung_of_a_ladder_builds_on_the_baseline_alone():
    assert [one.outcome for one in ladder_reading("8MB", "8MB", design="compare")] == [
        Outcome.MEASURED,
        Outcome.MEASURED,
    ]


def test_an_inert_rung_carries_no_share_that_the_answer_speaks_of():
    level = setting(CACHE, "8MB")
    same = [Applied(level, "8MB")]
    rungs = [rung("A0"), rung("A1"), rung("A2", added=[level]), rung("A3", added=[level])]
    results = [
        *three_of("A0", 70_000),
        *three_of("A1", 50_000),
        *(replace(one, applied=tuple(same)) for one in three_of("A2", 40_000)),
        *(replace(one, applied=tuple(same)) for one in three_of("A3", 10_000)),
    ]
    found = find(run_of(rungs, results))
    assert finding(found, "A3").step_share > 0.6
    assert "Step A1 (title of A1) accounts for 17 % of it." in found.answer


def test_transactions_that_failed_are_named_from_one_in_a_hundred_on():
    window = measurement(9_900)
    failing = replace(
        window,
        transactions={
            "payment": Counts(
                10_020, 9_900, failed=120, failed_by_sqlstate={"53100": 20, "40P01": 100}
            )
        },
        errors=(("payment", "53100", "disk full", 20), ("payment", "40P01", "deadlock", 100)),
    )
    few = replace(
        window,
        transactions={
            "payment": Counts(10_000, 9_900, failed=100, failed_by_sqlstate={"40P01": 100})
        },
    )
    run = run_of(
        LADDER[:2],
        [
            replace(result("A0", None, number=1), measurement=few),
            replace(result("A1", None, number=2), measurement=failing),
        ],
    )
    baseline, first = find(run).rungs
    assert baseline.warnings == ()
    assert first.warnings == (
        "1 % of the transactions of trial 2 failed, most often with SQLSTATE 40P01 (deadlock); the "
        "rate counts only those that committed: find out why the others failed",
    )


def test_a_window_extended_up_to_its_last_commit_has_the_rate_of_one_commit_less():
    extended = replace(result("A0", None), measurement=measurement(30, elapsed_s=90.0))
    (only,) = find(run_of(LADDER[:1], [extended])).rungs
    assert only.tps.center == pytest.approx(29 / 90)
    ended_in_time = replace(result("A0", None), measurement=measurement(30, elapsed_s=60.0))
    (only,) = find(run_of(LADDER[:1], [ended_in_time])).rungs
    assert only.tps.center == pytest.approx(30 / 60)


def test_a_level_that_the_observation_needs_otherwise_says_why():
    level = setting("log_destination", "stderr")
    (told,) = levels.inert([level], [Applied(level, "jsonlog", "observation channel")], [])
    assert told == (
        "log_destination = stderr was not set as asked, but reads jsonlog: observation channel"
    )


def test_a_setting_that_this_server_lacks_makes_its_claims_untestable():
    lacking = [Applied(setting("io_workers", "1"), None, "unknown before 18")]
    results = [*three_of("A0", 70_000), *three_of("A1", 10_000), *three_of("A2", 5_000)]
    found = find(run_of(LADDER, [*results, result("A3", 2_500, applied=lacking)]))
    third = finding(found, "A3")
    assert third.get(LevelsFinding).untested == ("io_workers (unknown before 18)",)
    assert third.get(ClaimsFinding).step is not None
    assert third.get(ClaimsFinding).step.answer is Answer.UNTESTABLE
    assert "run without io_workers (unknown before 18)" in third.get(ClaimsFinding).step.why
    assert third.get(ClaimsFinding).step.found is not None


def test_a_busy_driver_warns_of_its_rung_and_keeps_the_number():
    busy = DriverCost(50.0, 40.0, threads=2, busiest_thread_cpu_s=54.0)
    found = find(run_of(LADDER[:2], [result("A0", 70_000, driver=busy), result("A1", 10_000)]))
    baseline, first = found.rungs
    assert baseline.get(DriverFinding) is not None
    assert baseline.get(DriverFinding).is_suspect
    assert baseline.tps is not None
    assert any("used 90 % of a processor" in warning for warning in baseline.warnings)
    assert first.get(DriverFinding) is not None
    assert not first.get(DriverFinding).is_suspect
    assert any(
        x.startswith("the load driver or the network may have limited A0") for x in found.warnings
    )


def test_repeats_of_the_baseline_give_the_noise_floor_and_widen_single_trials():
    results = [result("A0", 60_000), result("A0", 66_000), result("A1", 10_000)]
    found = find(run_of(LADDER[:2], results))
    assert found.noise_floor == pytest.approx(1.1)
    first = finding(found, "A1").to_baseline
    assert first is not None
    assert "noise of 2 repeats" in first.slowdown.method
    assert any("repeats of another treatment" in warning for warning in first.slowdown.warnings)


def test_one_trial_of_the_baseline_has_no_noise_floor():
    assert find(run_of(LADDER[:2], [result("A0", 60_000)])).noise_floor is None


def test_a_falling_rung_carries_its_drift():
    falling = tuple(Sample(s + 1.0, 1.0, 200 - 2 * s) for s in range(60))
    base = result("A0", 1)
    drifting = Result(
        base.trial, Outcome.MEASURED, 0.0, measurement=measurement(8_460, samples=falling)
    )
    (only,) = find(run_of(LADDER[:1], [drifting])).rungs
    assert only.get(Drift).sentence.startswith(
        "throughput fell by 60 % during the window of 1 min (204/s to "
    )
    assert only.get(Drift).sentence in only.warnings


def test_evidence_of_replicates_is_their_median():
    results = [
        result("A0", 70_000, block=block, evidence=[observation("hits", value, "ratio")])
        for block, value in ((1, 0.7), (2, 0.9), (3, 0.8))
    ]
    (only,) = find(run_of(LADDER[:1], results)).rungs
    assert only.evidence[0].value == 0.8


def test_variants_that_are_no_ladder_are_each_compared_with_the_baseline():
    found = find(full_run(design="one-at-a-time"))
    assert {one.previous for one in found.rungs[1:]} == {"A0"}
    assert all(
        one.step_share is None and one.get(LevelsFinding).overrides == () for one in found.rungs
    )
    assert found.answer.startswith("A3 is 28× slower (")
    assert "; A1 is 7× slower (" in found.answer


def test_a_ladder_says_that_its_shares_depend_on_the_order():
    assert any("order of the rungs" in warning for warning in find(full_run()).warnings)
    compared = find(full_run(design="one-at-a-time"))
    assert not any("order of the rungs" in warning for warning in compared.warnings)


applied_levels = st.lists(
    st.builds(
        Applied,
        st.builds(setting, st.sampled_from([CACHE, "io_workers"]), st.sampled_from(["8MB", "1"])),
        st.none() | st.sampled_from(["8MB", "1"]),
        st.sampled_from(["", "a note"]),
    ),
    max_size=3,
)
observations = st.lists(
    st.builds(
        observation,
        st.sampled_from(["hits", "reads"]),
        st.none() | st.floats(0, 1e9),
        st.sampled_from(["ratio", "1/s", "1/transaction"]),
    ),
    max_size=3,
)
results = st.builds(
    result,
    st.sampled_from(["A0", "A1", "A2", "A3", "of no rung"]),
    st.none() | st.integers(0, 3) | st.integers(0, 10**6),
    outcome=st.sampled_from(Outcome),
    block=st.integers(1, 3),
    reason=st.sampled_from(["", "a reason"]),
    applied=applied_levels,
    evidence=observations,
    number=st.integers(1, 20),
)
odd_windows = st.builds(
    measurement,
    st.sampled_from([0, 1, 29, 30, 10**9]),
    elapsed_s=st.sampled_from([0.0, 1e-9, 60.0, 1e9]),
    driver=st.builds(DriverCost, *[st.floats(0, 1e9)] * 4, st.integers(0, 4)),
    samples=st.lists(
        st.builds(Sample, st.floats(0, 1e4), st.sampled_from([0.0, 1.0]), st.integers(0, 10**7)),
        max_size=30,
    ),
)
results |= st.builds(lambda kept, window: replace(kept, measurement=window), results, odd_windows)
runs = st.builds(
    run_of,
    st.integers(0, 4).map(lambda count: LADDER[:count]),
    st.lists(results, max_size=14),
    design=st.sampled_from([*all_designs(), "of another pgdrag"]),
    status=st.sampled_from(["running", "done", "interrupted", "failed"]),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(runs)
def test_any_run_has_findings(run):
    found = find(run)
    rungs = run.study.rungs
    assert tuple(one.rung for one in found.rungs)[: len(rungs)] == rungs
    further = {one.rung.name for one in found.rungs[len(rungs) :]}
    assert further <= {one.trial.treatment.name for one in run.results}
    assert found.answer.endswith(".")
    assert find(run) == found
    for one in found.rungs:
        assert (one.tps is None) == (one.counts is None)
        assert one.to_baseline is None or one.tps is not None
        assert (one.to_previous is None) or one.previous
        assert one.counts is None or isinstance(one.counts, Counts)
        if one.tps is not None:
            assert 0 <= one.tps.low <= one.tps.center <= one.tps.high
        claims = one.get(ClaimsFinding) or ClaimsFinding()
        for answer in (claims.total, claims.step):
            assert answer is None or answer.why
        if not one.trials:
            assert one.state == ("not run" if run.status == "done" else "not run yet")
