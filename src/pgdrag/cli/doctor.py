"""`pgdrag doctor`: what costs time on a server now, or which lines of a configuration are known to hurt?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Json, duration_of
from pgdrag.cli.plain_output import print_json
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, UsageError
from pgdrag.paths import is_directory

if TYPE_CHECKING:
    from pgdrag.driver.connection_string import Server
    from pgdrag.model.observed import Stretch

LEAST_S, LONGEST_S = 1.0, 86_400.0


def doctor(
    context: typer.Context,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[DSN|CONF]",
            show_default=False,
            help="Connection string, postgresql:// URI or database name (default: from PGHOST, PGDATABASE and the like); or a file of settings, or comma-separated name=value pairs",
        ),
    ] = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to look: 10s, 2min, 1h")
    ] = "30s",
    since: Annotated[
        Path | None,
        typer.Option(
            "--since",
            metavar="FILE",
            help="Observations of the same server (see pgdrag observe): report whether throughput has fallen and waits have risen since, and which statements take longer",
        ),
    ] = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help="Show evidence and next step for every finding, not only the first three"
        ),
    ] = False,
    postgres: Annotated[
        str | None,
        typer.Option(
            metavar="WHICH",
            help="Of a configuration: installed major version such as 15, or a bin directory (default: the embedded 18)",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Diagnose a live server or a configuration, worst first.

    Only reads: samples what sessions wait for, and reads the server's statistics before and after; where
    the server runs on this host, also its processes, its disk and its log. Each finding has its number, its
    source and a next step. A member of pg_monitor sees all of it; what cannot be seen is said. Ctrl-C ends
    the look early.

    Of a configuration it names the lines that were measured to be slower than others, on this machine or
    elsewhere, each with the measurement and the command that repeats it here.

    With --since, throughput, waits and each statement are compared with saved observations, with tests that allow
    for ordinary variation. Use --for 5min or longer.

    Exit status: 0 nothing stands out, 1 something was found, 2 misuse or the server cannot be reached.
    """
    from pgdrag.cli.doctor_conf import doctor_conf, is_configuration
    from pgdrag.cli.place import stderr, stdout
    from pgdrag.cli.server_argument import live_line, named_server, time_words
    from pgdrag.findings.doctor import diagnose
    from pgdrag.findings.doctor.periods import change_between, period_of
    from pgdrag.findings.doctor.since import Since, period_of_stretch, since_words
    from pgdrag.findings.doctor.statement_rises import (
        compared_count,
        not_compared,
        rise_diagnoses,
        statement_rises,
    )
    from pgdrag.findings.doctor.words import IN_FULL, diagnosed, doctor_lines
    from pgdrag.live.window import observe_window
    from pgdrag.model.recordings import StatementUse
    from pgdrag.observations.stretch import read_stretch, statement_parts

    if subject is not None and is_configuration(subject):
        _refuse_for_configuration(context)
        return doctor_conf(subject, postgres=postgres, json=json)
    _refuse_directory(subject)
    if postgres is not None:
        raise UsageError(
            "--postgres requires a configuration", hint="A server has its own version."
        )
    for_s = duration_of(for_, "--for", least_s=LEAST_S, most_s=LONGEST_S)
    # Before the look, so that a file that cannot be read costs no wait.
    kept = None if since is None else read_stretch(since)
    earlier = None if kept is None else period_of_stretch(kept)
    example = "pgdrag doctor postgresql://me@db1/shop"
    server = named_server(subject, example, own_session="doctor", even_in_turn=True)
    if kept is not None:
        _refuse_other_server(kept, server)
    with live_line(stderr()) as say:
        window = observe_window(
            server,
            for_s,
            lambda elapsed_s: say(time_words(elapsed_s, for_s), elapsed_s, None),
            can_end_early=True,
        )
    found = diagnose(window)
    change = None if earlier is None else change_between(earlier, period_of(window))
    name = "" if since is None else since.name
    compared, not_told = None, ""
    if since is not None:
        parts = statement_parts(since, server.target.database, window.length_s)
        uses = window.recordings.of(StatementUse)
        rises, count = statement_rises(parts, uses), compared_count(parts, uses)
        not_told = not_compared(parts, window, name)
        found = found.with_others(rise_diagnoses(rises, len(parts), name))
        compared = Since.of(name, change, tuple(rises), compared=count, not_compared=not_told)
    if json:
        print_json(diagnosed(window, found, compared))
    else:
        console = stdout()
        in_full = len(found.found) if all_ else IN_FULL
        for line in doctor_lines(window, found, in_full=in_full):
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        if since is not None:
            line = f"{since_words(change, name)} {not_told}".rstrip()
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    is_regression = change is not None and change.is_regression
    return EXIT_FAILED_CHECK if found.found or is_regression else EXIT_DONE


def _refuse_for_configuration(context: typer.Context) -> None:
    """Refuse options that only a server has a meaning for."""
    for parameter, option in (("since", "--since"), ("for_", "--for")):
        source = context.get_parameter_source(parameter)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{option} requires a server")


def _refuse_directory(subject: str | None) -> None:
    """Refuse a directory: files of this argument are configurations, and it was meant to be one."""
    if subject is not None and is_directory(subject):
        raise UsageError(
            f'"{subject}" is a directory',
            hint=f'Name a configuration in it; a database of that name is "dbname={subject}".',
        )


def _refuse_other_server(kept: Stretch, server: Server) -> None:
    """Refuse observations of another server than the one that is looked at."""
    from pgdrag.observations.recorder import server_there

    now = server_there(server)
    if kept.server.is_other_than(now):
        raise UsageError(
            f"{kept.file} is of another server: {kept.server.name}, not {now.name}",
            hint="Name observations of the server that you look at.",
        )
