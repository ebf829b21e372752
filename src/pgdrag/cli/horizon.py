"""`pgdrag horizon show` and `hold`: who holds a server's horizon back, and how a test system's is held."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from pgdrag.cli.driving import require_consent
from pgdrag.cli.place import put_back_leftovers, stderr, stdout
from pgdrag.cli.server_argument import Dsn, duration_of, live_line, named_server, time_words
from pgdrag.english import counted
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, EXIT_INTERRUPTED, ServerError
from pgdrag.horizon.holding import HoldProgress, application_name, holding, watch
from pgdrag.horizon.standing import DeadRows, HorizonState, Standing, horizon_state
from pgdrag.units import format_bytes, format_duration

LONGEST_S = 86_400.0

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="See who holds a server's horizon back, or hold that of a test system.",
)


class Kind(StrEnum):
    """What holds, where no cluster of pgdrag's own is needed."""

    TRANSACTION = "transaction"
    SNAPSHOT = "snapshot"
    CURSOR = "cursor"
    PREPARED = "prepared"


@app.command("show")
def show(
    dsn: Dsn = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON on stdout")] = False,
) -> int:
    """Show who holds the horizon back, for how long, what it costs, and which statement would end it.

    Nothing is ended or changed.
    """
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
        str, typer.Option("--for", metavar="TIME", help="Hold for so long: 30s, 10min")
    ] = "10min",
    kind: Annotated[Kind, typer.Option("--kind", help="What holds")] = Kind.TRANSACTION,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Hold even if the server looks as if others depend on it"),
    ] = False,
) -> int:
    """Hold the horizon of a test system for a while, as a forgotten transaction would, and let it go.

    Ctrl-C lets go at once. The session is named in pg_stat_activity; should pgdrag be killed or hang, it ends
    with it, or 2 s after its time at the latest, by the server. A prepared transaction outlives pgdrag: it is
    noted in the undo journal first, and rolled back by the next pgdrag or by `pgdrag restore`.

    Exit status: 0 held to the end, 1 somebody else ended it before, 2 misuse or error, 130 interrupted.
    """
    for_s = duration_of(for_, "--for", least_s=1.0, most_s=LONGEST_S)
    talk = stderr()
    for sentence in put_back_leftovers():
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
            holding(server, kind.value, for_s, name=name) as held,
        ):
            began_s = time.monotonic()
            known_as = "" if kind is Kind.PREPARED else f', as "{name}"'
            talk.print(
                f"{held.who} holds the horizon of {server.name} for {format_duration(for_s)}{known_as}; "
                "Ctrl-C lets go.",
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
    talk.print(f"Let go after {held_for}: {_words(latest)}.", soft_wrap=True)
    return status


def _words(progress: HoldProgress) -> str:
    if progress.age is None:
        return "the server did not say how old it was"
    dead = progress.dead_rows or 0
    return f"{counted(progress.age, 'transaction')} old, {dead:,} dead row versions in the database"


def _shown(state: HorizonState) -> Iterator[str | Table]:
    yield f"{state.server}, PostgreSQL {state.version}{', a standby' if state.is_standby else ''}"
    here = [x for x in state.holders if x.is_here]
    elsewhere = [x for x in state.holders if not x.is_here]
    yield _table(here) if here else "Nobody holds the horizon back."
    if elsewhere:
        yield "Not this database's rows, but those of others or the system catalogs:"
        yield _table(elsewhere)
    for holder in state.holders:
        yield f"To end {_name(holder)}: {holder.ended_by or '(not from here)'}"
        yield f"  {holder.remark}"
    yield ""
    if state.is_standby:
        yield _STANDBY[state.has_feedback]
    yield (
        f"{state.dead:,} dead row versions, about {format_bytes(state.dead_bytes)} by estimate; no vacuum "
        "removes those that died after the oldest holder began"
    )
    yield from (f"  {_dead_words(table)}" for table in state.tables)
    yield (
        f"Wraparound: the oldest transaction that is not frozen is {counted(state.frozen_age, 'transaction')} old; from "
        f"{state.freeze_max_age:,} on vacuums are forced, and after {state.left_until_stop:,} more none begins."
    )
    yield from state.cannot_see


_STANDBY = {
    True: "hot_standby_feedback is on here: who holds here holds the primary's horizon back, too.",
    False: "hot_standby_feedback is off here: the primary waits for nobody here; replay does, or ends them.",
}


def _dead_words(table: DeadRows) -> str:
    ago = "never" if table.vacuumed_s is None else f"{format_duration(round(table.vacuumed_s))} ago"
    size = f"{format_bytes(table.dead_bytes)} of {format_bytes(table.bytes)}"
    return f"{table.table}: {table.dead:,} dead, {table.live:,} live, about {size}; vacuumed {ago}"


def _table(holders: list[Standing]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("holder", "database", "transactions", "held for", "what it does"):
        table.add_column(column, justify="right" if column == "transactions" else "left")
    for x in holders:
        age = f"{x.age:,}" if x.age is not None else f"{x.catalog_age or 0:,} (catalogs)"
        table.add_row(_name(x), x.database or "all", age, _held(x), Text(x.doing))
    return table


def _held(holder: Standing) -> str:
    if holder.held_s is not None:
        return format_duration(holder.held_s)
    least_s = holder.held_least_s
    return "unknown" if least_s is None else f"{format_duration(least_s)} or longer"


def _name(holder: Standing) -> str:
    noun = {"prepared": "prepared transaction", "slot": "replication slot", "standby": "standby"}
    if holder.kind in noun:
        return f"{noun[holder.kind]} {holder.name}"
    return f"session {holder.name} ({holder.kind})"
