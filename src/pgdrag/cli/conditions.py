"""Which workload and load do the options of a study mean?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pgdrag.cli.options import StudyOptions
from pgdrag.errors import UsageError
from pgdrag.experiment import load_experiment
from pgdrag.experiment.arms import Arm, one_workload
from pgdrag.experiment.questions import PROFILED, Conditions, conditions_from, conditions_of
from pgdrag.model.load import LoadProfile
from pgdrag.units import parse_seconds
from pgdrag.workloads import all_workloads
from pgdrag.workloads.scripts import file_script

BUDGET_FACTOR = 4  # of the measured window, unless --window-budget is given
DEFAULT_LOAD = LoadProfile(connections=8, warm_up_s=5.0, measure_s=15.0, budget_s=60.0)
DEFAULT_WORKLOAD = "tpcc"


def conditions(options: StudyOptions, arms: Sequence[Arm]) -> Conditions:
    """Return the workload and the load, the same in all trials.

    Raises:
        UsageError: options do not go together.
        ExperimentError: the experiment cannot be read.
    """
    experiment = load_experiment(options.experiment) if options.experiment else one_workload(arms)
    if experiment is None:
        if options.scale is not None:
            raise UsageError("--scale requires --experiment")
        under = conditions_from(*_workload(options), _changed(DEFAULT_LOAD, options))
    else:
        for option in ("workload", *_parameters()):
            if getattr(options, option, None) is not None:
                name = option.replace("_", "-")
                raise UsageError(
                    f'--{name} describes a workload, and experiment "{experiment.name}" has its own',
                    hint=f"Omit --{name}, or write the experiment's levels as a conf file.",
                )
        under = conditions_of(experiment, options.scale)
        under = replace(under, load=_changed(under.load, options))
    return replace(
        under,
        is_checked=under.is_checked and options.check,
        budget_s=None if options.budget is None else parse_seconds(options.budget),
        levels=(PROFILED,) if options.profile else (),
    )


def _workload(options: StudyOptions) -> tuple[str, dict[str, object]]:
    known = all_workloads()
    given = {
        option: parameter
        for option, parameter in _parameters().items()
        if getattr(options, option, None) is not None
    }
    kind = options.workload or next(
        (
            x
            for x in (DEFAULT_WORKLOAD, *known)
            if set(given.values()) <= known[x].model_fields.keys()
        ),
        DEFAULT_WORKLOAD,
    )
    if kind not in known:
        raise UsageError(
            f'there is no workload "{kind}"', hint=f"Workloads: {', '.join(sorted(known))}."
        )
    for option, parameter in sorted(given.items()):
        if parameter not in known[kind].model_fields:
            raise UsageError(f"--{option.replace('_', '-')} does not apply to workload {kind}")
    parameters: dict[str, object] = {}
    size = known[kind].dataset_size
    if size is not None:
        value = getattr(options, size.option, None)
        value = size.start if value is None else value
        parameters |= {} if value is None else {size.parameter: value}
    tables = [file_script(name, Path()).model_dump() for name in options.file or ()]
    if options.builtin or tables:
        parameters["scripts"] = [*(options.builtin or ()), *tables]
    return kind, parameters


def _parameters() -> dict[str, str]:
    """Return each option that sets a parameter of a workload, and the parameter."""
    sizes = [kind.dataset_size for kind in all_workloads().values()]
    return {
        **{size.option: size.parameter for size in sizes if size is not None},
        "builtin": "scripts",
        "file": "scripts",
    }


def _changed(load: LoadProfile, options: StudyOptions) -> LoadProfile:
    """Return a load with what the options change in it."""
    connections = options.connections or load.connections
    measure_s = load.measure_s if options.measure is None else options.measure
    budget_s = options.window_budget
    if budget_s is None:
        budget_s = load.budget_s if options.measure is None else BUDGET_FACTOR * measure_s
    if budget_s < measure_s:
        raise UsageError(
            f"--window-budget, {budget_s:g} s, is shorter than the window, {measure_s:g} s"
        )
    if load.steps and (options.connections is not None or options.measure is not None):
        raise UsageError(
            "the experiment's load changes in steps, which set the connections and the length",
            hint="Omit --connections and --measure.",
        )
    return replace(
        load,
        connections=connections,
        threads=min(load.threads, connections),
        warm_up_s=load.warm_up_s if options.warm_up is None else options.warm_up,
        measure_s=measure_s,
        budget_s=budget_s,
    )
