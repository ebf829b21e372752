"""What would a study do? What differs, which trials, how long, how much room: all that is known before it is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgdrag.driver.choosing_threads import is_to_choose, probe_load
from pgdrag.duration import Experience
from pgdrag.errors import UsageError
from pgdrag.experiment.consent import study_programs
from pgdrag.experiment.differences import Difference
from pgdrag.factors.treated_workload import workload_of
from pgdrag.findings.durability import loss_of
from pgdrag.model import Forecast, Rung, Study
from pgdrag.model.design import make_design
from pgdrag.model.program import Program
from pgdrag.units import format_duration


@dataclass(frozen=True)
class PlannedLevel:
    """A level that a treatment adds, and what may be lost with it, or ""."""

    kind: str
    name: str
    value: str
    loss: str


@dataclass(frozen=True)
class PlannedTreatment:
    """A named treatment of the study, and what it adds."""

    name: str
    title: str
    levels: tuple[PlannedLevel, ...]


@dataclass(frozen=True)
class Plan:
    """What a study would do.

    Attributes:
        workload: in a few words.
        treatments: those that have names; a design makes others of them.
        order: in which trials come, in words; "" where every treatment stands once in each replicate.
        differences: between the two arms of a question, also those that are not tested; of an experiment none.
        trials_done: of a run to resume.
        trials_least, trials_most: still to come, as the design foretells them.
        seconds_least, seconds_most: how long these take by experience, including what comes before the first one: loading
            the dataset, and choosing the number of driver threads.
        seconds_extended: the most if few commits extend every window.
        trials_known: newest trials of this workload on this machine, that are known of.
        basis: what the estimate rests on.
        loading_s: how long loading the dataset takes of that; 0 where it is there.
        budget_s: when the run ends at the latest; None: no limit.
        spent_s: how much of that a run to resume has spent.
        disk_bytes: room that it needs in all, snapshots included.
        free_bytes: free disk space; None if unknown.
        changes: what would be set on a server that exists, and undone afterwards.
        refusal: why it would be refused there; "".
        programs: that the experiment names and trials start, by consent.
    """

    title: str
    question: str
    workload: str
    treatments: tuple[PlannedTreatment, ...]
    order: str
    differences: tuple[Difference, ...]
    trials_done: int
    trials_least: int
    trials_most: int
    seconds_least: float
    seconds_most: float
    seconds_extended: float
    trials_known: int
    basis: str
    loading_s: float
    budget_s: float | None
    spent_s: float
    disk_bytes: int
    free_bytes: int | None
    programs: tuple[Program, ...]
    notes: tuple[str, ...]
    changes: tuple[str, ...] = ()
    refusal: str = ""


def plan_of(
    study: Study,
    experience: Experience,
    *,
    differences: Sequence[Difference] = (),
    left: Forecast | None = None,
    trials_done: int = 0,
    spent_s: float = 0.0,
    loading_s: float,
    disk_bytes: int,
    free_bytes: int | None,
    changes: tuple[str, ...] = (),
    refusal: str = "",
) -> Plan:
    """Return the plan of a study.

    Args:
        left: the trials that are still to come; None: all.

    Raises:
        UsageError: not a single trial fits into the budget, whatever else it takes.
    """
    design = make_design(study)
    _refuse_short_budget(study, is_brief=design.ask().is_brief)
    left = left or design.trials_left()
    least_s, most_s = experience.trials(study, left)
    before_s = loading_s + (0.0 if trials_done else _choosing_s(study, experience))
    return Plan(
        title=study.title,
        question=study.question,
        workload=study.scale_words,
        treatments=tuple(map(_planned, study.rungs)),
        order=design.plan(),
        differences=tuple(differences),
        trials_done=trials_done,
        trials_least=left.fewest,
        trials_most=left.greatest,
        seconds_least=round(before_s + least_s, 1),
        seconds_most=round(before_s + most_s, 1),
        seconds_extended=round(before_s + experience.extended(study, left), 1),
        trials_known=experience.trials_like(study.workload),
        basis=experience.basis(study.workload),
        loading_s=round(loading_s, 1),
        budget_s=study.budget_s,
        spent_s=round(spent_s, 1),
        disk_bytes=disk_bytes,
        free_bytes=free_bytes,
        programs=study_programs(study),
        notes=study.notes,
        changes=changes,
        refusal=refusal,
    )


def time_words(plan: Plan) -> str:
    """Return how long a run takes: "about 3 min to 9 min; loading the dataset takes about 40 s of it"."""
    least, most = (format_duration(round(x)) for x in (plan.seconds_least, plan.seconds_most))
    whole = least if least == most else f"{least} to {most}"
    left_s = math.inf if plan.budget_s is None else max(0.0, plan.budget_s - plan.spent_s)
    loading = f"loading the dataset takes about {format_duration(round(plan.loading_s))}"
    if plan.loading_s >= left_s:
        return (
            f"{loading}, longer than the budget of {format_duration(left_s)}: it is done all the same, and only "
            f"once, but may leave no time for a trial; all would take about {whole}"
        )
    if plan.seconds_most <= left_s:
        text = f"about {whole}"
        if not plan.trials_known and plan.seconds_extended > plan.seconds_most:
            longest = format_duration(round(min(plan.seconds_extended, left_s)))
            text += f", at most {longest} if few commits extend every window"
    elif plan.seconds_least <= left_s:
        text = f"about {least}, at most {format_duration(left_s)} (the budget)"
    else:
        text = f"at most {format_duration(left_s)} (the budget); all would take about {whole}"
    return f"{text}; {loading} of it" if plan.loading_s else text


def _choosing_s(study: Study, experience: Experience) -> float:
    """Return how long it takes to choose the number of driver threads, if the first one that is tried suffices."""
    workload = workload_of(study.workload, study.rungs[0].treatment)
    if not (workload.uses_load_driver and is_to_choose(study.load)):
        return 0.0
    probe = replace(study, load=probe_load(study.load, threads=1), is_checked=False)
    return experience.trials(probe, Forecast(least=1, most=1))[0]


def _refuse_short_budget(study: Study, *, is_brief: bool) -> None:
    load = study.load.shortened() if is_brief else study.load
    shortest_s = load.warm_up_s + load.measure_s
    if study.budget_s is not None and shortest_s > study.budget_s:
        raise UsageError(
            f"a single trial takes {format_duration(shortest_s)}, more than the budget of "
            f"{format_duration(study.budget_s)}",
            hint="Increase --budget, or reduce --measure and --warm-up.",
        )


def _planned(rung: Rung) -> PlannedTreatment:
    levels = tuple(
        PlannedLevel(x.kind, x.name, x.shown, loss_of(x.name, x.value) or "") for x in rung.added
    )
    return PlannedTreatment(rung.name, rung.title, levels)
