"""What was found: the values that the analysis hands to the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pgdrag.findings.claim_findings import Answer as Answer
from pgdrag.findings.claim_findings import ClaimFinding as ClaimFinding
from pgdrag.findings.claim_findings import OrderingFinding, SeriesClaimFinding
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.dose.findings import HorizonFinding
from pgdrag.findings.expecto.findings import ExpectoFinding
from pgdrag.findings.holds.replay import ReplayFinding
from pgdrag.findings.mechanisms.findings import MechanismsFinding
from pgdrag.model import Applied, Observation, Outcome, Rung, RunRecord
from pgdrag.model.measurement import Arrivals, Counts, DriverCost, Latency, Sample
from pgdrag.model.recordings import Recordings
from pgdrag.stats.interval import Comparison as Comparison
from pgdrag.stats.interval import Interval as Interval
from pgdrag.stats.interval import Verdict as Verdict

NOT_RUN = "not run yet"
FALSE_DISCOVERIES = 0.05  # the rate of them that is accepted among all that is called moved
LADDER = "ladder"  # the design whose rungs stand upon each other; in others each is on its own


@dataclass(frozen=True)
class Movement:
    """How one observation moved from the reference rung to this one.

    Attributes:
        size: distance on the observation's own scale (|log ratio|, or |log odds ratio| for ratios).
        direction: "up", "down" or "unmoved".
        expected: what the claimed mechanism said, or None where it said nothing.
        sentence: "buffer hit ratio fell from 99.9 % to 70.5 %".
        chance: rate of false discoveries if this is believed to have moved at all, and all others of
            the step that are as sure; None where no treatment was repeated, so that nobody knows.
    """

    name: str
    before: Observation
    after: Observation
    size: float
    direction: str
    expected: str | None
    sentence: str
    chance: float | None = None

    @property
    def could_be_chance(self) -> bool:
        """What trials of one treatment differ by could bring it about."""
        return self.chance is not None and self.chance > FALSE_DISCOVERIES


@dataclass(frozen=True)
class DriverFinding:
    """What the load driver used on one rung: the proof, or the doubt, that it was not the bottleneck.

    Attributes:
        trial: number of the trial that the values are of: the one in which it was busiest.
        cpu_share: CPU seconds per second of window, over all its threads.
        busiest_share: share of a processor that its busiest worker thread used.
        cpu_us_per_transaction: None where no transaction ended.
        is_suspect: in any trial of the rung.
        doubts: why, each with the remedy still untried.
    """

    trial: int
    cpu_share: float
    busiest_share: float
    cpu_us_per_transaction: float | None
    cost: DriverCost
    is_suspect: bool
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class StepFinding:
    """One step of a load that changes: throughput from `at_s` to `end_s` of the window.

    Attributes:
        rate_per_s: what was offered; None in closed loop.
        tps: None where no whole interval lies within the step.
        to_baseline: against the same step on the baseline, by what all rungs' trials differ by; None for the
            baseline itself, and where a side has too few commits.
    """

    at_s: float
    end_s: float
    sessions: int
    rate_per_s: float | None
    tps: Interval | None
    to_baseline: Comparison | None = None


@dataclass(frozen=True)
class NewOrders:
    """New-Orders of TPC-C committed per minute; `label` is "tpmC" only where the rules for that hold."""

    label: str
    per_min: Interval


@dataclass(frozen=True)
class SpentTime:
    """A part of the sessions' time on one transaction.

    Attributes:
        name: of the observation.
        place: where it was spent: "in I/O".
        before_s, now_s: seconds of all sessions per transaction, on the reference rung and on this.
        share: part of the time that was added since, or saved; parts may be negative and above 1, and
            their sum is 1. None where there is no reference, or hardly any difference.
    """

    name: str
    place: str
    before_s: float | None
    now_s: float
    share: float | None


@dataclass(frozen=True)
class PlanChange:
    """A statement of the workload that the server plans in another way than on the reference rung.

    Attributes:
        kind: which of its plans: for any values ("generic"), for given ones ("custom"), or both.
        words: how it differs, the custom plan where both do.
    """

    transaction: str
    query: str
    kind: Literal["generic", "custom", "generic and custom"]
    words: str


@dataclass(frozen=True)
class RungFinding:
    """All that is known of one rung.

    Attributes:
        outcome: of its trials together: measured where one of them was, and inert where it was
            measured but each level that it names reads as before (it has its number all the same).
            With `trials` 0 it means nothing, and `state` says "not run yet".
        reason: why there is no number, or ""; "not run yet" where no trial was run.
        trials: trials with a number; where none has one, all that were run.
        counts, errors: over the trials with a number.
        latency, samples, applied, recordings: of the trial in the middle by throughput.
        middle_trial: the number of that trial; None where none has a number.
        arrivals: of that trial: how many came, and how long they waited; None in closed loop.
        driver: what the load driver used; None where there is no number.
        steps: where the load changes within the window: throughput of each step.
        new_orders: of TPC-C only.
        spent: the parts of the sessions' time on a transaction, against the rung of `previous`; none
            where that was not watched.
        mechanisms: what the step from the rung of `previous` is made of.
        expecto: pg_expecto's view of the trial in the middle; None where waits were not seen over time.
        evidence: the median over the trials with a number.
        tps: committed transactions/s; None where no trial of it was measured.
        to_baseline, to_previous: None for the baseline itself, and where a side has no number.
        previous: name of the rung that `to_previous` refers to: the nearest one with a number in a
            ladder, the baseline in any other design; "" where there is none.
        untested: settings of this rung that this server does not have, with the reason.
        overrides: sentences such as "sets shared_buffers back to 8MB, which A2 had set to 2MB".
        inert: sentences on settings that changed nothing effective.
        movements: against the rung of `previous`, those claimed first, each largest first.
        step_share: part that this step has in the log slowdown from the baseline to the last rung
            that committed anything, in a ladder; None where either end of the step has no rate, or
            the whole cannot be told from noise. May be negative.
        sentence: what moved most, in one sentence, or why that cannot be said.
        plan_changes: statements that are planned in another way than on the rung of `previous`.
        drift: sentence with the slope where throughput had a trend within the window, else "".
        decay: how throughput went within the windows, of trials that lose updates as well; None where no
            window is long enough, and where the load changes by design.
        replay: how the holds of the horizon compare with the captured ones that it replays; None where it
            replays none.
        series_claim: what became of a published trend, or rates over time; None where there are none.
    """

    rung: Rung
    outcome: Outcome
    reason: str
    trials: int
    tps: Interval | None
    to_baseline: Comparison | None
    to_previous: Comparison | None
    previous: str
    total_claim: ClaimFinding | None
    step_claim: ClaimFinding | None
    counts: Counts | None
    latency: dict[str, Latency]
    errors: tuple[tuple[str, str, str, int], ...]
    samples: tuple[Sample, ...]
    applied: tuple[Applied, ...]
    evidence: tuple[Observation, ...]
    movements: tuple[Movement, ...]
    untested: tuple[str, ...]
    overrides: tuple[str, ...]
    inert: tuple[str, ...]
    sentence: str
    drift: str
    warnings: tuple[str, ...]
    step_share: float | None = None
    arrivals: Arrivals | None = None
    driver: DriverFinding | None = None
    steps: tuple[StepFinding, ...] = ()
    new_orders: NewOrders | None = None
    spent: tuple[SpentTime, ...] = ()
    recordings: Recordings = field(default_factory=Recordings)
    middle_trial: int | None = None
    plan_changes: tuple[PlanChange, ...] = ()
    mechanisms: MechanismsFinding = field(default_factory=MechanismsFinding)
    expecto: ExpectoFinding | None = None
    decay: DecayFinding | None = None
    replay: ReplayFinding | None = None
    series_claim: SeriesClaimFinding | None = None

    @property
    def state(self) -> str:
        """How the rung ended, in words; "not run yet" before its first trial."""
        return self.outcome.value if self.trials else NOT_RUN


@dataclass(frozen=True)
class DesignFinding:
    """What only the run's design can say; each design's analysis has a subclass of its own.

    Class attributes:
        has_rungs: the rungs one by one say something beside it.
        completes_answer: its answer follows the one that the rungs give, and does not replace it.
        names_all_treatments: every treatment that was run stands among its own findings; else those that the
            design made stand behind the rungs.

    Attributes:
        answer: the study's question answered in one to three sentences.
        warnings: doubts about it, each naming the remedy still untried.
    """

    has_rungs: ClassVar[bool] = True
    completes_answer: ClassVar[bool] = False
    names_all_treatments: ClassVar[bool] = True

    answer: str
    warnings: tuple[str, ...]

    def comparison(self, rung: str) -> Comparison | None:
        """Return how a rung compares with the baseline, where the design knows better than its trials alone."""
        return None

    def step(self, rung: str) -> Comparison | None:
        """Return how it compares with the rung before it; outside of a ladder that is the baseline."""
        return self.comparison(rung)

    def rate(self, rung: str) -> Interval | None:
        """Return a rung's committed transactions/s, where the design knows better than its trials alone."""
        return None

    def claim_notes(self) -> tuple[str, ...]:
        """Return sentences to stand beside a published total; by default none."""
        return ()


