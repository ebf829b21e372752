"""What was meant by a name that neither a file nor anything else has?"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from pgdrag.english import did_you_mean
from pgdrag.errors import SettingError, UsageError
from pgdrag.host.nearest_file import nearest_file
from pgdrag.paths import is_directory
from pgdrag.servers.settings import SettingsCatalog

HOW_TO_WRITE = (
    "Give a file of settings, name=value pairs with commas between them, EXPERIMENT:RUNG, "
    'a server version such as 17, the directory of a PostgreSQL build, or "default".'
)
# What a setting's name and its value are also written with.
_OTHER_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\s*(?:[:\s]\s*(\S.*))?")


def unknown_arm(text: str, settings: SettingsCatalog, experiments: list[str]) -> UsageError:
    """Return why an argument means no arm, with what it may have meant."""
    if not text.strip():
        return UsageError("an arm is empty", hint=HOW_TO_WRITE)
    path = Path(text)
    if is_directory(path):
        inside = sorted(str(each) for each in path.iterdir() if each.suffix == ".conf")
        hint = f'Name a file in it, such as "{inside[0]}".' if inside else HOW_TO_WRITE
        return UsageError(f'there is no PostgreSQL server in directory "{text}"', hint=hint)
    if "/" in text or path.suffix:
        return UsageError(f'there is no file "{text}"', hint=nearest_file(path) or HOW_TO_WRITE)
    pair = _OTHER_PAIR.fullmatch(text.strip())
    if pair is not None:
        with contextlib.suppress(SettingError):
            name = settings.find(pair[1]).name
            return UsageError(
                f'"{text}" gives setting "{name}" no value',
                hint=f"Write {name}={pair[2] or 'VALUE'}.",
            )
    hint = nearest_file(path) or did_you_mean(text, experiments)
    return UsageError(
        f'"{text}" is not a file, setting, experiment or server version', hint=hint or HOW_TO_WRITE
    )
