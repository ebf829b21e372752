"""How is a study made and run from the command line? Its workload and load, the forecast, consent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from pgdrag.bench import check_own_scripts
from pgdrag.cli.consent import agree, ask, can_answer
from pgdrag.cli.existing import ask_to_load, open_existing
from pgdrag.cli.on_fleet import open_fleet
from pgdrag.cli.options import (
    LONGEST_BUDGET_S,
    StudyOptions,
    duration_of,
    generators_of,
    refuse_hosts,
)
from pgdrag.cli.place import refuse_unwritable, say, stderr
from pgdrag.cli.plan import difference_lines, print_plan, trials_words
from pgdrag.cli.running import Runner, begin_and_report, open_runner, planned
from pgdrag.english import listed
from pgdrag.errors import EXIT_DONE, UsageError
from pgdrag.existing.datasets import may_read, require_kinds, size_there
from pgdrag.existing.permission import refuse_meaningless_names
from pgdrag.existing.runner import ExistingTrialRunner
from pgdrag.experiment import load_experiment
from pgdrag.experiment.arms import Arm, one_workload, read_arm
from pgdrag.experiment.consent import NeededConsent, study_programs
from pgdrag.experiment.differences import Difference
from pgdrag.experiment.questions import Conditions, conditions_from, conditions_of, wrong_parameter
from pgdrag.factors import Phase, Problem, is_of
from pgdrag.factors.programs import programs_of
from pgdrag.host.machine import this_host
from pgdrag.model import Host, Study, Treatment
from pgdrag.model.load import LoadProfile
from pgdrag.model.program import Program
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.workloads import Workload, all_workloads
from pgdrag.workloads.scripts import builtin_script, file_script

# A run at least this long asks first.
LONG_S = 3600.0
BUDGET_FACTOR = 4  # of the measured window, unless --window-budget is given
DEFAULT_LOAD = LoadProfile(
    connections=8, warm_up_s=5.0, measure_s=15.0, budget_s=60.0, threads=None
)
DEFAULT_WORKLOAD = "tpcc"
_SCRIPT_OPTIONS = ("builtin", "file")


@dataclass(frozen=True)
class StudyCommand:
    """Where a study is made and run."""

    options: StudyOptions
    runner: Runner
    seed: int

    @classmethod
    def open(cls, options: StudyOptions) -> Self:
        """Open the place where a study runs; nothing is locked before the study is complete."""
        refuse_unwritable(options.html)
        open_fleet(
            options.fleet, dsn=options.dsn
        )  # says what is wrong with it before anything else is done
        seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
        allowed = options.allow_change or ()
        existing = open_existing(
            options.dsn,
            allowed,
            options.restart_command,
            postgres=options.postgres,
            wait_s=options.wait,
        )
        runner = existing or open_runner(options.postgres, allowed)
        refuse_meaningless_names(allowed, runner.here.settings)
        return cls(options, runner, seed)

    @property
    def settings(self) -> SettingsCatalog:
        """The server's settings."""
        return self.runner.here.settings

    def settings_of(self, treatment: Treatment) -> SettingsCatalog:
        """Return the settings of the server that a treatment names, or of the one there is."""
        if isinstance(self.runner, ExistingTrialRunner):
            return self.settings
        return self.runner.server_of(treatment)[1].settings

    @property
    def machine(self) -> Host:
        """Where trials run: what a study's own storage adds is left out."""
        if isinstance(self.runner, ExistingTrialRunner):
            return self.runner.host()
        return this_host(self.runner.scratch.root)

    @property
    def is_existing(self) -> bool:
        """Whether trials run on a server that exists."""
        return isinstance(self.runner, ExistingTrialRunner)

    @property
    def restarts(self) -> bool:
        """Whether a trial may begin with a restart of the server."""
        runner = self.runner
        return not isinstance(runner, ExistingTrialRunner) or runner.permission.restarts

    def sessions(self, connections: int) -> int:
        """Return how many sessions may have what a treatment sets: on a server that exists also those of others.

        Args:
            connections: of the load.
        """
        runner = self.runner
        if not isinstance(runner, ExistingTrialRunner) or runner.permission.by_role(
            runner.standing
        ):
            return connections
        return max(connections, int(runner.standing.in_force["max_connections"].value))

    @property
    def search_notes(self) -> tuple[str, ...]:
        """What results of a search must say of the machine whose memory and processors bound its values."""
        runner = self.runner
        if not isinstance(runner, ExistingTrialRunner) or runner.standing.server.is_local:
            return ()
        return (
            "pgdrag cannot see the server's memory and processors, so these values were chosen for the machine that runs "
            "the load.",
        )

    def refuse_on_existing(self, option: str) -> None:
        """Refuse an option that only throw-away servers have.

        Raises:
            UsageError: the study runs on a server that exists.
        """
        if self.is_existing:
            raise UsageError(f"{option} cannot be combined with --dsn")

    def conditions(self, arms: Sequence[Arm]) -> Conditions:
        """Return the workload and the load, the same in all trials; on a server that exists, of the dataset there.

        Raises:
            UsageError: options exclude each other, or there is no dataset.
            ExperimentError: the experiment cannot be read.
        """
        if not isinstance(self.runner, ExistingTrialRunner):
            under = conditions(self.options, arms)
            refuse_hosts(under.load, "a throw-away server")
            return under
        options = _of_dataset_there(self.options, self.runner)
        return conditions(options, arms, is_loaded=self.runner.place.has_own_database)

    def arms(self, *texts: str) -> tuple[list[Arm], list[Problem]]:
        """Return the arms that arguments mean, and what this server or machine cannot do of them.

        Raises:
            PgdragError: an argument is invalid, or cannot run anywhere.
        """
        scale, allowed = self.options.scale, self.runner.here.allowed
        arms = [read_arm(x, self.settings, scale=scale, allowed=allowed) for x in texts]
        found: dict[Problem, None] = {}
        for arm in arms:
            programs = programs_of(None, arm.levels)
            if arm.experiment is None:  # a directory that was named on the command line
                self.runner.allow(program.key for program in programs)
            else:
                self._agree(programs, arm.experiment.name)
            problems = self.runner.check(arm.levels)
            arm.refuse_mistakes(problems)
            for problem in problems:
                if is_of(Phase.SERVER, problem.level.kind):
                    raise UsageError(problem.message, hint=problem.hint)
            found.update(dict.fromkeys(problems))
            for problem in problems:
                say(f"Untestable here: {problem.message}. {problem.hint}".rstrip(), "yellow")
        return arms, list(found)

    def run(self, study: Study, differences: Sequence[Difference] = ()) -> int:
        """Print how long the run will take, ask first if that is long, and run and report it.

        Args:
            differences: between the two arms, to print.

        Returns:
            The command's exit status.
        """
        options, talk = self.options, stderr()
        if isinstance(self.runner, ExistingTrialRunner):
            study = self.runner.adapted(study)
        self._agree(study_programs(study), study.name)
        try:
            plan = planned(study, self.runner, differences=differences)
        except ValidationError as error:
            raise wrong_parameter(study.design, error) from None
        if options.dry_run:
            print_plan(plan, json=options.json)
            return EXIT_DONE
        if isinstance(self.runner, ExistingTrialRunner):
            self.runner.refuse(study)
            ask_to_load(self.runner, is_given=options.yes)
        for note in study.notes:
            talk.print(note)
        for line in difference_lines(differences):
            talk.print(line)
        talk.print(trials_words(plan))
        long_s = min(plan.seconds_least, study.budget_s or plan.seconds_least)
        if long_s > LONG_S and can_answer() and not options.yes:
            ask("Continue?", cancelled="nothing was run", default=True)
        return begin_and_report(
            study,
            self.runner,
            fleet=open_fleet(options.fleet),
            wait_s=options.wait,
            seed=self.seed,
            html=options.html,
            json=options.json,
        )

    def _agree(self, programs: tuple[Program, ...], name: str) -> None:
        """Ask for consent to what an experiment starts; without a run nothing of it is started."""
        needed = NeededConsent(programs).without(self.runner.here.allowed)
        if self.options.allow_run or not self.options.dry_run:
            allow_run, remember = self.options.allow_run, self.options.remember
            subject = f'experiment "{name}"'
            self.runner.allow(agree(needed, subject, allow_run=allow_run, remember=remember))


