"""What is this server, what may this role do there, and what else must be known before anything is changed?"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import psycopg

from pgdrag.driver.connection_string import Server
from pgdrag.existing.refusals import refusals_told
from pgdrag.host.auto_conf import FILE, AutoConf
from pgdrag.host.undo.altered_system import is_cluster, read_auto_conf, waiting_for_restart
from pgdrag.live.server import answering
from pgdrag.servers.settings import CATALOG_SQL, LIBRARIES_SQL, SettingsCatalog
from pgdrag.units import same_value

# Roles that only these services have; their customers' superusers are none.
_SERVICES = {
    "rds_superuser": "Amazon RDS",
    "cloudsqlsuperuser": "Google Cloud SQL",
    "alloydbsuperuser": "Google AlloyDB",
    "azure_pg_admin": "Azure Database for PostgreSQL",
}


@dataclass(frozen=True)
class InForce:
    """A setting of a session like those of the load.

    Attributes:
        value: as pg_settings shows it.
        source: where it comes from, in the server's words: "default", "configuration file", "command line" ….
        is_waiting: the server must be restarted for the value that is written.
    """

    value: str
    source: str
    is_waiting: bool


@dataclass(frozen=True)
class Standing:
    """A server and the role that pgdrag has there.

    Attributes:
        server: how it is reached.
        system_identifier: which no other cluster has, but for its copies and standbys.
        is_superuser: the role is one.
        service: whose managed service it is; "".
        data_directory: where it is, if it is on this machine and this user may write there; else "".
        conf: the postgresql.auto.conf; None: the role may not read it.
        no_altering: why there is no ALTER SYSTEM, as a clause; "".
        no_loading: why the server must not read its configuration again, as a clause; "".
        settings: what it says of its settings; as their defaults, the values that they have there.
        in_force: by name in lower case.
        grants: settings that only superusers change, and that this role may.
        waiting: settings that a restart would change, if the role is a superuser.
    """

    server: Server
    system_identifier: str
    version_num: int
    is_superuser: bool
    service: str
    data_directory: str
    conf: AutoConf | None
    no_altering: str
    no_loading: str
    settings: SettingsCatalog
    in_force: Mapping[str, InForce]
    grants: frozenset[str] = frozenset()
    waiting: tuple[str, ...] = ()

    @property
    def elsewhere(self) -> str:
        """Why this machine's operating system may not be the server's, as a clause; "": it is."""
        if not self.server.is_local:
            return f"the server is on another machine, {self.server.target.host}"
        if not self.data_directory:
            return (
                "the server's data directory cannot be reached from here, so it may run elsewhere"
            )
        return ""


def look_at(server: Server) -> Standing:
    """Return what a server says of itself; it is only read.

    Raises:
        ServerLost: it does not answer, or refuses.
    """
    with refusals_told(server), server.connect() as connection, answering(connection, server.name):
        return _looked_at(server, connection)


def identifier_of(server: Server) -> str:
    """Return the server's system identifier, which no other cluster has, but for its copies and standbys.

    Raises:
        ServerLost: it does not answer, or refuses.
    """
    return look_at(server).system_identifier


def settings_in_force(connection: psycopg.Connection) -> dict[str, InForce]:
    """Return the settings of a new session, by name in lower case."""
    rows = connection.execute(_IN_FORCE).fetchall()
    return {
        name.lower(): InForce(value or "", source, waits) for name, value, source, waits in rows
    }


def _looked_at(server: Server, connection: psycopg.Connection) -> Standing:
    ((identifier, is_superuser, directory),) = connection.execute(_WHO).fetchall()
    roles = {name for (name,) in connection.execute(_ROLES, [list(_SERVICES)])}
    service = next((words for name, words in _SERVICES.items() if name in roles), "")
    in_force = settings_in_force(connection)
    conf = None
    with suppress(psycopg.errors.InsufficientPrivilege):
        conf = read_auto_conf(connection)
    return Standing(
        server=server,
        system_identifier=identifier,
        version_num=connection.info.server_version,
        is_superuser=is_superuser,
        service=service,
        data_directory=_directory_here(directory, identifier) if server.is_local else "",
        conf=conf,
        no_altering=_why_no_altering(service, in_force, conf, is_superuser=is_superuser),
        no_loading=why_no_loading(connection) if is_superuser else "",
        settings=_catalog(connection, in_force, is_superuser=is_superuser),
        in_force=in_force,
        grants=_grants(connection),
        waiting=tuple(waiting_for_restart(connection)) if is_superuser else (),
    )


def _why_no_altering(
    service: str, in_force: Mapping[str, InForce], conf: AutoConf | None, *, is_superuser: bool
) -> str:
    if service:
        return f"{service} has no ALTER SYSTEM"
    if not is_superuser or conf is None:
        return "ALTER SYSTEM is for superusers"
    allowed = in_force.get("allow_alter_system")
    if allowed is not None and allowed.value == "off":
        return "allow_alter_system is off there"
    if not conf.is_plain:
        return f"ALTER SYSTEM would remove comments that somebody has written into {FILE}"
    return ""


def why_no_loading(connection: psycopg.Connection, *, own: Collection[str] = ()) -> str:
    """Return why the server must not read its configuration again, as a clause; "": nobody has unread changes there.

    Args:
        own: the settings, in lower case, that pgdrag itself has in postgresql.auto.conf.
    """
    errors = [f"{file}, line {line}" for file, line in connection.execute(_ERRORS)]
    if errors:
        return f"its configuration has errors ({'; '.join(errors)})"
    # Times of files are whole seconds: values tell what was written in the second of the last reload.
    files = [name for (name,) in connection.execute(_CHANGED)]
    names = [
        name
        for name, written, shown, vartype, unit in connection.execute(_WRITTEN)
        if not same_value(written, shown, vartype=vartype, unit=unit)
    ]
    names += [name for (name,) in connection.execute(_TAKEN_AWAY)]
    changed = [x for x in files if not (own and PurePath(x).name == FILE)]
    changed += [x for x in names if x.lower() not in own]
    if changed:
        return f"its files have changes that it has not loaded ({', '.join(changed)})"
    return ""


def _catalog(
    connection: psycopg.Connection, in_force: Mapping[str, InForce], *, is_superuser: bool
) -> SettingsCatalog:
    rows = connection.execute(CATALOG_SQL).fetchall()
    libraries: list[str] = []
    if is_superuser:
        with suppress(psycopg.Error):
            libraries = [name for (name,) in connection.execute(LIBRARIES_SQL)]
    catalog = SettingsCatalog.from_rows(connection.info.server_version, rows, libraries)
    own = {
        name: replace(one, boot_value=in_force[name].value) if name in in_force else one
        for name, one in catalog.settings.items()
    }
    return replace(catalog, settings=own, is_throw_away=False)


def _grants(connection: psycopg.Connection) -> frozenset[str]:
    if connection.info.server_version < _GRANTS_SINCE:
        return frozenset()
    return frozenset(name for (name,) in connection.execute(_GRANTS))


def _directory_here(directory: str | None, identifier: str) -> str:
    """Return the data directory, where it is this server's and this user may write to it."""
    if not directory or not is_cluster(directory, identifier):
        return ""
    owner = Path(directory).stat().st_uid
    return directory if os.geteuid() in (0, owner) else ""


