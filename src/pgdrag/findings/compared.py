"""Which treatments of a run are compared with which, and what do their rates say?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.findings.combine import RungTrials, group
from pgdrag.findings.decay.together import RungDecay, rung_decays
from pgdrag.findings.values import NOT_RUN, NOT_RUN_YET, Comparison, DesignFinding, Interval
from pgdrag.model import Applied, Rung, RunRecord
from pgdrag.stats.noise import Noise
from pgdrag.stats.rates import combined_rate, repeat_noise
from pgdrag.stats.ratios import slowdown


@dataclass(frozen=True)
class Compared:
    """The trials of one treatment beside those it is compared with.

    Attributes:
        baseline: the run's first treatment; of the baseline itself, that.
        reference: where the step begins: the nearest treatment before this one with a number, in a ladder, and the
            baseline in any other design; without such the one just before.
        previous: its name, or "" where it has no number.
        tps: committed transactions/s; None without a number.
        to_baseline, to_previous: None for the baseline, and where a side has no number.
        applied_before: what each factor read, where that was last read, on the treatments that this builds on.
    """

    trials: RungTrials
    baseline: RungTrials
    reference: RungTrials
    previous: str
    tps: Interval | None
    to_baseline: Comparison | None
    to_previous: Comparison | None
    applied_before: tuple[Applied, ...]

    @property
    def name(self) -> str:
        """The treatment's name."""
        return self.trials.rung.name

    @property
    def is_baseline(self) -> bool:
        """It is the run's first treatment."""
        return self.trials is self.baseline


@dataclass(frozen=True, eq=False)
class Treatments:
    """All treatments of a run, in the order of the study: what every analysis reads.

    Attributes:
        noise: what repeats of the baseline differ by; None where it ran once.
        decays: throughput over time within the windows, by the treatment's name.
        of_design: what only the run's design can say; None where it says no more than its treatments do.
    """

    run: RunRecord
    all: tuple[Compared, ...]
    noise: Noise | None
    decays: Mapping[str, RungDecay]
    of_design: DesignFinding | None = None

    @property
    def trials(self) -> tuple[RungTrials, ...]:
        """The trials of each treatment."""
        return tuple(one.trials for one in self.all)

    def get(self, name: str) -> Compared | None:
        """Return a treatment by its name; None where the run has none of that name."""
        return next((one for one in self.all if one.name == name), None)

    def slowdown(self, reference: str, name: str) -> Comparison | None:
        """Compare any two treatments; None where a side has no number, or neither committed anything."""
        here, before = self.get(name), self.get(reference)
        if here is None or before is None or here is before:
            return None
        if before.is_baseline:
            return here.to_baseline
        if before.name == here.previous:
            return here.to_previous
        return _compare(before.trials, here.trials, self.noise)


def compared(run: RunRecord, found: DesignFinding | None) -> Treatments:
    """Return the treatments of a run, compared; where the design knows a number better, with its number."""
    grouped = group(run.study.rungs, run.results)
    decays = rung_decays(grouped)
    missing = NOT_RUN if run.status == "done" else NOT_RUN_YET
    trials = tuple(
        replace(
            one,
            has_trend=one.rung.name in decays and decays[one.rung.name].has_trend,
            missing=missing,
        )
        for one in grouped
    )
    noise = repeat_noise([trials[0].rates]) if trials else None
    is_cumulative = run.study.is_cumulative
    made = []
    for at, here in enumerate(trials):
        # Those that the treatment builds on, and of these the nearest with a number.
        earlier = trials[: at if is_cumulative else min(at, 1)]
        before = next((one for one in reversed(earlier) if one.rates), None)
        to_baseline = _compare(trials[0], here, noise) if at else None
        to_previous = _compare(before, here, noise) if before is not None else None
        known = None
        # Where the design knows better than the trials alone, there is one number and not two.
        if found is not None:
            name = here.rung.name
            to_baseline = to_baseline and (found.comparison(name) or to_baseline)
            to_previous = to_previous and (found.step(name) or to_previous)
            known = found.rate(name)
        made.append(
            Compared(
                trials=here,
                baseline=trials[0],
                reference=before or trials[max(at - 1, 0)],
                previous=before.rung.name if before is not None else "",
                tps=known or (combined_rate(here.rates) if here.rates else None),
                to_baseline=to_baseline,
                to_previous=to_previous,
                applied_before=_applied(earlier),
            )
        )
    return Treatments(run, tuple(made), noise, decays, found)


def with_further_treatments(run: RunRecord) -> RunRecord:
    """Return a run in which each treatment that was run has a rung, those that the design made last."""
    rungs = {rung.treatment.name: rung for rung in run.study.rungs}
    reference = run.study.rungs[0].treatment.levels if run.study.rungs else ()
    for result in run.results:
        treatment = result.trial.treatment
        added = tuple(level for level in treatment.levels if level not in reference)
        rungs.setdefault(treatment.name, Rung(treatment.name, "", treatment, added))
    return replace(run, study=replace(run.study, rungs=tuple(rungs.values())))


def _compare(reference: RungTrials, here: RungTrials, noise: Noise | None) -> Comparison | None:
    """Compare two treatments; None where a side has no number, or neither committed anything."""
    sides = (reference.rates, here.rates)
    if not all(sides) or not any(trial.committed for side in sides for trial in side):
        return None
    return slowdown(*sides, noise=noise)


def _applied(trials: Sequence[RungTrials]) -> tuple[Applied, ...]:
    """Return what each factor read, where that was last read."""
    nearest: dict[tuple[str, str], Applied] = {}
    for before in trials:
        # A rung that could not be tested here read nothing back, and left all as it was.
        nearest.update({x.level.factor: x for x in before.applied if x.effective is not None})
    return tuple(nearest.values())
