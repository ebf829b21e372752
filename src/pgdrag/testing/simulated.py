"""A laboratory with known truth: planted effects, drift, noise and faults, without PostgreSQL.

It runs whole experiments through the real loop, journal and analysis in milliseconds, so that the
instrument itself can be tested: does it find what was planted, and nothing else?
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pgdrag.agenda import expand
from pgdrag.designs import Design
from pgdrag.factors import Problem
from pgdrag.findings.holds.levels import AFTER, FACTOR, HOLD, HOLDER, NOTHING
from pgdrag.journal import Journal
from pgdrag.model import (
    Applied,
    Block,
    Claim,
    Host,
    Level,
    Observation,
    Outcome,
    Result,
    Rung,
    RunRecord,
    Source,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.design import make_design, parameters_of
from pgdrag.model.events import Listener, PhaseStarted, Throughput, ignore
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Counts, DriverCost, Latency, Measurement, Sample
from pgdrag.model.recordings import Recordings, Stack, together
from pgdrag.testing.simulated_server import (
    SlowBy,
    simulated_evidence,
    simulated_hold,
    simulated_recordings,
)

EPOCH_UNIX_S = 1_700_000_000.0
SIMULATED_HOST = Host("simulated", 2, 4 << 30, "simulated", "simulated")


class SimulatedKill(BaseException):
    """pgdrag was killed in the middle of a trial: nothing may catch this but the test."""


@dataclass(frozen=True)
class Truth:
    """What is planted.

    Attributes:
        base_tps: throughput of the untouched server with all sessions at work, transactions/s; fewer
            sessions have their share of it.
        slowdowns: by factor name, how many times slower its presence makes the server.
        noise: standard deviation of the log throughput between trials.
        drift_per_hour: log throughput gained each simulated hour by the machine alone.
        autocorrelation: of that noise from one trial to the next, as in a first-order autoregression.
        interactions: by names of factors, how many times slower it makes the server on top that all of
            them are there together; under 1 where one of them alone does what all of them do.
        outcomes: by factor name, an outcome other than *measured* that its presence causes.
        lacking: names of factors that this "server" does not have.
        held_costs_per_s: by holder of the horizon, what each second that it holds adds to the cost of a
            transaction, as a share of that; see `simulated_horizon`.
        losing: by factor name, how many updates its presence loses: the trial is invalid.
        loading_s: how long it takes to load the dataset, once.
        overheads_s: how long a trial takes beside its warm-up and window, one trial after the other; the last
            one goes on.
        is_observed: trials bring the counters and waits of a server that is slow by `slow_by`.
    """

    base_tps: float = 1000.0
    slowdowns: Mapping[str, float] = field(default_factory=dict)
    noise: float = 0.0
    autocorrelation: float = 0.0
    interactions: Mapping[frozenset[str], float] = field(default_factory=dict)
    drift_per_hour: float = 0.0
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()
    held_costs_per_s: Mapping[str, float] = field(default_factory=dict)
    losing: Mapping[str, int] = field(default_factory=dict)
    loading_s: float = 0.0
    overheads_s: tuple[float, ...] = (0.0,)
    is_observed: bool = False
    slow_by: SlowBy = "reads"


class SimulatedTrialRunner:
    """Runs trials against a `Truth` on a clock of its own.

    Args:
        truth: what is planted.
        seed: of the noise; a trial's noise depends on it and on the trial alone, so that a
            resumed run sees the same machine.
        faults: by number of a trial, what is raised in the middle of it, once: `SimulatedKill`,
            KeyboardInterrupt as Ctrl-C does, or an error.
    """

    def __init__(
        self, truth: Truth, *, seed: int = 0, faults: Mapping[int, BaseException] | None = None
    ) -> None:
        self.truth = truth
        self.seed = seed
        self.trials_run: list[int] = []
        self._faults = dict(faults or {})
        self._now_s = 0.0
        self._is_loaded = False

    def now_s(self) -> float:
        """Return the simulated time."""
        return self._now_s

    def check(self, levels: Sequence[Level], workload: WorkloadSpec) -> list[Problem]:
        """Return the levels of factors that this "server" does not have."""
        return [
            Problem(level, False, f'unrecognized setting "{level.name}"')
            for level in levels
            if level.name in self.truth.lacking
        ]

    def prepare(self, study: Study, listen: Listener) -> None:
        """Pretend to load a dataset."""
        listen(PhaseStarted("restore"))
        self._now_s += 0.0 if self._is_loaded else self.truth.loading_s
        self._is_loaded = True

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Return the result of a trial under the planted truth."""
        listen(PhaseStarted("measure", trial.load.measure_s))
        if fault := self._faults.pop(trial.number, None):
            raise fault
        overheads_s = self.truth.overheads_s
        self._now_s += overheads_s[min(len(self.trials_run), len(overheads_s) - 1)]
        self.trials_run.append(trial.number)
        lacking = {x for x in trial.treatment.levels if x.name in self.truth.lacking}
        names = [x.name for x in trial.treatment.levels if x not in lacking]
        outcome = next(
            (self.truth.outcomes[name] for name in names if name in self.truth.outcomes),
            Outcome.MEASURED,
        )
        start_s = trial.number * (trial.load.warm_up_s + trial.load.measure_s)
        tps = self._tps(trial, names, start_s)
        measurement = None
        if outcome in (Outcome.MEASURED, Outcome.STALLED):
            tps = 0.0 if outcome is Outcome.STALLED else tps
            measurement = self._measure(trial, tps)
            self._now_s += trial.load.warm_up_s + measurement.elapsed_s
            listen(Throughput(measurement.elapsed_s, measurement.total.committed, tps, tps))
            if not measurement.total.committed:
                outcome = Outcome.STALLED
        evidence, seen = self._seen(trial, names, measurement)
        lost = sum(self.truth.losing.get(name, 0) for name in names)
        violations: tuple[str, ...] = ()
        if lost and measurement is not None:
            violations = (f"{lost:,} of {measurement.total.committed:,} updates were lost",)
            outcome = Outcome.INVALID
        return Result(
            trial=trial,
            outcome=outcome,
            started_unix_s=EPOCH_UNIX_S + start_s,
            reason="; ".join(violations)
            or ("" if outcome is Outcome.MEASURED else f"simulated: {outcome}"),
            server_version="simulated",
            applied=tuple(
                Applied(x, None, "simulated: not there") if x in lacking else Applied(x, x.value)
                for x in trial.treatment.levels
            ),
            measurement=measurement,
            violations=violations,
            evidence=(
                Observation(
                    "simulated_reads_per_transaction",
                    "simulated reads",
                    self.truth.base_tps / tps if tps else None,
                    "1/transaction",
                    0.01,
                    missing="" if tps else "nothing committed in the window",
                ),
                *evidence,
            ),
            recordings=seen,
        )

    def close(self) -> None:
        """Nothing is left between trials."""

    def _seen(
        self, trial: Trial, names: Sequence[str], measured: Measurement | None
    ) -> tuple[tuple[Observation, ...], Recordings]:
        """Return the evidence and the recordings of a trial."""
        evidence: tuple[Observation, ...] = ()
        found = [_profile(trial)]
        if measured is None:
            return evidence, found[0]
        hold = simulated_hold(trial.treatment, self.truth.held_costs_per_s)
        if hold is not None:
            found.insert(0, hold.recordings(measured.samples))
        if self.truth.is_observed:
            is_slowed = any(self.truth.slowdowns.get(name, 1.0) > 1 for name in names)
            found.append(simulated_recordings(measured, is_slowed=is_slowed))
        if self.truth.is_observed and measured.total.committed:
            sessions = trial.load.connections
            evidence, waits = simulated_evidence(
                sessions / measured.committed_per_s,
                sessions / self.truth.base_tps,
                measured.total.committed,
                random.Random(f"{self.seed}/{trial.number}/evidence"),
                measured.samples,
                slow_by=self.truth.slow_by,
            )
            found.insert(0, waits)
        return evidence, together(found)

    def _tps(self, trial: Trial, names: Sequence[str], start_s: float) -> float:
        log_tps = math.log(self.truth.base_tps)
        log_tps -= sum(math.log(self.truth.slowdowns.get(name, 1.0)) for name in names)
        log_tps -= sum(
            math.log(times)
            for all_of, times in self.truth.interactions.items()
            if all_of <= {*names}
        )
        log_tps += self.truth.drift_per_hour * start_s / 3600
        log_tps += self._noise(trial.number)
        return math.exp(log_tps)

    def _noise(self, number: int) -> float:
        """Return the noise of a trial: its own lots and what is left of those before it."""
        rho = self.truth.autocorrelation
        lasting = math.ceil(math.log(1e-6) / math.log(rho)) if rho else 0
        numbers = range(max(1, number - lasting), number + 1)
        lots = [random.Random(f"{self.seed}/{x}").gauss(0.0, self.truth.noise) for x in numbers]
        noise = lots[0]
        for lot in lots[1:]:
            noise = rho * noise + math.sqrt(1 - rho**2) * lot
        return noise

    def _measure(self, trial: Trial, tps: float) -> Measurement:
        load = trial.load
        enough_s = load.min_commits / tps if tps else math.inf
        elapsed_s = float(math.ceil(min(load.budget_s, max(load.measure_s, enough_s))))
        rng = random.Random(f"{self.seed}/{trial.number}/window")
        hold = simulated_hold(trial.treatment, self.truth.held_costs_per_s)
        samples = []
        carried = 0.0
        for second in range(1, int(elapsed_s) + 1):
            begun = [step.sessions for step in load.steps if step.at_s <= second - 1]
            sessions = begun[-1] if begun else load.connections
            busy = sessions / load.connections
            rate = tps * busy * math.exp(rng.gauss(0.0, self.truth.noise))
            carried += rate / (hold.times_slower(second - 0.5) if hold is not None else 1.0)
            samples.append(Sample(float(second), 1.0, int(carried), sessions=sessions))
            carried -= int(carried)
        committed = sum(sample.committed for sample in samples)
        latency_us = 1e6 * load.connections / tps if tps else 0.0
        latency = Latency(committed, latency_us, latency_us, latency_us, latency_us, latency_us)
        stopped_by = "commits" if elapsed_s > load.measure_s else "deadline"
        if committed < load.min_commits:
            stopped_by = "budget"
        return Measurement(
            elapsed_s=elapsed_s,
            stopped_by=stopped_by,
            transactions={
                "simulated": Counts(
                    scheduled=committed + load.connections,
                    committed=committed,
                    in_flight=load.connections,
                )
            },
            latency={"simulated": latency} if committed else {},
            samples=tuple(samples),
            warm_up_s=load.warm_up_s,
            driver=DriverCost(
                user_cpu_s=0.01 * elapsed_s,
                system_cpu_s=0.01 * elapsed_s,
                busiest_thread_cpu_s=0.02 * elapsed_s,
                max_rss_bytes=16 << 20,
                send_lag_us_p99=10.0,
                send_lag_us_max=200.0,
                stall_us_p99=50.0,
                stall_us_max=200.0,
            ),
        )


