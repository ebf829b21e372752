"""What does text copied from anywhere set, as a person reads it?

`read_pasted` takes what the server's own lexer takes, and also what articles, chats and scripts print: it
reads a line as a person would, notes each liberty taken in a clause, and refuses a line that could be read
in two ways. It knows neither which settings exist nor the files that a line includes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ConfError
from pgdrag.experiment.said import Given, Mended, Place, Skipped
from pgdrag.servers.conf import (
    IDENTIFIER,
    INCLUDES,
    STRING,
    VALUE_KINDS,
    LineError,
    fold,
    lex,
    parse_line,
    unescape,
)

# What people write instead.
_SPACES = re.compile(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_INVISIBLE = re.compile(r"[\u200b-\u200f\u2060\ufeff\u00ad]")
_LONG_DASHES = re.compile(r"[\u2014\u2015]")  # these begin a remark
_DASHES = re.compile(r"[\u2010-\u2013\u2212]")
_TYPOGRAPHY = re.compile(
    rf"{_SPACES.pattern}|{_INVISIBLE.pattern}|{_LONG_DASHES.pattern}|{_DASHES.pattern}|[‘’‚“”„«»…•→⇒←]"
)

_LONGEST = 4_000  # bounds the time that a line of nothing but quotes takes
_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*(?:\w+\s*)?|\s*(?:\.\.\.|…)\s*")
_WHOLE_REMARK = re.compile(r"\s*(?:--|//|;)\s*(?P<text>.*)")
_PROMPT = re.compile(r"\s*\w+=[*!]?[#>]\s*(?=(?:ALTER|SELECT|SET)\s)", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-*+•‣▪·]|\d+[.)])\s+(?=\S)")
_COMMAND = re.compile(
    r"\s*(?:(?P<alter>ALTER\s+SYSTEM)\s+SET|SET(?:\s+(?:SESSION|LOCAL))?)\s+", re.IGNORECASE
)
_END = r"(?:\s*;)?(?:\s*--.*)?\s*"
_RESET = re.compile(
    rf"\s*ALTER\s+SYSTEM\s+(?:RESET\s+(?P<reset>{IDENTIFIER}(?:\.{IDENTIFIER})?)"
    rf"|SET\s+(?P<set>{IDENTIFIER}(?:\.{IDENTIFIER})?)(?:\s*=\s*|\s+TO\s+)DEFAULT){_END}",
    re.IGNORECASE,
)
_NARROW = re.compile(
    r"\s*(?P<words>ALTER\s+(?P<kind>ROLE|USER|DATABASE|FUNCTION|PROCEDURE|ROUTINE)\b.*?"
    r"\b(?:SET|RESET)\s+[\w.]+).*",
    re.IGNORECASE,
)
# Beside ALTER SYSTEM in a script, or what psql prints when it is run.
_NO_SETTING = re.compile(
    rf"\s*(?:(?:\w+=[*!]?[#>]\s*)?SELECT\s+(?:pg_catalog\.)?pg_reload_conf\s*\(\s*\){_END}"
    r"|ALTER (?:SYSTEM|ROLE|DATABASE)|SET|pg_reload_conf|-+|[tf]|\(\d+ rows?\))\s*",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    rf"\s*(?P<open>[`\"“”]|\*\*)?(?P<name>{IDENTIFIER}(?:\.{IDENTIFIER})?)(?P<close>[`\"“”]|\*\*)?"
    r"(?P<sign>\s*=\s*|\s*:=?\s+|\s*:=?(?=['\"\d])|\s+TO\s+|\s+(?=[^\s=:]))(?P<rest>.*)",
    re.IGNORECASE,
)
_REMARK_START = re.compile(r"#|;|\s--|\s//|/\*|\s\(|←|<-")
_QUOTES = {
    '"': '"',
    "`": "`",
    "‘": "’",
    "’": "’",
    "‚": "‘’",
    "“": "”",
    "”": "”",
    "„": "“”",
    "«": "»",
}
_SPACED_UNIT = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+))\s+(B|kB|MB|GB|TB|us|ms|s|min|h|d)")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+")
_SQL_STRING = re.compile(r"'(?:[^'\0]|'')*'")  # a backslash is no escape in SQL
_SQL_STRINGS = re.compile(rf"{_SQL_STRING.pattern}(?:\s*,\s*{_SQL_STRING.pattern})*")
_WORD = r"[^\s'\"`‘’‚“”„«»()=<>→⇒…,;#]+"
_LIST = re.compile(rf"{_WORD}(?:\s*,\s*{_WORD})*")
_PHRASES = ("read committed", "read uncommitted", "repeatable read")


@dataclass(frozen=True)
class Include:
    """A directive of `INCLUDES`, in lower case, and the path as written."""

    directive: str
    target: str
    place: Place

    def __str__(self) -> str:
        return f"{self.directive} '{self.target}'"


@dataclass(frozen=True)
class Pasted:
    """What a text says; what an `ALTER SYSTEM RESET` takes back is not in it.

    Attributes:
        skipped: statements that set nothing for the whole server; their words are shortened.
    """

    lines: tuple[Given | Include, ...]
    skipped: tuple[Skipped, ...]
    mended: tuple[Mended, ...]


@dataclass(frozen=True)
class _Altered:
    given: Given  # by ALTER SYSTEM


@dataclass(frozen=True)
class _Reset:
    name: str


_Parsed = Given | _Altered | Include | Skipped | _Reset | None


def read_pasted(text: str, *, path: Path = Path(), first_line: int = 1) -> Pasted:
    """Return the settings of text copied from anywhere, and what had to be mended.

    A line that the server accepts is taken as it stands, unless it has a typographic quote,
    dash, space or invisible character outside plain quotes: those the server takes for letters.
    Any other line is read as a person would, if there is only one way to read it.

    Args:
        path: of the file; `Path()`: it stands in none.
        first_line: the number of the text's first line, where it stands within a file.

    Raises:
        ConfError: a line that stays ambiguous or senseless.
    """
    lines: dict[int, Given | Include] = {}
    altered: dict[str, list[int]] = {}  # lines by ALTER SYSTEM, by the setting's name
    skipped, mended = [], []
    for number, source in enumerate(text.split("\n"), start=first_line):
        place = Place(path, number)
        try:
            parsed, notes = _parse_line(source, place)
        except LineError as error:
            raise _conf_error(error, source, place) from None
        mended += [Mended(note, place) for note in notes]
        if isinstance(parsed, Skipped):
            skipped.append(parsed)
        elif isinstance(parsed, _Reset):
            name = fold(parsed.name)
            reset = list(altered) if name == "all" else [name] if name in altered else []
            for each in reset:
                for at in altered.pop(each):
                    del lines[at]
            if not reset:
                statement = f"ALTER SYSTEM RESET {parsed.name}"
                skipped.append(Skipped(statement, "no ALTER SYSTEM above sets it", place))
        elif isinstance(parsed, _Altered):
            lines[number] = parsed.given
            altered.setdefault(fold(parsed.given.name), []).append(number)
        elif parsed is not None:
            lines[number] = parsed
    return Pasted(tuple(lines.values()), tuple(skipped), tuple(mended))


def parse_pasted(text: str, *, first_line: int = 1) -> tuple[list[Given], list[Mended]]:
    """Return the settings of text that includes no file, and what was mended or left out.

    Raises:
        ConfError: as `read_pasted`, and of a line that includes a file.
    """
    pasted = read_pasted(text, first_line=first_line)
    found = []
    for line in pasted.lines:
        if isinstance(line, Include):
            number = line.place.line
            raise ConfError(
                f'line {number}: cannot follow "{line.directive}": all settings must be in this file',
                line=number,
                hint="Put the lines of the included files in the place of this one.",
            )
        found.append(line)
    left_out = [Mended(f'left out "{x.name}": {x.why}', x.place) for x in pasted.skipped]
    return found, sorted([*pasted.mended, *left_out], key=lambda one: one.place)


def effective(lines: Iterable[Given]) -> dict[str, Given]:
    """Return the line that counts for each setting, the last, under its folded name."""
    return {fold(line.name): line for line in lines}


def _conf_error(error: LineError, source: str, place: Place) -> ConfError:
    file = place.file if place.file.name else None
    prefix = "" if file else f"line {place.line}: "
    detail = f"The line is: {source.strip()[:200]!r}."
    return ConfError(
        prefix + str(error), path=file, line=place.line, detail=detail, hint=error.hint
    )


def _parse_line(source: str, place: Place) -> tuple[_Parsed, list[str]]:
    """Return what a line says, if anything, and a clause for each liberty taken."""
    if len(source) <= _LONGEST and _NO_SETTING.fullmatch(source):
        return None, []
    try:
        setting = parse_line(source)
    except LineError as error:
        return _mend_line(source, place, error)
    bare = [text for kind, text in lex(source) if kind != "string"]
    if any(_TYPOGRAPHY.search(text) for text in bare):
        return _mend_line(source, place, LineError("typographic characters"))
    return _said(setting, place), []


def _said(setting: tuple[str, str] | None, place: Place, *, is_altered: bool = False) -> _Parsed:
    if setting is None:
        return None
    name, value = setting
    if fold(name) in INCLUDES:
        return Include(fold(name), value, place)
    given = Given(name, value, place)
    return _Altered(given) if is_altered else given


def _mend_line(source: str, place: Place, error: LineError) -> tuple[_Parsed, list[str]]:
    if len(source) > _LONGEST:
        hint = "Break the text into lines."
        raise LineError(f"cannot tell what a line of {len(source)} characters sets", hint=hint)
    notes: list[str] = []
    if _FENCE.fullmatch(source):
        return None, [f"skipped {source.strip()!r}, which sets nothing"]
    text = _plain(source, notes)
    if not text.strip() or text.lstrip().startswith("#"):
        return None, notes
    if remark := _WHOLE_REMARK.fullmatch(text):
        return None, [*notes, f'took "{_short(remark["text"])}" as a comment']
    text = _without_prefix(text, notes)
    said = _other_statement(text, place) or _assignment(text, place, notes, error)
    return said, notes


def _assignment(text: str, place: Place, notes: list[str], error: LineError) -> _Parsed:
    command = _COMMAND.match(text)
    if command:
        text = text[command.end() :]
        if not command["alter"]:
            read = " ".join(command[0].upper().split())
            notes.append(f"read {read} as a line of postgresql.conf")
    match = _ASSIGNMENT.fullmatch(text)
    if match is None or bool(match["open"]) != bool(match["close"]):
        raise _cannot_read(error)
    name, sign = match["name"], match["sign"].strip()
    if match["open"]:
        notes.append(f'removed the marks around "{name}"')
    if sign not in ("", "=") and not (command and sign.upper() == "TO"):
        notes.append(f'read "{sign}" as "="')
    value = _read_value(match["rest"], notes, is_sql=command is not None)
    if value is None:
        raise _cannot_read(error)
    is_altered = command is not None and command["alter"] is not None
    return _said((name, value), place, is_altered=is_altered)


def _other_statement(text: str, place: Place) -> Skipped | _Reset | None:
    """Return what a statement is that sets nothing for the server as a whole."""
    if match := _RESET.fullmatch(text):
        return _Reset(match["reset"] or match["set"])
    if match := _NARROW.fullmatch(text):
        kind = match["kind"].lower().replace("user", "role")
        return Skipped(" ".join(match["words"].split()), f"for one {kind} only", place)
    return None


def _cannot_read(error: LineError) -> LineError:
    hint = "Write the line as: name = 'value'. A comment begins with #."
    return LineError(f"cannot tell what this line sets ({error})", hint=hint)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 40 else text[:39] + "…"


def _plain(source: str, notes: list[str]) -> str:
    """Return the line with plain spaces and dashes, left alone within plain quotes."""

    def outside(text: str) -> str:
        for pattern, plain, what in (
            (_INVISIBLE, "", "removed invisible characters"),
            (_SPACES, " ", "read typographic spaces as plain ones"),
            (_LONG_DASHES, "--", "read a typographic dash as --"),
            (_DASHES, "-", "read a typographic dash as a minus sign"),
        ):
            text, count = pattern.subn(plain, text)
            if count and what not in notes:
                notes.append(what)
        return text

    pieces, at = [], 0
    for quoted in STRING.finditer(source):
        pieces += [outside(source[at : quoted.start()]), quoted[0]]
        at = quoted.end()
    return "".join([*pieces, outside(source[at:])]).replace("\r", " ")


def _without_prefix(text: str, notes: list[str]) -> str:
    """Return the line without prompt, bullet or enclosing backticks."""
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == "`" and stripped.count("`") == 2:
        text = stripped[1:-1]
        notes.append("removed the backticks around the line")
    for pattern, what in ((_PROMPT, "prompt"), (_BULLET, "bullet")):
        if match := pattern.match(text):
            text = text[match.end() :]
            notes.append(f'left out the {what} "{match[0].strip()}"')
    return text


def _read_value(rest: str, notes: list[str], *, is_sql: bool) -> str | None:
    """Return the value that `rest` begins with; None where it is unclear where that ends."""
    if rest.startswith("'"):
        match = _SQL_STRINGS.match(rest) if is_sql else STRING.match(rest)
        if match is None:
            return None
        value = _sql_value(match[0]) if is_sql else unescape(match[0])
        after = rest[match.end() :]
    elif rest and rest[0] in _QUOTES:  # of another kind than the server's
        end = next((at for at, c in enumerate(rest) if at and c in _QUOTES[rest[0]]), 0)
        value, after = rest[1:end], rest[end + 1 :]
        if not end or "\0" in value:
            return None
        notes.append(f"read {rest[0]}{_short(value)}{rest[end]} as '{_short(value)}'")
    else:
        start = _REMARK_START.search(rest)
        end = start.start() if start else len(rest)
        value, after = rest[:end].strip(), rest[end:]
        if value.endswith(","):
            value = value[:-1].rstrip()
            notes.append("omitted the comma at the end")
        bare = None if is_sql and value.upper() == "DEFAULT" else _bare_value(value, notes)
        if bare is None:
            return None
        value = bare
    if not _is_remark(after):  # "a = 1; b = 2" sets two
        return None
    remark = after.strip()
    if remark and not remark.startswith("#") and not (is_sql and remark == ";"):
        notes.append(f'left out "{_short(remark)}" after the value')
    return value


def _sql_value(strings: str) -> str:
    """Return the value of SQL string literals; several form a list."""
    return ", ".join(x[0][1:-1].replace("''", "'") for x in _SQL_STRING.finditer(strings))


def _is_remark(text: str) -> bool:
    """Tell whether text after a value is nothing, punctuation, or clearly a remark."""
    rest = text.lstrip(" \t,;")
    if not rest.strip(" \t."):
        return True
    # With a blank in front "'8MB'(was 4MB)" and "8MB;-- was 4MB" look like the usual case.
    return bool(_REMARK_START.match(rest) or _REMARK_START.match(" " + rest))


def _bare_value(written: str, notes: list[str]) -> str | None:
    """Return an unquoted value; None if it has blanks that no known form explains."""
    if match := _SPACED_UNIT.fullmatch(written):
        notes.append(f"read {written} as {match[1]}{match[2]}")
        return match[1] + match[2]
    if _THOUSANDS.fullmatch(written):
        notes.append(f"read {written} as {written.replace(',', '')}")
        return written.replace(",", "")
    if "\0" in written or not (_LIST.fullmatch(written) or written.lower() in _PHRASES):
        return None
    tokens = lex(written)
    if len(tokens) != 1 or tokens[0][0] not in VALUE_KINDS:
        notes.append(f"quoted {written}, which the server reads as a syntax error unquoted")
    return written
