"""`pgdrag horizon show` and `hold`: who holds back a server's horizon, and hold a test system's."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Consent, Dsn, Json
from pgdrag.english import counted
from pgdrag.errors import (
    EXIT_DONE,
    EXIT_FAILED_CHECK,
    EXIT_INTERRUPTED,
    ServerError,
    UsageError,
)
from pgdrag.units import format_bytes, format_duration

if TYPE_CHECKING:
    from rich.table import Table

    from pgdrag.horizon.holding import HoldProgress
    from pgdrag.horizon.state import DeadRows, HorizonHolder, HorizonState

LONGEST_S = 86_400.0

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Show who holds back a server's xmin horizon, or hold it.",
)


@app.command("show")
def show(
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """Show who holds back the horizon.

    Shows for how long, what it costs, and which statement would end it. Nothing is ended or changed.
    """
    from pgdrag.cli.place import stdout
    from pgdrag.cli.server_argument import named_server
    from pgdrag.horizon.state import horizon_state

    state = horizon_state(named_server(dsn, "pgdrag horizon show postgresql://me@db1/shop"))
    if json:
        print(json_module.dumps(asdict(state), indent=2))
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
            metavar="HOLDER",
            help="Kind of holder: transaction, snapshot, ... (see pgdrag list)",
        ),
    ] = "transaction",
    yes: Consent = False,
) -> int:
    """Hold the horizon of a test system, as a forgotten transaction does.

    Ctrl-C releases it at once. The session has a name in pg_stat_activity. If pgdrag is killed or hangs,
    the session ends with it, or the server ends it 2 s after its time. A prepared transaction outlives
    pgdrag: it is written to the undo journal first, and rolled back by the next pgdrag or by
    `pgdrag restore`.

    Exit status: 0 held to the end, 1 someone else ended it early, 2 misuse or error, 130 interrupted.
    """
    from pgdrag.cli.driving import require_consent
    from pgdrag.cli.place import restore_leftovers, stderr
    from pgdrag.cli.server_argument import duration_of, live_line, named_server, time_words
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
        talk.print(sentence, soft_wrap=True)
    server = named_server(dsn, "pgdrag horizon hold postgresql://me@test1/shop --for 10min")
    require_consent(server, f"hold its horizon for {format_duration(for_s)}", is_given=yes)
    name = application_name(for_s)
    began_s, latest = time.monotonic(), HoldProgress(0.0)
    status, trouble = EXIT_DONE, ""

    def heard(progress: HoldProgress) -> None:
        nonlocal latest
        latest = progress
        listen(progress)

    def words(progress: HoldProgress) -> str:
        return f"{time_words(progress.elapsed_s, for_s)}: {_words(progress)}"

    try:
        with (
            live_line(talk, words) as listen,
            holding(server, kind, for_s, name=name) as held,
        ):
            began_s = time.monotonic()
            known_as = f', as "{name}"' if holders[kind].is_bounded_by_session else ""
            talk.print(
                f"{held.who} holds the horizon of {server.name} for {format_duration(for_s)}{known_as}; "
                "Ctrl-C releases it.",
                soft_wrap=True,
            )
            try:
                watch(server, held, for_s, heard)
            except ServerError as error:
                status, trouble = EXIT_FAILED_CHECK, f"{error.message}."
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    if trouble:
        talk.print(trouble, style="red", soft_wrap=True)
    held_for = format_duration(round(time.monotonic() - began_s, 1))
    talk.print(f"Released after {held_for}: {_words(latest)}.", soft_wrap=True)
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
    yield from (f"  {_dead_words(table)}" for table in state.tables)
    yield (
        f"Wraparound: the oldest unfrozen transaction is {counted(state.frozen_age, 'transaction')} old; vacuum is "
        f"forced at {state.freeze_max_age:,}, and no transaction can begin after {state.left_until_stop:,} more."
    )
    yield from state.cannot_see


_STANDBY = {
    True: "hot_standby_feedback is on: holders here also hold back the primary's horizon.",
    False: "hot_standby_feedback is off: holders here do not affect the primary; replay waits for them or cancels them.",
}


def _dead_words(table: DeadRows) -> str:
    ago = "never" if table.vacuumed_s is None else f"{format_duration(round(table.vacuumed_s))} ago"
    size = f"{format_bytes(table.dead_bytes)} of {format_bytes(table.bytes)}"
    return f"{table.table}: {table.dead:,} dead, {table.live:,} live, about {size}; vacuumed {ago}"


def _table(holders: list[HorizonHolder]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("holder", "database", "transactions", "held for", "activity"):
        table.add_column(column, justify="right" if column == "transactions" else "left")
    for x in holders:
        age = f"{x.age:,}" if x.age is not None else f"{x.catalog_age or 0:,} (catalogs)"
        table.add_row(_name(x), x.database or "all", age, _held(x), Text(x.doing))
    return table


def _held(holder: HorizonHolder) -> str:
    if holder.held_s is not None:
        return format_duration(holder.held_s)
    least_s = holder.held_least_s
    return "unknown" if least_s is None else f"{format_duration(least_s)} or longer"


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
