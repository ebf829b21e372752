"""What does a postgresql.conf say, as it stands or as it was pasted, and how is one written?

`parse_pasted` takes what the server's own lexer takes, and also what articles and chats print: it reads a
line as a person would, notes each liberty taken in a clause, and refuses a line that could be read in two
ways. It does not know which settings exist; `pgdrag.servers.settings` does. What the server takes is
decided by the rules of guc-file.l: `parse_line`.

Text goes in and comes out as `str`; whoever reads or writes the file uses UTF-8 with
`errors="surrogateescape"` and `newline=""`, so that no byte is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ConfError

Setting = tuple[str, str]

# Every byte from 0x80 is a letter to the server, so every character beyond ASCII is.  Classes are said by
# what is not in them: one that reaches to U+10FFFF takes `re` 5 to 40 ms, at each start of pgdrag.
_OTHERS = r"\x00-,;-@\[-\^`{-\x7f"  # neither in a word nor in a name
_NO_NAME = rf"{_OTHERS}\-./:"
IDENTIFIER = rf"[^{_NO_NAME}0-9][^{_NO_NAME}]*"
NAME = re.compile(rf"{IDENTIFIER}(?:\.{IDENTIFIER})?")
STRING = re.compile(r"'(?:[^'\\\n\0]|\\[^\n\0]|'')*'")
INCLUDES = ("include", "include_if_exists", "include_dir")

# The longest match wins, and among equals the first: hence `b.c` is a qualified name, which is no
# value, while `b.c.d` is a word, which is one.  NUL is left out of strings: the server would cut.
_TOKENS = [
    ("blank", re.compile(r"[ \t\r]+")),
    ("blank", re.compile(r"#[^\n]*")),
    ("id", re.compile(IDENTIFIER)),
    ("qualified", re.compile(rf"{IDENTIFIER}\.{IDENTIFIER}")),
    ("string", STRING),
    ("word", re.compile(rf"[^{_NO_NAME}0-9][^{_OTHERS}]*")),
    ("integer", re.compile(r"[-+]?[0-9]+[A-Za-z]*")),
    ("integer", re.compile(r"[-+]?0x[0-9a-fA-F]+[A-Za-z]*")),
    ("real", re.compile(r"[-+]?[0-9]*\.[0-9]*(?:[Ee][-+]?[0-9]+)?")),
    ("equals", re.compile("=")),
]
VALUE_KINDS = ("id", "string", "integer", "real", "word")

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
_PROMPT = re.compile(r"\s*\w+=[#>]\s*(?=(?:ALTER|SET)\s)", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-*+•‣▪·]|\d+[.)])\s+(?=\S)")
_COMMAND = re.compile(r"\s*(?:ALTER\s+SYSTEM\s+SET|SET(?:\s+(?:SESSION|LOCAL))?)\s+", re.IGNORECASE)
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
_WORD = r"[^\s'\"`‘’‚“”„«»()=<>→⇒…,;#]+"
_LIST = re.compile(rf"{_WORD}(?:\s*,\s*{_WORD})*")
_PHRASES = ("read committed", "read uncommitted", "repeatable read")


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


def parse_pasted(text: str, *, path: Path | str | None = None) -> tuple[list[ConfLine], list[Mend]]:
    """Return the settings of text copied from anywhere, and what had to be mended.

    A line that the server accepts is taken as it stands, unless it has a typographic quote,
    dash, space or invisible character outside plain quotes: those the server takes for letters.
    Any other line is read as a person would, if there is only one way to read it.

    Raises:
        ConfError: a line that stays ambiguous or senseless, or one that includes a file.
    """
    found, mends = [], []
    for number, source in enumerate(text.split("\n"), start=1):
        try:
            setting, notes = _parse_line(source)
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


def _parse_line(source: str) -> tuple[Setting | None, list[str]]:
    """Return the setting of a line, if it has one, and a clause for each liberty taken."""
    try:
        setting = parse_line(source)
    except LineError as error:
        if error.is_include:
            raise
        return _mend_line(source, error)
    bare = [text for kind, text in lex(source) if kind != "string"]
    if any(_TYPOGRAPHY.search(text) for text in bare):
        return _mend_line(source, LineError("typographic characters"))
    return setting, []


def _mend_line(source: str, error: LineError) -> tuple[Setting | None, list[str]]:
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
        return None, [*notes, f'took "{_short(remark["text"])}" for a remark']
    text, is_sql = _without_prefix(text, notes)
    match = _ASSIGNMENT.fullmatch(text)
    if match is None or bool(match["open"]) != bool(match["close"]):
        raise _cannot_read(error)
    name, sign = match["name"], match["sign"].strip()
    if match["open"]:
        notes.append(f'took the marks from around "{name}"')
    if sign not in ("", "=") and not (is_sql and sign.upper() == "TO"):
        notes.append(f'read "{sign}" as "="')
    if fold(name) in INCLUDES:
        raise LineError(name, is_include=True)
    value = _read_value(match["rest"], notes, is_sql=is_sql)
    if value is None:
        raise _cannot_read(error)
    return (name, value), notes


def _cannot_read(error: LineError) -> LineError:
    hint = "Write the line as: name = 'value'. A remark begins with #."
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


def _without_prefix(text: str, notes: list[str]) -> tuple[str, bool]:
    """Return the line without prompt, bullet, SQL command or enclosing backticks; and: was it SQL?"""
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == "`" and stripped.count("`") == 2:
        text = stripped[1:-1]
        notes.append("took the line out of its backticks")
    for pattern, what in ((_PROMPT, "prompt"), (_BULLET, "bullet")):
        if match := pattern.match(text):
            text = text[match.end() :]
            notes.append(f'left out the {what} "{match[0].strip()}"')
    if match := _COMMAND.match(text):
        notes.append(f"read {' '.join(match[0].upper().split())} as a line of postgresql.conf")
        return text[match.end() :], True
    return text, False


def _read_value(rest: str, notes: list[str], *, is_sql: bool) -> str | None:
    """Return the value that `rest` begins with; None where it is unclear where that ends."""
    if rest.startswith("'"):
        match = _SQL_STRING.match(rest) if is_sql else STRING.match(rest)
        if match is None:
            return None
        value = match[0][1:-1].replace("''", "'") if is_sql else unescape(match[0])
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
            notes.append("left out the comma at the end")
        bare = None if is_sql and value.upper() == "DEFAULT" else _bare_value(value, notes)
        if bare is None:
            return None
        value = bare
    if not _is_remark(after):  # "a = 1; b = 2" sets two
        return None
    remark = after.strip()
    if remark and not remark.startswith("#"):
        notes.append(f'left out "{_short(remark)}" after the value')
    return value


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


class LineError(Exception):
    """Why one line cannot be read; an include is told apart from a syntax error."""

    def __init__(self, message: str, *, is_include: bool = False, hint: str | None = None) -> None:
        super().__init__(message)
        self.is_include = is_include
        self.hint = hint


def fold(name: str) -> str:
    """Return the form in which two names of the same setting are equal (ASCII lower case)."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in name)


