"""Which study answers a question that is put on the command line, without an experiment file?

Arms become treatments; changes that cannot be had here, or change nothing, are left out beforehand
and named, so that no trial is spent on them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from pgdrag.english import counted, listed
from pgdrag.errors import UsageError
from pgdrag.experiment import Experiment
from pgdrag.experiment.arms import Arm, categories, two_labels
from pgdrag.experiment.differences import SAME, Difference, differences, left_out_words
from pgdrag.experiment.search_space import SearchSpace
from pgdrag.experiment.search_study import with_limits_observed
from pgdrag.factors import Phase, Problem, is_of
from pgdrag.factors.treated_workload import level_problems, workload_of
from pgdrag.model import Instrument, Rung, Source, Study, Treatment, WorkloadSpec
from pgdrag.model.changes import Change, changes_between
from pgdrag.model.design import parameters_of
from pgdrag.model.load import LoadProfile
from pgdrag.model.run import CALIBRATE, OVERHEAD
from pgdrag.servers.settings import Setting, SettingsCatalog
from pgdrag.units import to_base_real
from pgdrag.workloads import Workload, all_workloads
from pgdrag.wrong_values import wanted

_TWO_ARMS = 'Name arms that differ; "default" is a server with default settings.'
MOST_VALUES = 64  # of a setting whose boundary is looked for


@dataclass(frozen=True)
class Conditions:
    """What is the same in all trials: fields of their study.

    Attributes:
        scale: in a few words: what reports call the workload's size.
        budget_s: of the whole run, in seconds; None: none.
    """

    workload: WorkloadSpec
    load: LoadProfile
    scale: str
    source: Source = field(default_factory=Source)
    is_checked: bool = True
    budget_s: float | None = None
    instrument: Instrument = field(default_factory=Instrument)

    def study(
        self,
        name: str,
        *,
        design: str,
        title: str,
        question: str,
        rungs: Sequence[Rung],
        parameters: Mapping[str, object],
        notes: Sequence[str] = (),
    ) -> Study:
        """Return a study under these conditions; its design adds replicates by asking again.

        Raises:
            UsageError: a rung has levels that the workload does not take, or not with this load; or the design has no
                such value of a parameter.
        """
        for rung in rungs:
            _refuse_workload_levels(rung, self.workload, self.load)
        try:
            design_parameters = parameters_of(design, parameters)
        except ValidationError as error:
            raise wrong_parameter(design, error) from None
        return Study(
            name=name,
            title=title,
            question=question,
            design=design,
            rungs=tuple(rungs),
            replicates=1,
            notes=tuple(notes),
            design_parameters=design_parameters,
            **vars(self),
        )


def wrong_parameter(design: str, error: ValidationError) -> UsageError:
    """Return what is wrong with a value of a design's parameter, named as its option."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])).replace("_", "-")
    return UsageError(f'{design}, "{where}"{wanted(first)}')


def conditions_of(experiment: Experiment, scale: str | None) -> Conditions:
    """Return the workload and the load of an experiment at a scale, by default its first."""
    study = experiment.study(scale)
    where = f"{study.name}, {study.scale_words}"
    return Conditions(
        study.workload,
        study.load,
        where,
        study.source,
        study.is_checked,
        instrument=study.instrument,
    )


def conditions_from(
    kind: str, parameters: Mapping[str, object], load: LoadProfile, *, is_loaded: bool = True
) -> Conditions:
    """Return the conditions of a workload with these parameters.

    Args:
        is_loaded: its dataset is created for the run; otherwise a person's own scripts may use other tables.

    Raises:
        UsageError: it does not take them, or not with this load.
    """
    try:
        workload = all_workloads()[kind].model_validate(dict(parameters))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f'workload "{kind}", "{where}"{wanted(first)}') from None
    _refuse_objection(workload, load)
    size = _size_words(workload) if is_loaded or workload.uses_dataset else _script_words(workload)
    spec = WorkloadSpec(kind, workload.model_dump(mode="json"))
    return Conditions(spec, load, f"{kind}, {size}, {counted(load.connections, 'connection')}")


def _refuse_workload_levels(rung: Rung, spec: WorkloadSpec, load: LoadProfile) -> None:
    for problem in level_problems(spec, rung.treatment.levels):
        raise UsageError(f'in "{rung.name}": {problem.message}', hint=problem.hint)
    _refuse_objection(workload_of(spec, rung.treatment), load)


def _refuse_objection(workload: Workload, load: LoadProfile) -> None:
    objection = workload.objection(load)
    if objection is not None:
        message = f'"{objection.parameter}" {objection.message}'
        raise UsageError(message, hint=objection.hint)


