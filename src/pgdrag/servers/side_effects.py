"""Which settings reach beyond a throw-away server, and what would they do there?

A configuration from production archives production's WAL, and one from the internet runs whatever it likes.
None of that is applied unless `--allow-change` names the setting. Which server programs, devices or shell
commands an experiment names is another question: see `pgdrag.factors.programs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pgdrag.servers.conf import fold
from pgdrag.units import parse_bool

# A file of the server's own library directory: it was installed with the server.
_OWN_LIBRARY = re.compile(r"(\$libdir/(plugins/)?)?\w[\w.+-]*")
_OWN_PATHS = frozenset({"", "$libdir", "$system"})
_ELSEWHERE = frozenset({"syslog", "eventlog"})


def _anything(value: str) -> bool:
    return bool(value.strip())


def _is_on(value: str) -> bool:
    return parse_bool(value) is not False


def _libraries_of_others(value: str) -> bool:
    return any(not _OWN_LIBRARY.fullmatch(part) for part in _parts(value))


def _paths_of_others(value: str) -> bool:
    return any(part.strip() not in _OWN_PATHS for part in value.split(":"))


def _leaves_the_log(value: str) -> bool:
    return any(part.lower() in _ELSEWHERE for part in _parts(value))


def _parts(value: str) -> list[str]:
    return [x for part in value.split(",") if (x := part.strip().strip("\"'").strip())]


# What is not done here, said of one setting or of several: their names, and of which values it is true.
_EFFECTS: Mapping[str, Mapping[str, Callable[[str], bool]]] = {
    "nothing is archived or restored here": {
        "archive_cleanup_command": _anything,
        "archive_command": _anything,
        "archive_library": _anything,
        "archive_mode": _is_on,
        "recovery_end_command": _anything,
        "restore_command": _anything,
    },
    "no program is run for a server here": {
        "basebackup_to_shell.command": _anything,
        "plperl.on_init": _anything,
        "plperl.on_plperlu_init": _anything,
        "ssl_passphrase_command": _anything,
    },
    "only the server's own libraries are loaded here": {
        "dynamic_library_path": _paths_of_others,
        "extension_control_path": _paths_of_others,
        # Debian's: a root that stands before all of the server's own directories.
        "extension_destdir": _anything,
        "jit_provider": _libraries_of_others,
        "local_preload_libraries": _libraries_of_others,
        "pljava.libjvm_location": _anything,
        "oauth_validator_libraries": _libraries_of_others,
        "session_preload_libraries": _libraries_of_others,
        "shared_preload_libraries": _libraries_of_others,
    },
    "no other server is connected to here": {"primary_conninfo": _anything},
    "the log is written nowhere else": {"log_destination": _leaves_the_log},
    "no files elsewhere are written or removed": {
        "promote_trigger_file": _anything,
        "stats_temp_directory": _anything,
    },
}
REACHING: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    name: (why, reaches) for why, names in _EFFECTS.items() for name, reaches in names.items()
}


def why_not_applied(name: str, value: str, *, allowed: frozenset[str] = frozenset()) -> str:
    """Return why a setting is not applied to a throw-away server, as a clause; "" where it is.

    Args:
        allowed: names that are applied whatever they do, as `--allow-change` gives them.
    """
    why, reaches = REACHING.get(fold(name), ("", _anything))
    is_allowed = fold(name) in {fold(x) for x in allowed}
    return why if why and reaches(value) and not is_allowed else ""
