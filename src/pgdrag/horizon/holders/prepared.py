"""A prepared transaction that nobody commits: it has no session, and outlives a restart of the server."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import ClassVar

import psycopg
from psycopg import sql

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import Held, Holder, HoldPlace
from pgdrag.horizon.holders._settings import whole
from pgdrag.horizon.holders.session import open_session, wait_until_seen, words_of

GID_PREFIX = "pgdrag horizon holder"
_SETTING = "max_prepared_transactions"
_SEEN = "SELECT count(*) = 1 FROM pg_prepared_xacts WHERE gid = %(gid)s"


class PreparedHolder(Holder):
    """PREPARE TRANSACTION, and nothing after it."""

    name = "prepared"
    summary = "a prepared transaction that nobody ends"
    is_bounded_by_session = False
    settings: ClassVar[Mapping[str, str]] = {_SETTING: "64"}

    @classmethod
    def refusal(cls, settings: Mapping[str, str]) -> str:
        """Return that the settings allow no prepared transaction."""
        if whole(settings, _SETTING) == 0:
            return f"{_SETTING} is 0"
        return ""

    def hold(self, place: HoldPlace) -> Held:
        """Prepare a transaction that has a number."""
        gid = f"{GID_PREFIX} {secrets.token_hex(4)}"
        if place.before_prepare is not None:
            place.before_prepare(gid)
        try:
            with open_session(place) as connection:
                connection.execute("BEGIN")
                connection.execute("SELECT pg_current_xact_id()")
                connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(gid))
        except psycopg.Error as error:
            message = f"could not hold the horizon by a prepared transaction: {words_of(error)}"
            raise ServerError(message, hint=_hint(error)) from error
        held = _HeldPrepared(place, gid)
        try:
            wait_until_seen(place, _SEEN, {"gid": gid}, f'prepared transaction "{gid}"')
        except BaseException:
            held.release()
            raise
        return held


class _HeldPrepared:
    def __init__(self, place: HoldPlace, gid: str) -> None:
        self._place = place
        self._gid = gid
        self._is_released = False

    @property
    def who(self) -> str:
        return f"prepared transaction {self._gid}"

    def lost(self) -> str:
        """Return "": without a session there is nothing that could be seen to break."""
        return ""

    def release(self) -> None:
        if self._is_released:
            return
        try:
            with open_session(self._place) as connection:
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(self._gid))
        except psycopg.errors.UndefinedObject:
            pass  # somebody else has ended it
        except psycopg.Error as error:
            message = f'could not end prepared transaction "{self._gid}": {words_of(error)}'
            raise ServerError(message) from error
        self._is_released = True


def _hint(error: psycopg.Error) -> str | None:
    if isinstance(error, psycopg.errors.ObjectNotInPrerequisiteState):
        return f"Set {_SETTING} above 0; that takes a restart."
    return None
