"""How is every server observed, in the same way in all arms of an experiment?

Some settings are the instrument, not the treatment: where the log goes, what it says at least, where
the server listens. A treatment that sets one of them is run, but the instrument's value wins,
and the trial says so. Pasted configurations set many of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOG_NAME = "server"  # the logging collector adds .json or .csv for these formats
LARGE_TEMP_FILE = "1MB"
_JSON_SINCE = 150000

_OBSERVED = "part of the observation channel, which is the same for all treatments"
_PLACED = "pgdrag decides where its throw-away server lives and listens"
# The server's place; given on its command line, which no file and no ALTER SYSTEM can override.
PLACE = (
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "port",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
)
# The levels of log_min_messages that would hide LOG lines, which carry checkpoints and vacuums.
_HIDING_LEVELS = frozenset({"fatal", "panic"})


@dataclass(frozen=True)
class ChannelNote:
    """A setting that a treatment asked for and did not get (or got with an addition), and why."""

    name: str
    asked: str
    used: str
    why: str


def has_json_log(server_version_num: int) -> bool:
    """Whether a server of this version can write its log as JSON."""
    return server_version_num >= _JSON_SINCE


def channel_settings(log_directory: Path, server_version_num: int) -> dict[str, str]:
    """The settings that make a server of this version observable, for a log in `log_directory`."""
    # Automatic analysing has a setting of its own since 19.
    analyzes = {"log_autoanalyze_min_duration": "0"} if server_version_num >= 190000 else {}
    return {
        "logging_collector": "on",
        "log_destination": "jsonlog" if has_json_log(server_version_num) else "csvlog",
        # Outside of the data directory, so that a snapshot does not contain it.
        "log_directory": str(log_directory),
        "log_filename": LOG_NAME,
        "log_rotation_age": "0",
        "log_rotation_size": "0",
        "log_truncate_on_rotation": "off",
        "log_file_mode": "0600",
        "log_timezone": "UTC",
        "log_checkpoints": "on",
        "log_autovacuum_min_duration": "0",
        **analyzes,
        # How long a wait is that is told, deadlock_timeout says, and that is the treatment's.
        "log_lock_waits": "on",
        # Writing as much takes a hundred times longer than the line that tells it, or more.
        "log_temp_files": LARGE_TEMP_FILE,
    }


def merge_channel(
    settings: Mapping[str, str], channel: Mapping[str, str]
) -> tuple[dict[str, str], list[ChannelNote]]:
    """All settings for the server's file: what is left of `settings`, and `channel` last, where it decides.

    Returns:
        The settings by lower-case name, and a note for each that is not as asked. A setting that
        asks for the channel's own value has no note.
    """
    merged = dict(channel)
    notes = []
    for spelt, asked in settings.items():
        name = spelt.lower()
        if name in PLACE:
            notes.append(ChannelNote(name, asked, "", _PLACED))
        elif name == "log_destination":
            merged[name] = _with_destination(asked, channel[name])
            if merged[name] != asked:
                notes.append(ChannelNote(name, asked, merged[name], _OBSERVED))
        elif name == "log_min_messages" and asked.strip().lower() in _HIDING_LEVELS:
            merged[name] = "log"
            notes.append(ChannelNote(name, asked, "log", _OBSERVED))
        elif name in channel:
            if not _same(asked, channel[name]):
                notes.append(ChannelNote(name, asked, channel[name], _OBSERVED))
        else:
            merged[name] = asked
    deciding = {name: merged.pop(name) for name in channel}
    return {**merged, **deciding}, notes


def _with_destination(asked: str, observed: str) -> str:
    """What was asked for, and the channel's own; without JSON where the server has none."""
    unknown = {"jsonlog"} - {observed}
    parts = [part.strip() for part in asked.split(",") if part.strip()]
    kept = [part for part in parts if part.lower() not in unknown]
    if any(part.lower() == observed for part in kept):
        return asked if kept == parts else ",".join(kept)
    return ",".join([*kept, observed])


def _same(asked: str, used: str) -> bool:
    switches = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off"}
    written = asked.strip().lower()
    return used in (asked, written, switches.get(written))