_WHO = """
SELECT (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
       (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user),
       (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory')
"""
_GRANTS_SINCE = 150000
_GRANTS = """
SELECT name FROM pg_catalog.pg_settings
 WHERE context = 'superuser' AND pg_catalog.has_parameter_privilege(name, 'SET')
"""
_ROLES = "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = ANY (%s)"
# A session begins with `reset_val`; what pgdrag itself asked for is not the load's.
_IN_FORCE = """
SELECT name, reset_val, source, pending_restart FROM pg_catalog.pg_settings
"""
_ERRORS = """
SELECT sourcefile, sourceline FROM pg_catalog.pg_file_settings
 WHERE error IS NOT NULL AND sourcefile IS NOT NULL AND error <> 'setting could not be applied'
"""
_CHANGED = """
SELECT DISTINCT sourcefile FROM pg_catalog.pg_file_settings
 WHERE (pg_catalog.pg_stat_file(sourcefile)).modification > pg_catalog.pg_conf_load_time()
 ORDER BY 1
"""
# Of strings the server may show another spelling.
_WRITTEN = """
SELECT f.name, f.setting, s.reset_val, s.vartype, s.unit
  FROM pg_catalog.pg_file_settings AS f JOIN pg_catalog.pg_settings AS s ON lower(s.name) = lower(f.name)
 WHERE f.applied AND s.vartype <> 'string' AND s.source IN ('default', 'configuration file')
"""
_TAKEN_AWAY = """
SELECT name FROM pg_catalog.pg_settings
 WHERE source = 'configuration file' AND lower(name) NOT IN (
       SELECT lower(name) FROM pg_catalog.pg_file_settings WHERE name IS NOT NULL)
"""
