"""`pgdrag doctor`: what costs time on a server now?"""

from __future__ import annotations

from typing import Annotated

import typer

from pgdrag.cli.options import Dsn, Json, duration_of
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK

LEAST_S, LONGEST_S = 1.0, 86_400.0


def doctor(
    dsn: Dsn = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to look: 10s, 2min, 1h")
    ] = "30s",
    all_: Annotated[
        bool,
        typer.Option("--all", help="Show evidence and next step of every finding, not of three"),
    ] = False,
    json: Json = False,
) -> int:
    """Say what costs time on a live server now, the worst first.

    Only reads: samples what sessions wait for, and reads the server's statistics before and after; where
    the server runs on this host, also its processes, its disk and its log. Each finding has its number, its
    source and a next step. A member of pg_monitor sees all of it; what cannot be seen is said. Ctrl-C ends
    the look early.

    Exit status: 0 nothing stands out, 1 something was found, 2 misuse or the server cannot be reached.
    """
    from pgdrag.cli.place import stderr, stdout
    from pgdrag.cli.plain_output import print_json
    from pgdrag.cli.server_argument import live_line, named_server, time_words
    from pgdrag.findings.doctor import diagnose
    from pgdrag.findings.doctor.words import IN_FULL, doctor_json, doctor_lines
    from pgdrag.live.window import observe_window

    for_s = duration_of(for_, "--for", least_s=LEAST_S, most_s=LONGEST_S)
    server = named_server(dsn, "pgdrag doctor postgresql://me@db1/shop")
    with live_line(stderr()) as say:
        window = observe_window(
            server,
            for_s,
            lambda elapsed_s: say(time_words(elapsed_s, for_s), elapsed_s, None),
            can_end_early=True,
        )
    found = diagnose(window)
    if json:
        print_json(doctor_json(window, found))
    else:
        console = stdout()
        in_full = len(found.found) if all_ else IN_FULL
        for line in doctor_lines(window, found, in_full=in_full):
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    return EXIT_FAILED_CHECK if found.found else EXIT_DONE