def _profile(trial: Trial) -> Recordings:
    """Return a profile, where it is asked for: the more levels, the longer the way to the rows."""
    if "profile" not in trial.instrument.optional:
        return Recordings()
    session = ("client backend", "PostgresMain", "exec_simple_query")
    scan = Stack((*session, "ExecSeqScan", "heap_getnextslot"), 100 * len(trial.treatment.levels))
    return Recordings((scan, Stack((*session, "vfs_read_[k]"), 50)))


def run_design(
    design: Design, study: Study, run: Callable[[Trial], Result], *, blocks: int, seed: int = 1
) -> Iterator[tuple[Block, list[Result]]]:
    """Yield a limited number of blocks that a design asks for with their results, without a journal."""
    trials_run = 0
    for number in range(1, blocks + 1):
        block = design.ask()
        if not block.treatments:
            return
        trials = expand(block, study, seed=seed, block_number=number, first_number=trials_run + 1)
        results = [run(trial) for trial in trials]
        trials_run += len(trials)
        design.tell(results)
        yield block, results


def run_blocks(
    study: Study, bench: SimulatedTrialRunner, *, blocks: int = 1000, seed: int = 1
) -> RunRecord:
    """Run a limited number of blocks of a study, without a journal, and return the run."""
    design = make_design(study)
    run = partial(bench.run, listen=ignore)
    found = run_design(design, study, run, blocks=blocks, seed=seed)
    return record_of(study, [result for _, results in found for result in results])


