"""What did the server say since it was last started, and why did it refuse?

Until its logging collector runs, and whenever it cannot, a server writes to standard error; from then
on it writes JSON lines.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from pgdrag.servers.channel import LOG_NAME

# Enough for any tail; a log may have grown to gigabytes under log_statement = all.
_TAIL_BYTES = 256 * 1024
_COMPLAINT = re.compile(r"\b(LOG|ERROR|FATAL|PANIC):\s+(\S.*)")
# The second is the hint after a write that was cut short.
_FULL_DISK = ("No space left on device", "Check free disk space")


def is_full_disk(text: str) -> bool:
    """Whether words of a server, a tool or the driver, or a log's tail, tell of a full file system.

    Shared memory has limits of its own, which are the treatment's doing. PostgreSQL reports both as
    SQLSTATE 53100 and with the same words, so that only the rest of the line tells them apart.
    """
    return any(
        words in line and "shared memory" not in line
        for line in text.splitlines()
        for words in _FULL_DISK
    )


@dataclass
class ServerLog:
    """The log files of one cluster: `startup_file` (standard error) and those in `directory`."""

    startup_file: Path
    directory: Path
    _marks: dict[Path, int] = field(default_factory=dict)

    def json_files(self) -> list[Path]:
        """The log in JSON, oldest first."""
        return sorted(self.directory.glob(f"{LOG_NAME}*.json"))

    def mark_start(self) -> None:
        """From here on `tail` and `refusal` tell of a new start."""
        self._marks = {path: path.stat().st_size for path in self._files() if path.exists()}

    def tail(self, lines: int) -> str:
        """The last `lines` since the mark, as text."""
        return "\n".join(self._lines()[-lines:])

    def refusal(self) -> str | None:
        """The reason that the server gave for not starting, or None if it gave none."""
        complaints = [
            found.groups() for line in self._lines() if (found := _COMPLAINT.search(line))
        ]
        fatal = [text for level, text in complaints if level in ("FATAL", "PANIC")]
        if not fatal:
            return None
        if "contains errors" not in fatal[-1]:
            return fatal[-1]
        # The reason stands in the lines before, one for each wrong setting.
        return next((text for level, text in complaints if level == "LOG"), fatal[-1])

    def _files(self) -> list[Path]:
        return [self.startup_file, self.directory / LOG_NAME, *self.json_files()]

    def _lines(self) -> list[str]:
        found: list[str] = []
        for path in self._files():
            text = _read_tail(path, self._marks.get(path, 0))
            for line in text.splitlines():
                found.extend(_as_text(line) if path.suffix == ".json" else [line])
        return found


def _read_tail(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start, size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _as_text(line: str) -> list[str]:
    """One JSON line in the form of the server's plain log."""
    try:
        entry = json.loads(line)
        first = f"{entry['timestamp']} [{entry['pid']}] {entry['error_severity']}:  "
        lines = [first + str(entry.get("message", ""))]
    except (ValueError, KeyError, TypeError):  # cut off at the tail's start, or by a crash
        return []
    rest = [(label, entry.get(label.lower())) for label in ("DETAIL", "HINT", "CONTEXT")]
    return lines + [f"    {label}:  {text}" for label, text in rest if text]
