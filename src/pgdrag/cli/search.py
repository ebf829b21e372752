"""`pgdrag search`: how fast, or how slow, can it go?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.compare import ARM_HELP
from pgdrag.cli.options import LONGEST_BUDGET_S, StudyOptions, duration_of, with_options
from pgdrag.cli.plain_output import print_json
from pgdrag.errors import EXIT_DONE, UsageError
from pgdrag.units import parse_bytes

if TYPE_CHECKING:
    from pgdrag.cli.study_command import StudyCommand
    from pgdrag.experiment.search_space import SearchSpace

_LEAST_COMMITS = 1  # that must be made within --commit-within


@with_options
def search(
    base: Annotated[str, typer.Argument(metavar="[BASE]", help=ARM_HELP)] = "default",
    maximize: Annotated[
        bool, typer.Option("--maximize", help="Find the fastest configuration")
    ] = False,
    minimize: Annotated[
        bool, typer.Option("--minimize", help="Find the slowest configuration")
    ] = False,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What makes it fast: throughput (the default), latency-p99, server-cpu (processor time of a "
            "transaction); repeatable, to see what can be had of several",
        ),
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…", help="Change only these settings (default: all that are safe)"
        ),
    ] = None,
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="Change only settings that need no restart")
    ] = False,
    allow_unsafe: Annotated[
        bool, typer.Option("--allow-unsafe", help="Change settings that risk data, too")
    ] = False,
    commit_within: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Accept only what commits within TIME, such as 120s (default: the window's budget)",
        ),
    ] = None,
    memory_ceiling: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Accept only what takes up to SIZE of memory, such as 2GB"
        ),
    ] = None,
    recovery_within: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Accept only what recovers from a crash within TIME: every trial ends with a crash",
        ),
    ] = None,
    os: Annotated[
        bool,
        typer.Option("--os", help="Change the operating system, too (root; see --allow-change)"),
    ] = False,
    trials: Annotated[
        int, typer.Option(metavar="N", min=8, max=1000, help="Short trials to explore with")
    ] = 48,
    clusters: Annotated[
        int, typer.Option(metavar="N", min=3, max=100, help="Fresh clusters that prove the result")
    ] = 10,
    line_trials: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=100,
            help="Short trials without each line of the result, to say what it brings; 0: none",
        ),
    ] = 4,
    list_space: Annotated[
        bool, typer.Option("--list-space", help="List what may be changed, and what not and why")
    ] = False,
    *,
    options: StudyOptions,
) -> int:
    """Find the fastest or the slowest configuration.

    Explores many settings at once by short trials, keeps the fewest that make the difference, and proves these on fresh clusters.
    """
    from pgdrag.cli.study_command import StudyCommand
    from pgdrag.experiment.os_space import os_space
    from pgdrag.experiment.questions import search as search_study
    from pgdrag.experiment.search_space import search_space
    from pgdrag.host.allowance import allowance

    if maximize == minimize:
        raise UsageError(
            "say either --maximize or --minimize",
            hint="--maximize looks for the fastest configuration, --minimize for the slowest.",
        )
    command = StudyCommand.open(options)
    (arm,), _ = command.arms(base)
    under = command.conditions([arm])
    if commit_within is not None:
        within_s = duration_of(commit_within, "--commit-within", least_s=1, most_s=LONGEST_BUDGET_S)
        load = under.load
        load = replace(load, min_commits=_LEAST_COMMITS, budget_s=max(within_s, load.measure_s))
        under = replace(under, load=load)
    space = search_space(
        command.settings,
        arm.treatment.of_kind("setting"),
        allowance(),
        connections=command.sessions(under.load.connections),
        goal="maximize" if maximize else "minimize",
        only=() if settings is None else _named(settings),
        is_reload_only=no_restart or not command.restarts,
        is_unsafe_allowed=allow_unsafe,
    )
    if os:
        space += os_space(arm.levels, command.runner.here)
    space = _within_reach(space, command)
    if list_space:
        _print_space(space, json=options.json)
        return EXIT_DONE
    first, *others = objective or ["throughput"]
    parameters: dict[str, object] = {
        "goal": "maximize" if maximize else "minimize",
        "objective": first,
        "also": others,
        "max_trials": trials,
        "redeployments": clusters,
        "line_trials": line_trials,
        "seed": command.seed,
    }
    study = search_study(space, arm, under, parameters, _limits(memory_ceiling, recovery_within))
    return command.run(replace(study, notes=(*study.notes, *command.search_notes)))


def _named(settings: str) -> list[str]:
    names = [name.strip() for name in settings.split(",")]
    if "" in names:
        raise UsageError(
            f'--settings "{settings}" has an empty name',
            hint="Omit it to search all that are safe.",
        )
    return names


def _within_reach(space: SearchSpace, command: StudyCommand) -> SearchSpace:
    """Leave out what cannot be set on an existing server, with the reason; throw-away servers can have all of it."""
    from pgdrag.experiment.search_space import Excluded, SearchSpace
    from pgdrag.model import Level

    out: dict[str, str] = {}
    if command.is_existing:
        for one in space.dimensions:
            levels = [Level(one.kind, one.name, x) for x in one.values if x != one.start]
            problems = [x for level in levels for x in command.runner.check([level])]
            if problems:
                out[one.name] = problems[0].message
    kept = tuple(
        one.model_copy(update={"needs": "", "needs_values": ()}) if one.needs in out else one
        for one in space.dimensions
        if one.name not in out
    )
    return SearchSpace(kept, (*space.excluded, *(Excluded(*one) for one in out.items())))


def _limits(memory_ceiling: str | None, recovery_within: str | None) -> dict[str, float]:
    from pgdrag.collectors.recovery import TIMEOUT_S

    limits: dict[str, float] = {}
    if memory_ceiling is not None:
        try:
            limits["server_memory_bytes"] = parse_bytes(memory_ceiling)
        except UsageError as error:
            raise UsageError(f"--memory-ceiling: {error.message}", hint=error.hint) from None
    if recovery_within is not None:
        limits["crash_recovery_s"] = duration_of(
            recovery_within, "--recovery-within", least_s=0.1, most_s=TIMEOUT_S
        )
    return limits


def _print_space(space: SearchSpace, *, json: bool) -> None:
    from rich.table import Table

    from pgdrag.cli.place import stdout

    if json:
        print_json(space)
        return
    table = Table("Setting", "Now", "Rule of thumb", "Values", box=None, pad_edge=False)
    for one in space.dimensions:
        values = ", ".join(value or "''" for value in one.values)
        table.add_row(one.name, one.start or "''", one.rule or "", values)
    stdout().print(table)
    excluded = Table("Not changed", "Why", box=None, pad_edge=False)
    for out in space.excluded:
        excluded.add_row(out.name, out.reason)
    stdout().print(excluded)
