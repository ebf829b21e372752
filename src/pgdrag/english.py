"""Words and numbers in a sentence: counts, lists, capitals, and which word was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

# C0 and C1 but line feed and tab, and the characters that turn the direction of text.
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def percent_words(share: float, decimals: int = 0) -> str:
    """Return a share in per cent: `83 %`."""
    return f"{share * 100:.{decimals}f} %"


def capital(text: str) -> str:
    """Return a text with a capital at its beginning; the rest stays as it is."""
    return f"{text[:1].upper()}{text[1:]}"


def printable(name: str) -> str:
    """Return a file's name as text: its bytes that are no UTF-8 become question marks."""
    return name.encode(errors="replace").decode()


def without_controls(text: str) -> str:
    """Return a text that only writes where it is printed: line ends and tabs stay.

    Escape sequences move a terminal's cursor or set its title, and marks of direction show a command as another
    one; each such character becomes `�`.
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def in_sentence(label: str) -> str:
    """Return a label as it stands within a sentence: `WAL per transaction` keeps its capitals."""
    first = label.split(" ", 1)[0]
    return label if first != first.capitalize() else label[:1].lower() + label[1:]


def as_sentence(text: str) -> str:
    """Return words as a sentence: with a capital and a full stop; names stay as they are."""
    first = text.split(" ", 1)[0]
    is_name = "_" in first or text[len(first) :].startswith(" = ")
    start = text if is_name else capital(text)
    return start if start.endswith((".", "!", "?")) else f"{start}."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names the nearest known name, or ""."""
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.55)
    return f'Did you mean "{close[0]}"?' if close else ""


def cut(text: str, length: int) -> str:
    """Return a text of at most this many characters; of a longer one the beginning, with `…` behind it."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Join as `a`, `a and b` or `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def listed_some(words: Sequence[str], most: int) -> str:
    """Join as `listed`; of more than `most` the first ones: `a, b and 5 more`."""
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return listed([*words[:most], *more])


def counted(count: int, noun: str) -> str:
    """Return `1 trial`, `3 trials` or `3 quantities`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count} {noun}" if count == 1 else f"{count:,} {plural}"
