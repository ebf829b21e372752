"""A run with one rung of every kind, small enough to check by eye, and a large one."""

from __future__ import annotations

import math
from dataclasses import replace

from pgdrag.findings.answer import answer_sentence, run_warnings
from pgdrag.findings.claim_kinds.analysis import AnsweredClaim, StatedClaims
from pgdrag.findings.claim_kinds.slowdown import SlowdownClaim
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.decay.analysis import Drift
from pgdrag.findings.driver_limits import DriverFinding
from pgdrag.findings.levels import LevelsFinding
from pgdrag.findings.movement import Movement, Movements
from pgdrag.findings.spent_time import PLACES, SessionTime, spent_time
from pgdrag.findings.values import (
    Answer,
    ClaimFinding,
    Comparison,
    Findings,
    Interval,
    TreatmentFinding,
    Verdict,
)
from pgdrag.model import (
    Applied,
    Claim,
    Host,
    Level,
    Observation,
    Outcome,
    RestoreCost,
    Result,
    Rung,
    RunRecord,
    Source,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.design import parameters_of
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Counts, DriverCost, Latency, Measurement, Sample

WORKLOAD = WorkloadSpec("tpcc", {"warehouses": 10})
LOAD = LoadProfile(connections=8, warm_up_s=5, measure_s=15, budget_s=75)
DRIVER = DriverCost(
    user_cpu_s=1.0,
    system_cpu_s=0.5,
    busiest_thread_cpu_s=1.5,
    max_rss_bytes=12 << 20,
    send_lag_us_p99=120,
    send_lag_us_max=900,
    stall_us_p99=60,
    stall_us_max=2_100,
)
BASE_COUNTS = Counts(17_953, 17_810, 76, 59, 8, 0, 14, {"40P01": 57, "40001": 2})  # of one trial
BASE = ("shared_buffers", "2GB")


def level(name: str, value: str) -> Level:
    return Level("setting", name, value)


def rung(name: str, title: str, published: float | None, *added: tuple[str, str], **rest) -> Rung:
    levels = tuple(level(*pair) for pair in added)
    text = rest.pop("text", "")
    return Rung(name, title, Treatment(name, levels), levels, Claim(published, text), **rest)


RUNGS = (
    replace(rung("A0", "near-default file", 7082, BASE), added=()),
    rung(
        "A1",
        "a small cache",
        1052,
        ("shared_buffers", "8MB"),
        text="hit ratio 70.52 %, read system calls about 300 times as many",
        mechanism="Most block reads miss the 8 MB cache and become read system calls.",
        expects={"buffer_hit_ratio": "down", "wal_bytes_per_transaction": "up"},
    ),
    rung("A2", "the smallest cache that works", 485, ("shared_buffers", "128kB")),
    rung(
        "A3",
        "autovacuum without pause",
        293,
        ("autovacuum_naptime", "1"),
        ("autovacuum_vacuum_max_threshold", "1"),
    ),
    rung("A4", "checkpoints | WAL <without> pause", None, ("summarize_wal", "on")),
    rung(
        "A5",
        "no index is ever worth it",
        0.87,
        ("random_page_cost", "1e300"),
        ("shared_buffers", "8MB"),
    ),
    rung("A6", "one I/O worker", 0.016, ("io_workers", "1")),
)

STUDY = Study(
    name="slow-sample",
    title="Postgres 42,000 times slower",
    question="How much slower can postgresql.conf alone make PostgreSQL?",
    scale="demo",
    design="ladder",
    rungs=RUNGS,
    source=Source(
        "Making Postgres slower", "An Author", "https://example.org/slow", "128 warehouses"
    ),
    workload=WORKLOAD,
    load=LOAD,
    replicates=1,
    notes=("The study's own numbers disagree.",),
    design_parameters=parameters_of("ladder", {"baseline_repeats": 2}),
    claims=(
        SlowdownClaim(
            text="42,000 times slower, by the title",
            at="A6",
            than="A0",
            times=42_000,
            headline=True,
        ),
    ),
)
HITS = "the hit ratio falls from 99.90 % to 70.52 %"
STATED = StatedClaims(
    tuple(
        AnsweredClaim(text, kind, text, rungs, "", kind == "slowdown", answer, found, why)
        for kind, text, rungs, answer, found, why in (
            (
                *("slowdown", STUDY.claims[0].text, ("A0", "A6"), Answer.PARTLY),
                *("4,620× slower (2,380× to 10,400×)", "same direction, different size"),
            ),
            (
                *("observation", HITS, ("A0", "A1"), Answer.REPRODUCED),
                *(
                    "blocks found in shared_buffers fell from 99.9 % to 70.5 %",
                    "within a factor of 2",
                ),
            ),
            (
                *("course", "about 1000 after an hour", ("A1",), Answer.UNTESTABLE, ""),
                "published for 1 h of load, and a window here takes 15 s",
            ),
        )
    )
)


def interval(low: float, center: float, high: float, method: str = "batch means", *warnings: str):
    return Interval(low, center, high, 0.95, method, warnings)


def slower(low: float, center: float, high: float, verdict: Verdict = Verdict.SLOWER) -> Comparison:
    return Comparison(verdict, interval(low, center, high, "Welch on logarithms"), 1.1)


def claim(answer: Answer, published: float, found: Interval | None, why: str) -> ClaimFinding:
    return ClaimFinding(answer, published, found, why)


def samples(rate: int, count: int = 15) -> tuple[Sample, ...]:
    """Make a rate that swings by a fifth, with no chance in it."""
    return tuple(Sample(i + 1.0, 1.0, rate + (i * 7 % 5 - 2) * rate // 10) for i in range(count))


def observation(name: str, label: str, value: float | None, unit: str) -> Observation:
    missing = "" if value is not None else "needs track_io_timing"
    return Observation(name, label, value, unit, 0.001, missing)  # type: ignore[arg-type]


def evidence(hit: float, wal: float) -> tuple[Observation, ...]:
    return (
        observation("buffer_hit_ratio", "Blocks found in shared_buffers", hit, "ratio"),
        observation("wal_bytes_per_transaction", "WAL per transaction", wal, "bytes/transaction"),
        observation("read_wait_s", "Time spent reading", None, "s"),
    )


def waits(on_cpu_s: float, io_s: float) -> tuple[Observation, ...]:
    seconds = {"on_cpu_s_per_transaction": on_cpu_s, "io_wait_s_per_transaction": io_s}
    return tuple(
        observation(name, place, seconds.get(name, 1e-4), "s/transaction")
        for name, place in PLACES.items()
    )


def latencies(p50_us: float) -> dict[str, Latency]:
    times = (p50_us * 1.1, p50_us, p50_us * 2, p50_us * 4, p50_us * 9)
    return {kind: Latency(800, *times) for kind in ("new_order", "payment")}


def driver_use(cpu_share: float) -> DriverFinding:
    return DriverFinding(1, cpu_share, cpu_share, 84.0, DRIVER, is_suspect=False, warnings=())


def empty(at: int) -> TreatmentFinding:
    """A rung of which nothing is known."""
    return TreatmentFinding(
        rung=RUNGS[at],
        outcome=Outcome.UNTESTABLE,
        reason="not run yet",
        trials=0,
        tps=None,
        to_baseline=None,
        to_previous=None,
        previous="",
        counts=None,
        latency={},
        errors=(),
        samples=(),
        applied=(),
        evidence=(),
        warnings=(),
    )


def baseline() -> TreatmentFinding:
    return replace(
        empty(0),
        outcome=Outcome.MEASURED,
        reason="",
        trials=2,
        tps=interval(1161, 1187.3, 1214),
        counts=BASE_COUNTS + BASE_COUNTS,
        latency=latencies(5_200),
        errors=(("payment", "40P01", "deadlock detected", 114),),
        samples=samples(1187),
        applied=(Applied(level(*BASE), "2GB"),),
        evidence=evidence(0.999, 4_800),
        found={DriverFinding: driver_use(0.12)},
    )


DRIFT = (
    "throughput fell by 11 % during the window of 15 s (-0.7 % per second); its mean depends on the "
    "length of the window"
)


def small_cache() -> TreatmentFinding:
    before, after = evidence(0.999, 4_800), evidence(0.7052, 4_810)
    found = slower(6.87, 7.18, 7.54)
    return replace(
        empty(1),
        outcome=Outcome.MEASURED,
        reason="",
        trials=1,
        tps=interval(158, 165.4, 173),
        to_baseline=found,
        to_previous=found,
        previous="A0",
        counts=Counts(2_500, 2_481, 11, 0, 8),
        latency=latencies(38_000),
        samples=samples(165),
        applied=(Applied(level("shared_buffers", "8MB"), "8MB"),),
        evidence=after,
        warnings=(
            "15 samples show only roughly how unsteady the rate was; measure for 20 s or more",
            DRIFT,
        ),
        found={
            ClaimsFinding: ClaimsFinding(
                total=claim(
                    Answer.REPRODUCED,
                    7082 / 1052,
                    found.slowdown,
                    "published 6.73× slower, found 7.18× slower (6.87× to 7.54×): the same direction, and "
                    "the size within a factor of 2",
                ),
                step=claim(Answer.REPRODUCED, 7082 / 1052, found.slowdown, "as published"),
            ),
            Movements: Movements(
                (
                    Movement(
                        "buffer_hit_ratio",
                        before[0],
                        after[0],
                        6.0,
                        "down",
                        "down",
                        "blocks found in shared_buffers fell from 99.9 % to 70.5 %",
                    ),
                    Movement(
                        "wal_bytes_per_transaction",
                        before[1],
                        after[1],
                        0.002,
                        "unmoved",
                        "up",
                        "WAL per transaction stayed near 4.69 kB",
                    ),
                )
            ),
            SessionTime: SessionTime(spent_time(waits(3.8e-3, 0.2e-3), waits(5.1e-3, 41e-3))),
            Drift: Drift(DRIFT),
            DriverFinding: driver_use(0.03),
        },
        step_share=0.22,
    )


def did_not_start() -> TreatmentFinding:
    reason = 'no unpinned buffers available; the log ends with "FATAL: no unpinned buffers"'
    return replace(
        empty(2),
        outcome=Outcome.DID_NOT_START,
        reason=reason,
        trials=1,
        found={
            ClaimsFinding: ClaimsFinding(
                total=claim(
                    Answer.UNTESTABLE, 7082 / 485, None, "published 14.6× slower; A2: did not start"
                ),
                step=claim(
                    Answer.UNTESTABLE, 1052 / 485, None, "published 2.17× slower; A2: did not start"
                ),
            )
        },
    )


def noisy() -> TreatmentFinding:
    total = slower(6.7, 7.31, 7.9)
    step = slower(0.95, 1.02, 1.09, Verdict.INCONCLUSIVE)
    lacking = "autovacuum_vacuum_max_threshold (unknown to PostgreSQL 15; it came with 18)"
    return replace(
        empty(3),
        outcome=Outcome.MEASURED,
        reason="",
        trials=1,
        tps=interval(150, 162.4, 176),
        to_baseline=total,
        to_previous=step,
        previous="A1",
        counts=Counts(2_450, 2_436, 8, 0, 6),
        latency=latencies(39_000),
        samples=samples(162),
        applied=(
            Applied(level("autovacuum_naptime", "1"), "1s"),
            Applied(
                level("autovacuum_vacuum_max_threshold", "1"), None, "unknown to PostgreSQL 15"
            ),
        ),
        evidence=evidence(0.71, 4_900),
        found={
            ClaimsFinding: ClaimsFinding(
                total=claim(
                    Answer.UNTESTABLE,
                    7082 / 293,
                    total.slowdown,
                    f"published 24.2× slower; run without {lacking}",
                ),
                step=claim(Answer.INCONCLUSIVE, 1052 / 293, step.slowdown, "cannot tell"),
            ),
            LevelsFinding: LevelsFinding(
                untested=(lacking,),
                inert=("log_autovacuum_min_duration = 0 changed nothing: it was 0 before",),
            ),
            DriverFinding: driver_use(0.03),
            Movements: Movements(),
        },
        step_share=0.01,
    )


def untestable() -> TreatmentFinding:
    return replace(
        empty(4),
        outcome=Outcome.UNTESTABLE,
        reason="summarize_wal is unknown to PostgreSQL 15",
        trials=1,
        found={
            LevelsFinding: LevelsFinding(
                untested=("summarize_wal (unknown to PostgreSQL 15; it came with 17)",)
            )
        },
    )


def few_commits() -> TreatmentFinding:
    total = slower(5_100, 8_481, 15_200)
    step = slower(700, 1_160, 2_080)
    return replace(
        empty(5),
        outcome=Outcome.MEASURED,
        reason="",
        trials=1,
        tps=interval(
            0.0698,
            0.14,
            0.2505,
            "exact Poisson",
            "only 11 commits; a longer budget would narrow the interval",
        ),
        to_baseline=total,
        to_previous=step,
        previous="A3",
        counts=Counts(19, 11, 0, 0, 8),
        latency={"payment": Latency(11, 7.1e6, 6.4e6, 1.2e7, 1.3e7, 1.31e7)},
        samples=tuple(Sample(i + 1.0, 1.0, int(i % 7 == 0)) for i in range(75)),
        applied=(Applied(level("random_page_cost", "1e300"), "1e+300"),),
        step_share=0.77,
        found={
            ClaimsFinding: ClaimsFinding(
                total=claim(
                    Answer.REPRODUCED,
                    7082 / 0.87,
                    total.slowdown,
                    "published 8,140× slower, found so",
                ),
                step=claim(Answer.PARTLY, 98 / 0.87, step.slowdown, "another size"),
            ),
            LevelsFinding: LevelsFinding(
                overrides=("A5 sets shared_buffers to 8MB, in place of A2's 128kB",)
            ),
            Movements: Movements(),
        },
    )


def stalled() -> TreatmentFinding:
    # Nothing in 90 s: -ln(0.05) / 90 = 0.0333.
    low = 1161 / 0.0333
    total = Comparison(
        Verdict.SLOWER, interval(low, math.inf, math.inf, "exact conditional"), math.inf
    )
    return replace(
        empty(6),
        outcome=Outcome.STALLED,
        reason="nothing committed within the budget",
        trials=1,
        tps=interval(0, 0, 0.0333, "exact Poisson, one-sided bound"),
        to_baseline=total,
        to_previous=None,
        previous="A5",
        counts=Counts(8, 0, 0, 0, 8),
        samples=tuple(Sample(i + 1.0, 1.0, 0) for i in range(90)),
        applied=(Applied(level("io_workers", "1"), "1"),),
        found={
            ClaimsFinding: ClaimsFinding(
                total=claim(
                    Answer.PARTLY,
                    7082 / 0.016,
                    total.slowdown,
                    "published 442,625× slower, found at least 34,900× slower: the same direction; nothing "
                    "committed, so the size is only bounded",
                )
            ),
            Movements: Movements(),
        },
    )


def result(number: int, at: int, found: TreatmentFinding, elapsed_s: float) -> Result:
    trial = Trial(number, number, 1, RUNGS[at].treatment, WORKLOAD, LOAD, seed=number)
    measured = None
    if found.counts is not None:
        measured = Measurement(
            elapsed_s,
            "deadline" if elapsed_s == LOAD.measure_s else "budget",
            {"payment": found.counts if at else BASE_COUNTS},
            found.latency,
            found.samples,
            DRIVER,
        )
    return Result(
        trial,
        found.outcome,
        1.7e9,
        found.reason,
        "18.6",
        measurement=measured,
        restored=RestoreCost(round(0.8 + number / 10, 1), 1_320 << 20, "copy"),
    )


def sample_findings() -> Findings:
    """Seven rungs: measured, did not start, noise, untestable, few commits, nothing committed."""
    rungs = (
        baseline(),
        small_cache(),
        did_not_start(),
        noisy(),
        untestable(),
        few_commits(),
        stalled(),
    )
    windows = (15.0, 15.0, 0.0, 15.0, 0.0, 75.0, 90.0)
    results = (
        *(
            result(at + 1, at, found, window)
            for at, (found, window) in enumerate(zip(rungs, windows, strict=True))
        ),
        result(8, 0, rungs[0], 15.0),
    )
    run = RunRecord(
        "r20261121-1",
        STUDY,
        Host("AMD EPYC", 2, 4 << 30, "6.1.0", "ext4"),
        "18.6",
        "0.1.0",
        42,
        1.7637e9,
        1.7637e9 + 420,
        "done",
        results,
        8,
    )
    return Findings(
        run=run,
        rungs=rungs,
        answer=answer_sentence(STUDY, rungs),
        noise_floor=1.031,
        warnings=run_warnings(run, rungs),
        of_run={StatedClaims: STATED},
    )


def hostile_findings(text: str) -> Findings:
    """The sample with `text` wherever a person, a server or a machine could have put words."""
    findings = sample_findings()
    source = Source(text, text, f"javascript:{text}", text)
    study = replace(
        findings.run.study, name=text, title=text, question=text, source=source, notes=(text, text)
    )
    host = Host(text, 2, 4 << 30, text, text)
    rungs = tuple(
        replace(
            found,
            rung=replace(found.rung, name=f"A{at}{text}", title=text, mechanism=text),
            found={
                **found.found,
                Drift: Drift(text),
                LevelsFinding: LevelsFinding(overrides=(text,)),
            },
            reason=text,
            warnings=(text, text),
            errors=((text, "40P01", text, 3),),
            applied=tuple(replace(one, note=text) for one in found.applied),
            evidence=tuple(replace(one, label=text) for one in found.evidence),
            latency={f"{kind}{text}": one for kind, one in found.latency.items()},
        )
        for at, found in enumerate(findings.rungs)
    )
    run = replace(findings.run, study=study, host=host, run_id=text, server_version=text)
    return Findings(run, rungs, text, 1.2, (text, text))


def large_findings() -> Findings:
    """Seven rungs, three replicates of 120 samples each, five transaction types."""
    findings = sample_findings()
    kinds = ("new_order", "payment", "delivery", "order_status", "stock_level")
    rungs = tuple(
        replace(
            found,
            samples=samples(1_187, 120),
            latency=dict.fromkeys(kinds, Latency(9_000, 5e3, 4e3, 9e3, 2e4, 5e5, "HISTFAAA" * 300)),
        )
        for found in findings.rungs
    )
    results = tuple(
        replace(result(7 * replicate + at + 1, at, found, 120.0))
        for replicate in range(3)
        for at, found in enumerate(rungs)
    )
    return replace(findings, run=replace(findings.run, results=results), rungs=rungs)
