"""Which server that exists does a study run on, and what may change there?"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from pgdrag.cli.place import open_scratch
from pgdrag.cli.server_argument import free_server, named_server, require_consent
from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerLost, UsageError
from pgdrag.existing.permission import RESTART, Permission, refuse_without_server
from pgdrag.existing.runner import ExistingTrialRunner
from pgdrag.existing.standing import identifier_of
from pgdrag.host.logins import Login, keep_login
from pgdrag.model import ExistingPlace
from pgdrag.passwords import has_password_in_command

_EXAMPLE = "--dsn postgresql://me@db1/bench"


def open_existing(
    dsn: str | None,
    allowed: Collection[str],
    restart_command: str | None,
    *,
    postgres: str | None = None,
    wait_s: float | None = None,
) -> ExistingTrialRunner | None:
    """Return what runs trials on the server that --dsn names, which is only read yet; None without --dsn.

    Args:
        wait_s: how long to wait for another pgdrag that runs an experiment there; None: do not wait.

    Raises:
        UsageError: options contradict each other, the server cannot be understood, or another pgdrag runs an experiment there.
        ServerLost: it does not answer.
    """
    if dsn is None:
        if restart_command is not None:
            raise UsageError("--restart-command requires --dsn")
        refuse_without_server(allowed)
        return None
    if postgres is not None:
        raise UsageError("--postgres cannot be combined with --dsn, which names a server that runs")
    return _reached(dsn, allowed, restart_command, wait_s)


def _reached(
    dsn: str, allowed: Collection[str], restart_command: str | None, wait_s: float | None
) -> ExistingTrialRunner:
    if (RESTART in allowed) is not bool(restart_command):
        raise UsageError(
            f"--allow-change {RESTART} and --restart-command require each other",
            hint="Name the command that restarts the server, such as 'pg_ctlcluster 18 main restart'.",
        )
    if has_password_in_command(restart_command or ""):
        raise UsageError(
            "the command that restarts the server has a password in it",
            detail="It is kept in the journal, so that the run can be resumed.",
            hint="Name a variable or a file that has it.",
        )
    server: Server | None = None
    if restart_command:
        # What a dead pgdrag left may need a restart to be undone, and may have to be for it to answer.
        with suppress(ServerLost):
            server = _named(dsn)
            keep_login(identifier_of(server), Login(server.conninfo(), restart_command))
    # What a dead pgdrag changed there is undone before it is taken for the server's own.
    scratch = open_scratch()
    server = server or _named(dsn)
    # What another one has set there is not the server's own either.
    server = free_server(server, wait_s)
    permission = Permission(frozenset(allowed), restart_command or "")
    return ExistingTrialRunner.open(server, scratch, permission, wait_s=wait_s or 0.0)


def _named(dsn: str) -> Server:
    return named_server(
        dsn, _EXAMPLE, is_for_driver=True, own_session="an experiment", even_in_turn=True
    )


def resumed(
    place: ExistingPlace, dsn: str | None, allowed: Collection[str], *, wait_s: float | None = None
) -> ExistingTrialRunner:
    """Return a runner that continues a run on the server that it began on, and on no other.

    Args:
        wait_s: as of `open_existing`.

    Raises:
        UsageError: another server answers, or another pgdrag runs an experiment there.
    """
    command = place.restart_command if RESTART in allowed else None
    runner = _reached(dsn or place.conninfo, allowed, command, wait_s)
    if runner.standing.system_identifier != place.system_identifier:
        raise UsageError(
            f"{runner.standing.server.name} is not the server that the run began on",
            detail=f"That was {place.server}, system identifier {place.system_identifier}.",
            hint="Name it with --dsn, or start a new run.",
        )
    return runner


def ask_to_load(runner: ExistingTrialRunner, *, is_given: bool) -> None:
    """Ask before a load where others seem to work.

    Raises:
        UsageError: there is no terminal to ask on, or the answer was no.
    """
    require_consent(runner.standing.server, "run the experiment there", is_given=is_given)
