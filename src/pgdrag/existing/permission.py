"""What may an experiment change on a server that exists, and which of its levels are out of reach there?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.english import did_you_mean, listed
from pgdrag.errors import SettingError, UsageError
from pgdrag.existing.operating_system import host_problems
from pgdrag.existing.standing import InForce, Standing
from pgdrag.factors import Here, Phase, Problem, all_factors, is_of
from pgdrag.factors.kernel_files import KernelFiles
from pgdrag.findings.durability import loss_of
from pgdrag.host.auto_conf import loads_nothing
from pgdrag.model import Level
from pgdrag.model.program import is_program
from pgdrag.servers.channel import PLACE, has_json_log
from pgdrag.servers.conf import fold
from pgdrag.servers.settings import Setting, SettingsCatalog
from pgdrag.servers.side_effects import REACHING
from pgdrag.units import parse_bool

SETTINGS, ROLE, RESTART, DATABASE = "settings", "role", "restart", "database"
OS = "os"
# What may change there, as `--allow-change` names it; any other name is a setting's.
CLASSES: Mapping[str, str] = {
    SETTINGS: "settings of the server, or of the load's role where there is no ALTER SYSTEM, undone afterwards",
    ROLE: "settings of the load's role in its database alone, undone afterwards",
    RESTART: "the server is restarted, by --restart-command",
    DATABASE: "a database of pgdrag's own is made there, and dropped afterwards",
    OS: "the operating system of this machine, if the server runs on it, undone afterwards",
}
# Beside those that reach beyond any server, and those with which data may be lost.
_OTHERS_DEPEND_ON = frozenset(
    {
        "allow_alter_system",
        "hot_standby",
        "max_connections",
        "max_prepared_transactions",
        "max_replication_slots",
        "max_wal_senders",
        "password_encryption",
        "recovery_target_timeline",
        "reserved_connections",
        "ssl",
        "superuser_reserved_connections",
        "synchronous_standby_names",
        "wal_level",
    }
)
# Where a session's value comes from that no file outdoes.
_STRONGER = {
    "command line": "the server's command line sets it",
    "environment variable": "an environment variable of the server sets it",
    "override": "the server itself decides it",
    "database": "ALTER DATABASE ... SET sets it",
    "user": "ALTER ROLE ... SET sets it for this role",
    "database user": "ALTER ROLE ... IN DATABASE ... SET sets it for this role",
    "client": "the connection sets it",
}


@dataclass(frozen=True)
class Permission:
    """What may change there.

    Attributes:
        allowed: names that `--allow-change` gives: those of `CLASSES`, and of settings.
        restart_command: restarts the server; "": it is not restarted.
    """

    allowed: frozenset[str] = frozenset()
    restart_command: str = ""

    @property
    def restarts(self) -> bool:
        """Whether the server may be restarted, and by what is known."""
        return RESTART in self.allowed and bool(self.restart_command)

    @property
    def changes_settings(self) -> bool:
        """Whether settings may change, for all sessions or for the load's."""
        return SETTINGS in self.allowed or ROLE in self.allowed

    def by_role(self, standing: Standing) -> bool:
        """Whether settings are those of the load's role: as asked for, or since there is no other way."""
        return bool(standing.no_altering) or (ROLE in self.allowed and SETTINGS not in self.allowed)

    def names(self, setting: str) -> bool:
        """Whether a setting is named itself."""
        return fold(setting) in {fold(name) for name in self.allowed}


def level_problems(
    levels: Sequence[Level], here: Here, standing: Standing, permission: Permission
) -> list[Problem]:
    """Return which levels cannot be had on a server that exists, and why."""
    kinds = all_factors()
    everything = replace(here, allowed=here.allowed | REACHING.keys())
    found: list[Problem] = []
    for name, kind in kinds.items():
        own = [level for level in levels if level.kind == name]
        if kind.phase is Phase.WORKLOAD:
            found += kind().check(own, everything)
        elif issubclass(kind, KernelFiles):
            found += host_problems(kind, own, here, standing, is_allowed=OS in permission.allowed)
        elif kind.phase is not Phase.SETTINGS:
            found += map(_not_there, own)
        else:
            mistakes = {problem.level: problem for problem in kind().check(own, everything)}
            found += mistakes.values()
            rest = [level for level in own if level not in mistakes]
            found += [x for level in rest if (x := _problem(level, standing, permission))]
    return found


def refuse_out_of_reach(allowed: Collection[str], standing: Standing) -> None:
    """Refuse an `--allow-change` of an operating system that is not this machine's.

    Raises:
        UsageError: it is another's.
    """
    if OS in allowed and standing.elsewhere:
        raise UsageError(
            f"the operating system of {standing.server.name} is out of reach: {standing.elsewhere}",
            hint=f"Run pgdrag on the server's own machine, as root, or omit --allow-change {OS}.",
        )


def refuse_meaningless_names(allowed: Iterable[str], settings: SettingsCatalog) -> None:
    """Refuse an `--allow-change` that would allow nothing.

    Args:
        settings: of the server.

    Raises:
        UsageError: a name is neither one of `CLASSES` nor a setting, a kernel parameter or a path.
    """
    for name in allowed:
        # A name with points is a setting of an extension or a parameter of the kernel, one with slashes a disk.
        if name in CLASSES or is_program(name) or "/" in name or "." in name:
            continue
        try:
            settings.find(name)
        except SettingError:
            raise UsageError(
                f'--allow-change "{name}" names nothing that can change',
                hint=did_you_mean(name, (*CLASSES, *settings.settings))
                or f"It takes the name of a setting or a kernel parameter, or a path; with --dsn also {listed(tuple(CLASSES), 'or')}.",
            ) from None


