"""What do commands on an existing server share: which server, consent, for how long, and progress?"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgdrag.cli.consent import ask, can_answer
from pgdrag.driver.connection_string import Server, names_a_server, reach
from pgdrag.driver.pooler import refuse_shared_sessions
from pgdrag.english import capital
from pgdrag.errors import UsageError
from pgdrag.paths import is_directory, is_file
from pgdrag.units import format_duration

LINE_EVERY_S = 10.0
_PAUSES_S = (0.05, 0.15, 0.3, 0.6)  # the session of one look has to be gone before the next


def named_server(
    dsn: str | None,
    example: str,
    overrides: Mapping[str, str | int] | None = None,
    *,
    is_for_driver: bool = False,
    own_session: str = "",
    even_in_turn: bool = False,
) -> Server:
    """Return the server that the arguments name, reached as psql reaches it.

    Args:
        example: a command that names a server, for the hint.
        overrides: libpq's keywords that replace those of `dsn`.
        is_for_driver: refuse what the load driver cannot connect to.
        own_session: what needs sessions of its own, and is refused behind a pooler that shares them: "horizon show".
        even_in_turn: refuse it also where clients get a session one after the other.

    Raises:
        UsageError: nothing names a server, or the arguments are not valid.
        ServerLost: the server does not answer.
    """
    if not names_a_server(dsn, overrides or {}):
        raise UsageError(
            "no server was named",
            detail="There is no connection string, and PGHOST, PGDATABASE and the like are not set.",
            hint=f"Name a server, for example: {example}",
        )
    _refuse_path(dsn, example)
    ask_password = getpass.getpass if can_answer() else None
    server = reach(dsn, overrides, ask_password=ask_password, is_for_driver=is_for_driver)
    if own_session:
        refuse_shared_sessions(server.pooler, own_session, even_in_turn=even_in_turn)
    return server


def _refuse_path(dsn: str | None, example: str) -> None:
    """Refuse a file, or a directory that is written as a path: no database is called so."""
    is_path = os.sep in str(dsn) or dsn in (os.curdir, os.pardir)
    if dsn is not None and (is_file(dsn) or (is_path and is_directory(dsn))):
        kind = "file" if is_file(dsn) else "directory"
        raise UsageError(
            f'"{dsn}" is a {kind}, not a server',
            hint=f'Name a server, for example: {example}; a database of that name is "dbname={dsn}".',
        )


def free_server(server: Server, wait_s: float | None) -> Server:
    """Return a server once no other pgdrag runs an experiment there, which a load would disturb.

    What a dead one has left changed is undone first: it would be measured, too.

    Args:
        wait_s: as --wait says; None: do not wait.

    Raises:
        UsageError: another one does.
        ServerLost: the server does not answer.
    """
    from pgdrag.cli.place import restore_leftovers, say
    from pgdrag.existing.server_lock import wait_until_free

    for sentence in restore_leftovers():
        say(sentence)
    return wait_until_free(server, wait_s or 0.0, say)


def require_consent(server: Server, purpose: str, *, is_given: bool, risk: str = "") -> None:
    """Ask before writing to a server that others seem to use, or where that is a risk anyway.

    Args:
        purpose: what pgdrag is about to do: "run the load there".
        is_given: consent was given with --yes.
        risk: what it may do to any server, as a sentence without its full stop; "": nothing.

    Raises:
        UsageError: there is no terminal to ask on, or the answer was no.
        ServerLost: the server does not answer any more.
    """
    if is_given:
        return
    signs = " and ".join(_settled(server).production_signs)
    why = [f"others seem to use {server.name}: {signs}"] if signs else []
    why += [risk] if risk else []
    if not why:
        return
    ask(
        f"{capital(purpose)} anyway?",
        reasons=[f"{capital(reason)}." for reason in why],
        refusal=f"{why[0][:1].lower()}{why[0][1:]}",
        hint=f"Give --yes to {purpose} anyway.",
    )


def _settled(server: Server) -> Server:
    """Return a server as it is when it has no other session, or as it is after a second: a session whose client has just ended goes by itself."""
    for pause_s in _PAUSES_S:
        if not server.other_sessions:
            break
        time.sleep(pause_s)
        server = server.looked_at_again()
    return server


@contextmanager
def live_line(
    console: Console, *, first_s: float = 0.0, every_s: float = LINE_EVERY_S
) -> Iterator[Callable[[str, float, object], None]]:
    """Show progress: live on a terminal, otherwise a line from `first_s` on every `every_s`.

    Yields:
        What shows a line, given the seconds elapsed and a state, whose changes are printed at once.
    """
    if console.is_terminal and os.environ.get("TERM") != "dumb":
        with Live(Text(""), console=console, refresh_per_second=4, transient=True) as live:
            yield lambda text, *_: live.update(Text(text))
        return
    due_s, last_state = first_s, None

    def show(text: str, elapsed_s: float, state: object) -> None:
        nonlocal due_s, last_state
        if state != last_state or elapsed_s >= due_s:
            due_s, last_state = elapsed_s + every_s, state
            console.print(text, soft_wrap=True)

    yield show


def time_words(elapsed_s: float, for_s: float) -> str:
    """Return the time elapsed and left: `5 min of 1 h, 55 min left`."""
    left_s = max(for_s - elapsed_s, 0.0)
    return (
        f"{format_duration(round(elapsed_s))} of {format_duration(for_s)}, "
        f"{format_duration(round(left_s))} left"
    )
