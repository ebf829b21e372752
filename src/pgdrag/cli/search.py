"""`pgdrag search`: how fast, or how slow, can it go?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdrag.cli.compare import ARM_HELP
from pgdrag.cli.options import LONGEST_BUDGET_S, StudyOptions, duration_of, with_options
from pgdrag.errors import EXIT_DONE, UsageError

if TYPE_CHECKING:
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
        Literal["throughput", "latency-p99", "server-cpu"],
        typer.Option(
            help="What makes it fast: transactions per second, time, or processor time of each"
        ),
    ] = "throughput",
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
    trials: Annotated[
        int, typer.Option(metavar="N", min=8, max=1000, help="Short trials to explore with")
    ] = 48,
    clusters: Annotated[
        int, typer.Option(metavar="N", min=3, max=100, help="Fresh clusters that prove the result")
    ] = 10,
    list_space: Annotated[
        bool, typer.Option("--list-space", help="List what may be changed, and what not and why")
    ] = False,
    *,
    options: StudyOptions,
) -> int:
    """Find the fastest or the slowest configuration.

    Explores many settings at once by short trials, keeps the fewest that make the difference, and proves these on fresh clusters.
    """
    from pgdrag.cli.study_command import StudyCommand, conditions
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
    under = conditions(options, [arm])
    if commit_within is not None:
        within_s = duration_of(commit_within, "--commit-within", least_s=1, most_s=LONGEST_BUDGET_S)
        load = under.load
        load = replace(load, min_commits=_LEAST_COMMITS, budget_s=max(within_s, load.measure_s))
        under = replace(under, load=load)
    space = search_space(
        command.settings,
        arm.treatment.of_kind("setting"),
        allowance(),
        connections=under.load.connections,
        goal="maximize" if maximize else "minimize",
        only=[name.strip() for name in settings.split(",")] if settings else (),
        is_reload_only=no_restart,
        is_unsafe_allowed=allow_unsafe,
    )
    if list_space:
        _print_space(space, json=options.json)
        return EXIT_DONE
    parameters: dict[str, object] = {
        "goal": "maximize" if maximize else "minimize",
        "objective": objective,
        "max_trials": trials,
        "redeployments": clusters,
        "seed": command.seed,
    }
    return command.run(search_study(space, arm, under, parameters))


def _print_space(space: SearchSpace, *, json: bool) -> None:
    from rich.table import Table

    from pgdrag.cli.place import stdout
    from pgdrag.cli.plain_output import print_json

    if json:
        print_json(
            {
                "dimensions": [one.model_dump() for one in space.dimensions],
                "excluded": [{"name": x.name, "reason": x.reason} for x in space.excluded],
            }
        )
        return
    table = Table("Setting", "Now", "Rule of thumb", "Values", box=None, pad_edge=False)
    for one in space.dimensions:
        table.add_row(one.name, one.start, one.rule or "", ", ".join(one.values))
    stdout().print(table)
    excluded = Table("Not changed", "Why", box=None, pad_edge=False)
    for out in space.excluded:
        excluded.add_row(out.name, out.reason)
    stdout().print(excluded)