def share_of(text: str, option: str, *, can_be_0: bool = True) -> float:
    """Return 0.03 for "3%" or "0.03".

    Raises:
        UsageError: it is not a share.
    """
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UsageError(f'{option} "{text}" is not a share', hint='Write "3%" or "0.03".')
    if not share and not can_be_0:
        raise UsageError(f'{option} must be more than 0, not "{text}"')
    return share


def _of_dataset_there(options: StudyOptions, runner: ExistingTrialRunner) -> StudyOptions:
    """Return options completed with the workload whose dataset is in the server's database, and its size."""
    if runner.place.has_own_database or options.experiment is not None:
        return options
    kinds, server = all_workloads(), runner.standing.server
    kind = options.workload and _kind_of(options)
    if kind is None and not _given(options):
        there = require_kinds(server)
        kind = DEFAULT_WORKLOAD if DEFAULT_WORKLOAD in there else there[0]
    kind = kind or _kind_of(options)
    options = replace(options, workload=options.workload or kind)
    found = kinds[kind]
    size = found.dataset_size
    if size is None or getattr(options, size.option, None) is not None:
        return options
    # A person's own scripts need not use the tables that happen to be there.
    is_own = options.file and not options.builtin
    if is_own and not (size.counted and may_read(server, size.counted)):
        return options
    there_too: dict[str, Any] = {size.option: size_there(server, found)}
    return replace(options, **there_too)


