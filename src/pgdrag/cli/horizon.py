"""`pgdrag horizon show` and `hold`, `pgdrag capture horizon`: who holds back a server's horizon, and how long?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Consent, Dsn, Json, command_group, duration_of
from pgdrag.cli.plain_output import print_document, print_json
from pgdrag.english import counted
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, EXIT_INTERRUPTED, ServerError, UsageError
from pgdrag.units import format_bytes, format_duration

if TYPE_CHECKING:
    from rich.table import Table

    from pgdrag.findings.holds.distribution import HoldDistribution
    from pgdrag.horizon.capture import CaptureProgress
    from pgdrag.horizon.holding import HoldProgress
    from pgdrag.horizon.state import HorizonHolder, HorizonState

LONGEST_S = 86_400.0
LONGEST_CAPTURE_S = 31 * 86_400.0
LEAST_EVERY_S = 0.05
# At most this much is lost if a capture is killed.
_KEEP_EVERY_S = 60.0

_HOLD_RISK = "While its horizon is held, vacuum removes no row version that dies in"

app = command_group("Show who holds back a server's xmin horizon, or hold it.")
capture_app = command_group(
    "Capture a live server as a twin without its data, or how its horizon is held, for replay."
)


@app.command("show")
def show(dsn: Dsn = None, json: Json = False) -> int:
    """Show who holds back the horizon.

    Shows for how long, what it costs, and which statement would end it. Nothing is ended or changed.
    """
    from pgdrag.cli.place import stdout
    from pgdrag.cli.server_argument import named_server
    from pgdrag.horizon.state import horizon_state

    example = "pgdrag horizon show postgresql://me@db1/shop"
    state = horizon_state(named_server(dsn, example, own_session="horizon show"))
    if json:
        print_json(state)
    else:
        console = stdout()
        for part in _shown(state):
            console.print(part, soft_wrap=True)
    return EXIT_DONE


@app.command("hold")
def hold(
    dsn: Dsn = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to hold the horizon: 30s, 10min")
    ] = "10min",
    kind: Annotated[
        str,
        typer.Option(
            metavar="HOLDER", help="Kind of holder: transaction, snapshot, ... (see pgdrag list)"
        ),
    ] = "transaction",
    yes: Consent = False,
) -> int:
    """Hold the horizon of a test system, as a forgotten transaction does.

    pgdrag asks first, on any server; --yes skips the question, and is required without a terminal.

    Ctrl-C releases it at once. The session has a name in pg_stat_activity. If pgdrag is killed or hangs,
    the session ends with it, or the server ends it 2 s after its time. A prepared transaction outlives
    pgdrag: it is written to the undo journal first, and rolled back by the next pgdrag or by
    `pgdrag restore`.

    Exit status: 0 held to the end, 1 someone else ended it early, 2 misuse or error, 130 interrupted.
    """
    from pgdrag.cli.place import restore_leftovers, say, stderr
    from pgdrag.cli.server_argument import live_line, named_server, require_consent, time_words
    from pgdrag.horizon.holders import all_holders
    from pgdrag.horizon.holding import HoldProgress, application_name, holding, watch

    holders = {name: x for name, x in all_holders().items() if not x.needs_cluster}
    if kind not in holders:
        raise UsageError(
            f'cannot hold the horizon by "{kind}"', hint=f"Holders: {', '.join(sorted(holders))}."
        )
    for_s = duration_of(for_, "--for", least_s=1.0, most_s=LONGEST_S)
    talk = stderr()
    for sentence in restore_leftovers():
        say(sentence)
    example = "pgdrag horizon hold postgresql://me@test1/shop --for 10min"
    server = named_server(dsn, example, own_session="horizon hold")
    purpose = f"hold its horizon for {format_duration(for_s)}"
    require_consent(server, purpose, is_given=yes, risk=f"{_HOLD_RISK} {server.name}")
    name = application_name(for_s)
    began_s, latest = time.monotonic(), HoldProgress(0.0)
    status, trouble = EXIT_DONE, ""

    def listen(progress: HoldProgress) -> None:
        nonlocal latest
        latest = progress
        text = f"{time_words(progress.elapsed_s, for_s)}: {_words(progress)}"
        show_line(text, progress.elapsed_s, None)

    try:
        with live_line(talk) as show_line, holding(server, kind, for_s, name=name) as held:
            began_s = time.monotonic()
            known_as = f', as "{name}"' if holders[kind].is_bounded_by_session else ""
            talk.print(
                f"{held.who} holds the horizon of {server.name} for {format_duration(for_s)}{known_as}; "
                "Ctrl-C releases it.",
                soft_wrap=True,
            )
            try:
                watch(server, held, for_s, listen)
            except ServerError as error:
                status, trouble = EXIT_FAILED_CHECK, f"{error.message}."
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    if trouble:
        say(trouble, "red")
    held_for = format_duration(round(time.monotonic() - began_s, 1))
    say(f"Released after {held_for}: {_words(latest)}.")
    return status


def _words(progress: HoldProgress) -> str:
    if progress.age is None:
        return "its age is unknown"
    dead = progress.dead_rows or 0
    return f"{counted(progress.age, 'transaction')} old, {dead:,} dead row versions in the database"


def _shown(state: HorizonState) -> Iterator[str | Table]:
    yield f"{state.server}, PostgreSQL {state.version}{', a standby' if state.is_standby else ''}"
    here = [x for x in state.holders if x.is_here]
    elsewhere = [x for x in state.holders if not x.is_here]
    yield _table(here) if here else "Nothing holds back the horizon."
    if elsewhere:
        yield "These hold back only other databases or the system catalogs:"
        yield _table(elsewhere)
    for holder in state.holders:
        yield f"To end {_name(holder)}: {holder.ended_by or '(not from here)'}"
        yield f"  {holder.remark}"
    yield ""
    if state.is_standby:
        yield _STANDBY[state.has_feedback]
    yield (
        f"{state.dead:,} dead row versions, an estimated {format_bytes(state.dead_bytes)}; vacuum cannot "
        "remove those that died after the oldest holder began"
    )
    for x in state.tables:
        ago = "never" if x.vacuumed_s is None else f"{format_duration(round(x.vacuumed_s))} ago"
        size = f"{format_bytes(x.dead_bytes)} of {format_bytes(x.bytes)}"
        yield f"  {x.table}: {x.dead:,} dead, {x.live:,} live, about {size}; vacuumed {ago}"
    yield (
        f"Wraparound: the oldest unfrozen transaction is {counted(state.frozen_age, 'transaction')} old; vacuum is "
        f"forced at {state.freeze_max_age:,}, and no transaction can begin after {state.left_until_stop:,} more."
    )
    yield from state.cannot_see


_STANDBY = {
    True: "hot_standby_feedback is on: holders here also hold back the primary's horizon.",
    False: "hot_standby_feedback is off: holders here do not affect the primary; replay waits for them or cancels them.",
}


def _table(holders: list[HorizonHolder]) -> Table:
    from rich.text import Text

    from pgdrag.cli.place import plain_table

    columns = ("holder", "database", "transactions", "held for", "activity")
    table = plain_table(*columns, right=("transactions",))
    for x in holders:
        age = f"{x.age:,}" if x.age is not None else f"{x.catalog_age or 0:,} (catalogs)"
        held = "unknown"
        if x.held_s is not None:
            held = format_duration(x.held_s)
        elif x.held_least_s is not None:
            held = f"{format_duration(x.held_least_s)} or longer"
        table.add_row(_name(x), x.database or "all", age, held, Text(x.doing))
    return table


def _name(holder: HorizonHolder) -> str:
    from pgdrag.findings.holds.levels import HolderKind

    match holder.kind:
        case HolderKind.PREPARED:
            return f"prepared transaction {holder.name}"
        case HolderKind.SLOT:
            return f"replication slot {holder.name}"
        case HolderKind.STANDBY:
            return f"standby {holder.name}"
    return f"session {holder.name} ({holder.kind})"


@capture_app.command("horizon")
def capture(
    dsn: Dsn = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to capture: 90s, 10min, 1h")
    ] = "1h",
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Sampling interval: 100ms, 1s")
    ] = "1s",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to FILE (default: stdout)"),
    ] = None,
    applications: Annotated[
        bool, typer.Option("--applications", help="Also count holds by application_name")
    ] = False,
    json: Json = False,
) -> int:
    """Record how long, how often and by what the horizon is held.

    The live server is only read; no statement's text is read or kept. Ctrl-C ends the capture early and
    keeps what was captured.

    Exit status: 0 captured, 1 the server was unreachable at the end, 2 misuse or nothing captured, 130
    interrupted; what was captured is still written.
    """
    from pgdrag.cli.place import refuse_unwritable, say, stderr
    from pgdrag.cli.server_argument import LINE_EVERY_S, live_line, named_server
    from pgdrag.findings.holds.distribution import distribution_json
    from pgdrag.horizon.capture import HorizonCapture
    from pgdrag.horizon.distribution_file import distribution_text

    for_s = duration_of(for_, "--for", least_s=0.1, most_s=LONGEST_CAPTURE_S)
    every_s = duration_of(every, "--every", least_s=LEAST_EVERY_S, most_s=3600.0)
    if 2 * every_s > for_s:
        raise UsageError(
            f"--every {every} is too long for --for {for_}: at least two samples are needed"
        )
    refuse_unwritable(output, needs_directory=True)
    example = "pgdrag capture horizon postgresql://me@db1/shop --for 1h"
    server = named_server(dsn, example, own_session="capture horizon")
    sampling = HorizonCapture(server, every_s=every_s, with_applications=applications)
    say(
        f"Sampling {server.name} every {format_duration(every_s)} for {format_duration(for_s)}, "
        "read-only; Ctrl-C ends it and keeps what was captured."
    )
    status = EXIT_DONE

    written_s, pause_s = time.monotonic(), _KEEP_EVERY_S

    def listen(progress: CaptureProgress) -> None:
        """Show progress, and write what was captured each minute, less often if writing is slow."""
        nonlocal written_s, pause_s
        show_line(progress_words(progress, for_s), progress.elapsed_s, progress.trouble or None)
        began_s = time.monotonic()
        if output is not None and began_s - written_s > pause_s and progress.samples > 1:
            _write(sampling.found(), output)
            written_s = time.monotonic()
            pause_s = max(_KEEP_EVERY_S, 100 * (written_s - began_s))

    try:
        with live_line(stderr(), first_s=LINE_EVERY_S) as show_line:
            sampling.run(for_s, listen)
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    found = sampling.found()
    for sentence in (*sampling.notes, *sampling.cannot_see(), sampling.cost()):
        say(sentence)
    say(f"Captured: {found.words}.")
    if output is not None:
        _write(found, output)
        say(f"Written to {output}")
    if json:
        print_json(distribution_json(found))
    elif output is None:
        print_document(distribution_text(found))
    return EXIT_FAILED_CHECK if sampling.notes and status == EXIT_DONE else status


def _write(found: HoldDistribution, output: Path) -> None:
    from pgdrag.cli.place import write_named
    from pgdrag.horizon.distribution_file import distribution_text
    from pgdrag.servers.scratch import storage_errors

    with storage_errors("write", output.absolute().parent):
        write_named(output, distribution_text(found))


def progress_words(progress: CaptureProgress, for_s: float) -> str:
    """Return `5 min of 1 h, 55 min left: 2 hold the horizon, the oldest 1,234 transactions old; 41 seen`."""
    from pgdrag.cli.server_argument import time_words

    text = f"{time_words(progress.elapsed_s, for_s)}: "
    if progress.holding is None:
        return f"{text}the server is unreachable, retrying ({progress.trouble})"
    oldest = (
        f", the oldest {counted(progress.oldest, 'transaction')} old" if progress.holding else ""
    )
    verb = "holds" if progress.holding == 1 else "hold"
    return f"{text}{progress.holding} {verb} the horizon{oldest}; {progress.seen:,} seen"
