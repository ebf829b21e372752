"""What does a postgresql.conf say, and how is one written so that the server reads the same?

`parse_conf` is exactly as strict as the server's own lexer (guc-file.l): what one accepts the
other accepts, with the same names, values and line numbers.  `parse_pasted` also takes what
articles and chats print, and says what it mended.  Neither knows which settings exist;
`pgdrag.servers.settings` does.

Text goes in and comes out as `str`; whoever reads or writes the file uses UTF-8 with
`errors="surrogateescape"` and `newline=""`, so that no byte is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ConfError
from pgdrag.servers.conf.lexer import INCLUDES, NAME, LineError, fold, parse_line
from pgdrag.servers.conf.pasted import parse_pasted_line

__all__ = [
    "ConfLine",
    "Mend",
    "effective",
    "fold",
    "is_name",
    "parse_conf",
    "parse_pasted",
    "quote",
    "write_conf",
]


@dataclass(frozen=True)
class ConfLine:
    """One setting as a file gives it: the name as written, the value without its quotes."""

    name: str
    value: str
    line: int


@dataclass(frozen=True)
class Mend:
    """One liberty that `parse_pasted` took; `what` is a clause that begins with the line."""

    line: int
    what: str


def parse_conf(text: str, *, path: Path | str | None = None) -> list[ConfLine]:
    """Return every setting of a postgresql.conf, in order, repeated ones included.

    Raises:
        ConfError: the server would report a syntax error, or the file includes another one,
            which is refused because the settings would then not all be in sight.
    """
    found = []
    for number, source in enumerate(text.split("\n"), start=1):
        try:
            setting = parse_line(source)
        except LineError as error:
            raise _conf_error(error, source, number, path) from None
        if setting is not None:
            found.append(ConfLine(*setting, number))
    return found


def parse_pasted(text: str, *, path: Path | str | None = None) -> tuple[list[ConfLine], list[Mend]]:
    """Return the settings of text copied from anywhere, and what had to be mended.

    A line that `parse_conf` accepts is taken as it stands, unless it has a typographic quote,
    dash, space or invisible character outside plain quotes: those the server takes for letters.
    Any other line is read as a person would, if there is only one way to read it.

    Raises:
        ConfError: a line that stays ambiguous or senseless, or one that includes a file.
    """
    found, mends = [], []
    for number, source in enumerate(text.split("\n"), start=1):
        try:
            setting, notes = parse_pasted_line(source)
        except LineError as error:
            raise _conf_error(error, source, number, path) from None
        mends += [Mend(number, f"line {number}: {note}") for note in notes]
        if setting is not None:
            found.append(ConfLine(*setting, number))
    return found, mends


def effective(lines: Iterable[ConfLine]) -> dict[str, ConfLine]:
    """Return the line that counts for each setting, the last, under its folded name."""
    return {fold(line.name): line for line in lines}


def is_name(text: str) -> bool:
    """Tell whether a file can set something of this name: `work_mem`, or `my_app.user_id`."""
    return NAME.fullmatch(text) is not None


def quote(value: str) -> str:
    """Return a value in quotes, as postgresql.conf has them.

    Raises:
        ConfError: the value has a newline (ALTER SYSTEM refuses it, too) or a NUL.
    """
    for character, what in (("\n", "a newline"), ("\0", "a NUL character")):
        if character in value:
            raise ConfError(f"value {value!r} must not contain {what}")
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def write_conf(settings: Mapping[str, str], *, header: str = "") -> str:
    """Return a postgresql.conf of these settings, every value quoted, below header as a comment.

    Raises:
        ConfError: a name or value that the server could not read back, or one setting twice.
    """
    lines = [f"# {line}".rstrip() for line in header.split("\n")] if header else []
    seen: dict[str, str] = {}
    for name, value in settings.items():
        if not is_name(name):
            raise ConfError(f'"{name}" cannot be the name of a setting')
        if fold(name) in INCLUDES:
            raise _include_error(name, None, None)
        if fold(name) in seen:
            raise ConfError(f'"{seen[fold(name)]}" and "{name}" are the same setting')
        seen[fold(name)] = name
        lines.append(f"{name} = {quote(value)}")
    return "".join(line + "\n" for line in lines)


def _conf_error(error: LineError, source: str, line: int, path: Path | str | None) -> ConfError:
    if error.is_include:
        return _include_error(str(error), path, line)
    prefix = "" if path is not None else f"line {line}: "
    detail = f"The line is: {source.strip()[:200]!r}."
    return ConfError(prefix + str(error), path=path, line=line, detail=detail, hint=error.hint)


def _include_error(name: str, path: Path | str | None, line: int | None) -> ConfError:
    prefix = f"line {line}: " if path is None and line is not None else ""
    return ConfError(
        f'{prefix}cannot follow "{name}": all settings must be in this file',
        path=path,
        line=line,
        hint="Put the lines of the included files in the place of this one.",
    )