def refuse_without_server(allowed: Iterable[str]) -> None:
    """Refuse an `--allow-change` that only makes sense for an existing server.

    Raises:
        UsageError: there is one.
    """
    for name in allowed:
        if name in CLASSES:
            raise UsageError(
                f"--allow-change {name} requires --dsn",
                hint="On throw-away servers settings need no consent.",
            )


def refuse_unasked_changes(levels: Sequence[Level], server: str, permission: Permission) -> None:
    """Refuse a run that changes anything that was not allowed, and list it.

    Raises:
        UsageError: with the option that allows it.
    """
    changes = [level for level in levels if is_of(Phase.SETTINGS, level.kind)]
    if not changes or permission.changes_settings:
        return
    named = listed(list(dict.fromkeys(x.name for x in changes if permission.names(x.name))))
    why = (
        f"A setting's name ({named}) is not enough: it is needed in addition, where others depend on the setting or data "
        "may be lost. "
        if named
        else ""
    )
    raise UsageError(
        f"this would change settings of {server}, which nobody has allowed",
        detail="It would set, and undo afterwards:\n"
        + "\n".join(_lines(changes))
        + "\n--dry-run shows all that would be done.",
        hint=f"{why}To allow it, add --allow-change {SETTINGS}, or --allow-change {ROLE} to set them for the load's role "
        "alone.",
    )


def _lines(changes: Sequence[Level]) -> list[str]:
    return [f"  {level.name} = {level.shown}" for level in dict.fromkeys(changes)]


def _not_there(level: Level) -> Problem:
    if is_of(Phase.SERVER, level.kind):
        message = f"an existing server keeps its PostgreSQL, and cannot run {level.shown}"
    else:
        message = f"{level.kind} {level.name} is changed only on throw-away servers"
    return Problem(level, False, message, "Omit --dsn to have it on a throw-away server.")


def _problem(level: Level, standing: Standing, permission: Permission) -> Problem | None:
    """Return why a setting is out of reach; None: it is not."""
    setting = standing.settings.find(level.name)
    name, said = fold(setting.name), f'setting "{setting.name}"'
    if name in PLACE:
        return Problem(
            level, False, f"{said} determines the server's location and cannot be changed"
        )
    if name == "allow_alter_system" and parse_bool(level.value) is False:
        return Problem(level, False, f"{said} stays on: nothing could be undone with it off")
    if (
        name == "log_destination"
        and "jsonlog" in level.value
        and not has_json_log(standing.version_num)
    ):
        message = f"PostgreSQL {standing.version_num // 10000} writes no jsonlog"
        return Problem(level, False, f"{message}, so {said} cannot be {level.value}")
    if loads_nothing(name, level.value):
        hint = "Leave it at the server's own value, or name a library that does no harm."
        return Problem(
            level, False, f"{said} cannot be emptied by ALTER SYSTEM or ALTER ROLE", hint
        )
    if (why := _needs_naming(name, level.value)) and not permission.names(name):
        hint = f"To change it all the same, add --allow-change {setting.name}."
        return Problem(level, False, f"{said} is not changed on an existing server: {why}", hint)
    now = standing.in_force.get(name)
    if permission.by_role(standing):
        return _problem_of_role(level, setting, now, standing)
    if now is not None and now.is_waiting:
        hint = "Restart the server, or take the change back."
        return Problem(level, False, f"{said} already has a change pending a restart", hint)
    if now is not None and now.source in _STRONGER:
        message = f"{said} cannot be changed by ALTER SYSTEM: {_STRONGER[now.source]}, which wins"
        hint = f"Add --allow-change {ROLE} instead of {SETTINGS}, or take that setting back."
        return Problem(level, False, message, hint if "ALTER" in _STRONGER[now.source] else "")
    if setting.context == "postmaster" and not permission.restarts:
        hint = f"Add --allow-change {RESTART} --restart-command 'pg_ctlcluster 18 main restart', or what restarts it."
        return Problem(level, False, f"{said} takes effect only when the server is restarted", hint)
    return None


def _problem_of_role(
    level: Level, setting: Setting, now: InForce | None, standing: Standing
) -> Problem | None:
    """Return why a setting is out of reach of ALTER ROLE; None: it is not."""
    said, why = f'setting "{setting.name}"', standing.no_altering
    if now is not None and now.source == "client":
        return Problem(level, False, f"{said} is set by the connection, which wins")
    if setting.context == "user" or (standing.is_superuser and setting.context == "superuser"):
        return None
    if setting.context == "superuser" and setting.name in standing.grants:
        return None
    when = {"postmaster": "at the server's start", "sighup": "for the whole server"}
    reach = when.get(setting.context, "by a superuser")
    because = f", and {why}" if why else ""
    hint = "" if why else f"Add --allow-change {SETTINGS}."
    return Problem(level, False, f"{said} is out of reach: it is set {reach}{because}", hint)


def _needs_naming(name: str, value: str) -> str:
    """Return why a setting is changed only where it is named, as a clause; "": it need not be."""
    _, reaches = REACHING.get(name, ("", None))
    if reaches is not None and reaches(value):
        return "it reaches beyond the server"
    if loss := loss_of(name, value):
        return str(loss)
    return "others depend on it" if name in _OTHERS_DEPEND_ON else ""