def run_rungs(study: Study, bench: SimulatedTrialRunner, *, seed: int = 1) -> RunRecord:
    """Run each rung once a replicate, whatever the design would ask for, and return the run."""
    block = Block(tuple(rung.treatment for rung in study.rungs))
    trials = expand(block, study, seed=seed, block_number=1, first_number=1)
    return record_of(study, [bench.run(trial, ignore) for trial in trials])


def begin_simulated(journal: Journal, study: Study, *, seed: int = 1) -> str:
    """Begin a run of a study in a journal, as on the simulated host, and return its ID."""
    return journal.begin_run(
        study,
        SIMULATED_HOST,
        server_wanted=None,
        server_version="simulated",
        pgdrag_version="simulated",
        seed=seed,
    )


def record_of(study: Study, results: Sequence[Result]) -> RunRecord:
    """Return a run of the study that was brought to its end."""
    return RunRecord(
        run_id="simulated",
        study=study,
        host=SIMULATED_HOST,
        server_version="simulated",
        pgdrag_version="simulated",
        seed=1,
        started_unix_s=EPOCH_UNIX_S,
        finished_unix_s=None,
        status="done",
        results=tuple(results),
        planned_trials=len(results),
    )


def simulated_ladder(
    *factors: str, replicates: int = 1, baseline_repeats: int = 1, budget_s: float = 60.0
) -> Study:
    """Return a ladder with one rung per factor: on top of "R0", "R1" adds the first, "R2" the second, and so on."""
    rungs = [Rung("R0", "as it is", Treatment("R0"))]
    for number, name in enumerate(factors, start=1):
        level = Level("setting", name, "on")
        treatment = rungs[-1].treatment.with_levels(f"R{number}", [level])
        rungs.append(Rung(f"R{number}", f"{name} as well", treatment, (level,)))
    return Study(
        name="simulated",
        title="A simulated ladder",
        question="Does the instrument find what was planted?",
        scale="simulated",
        design="ladder",
        rungs=tuple(rungs),
        source=Source(),
        workload=WorkloadSpec("simulated"),
        load=LoadProfile(connections=8, warm_up_s=5, measure_s=20, budget_s=budget_s),
        replicates=replicates,
        design_parameters=parameters_of("ladder", {"baseline_repeats": baseline_repeats}),
    )


def simulated_holds(*holds: str, replicates: int = 1) -> Study:
    """Return a study of one rung without a hold, "H0", and one for each hold.

    Args:
        holds: how long, and what comes after where that is not nothing: "20s", "20s, then vacuum".
    """
    rungs = [Rung("H0", "free", Treatment("H0"), claim=Claim(tps=1000, trend="steady"))]
    for number, hold in enumerate(holds, start=1):
        length, _, after = hold.partition(", then ")
        levels = {HOLDER: "transaction", HOLD: length, AFTER: after or NOTHING}
        added = tuple(Level(FACTOR, name, value) for name, value in levels.items())
        falls = Claim(trend="falling", series=((5, 950), (10, 800), (20, 600), (30, 480)))
        treatment = Treatment(f"H{number}", added)
        rungs.append(Rung(treatment.name, f"held for {hold}", treatment, added, falls))
    load = LoadProfile(connections=8, warm_up_s=5, measure_s=60, budget_s=60)
    base = simulated_ladder(replicates=replicates)
    return replace(base, rungs=tuple(rungs), load=load).with_design("one-at-a-time")
