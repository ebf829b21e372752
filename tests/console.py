"""The commands that the documents show, block by block, and how each block is tested.

Above a block, a comment says how far its commands go in a test; without one they run:

    <!-- dry run: an ablation takes half an hour -->   with --dry-run, where a command has it
    <!-- not run: needs root -->                       only read, as the command line reads them
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
_BLOCK = re.compile(
    r"^(?:<!-- (?P<how>dry run|not run): (?P<why>[^>]+?) -->\n+)?^```(?P<language>\w*)\n(?P<code>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Shown:
    """A command that a document shows, with what it shows of its output.

    Attributes:
        line: as it is written, without the prompt.
        words: its words; a comment is none. A redirection is in `into`.
        into: the file that its output goes to, or "".
        output: the lines below it.
    """

    line: str
    words: tuple[str, ...]
    into: str = ""
    output: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.words[0] == "pgdrag"


@dataclass(frozen=True)
class Block:
    """One block of commands.

    Attributes:
        how: "run", "dry run" or "not run".
        why: the reason, unless it is run.
    """

    document: Path
    how: str
    why: str
    commands: tuple[Shown, ...]


def console_blocks(document: Path) -> Iterator[Block]:
    """Find the blocks of a document that show commands after a prompt, whatever their language."""
    for found in _BLOCK.finditer(document.read_text(encoding="utf-8")):
        if found["language"] == "console" or found["code"].startswith("$ "):
            how, why = found["how"] or "run", found["why"] or ""
            yield Block(document, how, why, tuple(_commands(found["code"])))


def _commands(code: str) -> Iterator[Shown]:
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        line, *output = part.rstrip("\n").split("\n")
        lexer = shlex.shlex(line, posix=True, punctuation_chars=">")
        lexer.whitespace_split = True
        words = list(lexer)
        into = ""
        if ">" in words:
            at = words.index(">")
            words, into = words[:at], words[at + 1]
        if words[:1] == ["sudo"]:
            words = words[1:]
        yield Shown(line, tuple(words), into, tuple(x for x in output if x.strip()))


def has_shape(output: str, shown: tuple[str, ...]) -> bool:
    """Tell whether an output has the lines shown, in this order: numbers and their units are any, and … is any text."""
    at = 0
    patterns = [_shape(line) for line in shown]
    for line in output.splitlines():
        if at < len(patterns) and re.fullmatch(patterns[at], line.strip()):
            at += 1
    return at == len(patterns)


_UNIT = r"(?:µs|ms|s|min|h|kB|MB|GB)"
_NUMBER = r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?"


def _shape(line: str) -> str:
    text = re.escape(" ".join(line.split()))
    text = re.sub(r"(?:\\-)?\d(?:[\d,]|\\\.)*", lambda _: _NUMBER, text)
    text = re.sub(
        rf"({re.escape(_NUMBER)})\\ {_UNIT}\b", lambda found: rf"{found[1]}\ {_UNIT}", text
    )
    return text.replace("…", ".*").replace(r"\ ", r"\s+")