def conditions(options: StudyOptions, arms: Sequence[Arm], *, is_loaded: bool = True) -> Conditions:
    """Return the workload and the load, the same in all trials.

    Args:
        is_loaded: as for `conditions_from`.

    Raises:
        UsageError: options do not go together.
        ExperimentError: the experiment cannot be read.
        DriverError: a script has a mistake.
    """
    named = options.experiment
    experiment = one_workload(arms) if named is None else load_experiment(named)
    if experiment is None:
        if options.scale is not None:
            raise UsageError("--scale requires --experiment")
        load = _changed(DEFAULT_LOAD, options)
        under = conditions_from(*_workload(options), load, is_loaded=is_loaded)
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
    check_own_scripts(under.workload)
    return replace(
        under,
        is_checked=under.is_checked and options.check,
        budget_s=None
        if options.budget is None
        else duration_of(options.budget, "--budget", least_s=1, most_s=LONGEST_BUDGET_S),
        instrument=under.instrument.also("profile") if options.profile else under.instrument,
    )


def _workload(options: StudyOptions) -> tuple[str, dict[str, object]]:
    known, given, kind = all_workloads(), _given(options), _kind_of(options)
    for option, parameter in sorted(given.items()):
        if not _takes(known[kind], option, parameter):
            raise UsageError(f"--{option.replace('_', '-')} does not apply to workload {kind}")
    parameters: dict[str, object] = {}
    if options.workload is not None and options.workload != kind:
        parameters["file"] = options.workload
    elif suffix := known[kind].file_suffix:
        raise UsageError(f"workload {kind} needs a file", hint=f"Name it: --workload NAME{suffix}.")
    size = known[kind].dataset_size
    if size is not None:
        value = getattr(options, size.option, None)
        value = size.start if value is None else value
        parameters |= {} if value is None else {size.parameter: value}
    tables = [file_script(name, Path()).model_dump() for name in options.file or ()]
    if options.builtin or tables:
        for name in options.builtin or ():
            builtin_script(name)  # refuses an unknown one
        parameters["scripts"] = [*(options.builtin or ()), *tables]
    return kind, parameters


def _given(options: StudyOptions) -> dict[str, str]:
    """Return each option that was given and sets a parameter of a workload, and the parameter."""
    known = _parameters().items()
    return {x: parameter for x, parameter in known if getattr(options, x, None) is not None}


def _kind_of(options: StudyOptions) -> str:
    """Return the workload that options name, or that has the parameters that they set."""
    known, given = all_workloads(), _given(options)
    name = options.workload
    if name is None:
        kinds = (
            x
            for x in (DEFAULT_WORKLOAD, *known)
            if all(_takes(known[x], option, parameter) for option, parameter in given.items())
        )
        return next(kinds, DEFAULT_WORKLOAD)
    if name in known:
        return name
    suffixes = {kind.file_suffix: x for x, kind in known.items() if kind.file_suffix}
    if Path(name).suffix in suffixes:
        return suffixes[Path(name).suffix]
    files = f", or a file: {listed([f'NAME{x}' for x in suffixes], 'or')}" if suffixes else ""
    raise UsageError(
        f'there is no workload "{name}"', hint=f"Workloads: {', '.join(sorted(known))}{files}."
    )


def _takes(kind: type[Workload], option: str, parameter: str) -> bool:
    """Whether an option sets a parameter of this workload; several have a "scale", each with its own option."""
    size = kind.dataset_size
    is_own = size is not None and (option, parameter) == (size.option, size.parameter)
    return is_own or (option in _SCRIPT_OPTIONS and parameter in kind.model_fields)


def _parameters() -> dict[str, str]:
    """Return each option that sets a parameter of a workload, and the parameter."""
    sizes = [kind.dataset_size for kind in all_workloads().values()]
    return {
        **{size.option: size.parameter for size in sizes if size is not None},
        **dict.fromkeys(_SCRIPT_OPTIONS, "scripts"),
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
    generators = load.generators
    if options.generators is not None or connections < len(generators):
        asked = str(len(generators)) if options.generators is None else options.generators
        generators = generators_of(asked, connections)
    threads = load.threads if options.threads is None else options.threads
    return replace(
        load,
        connections=connections,
        generators=generators,
        threads=None if threads is None else min(threads, connections),
        warm_up_s=load.warm_up_s if options.warm_up is None else options.warm_up,
        measure_s=measure_s,
        budget_s=budget_s,
    )
