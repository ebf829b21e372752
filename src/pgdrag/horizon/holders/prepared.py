"""A prepared transaction that is never committed: it has no session, and survives a restart of the server."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import psycopg
from psycopg import sql

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import Held, Holder, HoldPlace, whole_setting
from pgdrag.horizon.holders.session import open_session, wait_until_seen
from pgdrag.host.error_words import words_of
from pgdrag.host.undo.prepared_transaction import GID_PREFIX

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
        if whole_setting(settings, _SETTING) == 0:
            return f"{_SETTING} is 0"
        return ""

    def hold(self, place: HoldPlace) -> Held:
        gid = f"{GID_PREFIX} {secrets.token_hex(4)}"
        try:
            with open_session(place) as connection:
                connection.execute("BEGIN")
                # Refused by a standby, where nothing could be rolled back either: before it is noted.
                connection.execute("SELECT pg_current_xact_id()")
                if place.before_prepare is not None:
                    place.before_prepare(gid)
                connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(gid))
        except psycopg.Error as error:
            message = f"could not hold the horizon by a prepared transaction: {words_of(error)}"
            is_off = isinstance(error, psycopg.errors.ObjectNotInPrerequisiteState)
            hint = f"Set {_SETTING} above 0; that takes a restart." if is_off else None
            raise ServerError(message, hint=hint) from error
        held = Held(f"prepared transaction {gid}", partial(_roll_back, place, gid))
        try:
            wait_until_seen(place, _SEEN, {"gid": gid}, f'prepared transaction "{gid}"')
        except BaseException:
            held.release()
            raise
        return held


def _roll_back(place: HoldPlace, gid: str) -> None:
    try:
        with open_session(place) as connection:
            connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))
    except psycopg.errors.UndefinedObject:
        pass  # somebody else has ended it
    except psycopg.Error as error:
        message = f'could not end prepared transaction "{gid}": {words_of(error)}'
        raise ServerError(message) from error
