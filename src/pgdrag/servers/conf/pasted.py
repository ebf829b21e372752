"""How would a person read a line that the server would not?

`pgdrag.servers.conf.parse_pasted` is the door to use from elsewhere.  Each liberty taken is noted in a
clause; a line that could be read in two ways is refused.
"""

from __future__ import annotations

import re

from pgdrag.servers.conf.lexer import (
    IDENTIFIER,
    INCLUDES,
    STRING,
    VALUE_KINDS,
    LineError,
    Setting,
    fold,
    lex,
    parse_line,
    unescape,
)

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


def parse_pasted_line(source: str) -> tuple[Setting | None, list[str]]:
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
    """Return the value at the start of rest, or None when it cannot be told from what follows."""
    if rest.startswith("'"):
        return _read_quoted(rest, notes, is_sql=is_sql)
    if rest and rest[0] in _QUOTES:
        return _read_marked(rest, notes)
    start = _REMARK_START.search(rest)
    written = (rest[: start.start()] if start else rest).strip()
    remark = rest[start.start() :] if start else ""
    if not _is_remark(remark):  # "a = 1; b = 2" sets two
        return None
    if written.endswith(","):
        written = written[:-1].rstrip()
        notes.append("left out the comma at the end")
    _note_remark(remark, notes)
    if not written or (is_sql and written.upper() == "DEFAULT"):
        return None
    return _bare_value(written, notes)


def _read_quoted(rest: str, notes: list[str], *, is_sql: bool) -> str | None:
    match = _SQL_STRING.match(rest) if is_sql else STRING.match(rest)
    if match is None or not _is_remark(rest[match.end() :]):
        return None
    _note_remark(rest[match.end() :], notes)
    return match[0][1:-1].replace("''", "'") if is_sql else unescape(match[0])


def _read_marked(rest: str, notes: list[str]) -> str | None:
    """Read a value between quotes of another kind than the server's."""
    ends = [at for at, c in enumerate(rest) if at and c in _QUOTES[rest[0]]]
    if not ends or not _is_remark(rest[ends[0] + 1 :]):
        return None
    inner = rest[1 : ends[0]]
    if "\0" in inner:
        return None
    notes.append(f"read {rest[0]}{_short(inner)}{rest[ends[0]]} as '{_short(inner)}'")
    _note_remark(rest[ends[0] + 1 :], notes)
    return inner


def _is_remark(text: str) -> bool:
    """Tell whether text after a value is nothing, punctuation, or clearly a remark."""
    rest = text.lstrip(" \t,;")
    if not rest.strip(" \t."):
        return True
    # With a blank in front "'8MB'(was 4MB)" and "8MB;-- was 4MB" look like the usual case.
    return bool(_REMARK_START.match(rest) or _REMARK_START.match(" " + rest))


def _note_remark(text: str, notes: list[str]) -> None:
    text = text.strip()
    if text and not text.startswith("#"):
        notes.append(f'left out "{_short(text)}" after the value')


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