def comparison(
    first: Arm,
    second: Arm,
    under: Conditions,
    parameters: Mapping[str, object],
    found: Sequence[Difference] = (),
) -> Study:
    """Return the study that compares the second arm with the first.

    Args:
        found: their differences, of which it says what is not tested.
    """
    words = left_out_words(found)
    one, other = two_labels(first, second)
    return under.study(
        "compare",
        design="compare",
        title=f"{one} against {other}",
        question=f"Is {other} faster or slower than {one}, and by how much?",
        rungs=_two_rungs(first, second, (one, other)),
        parameters=parameters,
        notes=_notes(first, second, words),
    )


def calibration(arm: Arm, under: Conditions, parameters: Mapping[str, object]) -> Study:
    """Return the study that compares an arm with itself: the noise of this machine."""
    one, other = two_labels(arm, arm)
    return under.study(
        CALIBRATE,
        design="compare",
        title=f"{arm.label} against itself",
        question="How much do two measurements of the same thing differ on this machine?",
        rungs=_two_rungs(arm, arm, (one, other)),
        parameters=parameters,
        notes=arm.notes,
    )


def overhead(arm: Arm, under: Conditions, parameters: Mapping[str, object]) -> Study:
    """Return the study of what the collectors cost, which look and rest in turns within each trial."""
    under = replace(under, instrument=replace(under.instrument, collectors="turns"))
    return under.study(
        OVERHEAD,
        design="turns",
        title=f"{arm.label}, observed in turns",
        question="How much throughput do the collectors cost?",
        rungs=(Rung("in turns", _title(arm), Treatment("in turns", arm.levels)),),
        parameters=parameters,
        notes=arm.notes,
    )


def over_changes(
    design: str,
    reference: Arm,
    target: Arm,
    under: Conditions,
    settings: SettingsCatalog,
    problems: Sequence[Problem],
    parameters: Mapping[str, object],
    *,
    question: str,
) -> Study:
    """Return a study over the changes from the reference to the target that can matter here.

    Args:
        settings: what the server says of its settings.
        problems: why levels of the two arms cannot be had here.
        parameters: of the design; a design that takes "groups" is given PostgreSQL's categories.
        question: with {reference} and {target} in it.

    Raises:
        UsageError: nothing that matters differs.
    """
    one, other = two_labels(reference, target)
    found = differences(reference, target, settings, problems)
    refuse_same(reference, target, found)
    left_out = {x.name for x in found if not x.is_tested}
    changes = changes_between(reference.treatment, target.treatment)
    kept = [change for change in changes if change.name not in left_out]
    words = left_out_words(found)
    rungs = _two_rungs(reference, _without(target, reference, left_out), (one, other))
    names = {"reference": one, "target": other}
    return under.study(
        design,
        design=design,
        title=f"{len(kept)} changes from {one} to {other}",
        question=question.format(**names),
        rungs=rungs,
        parameters=_with_groups(parameters, kept, settings),
        notes=_notes(reference, target, words),
    )


def refuse_same(
    reference: Arm, target: Arm, found: Sequence[Difference], *, hint: str = _TWO_ARMS
) -> None:
    """Refuse arms between which nothing can be tested.

    Raises:
        UsageError: with why.
    """
    if not any(one.is_tested for one in found):
        if reference == target:
            raise UsageError(f"{target.label} is compared with itself", hint=hint)
        one, other = two_labels(reference, target)
        is_same = all(x.why_not == SAME for x in found)
        raise UsageError(
            f"{one} and {other} are the same to this server"
            if is_same
            else f"nothing that differs between {one} and {other} can be tried on this server",
            detail=left_out_words(found) or "They set the same levels.",
            hint=hint if is_same else None,
        )


