"""Which options have the commands that make a study of their arguments: compare, ablate, bisect …?

They are written down once, as the fields of a class; `with_study_options` gives them to a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from pgdrag.cli.place import AllowChange
from pgdrag.errors import UsageError
from pgdrag.experiment import load_experiment
from pgdrag.experiment.arms import Arm, one_workload
from pgdrag.experiment.questions import PROFILED, Conditions, conditions_from, conditions_of
from pgdrag.model.load import LoadProfile
from pgdrag.units import parse_seconds
from pgdrag.workloads._scripts import ScriptProblem, file_script

BUDGET_FACTOR = 4  # of the measured window, where no longest window is named
DEFAULT_WAREHOUSES = 10
DEFAULT_CONNECTIONS = 8
DEFAULT_WARM_UP_S = 5.0
DEFAULT_MEASURE_S = 15.0
PROFILE_HELP = (
    "Record which functions the server's processors run, with perf, and draw flame graphs"
)


class WorkloadKind(StrEnum):
    """The workloads that options can describe; an experiment can have any."""

    TPCC = "tpcc"
    PGBENCH = "pgbench"


@dataclass(frozen=True)
class StudyOptions:
    """What all these commands are told alike."""

    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="Take workload and load from this experiment: a shipped one by name, or a file")] = None  # fmt: skip
    scale: Annotated[str | None, typer.Option(metavar="NAME", help="Which of the experiment's scales (default: its first)")] = None  # fmt: skip
    workload: Annotated[WorkloadKind | None, typer.Option(help="Without an experiment: the workload (default: tpcc)")] = None  # fmt: skip
    warehouses: Annotated[int | None, typer.Option(metavar="N", min=1, max=100_000, help="With tpcc: warehouses, about 110 MB each (default: 10)")] = None  # fmt: skip
    pgbench_scale: Annotated[int | None, typer.Option(metavar="N", min=1, max=20_000, help="With pgbench: scale, about 16 MB each (default: 10)")] = None  # fmt: skip
    builtin: Annotated[list[str] | None, typer.Option("--builtin", "-b", metavar="NAME[@W]", help="With pgbench: a built-in script, drawn with weight W; may be given again")] = None  # fmt: skip
    file: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE[@W]", help="With pgbench: a script of yours; may be given again")] = None  # fmt: skip
    connections: Annotated[int | None, typer.Option("--connections", "-c", metavar="N", min=1, max=10_000, help="Sessions (default: 8, or the experiment's)")] = None  # fmt: skip
    warm_up: Annotated[float | None, typer.Option(metavar="SECONDS", min=0, max=86_400, help="Load before each measured window (default: 5, or the experiment's)")] = None  # fmt: skip
    measure: Annotated[float | None, typer.Option(metavar="SECONDS", min=1, max=86_400, help="Length of each measured window (default: 15, or the experiment's)")] = None  # fmt: skip
    window_budget: Annotated[float | None, typer.Option(metavar="SECONDS", min=1, max=604_800, help="A window with few commits goes on for so long (default: 4 times --measure)")] = None  # fmt: skip
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="End the run before it takes longer than this, such as 2h or 45min")] = None  # fmt: skip
    check: Annotated[bool, typer.Option("--check/--no-check", help="Check the dataset's consistency after every trial")] = True  # fmt: skip
    profile: Annotated[bool, typer.Option("--profile", help=PROFILE_HELP)] = False
    allow_change: AllowChange = None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking, however long it will take")] = False  # fmt: skip
    seed: Annotated[int | None, typer.Option(min=0, max=2**62, help="Seed of order and transactions (default: drawn, and shown)")] = None  # fmt: skip
    postgres: Annotated[str | None, typer.Option(metavar="WHICH", help="An installed major version (15) or a bin directory (default: the embedded 18)")] = None  # fmt: skip
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report there (default: $PGDRAG_HOME/reports/RUN.html)")] = None  # fmt: skip
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON on stdout")] = False  # fmt: skip

    def conditions(self, arms: Sequence[Arm]) -> Conditions:
        """Return the workload and the load, which are the same in all trials.

        Raises:
            UsageError: options do not go together.
            ExperimentError: the experiment cannot be read.
        """
        experiment = load_experiment(self.experiment) if self.experiment else one_workload(arms)
        if experiment is None:
            if self.scale is not None:
                raise UsageError("--scale is an experiment's, and there is none")
            under = conditions_from(*self._workload(), self._load())
        else:
            self._refuse_workload(experiment.name)
            under = conditions_of(experiment, self.scale)
            under = replace(under, load=self._changed(under.load))
        budget_s = None if self.budget is None else parse_seconds(self.budget)
        return replace(
            under,
            is_checked=under.is_checked and self.check,
            budget_s=budget_s,
            levels=(PROFILED,) if self.profile else (),
        )

    def _refuse_workload(self, experiment: str) -> None:
        for option in ("workload", "warehouses", "pgbench_scale", "builtin", "file"):
            if getattr(self, option) is not None:
                name = option.replace("_", "-")
                raise UsageError(
                    f'--{name} describes a workload, and experiment "{experiment}" brings its own',
                    hint=f"Leave out --{name}, or write the experiment's levels as a conf file.",
                )

    def _workload(self) -> tuple[str, dict[str, object]]:
        scripts = [*(self.builtin or ())]
        kind = self.workload
        if kind is None:
            is_pgbench = scripts or self.file or self.pgbench_scale is not None
            kind = WorkloadKind.PGBENCH if is_pgbench else WorkloadKind.TPCC
        strange = (
            ("warehouses",)
            if kind is WorkloadKind.PGBENCH
            else ("pgbench_scale", "builtin", "file")
        )
        for option in strange:
            if getattr(self, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} is not for workload {kind}")
        if kind is WorkloadKind.TPCC:
            return kind, {"warehouses": self.warehouses or DEFAULT_WAREHOUSES}
        try:
            own = [file_script(name, Path()) for name in self.file or ()]
        except ScriptProblem as problem:
            raise UsageError(str(problem), hint=problem.hint) from None
        tables = [{"name": x.name, "text": x.text, "weight": x.weight} for x in own]
        parameters: dict[str, object] = {"scale": self.pgbench_scale or 10}
        if scripts or tables:
            parameters["scripts"] = [*scripts, *tables]
        return kind, parameters

    def _load(self) -> LoadProfile:
        plain = LoadProfile(
            connections=DEFAULT_CONNECTIONS,
            warm_up_s=DEFAULT_WARM_UP_S,
            measure_s=DEFAULT_MEASURE_S,
            budget_s=BUDGET_FACTOR * DEFAULT_MEASURE_S,
        )
        return self._changed(plain)

    def _changed(self, load: LoadProfile) -> LoadProfile:
        """Return a load with what options say of it."""
        measure_s = load.measure_s if self.measure is None else self.measure
        budget_s = self.window_budget
        if budget_s is None:
            budget_s = load.budget_s if self.measure is None else BUDGET_FACTOR * measure_s
        if budget_s < measure_s:
            raise UsageError(
                f"--window-budget, {budget_s:g} s, is shorter than the window, {measure_s:g} s"
            )
        if load.steps and (self.connections is not None or self.measure is not None):
            raise UsageError(
                "the experiment's load changes in steps, which have lengths of their own",
                hint="Leave out --connections and --measure.",
            )
        return replace(
            load,
            connections=self.connections or load.connections,
            threads=min(load.threads, self.connections or load.connections),
            warm_up_s=load.warm_up_s if self.warm_up is None else self.warm_up,
            measure_s=measure_s,
            budget_s=budget_s,
        )


def with_study_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of `StudyOptions` in the place of its parameter `options`."""
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "options"]
    hints = get_type_hints(command, include_extras=True)
    shared = get_type_hints(StudyOptions, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(annotation=hints[p.name]) for p in own] + [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=shared[field.name])
        for field in fields(StudyOptions)
    ]
    # Typer takes parameters without a default for required, wherever they stand.
    parameters = [p.replace(kind=keyword) for p in parameters]

    def run(**given: Any) -> int:
        options = StudyOptions(
            **{field.name: given.pop(field.name) for field in fields(StudyOptions)}
        )
        return command(**given, options=options)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