@dataclass(frozen=True)
class InstrumentCost:
    """What the collectors cost on a machine: they looked and rested in turns while a load went on.

    Attributes:
        slowdown: throughput without collectors divided by that with them.
        blocks: of four turns, that it was estimated from.
        when_unix_s: when these were begun.
        workload: what ran meanwhile, in a few words.
        is_alike: it is the workload and the load of the run that is reported.
    """

    slowdown: Interval
    blocks: int
    when_unix_s: float
    workload: str
    is_alike: bool


@dataclass(frozen=True)
class Findings:
    """What a run found, ready to print.

    Attributes:
        answer: the study's question answered in one to three sentences.
        noise_floor: ratio of two trials of the same treatment that this run saw (over 1), or None.
        warnings: doubts about the run as a whole.
        found: what only the run's design can say; None where it says no more than its treatments do.
        instrument: what the collectors cost on the run's machine; None: not measured there.
        ordering: the rungs by their published rates at one moment, against those found; None where fewer
            than two have both.
        horizon: what holds of the horizon came to over all rungs; None where none held it.
    """

    run: RunRecord
    rungs: tuple[RungFinding, ...]
    answer: str
    noise_floor: float | None
    warnings: tuple[str, ...]
    found: DesignFinding | None = None
    instrument: InstrumentCost | None = None
    ordering: OrderingFinding | None = None
    horizon: HorizonFinding | None = None

    @property
    def has_rungs(self) -> bool:
        """The rungs one by one say something of their own."""
        return bool(self.rungs) and (self.found is None or self.found.has_rungs)

    @property
    def is_ladder(self) -> bool:
        """Each rung stands upon the ones before it."""
        return self.run.study.design == LADDER
