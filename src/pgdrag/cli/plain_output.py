"""How is text written where the locale lacks some of its characters, or where there is no output at all?"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO
from unicodedata import normalize

from pgdrag.english import without_controls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# What stands for the signs that pgdrag itself prints; of anything else, "?".
_PLAIN = {
    "×": "x",
    "…": "...",
    "–": "-",
    "—": "-",
    "−": "-",
    "±": "+/-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "→": "->",
    "·": "-",
    "✓": "+",
    "✗": "x",
    "µ": "u",
    "σ": "s",
    "’": "'",
    "“": '"',
    "”": '"',
    "█": "#",
    "│": "|",
    "─": "-",
    "•": "*",
}
_ERRORS = "pgdrag-plain"


def prepare_output() -> None:
    """Let every character be printed in any locale, and nothing else take the place of a closed output."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)


def lost_output() -> OSError | None:
    """Return why standard output or error could not be written, if that happened; None: they could."""
    for fd, error in _lost.items():
        # Python flushes once more at its end, and must not complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        return error
    return None


class _Output(io.FileIO):
    """An output that remembers why it could not be written, since the error alone does not name the file."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            _lost[self.fileno()] = error
            raise


_lost: dict[int, OSError] = {}


def _stream(fd: int, known: TextIO | None) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(fd, "w", closefd=False)),
        encoding=known.encoding if known else None,
        errors=_ERRORS,
        line_buffering=fd == 2 or os.isatty(fd),
    )


def print_document(text: str) -> None:
    """Print a document for programs (JSON, HTML, Markdown) in UTF-8, regardless of the locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors=_ERRORS)
    print(without_controls(text), end="" if text.endswith("\n") else "\n")


def print_json(value: object) -> None:
    """Print a value as JSON: dataclasses become objects, and null stands for what is not finite.

    `cli.documents` has the schema of all that is printed so.
    """
    from pgdrag.report.json import json_of

    print_document(json_of(value))


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "only output is written with it"
    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(x) or _letter(x) or "?" for x in missing), error.end


def _letter(character: str) -> str:
    """Return `e` for `é`, and "" for what has no plain form."""
    return normalize("NFKD", character).encode("ascii", "ignore").decode()


codecs.register_error(_ERRORS, _replaced)
