"""Which settings of an existing server can a throw-away server have, and why not the others?

A configuration says where its own server lives, how it proves who it is, where its WAL goes and which
standbys it waits for. None of that is here, and much of it would keep a server from starting, have every
commit wait for ever, or run a program. Whoever names such a setting himself (`ssl=on`, or `--allow-change ssl`)
gets what he asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pgdrag.english import listed
from pgdrag.errors import SettingError
from pgdrag.experiment.formats import Configuration, Given, Skipped
from pgdrag.servers.channel import PLACE
from pgdrag.servers.conf import fold
from pgdrag.servers.settings import (
    NotInThisBuild,
    PasswordInSetting,
    SettingsCatalog,
    UnknownSetting,
    version_text,
)
from pgdrag.servers.side_effects import why_not_applied

MOST_NAMES = 6  # of one reason in a line

# The reasons are said of one setting or of several.
_REASONS: Mapping[str, str] = {
    "pgdrag decides where its servers live and listen": " ".join(PLACE),
    "clients connect through a local socket, without certificates": """
        ssl ssl_ca_file ssl_cert_file ssl_ciphers ssl_crl_dir ssl_crl_file ssl_dh_params_file ssl_ecdh_curve
        ssl_groups ssl_key_file ssl_max_protocol_version ssl_min_protocol_version
        ssl_passphrase_command_supports_reload ssl_prefer_server_ciphers ssl_renegotiation_limit
        ssl_tls13_ciphers krb_caseins_users krb_server_keyfile gss_accept_delegation
        oauth_validator_libraries""",
    "there is nothing to recover here": """
        recovery_target recovery_target_action recovery_target_inclusive recovery_target_lsn
        recovery_target_name recovery_target_time recovery_target_timeline recovery_target_xid""",
    "there are no standbys here": """
        primary_slot_name standby_slot_names sync_replication_slots
        synchronized_standby_slots synchronous_standby_names""",
    "pgdrag's servers have the locale C": "lc_messages lc_monetary lc_numeric lc_time",
    "a name that only that server knows": """
        default_tablespace search_path temp_tablespaces""",
    "part of the session that asked": """
        application_name client_encoding role session_authorization transaction_deferrable
        transaction_isolation transaction_read_only""",
}
_WHY_NOT = {name: why for why, names in _REASONS.items() for name in names.split()}
# What the names begin with that a managed service adds to those of PostgreSQL.
_SERVICES = {
    "Amazon RDS": ("rds.", "apg_", "aurora_", "aurora.", "babelfishpg_"),
    "Google Cloud SQL": ("cloudsql.", "alloydb.", "google_"),
    "Azure": ("azure.", "azure_", "connection_throttle.", "index_tuning.", "intelligent_tuning", "logfiles.", "metrics.", "pg_qs.", "pgbouncer.", "pgms_", "require_secure_transport"),
}  # fmt: skip
_NO_LIBRARY = "this server has no such library"
_PRELOADED = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")


def applicable(
    configuration: Configuration,
    settings: SettingsCatalog,
    *,
    allowed: frozenset[str] = frozenset(),
) -> tuple[tuple[Given, ...], tuple[Skipped, ...]]:
    """Return what a throw-away server can have of a configuration, and all that is skipped, by line.

    Args:
        settings: what the server says of its settings. A setting that it has not is skipped where an older
            server had it, or a program wrote it; what a person wrote stays, to be reported as a mistake.
        allowed: names that are applied whatever they do, as `--allow-change` gives them.
    """
    kept: list[Given] = []
    skipped = list(configuration.skipped)
    known, replaced = _by_names_here(configuration.given, settings)
    skipped += replaced
    given, lacking = _without_libraries(known, settings)
    skipped += [Skipped(f'library "{name}"', _NO_LIBRARY, x.place) for name, x in lacking.items()]
    for one in given:
        why = (
            _why_elsewhere(one, allowed)
            or _why_refused(one, settings, is_exported=configuration.is_exported)
            or (_NO_LIBRARY if _belongs_to(one.name, lacking) else "")
        )
        if why:
            skipped.append(Skipped(one.name, why, one.place))
        else:
            kept.append(one)
    return tuple(kept), tuple(sorted(skipped, key=lambda x: x.place))


def has_its_place_elsewhere(name: str) -> bool:
    """Tell whether a setting describes a server's own location and environment, whatever its value."""
    return fold(name) in _WHY_NOT


