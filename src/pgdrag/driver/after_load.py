"""What became of a server under load: was it restarted, promoted or lost, or did only its sessions end?"""

from __future__ import annotations

import time

from pgdrag.driver.connection_string import Server
from pgdrag.english import capital, counted
from pgdrag.errors import ServerLost
from pgdrag.model.measurement import Measurement
from pgdrag.units import format_duration

# A server that reports recovery is worth a wait; one that reports nothing may be started soon by someone else.
_PATIENCE_S, _PATIENCE_WITH_NOBODY_S = 30.0, 3.0
_RECOVERS = "the database system is"
_AGAIN_S = 0.5
# The session is gone: connection exceptions, and what a server says to its sessions when it ends them.
_ENDED = ("08", "57P01", "57P02", "57P03", "57P05")


def after_load(server: Server, measured: Measurement) -> tuple[str, ...]:
    """Return what happened to a server in a measured window that makes its numbers mean something else.

    Args:
        server: as it was before the load.

    Raises:
        ServerLost: it ended its sessions and does not answer any more.
    """
    ended = [one for one in measured.errors if one[1].startswith(_ENDED)]
    try:
        now = _answering(server, is_awaited=bool(ended))
    except ServerLost as error:
        if not ended:
            return (f"the server does not answer after the run: {error.message}",)
        raise _lost(measured, ended, error) from None
    found = []
    if now.started_unix_s != server.started_unix_s:
        found.append(
            "the server was restarted during the run: its sessions broke and its caches were empty; measure again"
        )
    if server.is_standby and not now.is_standby:
        found.append("the server was a standby when the run began, and was promoted during it")
    if now.is_standby and not server.is_standby:
        found.append("another server answers now, a standby: there was a failover during the run")
    if ended and not found:
        by = (
            f"The server runs on: it, {server.pooler.name} or"
            if server.pooler
            else "The server runs on: it or"
        )
        _, sqlstate, words, _ = ended[0]
        number = sum(count for *_, count in ended)
        found.append(
            f"sessions were ended {counted(number, 'time')} during the run, first with: {words} (SQLSTATE {sqlstate}). "
            f"{by} something between closed them, and clients connected again"
        )
    return tuple(found)


def _answering(server: Server, *, is_awaited: bool) -> Server:
    began_s = time.monotonic()
    while True:
        try:
            return server.looked_at_again()
        except ServerLost as error:
            patience_s = _PATIENCE_S if _RECOVERS in error.message else _PATIENCE_WITH_NOBODY_S
            if not is_awaited or time.monotonic() - began_s > patience_s:
                raise
        time.sleep(_AGAIN_S)


def _lost(
    measured: Measurement, ended: list[tuple[str, str, str, int]], error: ServerLost
) -> ServerLost:
    last_s = max((one.t_s for one in measured.samples if one.committed), default=0.0)
    _, sqlstate, words, _ = ended[0]
    when = (
        f"about {format_duration(last_s)} into the measured window"
        if last_s
        else "before the measured window"
    )
    return ServerLost(
        f"the server was lost {when}, and does not answer any more",
        detail=f"{counted(measured.total.committed, 'transaction')} had been committed. Sessions ended with: {words} "
        f"(SQLSTATE {sqlstate}). {capital(error.message)}.",
        hint="Look into the server's log. A window without a server has no result.",
    )