def lex(source: str) -> list[tuple[str, str]]:
    """Return (kind, text) of each token of one line; a character that fits nowhere is "error"."""
    tokens, at = [], 0
    while at < len(source):
        kind, text = "error", source[at]
        longest = 0
        for candidate, pattern in _TOKENS:
            match = pattern.match(source, at)
            if match and len(match[0]) > longest:
                kind, text, longest = candidate, match[0], len(match[0])
        at += len(text)
        if kind != "blank":
            tokens.append((kind, text))
        if kind == "error":
            break
    return tokens


def parse_line(source: str) -> Setting | None:
    """Return (name, value) as the server reads the line, or None for an empty one."""
    tokens = lex(source)
    if not tokens:
        return None
    rest = iter([*tokens, ("end", "")])
    kind, name = next(rest)
    if kind not in ("id", "qualified"):
        raise _syntax_error(kind, name)
    kind, value = next(rest)
    if kind == "equals":
        kind, value = next(rest)
    if kind not in VALUE_KINDS:
        raise _syntax_error(kind, value)
    after, text = next(rest)
    if after != "end":
        raise _syntax_error(after, text)
    if fold(name) in INCLUDES:
        raise LineError(name, is_include=True)
    return name, unescape(value) if kind == "string" else value


def _syntax_error(kind: str, text: str) -> LineError:
    near = "near end of line" if kind == "end" else f'near token "{text}"'
    return LineError(f"syntax error {near}")


_ESCAPE = re.compile(r"''|\\([0-7]{1,3})|\\(.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescape(quoted: str) -> str:
    """Return what stands between the quotes; octal escapes are bytes, and a NUL ends the value."""

    def character(match: re.Match[str]) -> str:
        octal, letter = match.groups()
        if octal is not None:
            byte = int(octal, 8) & 0xFF
            # A lone byte stays a surrogate until its neighbours are known.
            return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)
        return "'" if letter is None else _ESCAPED.get(letter, letter)

    value = _ESCAPE.sub(character, quoted[1:-1])
    if "\\" in quoted:
        value = _SURROGATES.sub(_join_bytes, value)
    return value.split("\0", 1)[0]


_SURROGATES = re.compile(r"[\udc80-\udcff]+")


def _join_bytes(match: re.Match[str]) -> str:
    return match[0].encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