def renamed_words(configuration: Configuration, settings: SettingsCatalog) -> list[str]:
    """Return a line for each setting that another version has under another name, and that is applied by its name here."""
    found = []
    for one in configuration.given:
        if same := settings.same_as(one.name, one.value):
            line = f"{one.place.file.name}, line {one.place.line}"
            version = version_text(settings.server_version_num)
            found.append(f"{line}: {one.name} is {same[0]} = {same[1]} to PostgreSQL {version}")
    return found


def skipped_words(skipped: Sequence[Skipped]) -> list[str]:
    """Return one line for each reason: the file, what was skipped, and why."""
    by_reason: dict[tuple[str, str], list[Skipped]] = {}
    for one in skipped:
        by_reason.setdefault((one.place.file.name, one.why), []).append(one)
    return [
        f"{file}, {_lines(x.place.line for x in those)}: {_names(x.name for x in those)} not applied: {why}"
        for (file, why), those in by_reason.items()
    ]


def _by_names_here(
    given: Iterable[Given], settings: SettingsCatalog
) -> tuple[list[Given], list[Skipped]]:
    """Return settings by the names that this version has for them; what sets one by both, only by this one."""
    given = list(given)
    spelt = {fold(x.name) for x in given}
    found, replaced = [], []
    for one in given:
        same = settings.same_as(one.name, one.value)
        if same is None:
            found.append(one)
        elif same[0] in spelt:
            replaced.append(Skipped(one.name, f"{same[0]} is set, too", one.place))
        else:
            spelt.add(same[0])
            found.append(replace(one, name=same[0], value=same[1]))
    return found, replaced


def _why_elsewhere(given: Given, allowed: frozenset[str]) -> str:
    if fold(given.name) in map(fold, allowed):
        return ""
    for service, beginnings in _SERVICES.items():
        if fold(given.name).startswith(beginnings):
            return f"specific to {service}"
    if why := why_not_applied(given.name, given.value):
        return f"{why} without --allow-change"
    return _WHY_NOT.get(fold(given.name), "")


def _why_refused(given: Given, settings: SettingsCatalog, *, is_exported: bool) -> str:
    try:
        settings.check(given.name, given.value)
    except UnknownSetting:
        version = version_text(settings.server_version_num)
        no_such = f"PostgreSQL {version} has no such setting" if is_exported else ""
        return settings.why_removed(given.name) or no_such
    except (NotInThisBuild, PasswordInSetting) as error:
        return error.message
    except SettingError as error:
        return error.message if is_exported else ""
    return ""


def _without_libraries(
    given: Iterable[Given], settings: SettingsCatalog
) -> tuple[list[Given], dict[str, Given]]:
    """Return settings that load only what this server has, and what it has not, by name."""
    found, lacking = [], dict[str, Given]()
    for one in given:
        if fold(one.name) not in _PRELOADED or not settings.libraries:
            found.append(one)
            continue
        names = [x for part in one.value.split(",") if (x := part.strip(" \"'"))]
        missing = [x for x in names if _library(x) not in settings.libraries]
        lacking |= dict.fromkeys(map(_library, missing), one)
        there = [x for x in names if x not in missing]
        if there or not missing:
            found.append(replace(one, value=", ".join(there)) if missing else one)
    return found, lacking


def _library(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".so")


def _belongs_to(name: str, libraries: Iterable[str]) -> bool:
    prefix, dot, _ = fold(name).partition(".")
    return bool(dot) and any(x in (prefix, f"pg_{prefix}") for x in libraries)


def _lines(numbers: Iterable[int]) -> str:
    lines = sorted(set(numbers))
    return f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"


def _names(names: Iterable[str]) -> str:
    unique = list(dict.fromkeys(names))
    if len(unique) > MOST_NAMES:
        unique[MOST_NAMES - 1 :] = [f"{len(unique) - MOST_NAMES + 1} more"]
    return f"{listed(unique)} {'is' if len(unique) == 1 else 'are'}"
