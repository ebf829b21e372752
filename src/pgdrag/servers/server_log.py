"""What did the server say since it was last started, and why did it refuse?

Until its logging collector runs, and whenever it cannot, a server writes to standard error; from then
on it writes JSON lines, or CSV where the server is too old for those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pgdrag.host.foreign_files import foreign_bytes, opened_foreign
from pgdrag.servers.channel import LOG_NAME
from pgdrag.servers.log_formats import FORMATS, LogMessage

# Enough for any tail; a log may have grown to gigabytes under log_statement = all.
_TAIL_BYTES = 256 * 1024
_COMPLAINT = re.compile(r"\b(LOG|ERROR|FATAL|PANIC):\s+(\S.*)")
# The second is the hint after a write that was cut short.
_FULL_DISK = ("No space left on device", "Check free disk space")
# What a server says of files and directories that are missing, cut short or torn. Those of temporary files, and of
# libraries that a treatment names, are not the dataset's.
_DAMAGE = re.compile(
    r'could not open file "(?:base|global|pg_xact|pg_multixact)/(?!pgsql_tmp)[^"]*"[^:]*: No such file'
    r'|could not open directory "(?!/|base/pgsql_tmp)[^"]*": No such file'
    r'|could not read blocks? [\d.]+ in file "[^"]*": read only'
    r"|invalid pages? (?:in block|among blocks)"
    r"|incorrect checksum in control file"
    r"|could not locate a valid checkpoint record"
)
_DAMAGED_SQLSTATES = frozenset({"XX001", "XX002"})  # data_corrupted, index_corrupted


def damage(texts: Iterable[tuple[str, str | None]]) -> str:
    """Return the first line that reports a missing or torn file of the dataset; "" if none does.

    Args:
        texts: words of a server or of the driver, or a log's tail, each with the SQLSTATE, if it has one.
    """
    for text, sqlstate in texts:
        if sqlstate in _DAMAGED_SQLSTATES:
            return text.splitlines()[0] if text else f"SQLSTATE {sqlstate}"
        for line in text.splitlines():
            if _DAMAGE.search(line):
                found = _COMPLAINT.search(line)
                return found[2] if found else line.strip()
    return ""


def is_full_disk(text: str) -> bool:
    """Whether a message of a server, a tool or the driver, or the end of a log, reports a full file system.

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

    def files(self) -> list[Path]:
        """The log in JSON, or in CSV where there is none in JSON, oldest first."""
        for suffix in FORMATS:
            if found := sorted(self.directory.glob(f"{LOG_NAME}*{suffix}")):
                return found
        return []

    def size(self) -> int:
        """The bytes of the log in all its formats together."""
        return sum(map(foreign_bytes, self.directory.glob(f"{LOG_NAME}*")))

    def mark_start(self) -> None:
        """From now on, `tail` and `refusal` cover a new start."""
        self._marks = {path: foreign_bytes(path) for path in self._files()}

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
        return [self.startup_file, self.directory / LOG_NAME, *self.files()]

    def _lines(self) -> list[str]:
        found: list[str] = []
        for path in self._files():
            try:
                with opened_foreign(path) as file:
                    size = file.seek(0, 2)
                    file.seek(max(self._marks.get(path, 0), size - _TAIL_BYTES))
                    tail = file.read(_TAIL_BYTES)
            except OSError:
                continue
            if form := FORMATS.get(path.suffix):
                # A line that the start of the tail cut off is not a message.
                messages = map(form.parse, form.records(tail))
                found += [line for one in messages if one for line in _as_text(one)]
            else:
                found += tail.decode(errors="replace").splitlines()
        return found


def _as_text(message: LogMessage) -> Iterator[str]:
    """A message in the form of the server's plain log."""
    yield f"{message.timestamp} [{message.pid}] {message.severity}:  {message.message}"
    rest = (("DETAIL", message.detail), ("HINT", message.hint), ("CONTEXT", message.context))
    for label, text in rest:
        if text:
            yield f"    {label}:  {text}"