def boundary_values(
    setting: Setting, low: str | None, high: str | None, *, ratio: float = 2.0
) -> tuple[str, ...]:
    """Return values of a setting, ascending, each `ratio` times the one before; the bounds are among them.

    Args:
        low, high: as a person writes them; by default the setting's own bounds.

    Raises:
        UsageError: it is not numeric, the bounds are the wrong way round, or there are too many values.
        SettingError: a bound is not a value of this setting.
    """
    if setting.vartype not in ("integer", "real"):
        raise UsageError(
            f'setting "{setting.name}" is not numeric',
            hint="A boundary needs a number, a size or a duration.",
        )
    for bound in filter(None, (low, high)):
        setting.canonical(bound)
    first = to_base_real(low or setting.min_value or "0", setting.unit)
    last = to_base_real(high or setting.max_value or "0", setting.unit)
    bounds = low or setting.written(first), high or setting.written(last)
    if not first < last:
        raise UsageError(f"--min, {bounds[0]}, is not below --max, {bounds[1]}")
    # A scale of ratios has no zero: zero itself is tried, and from the smallest step on.
    start = first if first > 0 else 1.0 if setting.vartype == "integer" else min(1.0, last / 1024)
    count = math.ceil(math.log(last / start) / math.log(ratio) - 1e-9)
    if count > MOST_VALUES:
        raise UsageError(
            f"from {bounds[0]} to {bounds[1]} are {count} values",
            hint=f"At most {MOST_VALUES} are tried: name --min and --max, or a larger --ratio.",
        )
    numbers = {first, last, *(start * ratio**step for step in range(count))}
    if setting.vartype == "integer":
        numbers = {float(round(number)) for number in numbers}
    return tuple(setting.written(number) for number in sorted(numbers))


def boundary(
    setting: Setting,
    values: Sequence[str],
    base: Arm,
    under: Conditions,
    parameters: Mapping[str, object],
) -> Study:
    """Return the study that looks for the smallest value that works, and for the knee above it."""
    rung = Rung(base.label, "the other settings", base.treatment)
    return under.study(
        "boundary",
        design="boundary",
        title=f"{setting.name} from {values[0]} to {values[-1]}",
        question=f"How small may {setting.name} be, and beyond which value does more of it gain nothing?",
        rungs=(rung,),
        parameters={**parameters, "setting": setting.name, "values": list(values)},
        notes=base.notes,
    )


def search(
    space: SearchSpace,
    base: Arm,
    under: Conditions,
    parameters: Mapping[str, object],
    limits: Mapping[str, float],
) -> Study:
    """Return the study that looks for the best configuration of a space.

    Args:
        parameters: of the design, but for its dimensions and limits; "goal" is "maximize" or "minimize".
        limits: greatest values of observations, by name.
    """
    way = "fast" if parameters["goal"] == "maximize" else "slow"
    rung = Rung(base.label, _title(base), base.treatment)
    study = under.study(
        "search",
        design="search",
        title=f"How {way} can {base.label} go?",
        question=f"Which settings make {base.label} as {way} as it can be, and how few of them do?",
        rungs=(rung,),
        parameters={
            **parameters,
            "limits": limits,
            "dimensions": [one.model_dump() for one in space.dimensions],
        },
        notes=base.notes,
    )
    return with_limits_observed(study, limits)


def _notes(first: Arm, second: Arm, left_out: str) -> tuple[str, ...]:
    """Return the notes on two arms; those that both have, once."""
    found = dict.fromkeys((*first.notes, *second.notes, left_out))
    return tuple(note for note in found if note)


def _two_rungs(first: Arm, second: Arm, labels: tuple[str, str]) -> tuple[Rung, Rung]:
    one, other = labels
    changes = changes_between(first.treatment, second.treatment)
    added = tuple(change.after for change in changes if change.after is not None)
    return (
        Rung(one, _title(first), Treatment(one, first.levels)),
        Rung(other, _title(second), Treatment(other, second.levels), added),
    )


def _title(arm: Arm) -> str:
    """Return the first levels of an arm whose name does not say them."""
    if not arm.levels or "=" in arm.label or is_of(Phase.SERVER, arm.levels[0].kind):
        return ""
    first = ", ".join(f"{level.name} = {level.value}" for level in arm.levels[:2])
    return first if len(arm.levels) <= 2 else f"{first} and {len(arm.levels) - 2} more"


def _without(target: Arm, reference: Arm, left_out: Collection[str]) -> Arm:
    """Return the target with the reference's levels for what is left out."""
    before = {level.name: level for level in reference.levels}
    levels = [
        before.get(level.name) if level.name in left_out else level for level in target.levels
    ]
    known = {level.name for level in target.levels}
    levels += [level for name, level in before.items() if name in left_out and name not in known]
    return replace(target, levels=tuple(level for level in levels if level is not None))


def _with_groups(
    parameters: Mapping[str, object], changes: Sequence[Change], settings: SettingsCatalog
) -> dict[str, object]:
    if "groups" not in parameters:
        return dict(parameters)
    return {**parameters, "groups": categories(changes, settings)}


def _size_words(workload: Workload) -> str:
    size = workload.dataset_size
    return size.describe(getattr(workload, size.parameter)) if size else "its own size"


def _script_words(workload: Workload) -> str:
    names = workload.transactions
    return f"{'script' if len(names) == 1 else 'scripts'} {listed(names)}"
