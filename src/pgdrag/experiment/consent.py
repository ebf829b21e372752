"""What in an experiment needs consent before it runs, and to what has this user already agreed?

A hash of what was agreed to is remembered: the commands, and the content of the files that they name. It is
kept in the user's own configuration directory and never in a journal, which a stranger may have written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from pgdrag.errors import StorageError
from pgdrag.factors.programs import programs_of
from pgdrag.host.block_devices import disk_identity
from pgdrag.model import Study
from pgdrag.model.design import make_design
from pgdrag.model.program import Program
from pgdrag.servers.binaries import strange_programs

# The file of a command is read whole: more than that is no script.
_LARGEST_FILE_BYTES = 100_000_000
_MOST_FILES = 1000
# What a shell replaces when the command runs. A variable that pgdrag sets names a file only as part of a longer word.
_SHELL_SYNTAX = re.compile(r"[~*?\[`]|\$(?!\{?PG)|(?<!\$)\{")
_PG_VARIABLE, _RESULTS = re.compile(r"\$\{?PG\w+\}?"), re.compile(r"\$\{?PGDRAG_RESULTS\b\S*")
_CHANGES_DIRECTORY = frozenset({"cd", "pushd"})


@dataclass(frozen=True)
class NeededConsent:
    """What needs consent.

    Attributes:
        programs: to be started.
        changes: names of what would be changed and is not pgdrag's own.
    """

    programs: tuple[Program, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The names of all of it, as in `Here.allowed`."""
        return frozenset({*self.changes, *(program.key for program in self.programs)})

    def without(self, allowed: Collection[str]) -> NeededConsent:
        """Return what is not allowed yet."""
        return NeededConsent(
            tuple(x for x in self.programs if x.key not in allowed),
            tuple(x for x in self.changes if x not in allowed),
        )

    @property
    def unresolved_word(self) -> str:
        """The first word of a command that names a file only when it runs; "" if there is none."""
        words = (x for program in self.programs for x in _words(program.command))
        return next(filter(_is_unresolved, words), "")

    def __bool__(self) -> bool:
        return bool(self.programs or self.changes)


def study_programs(study: Study) -> tuple[Program, ...]:
    """Return every program that a trial of a study may start; nothing is started to find out."""
    reference = study.rungs[0].treatment
    treatments = [rung.treatment for rung in study.rungs]
    treatments += [reference.with_levels("", [x]) for x in make_design(study).levels]
    found = (x for one in treatments for x in programs_of(study.workload, one.levels))
    return tuple(dict.fromkeys(found))


def run_needs(study: Study, server: str | None) -> NeededConsent:
    """Return what resuming a run of a journal needs: programs, including its server's, and changes."""
    own = strange_programs(server)
    programs = (*study_programs(study), *([own] if own is not None else []), *_restarts(study))
    return NeededConsent(programs, study.allowed)


def _restarts(study: Study) -> Iterator[Program]:
    place = study.place
    if place is not None and place.restart_command:
        yield Program(f"restart {place.server}", place.restart_command)


class RememberedConsent:
    """The consent that this user gave on this machine: for anything with this content, or for one run."""

    def __init__(self) -> None:
        self.path = platformdirs.user_config_path("pgdrag") / "allowed"

    def includes(self, needed: NeededConsent, run_id: str = "") -> bool:
        """Tell whether this user agreed to exactly that, in general or for a run."""
        known, content = self._known(), _content(needed)
        scopes = {run_id} if run_id else set()
        if not needed.unresolved_word:
            scopes.add("")
        return any(_digest(content, one) in known for one in scopes)

    def add(self, needed: NeededConsent, run_id: str = "") -> None:
        """Remember that this user agreed to that, in general or for one run.

        Raises:
            StorageError: the file cannot be written.
        """
        what = " ".join(sorted(needed.keys)).split("\n", 1)[0][:200]
        line = f"{_digest(_content(needed), run_id)} {time.strftime('%Y-%m-%d')} {json.dumps(run_id or what)}\n"
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StorageError(f'could not remember consent in "{self.path}": {reason}') from None

    def _known(self) -> frozenset[str]:
        with contextlib.suppress(OSError):
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, encoding="utf-8", errors="replace") as file:
                found = os.fstat(file.fileno())
                # A file that others can write, or that another user wrote, counts for nothing.
                if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
                    return frozenset(line.split(" ", 1)[0] for line in file)
        return frozenset()


def _content(needed: NeededConsent) -> list[object]:
    """Return all that consent depends on; it reads the files that commands name."""
    return [
        [" ".join((x, *disk_identity(x))) for x in sorted(needed.changes)],
        [[x.key, *_contents(x)] for x in sorted(needed.programs)],
    ]


def _digest(content: list[object], run_id: str) -> str:
    text = json.dumps([run_id, *content])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _contents(program: Program) -> Iterator[str]:
    """Yield a hash of each file that a command names, so that consent ends when `./run.sh` changes."""
    words = [program.command, *_words(program.command)]
    for name in dict.fromkeys(x for word in words for x in _names(word)):
        path = Path(program.directory, name)
        with contextlib.suppress(OSError, ValueError):
            if path.is_dir() and name in words:
                yield f"{name} {_listing(path)}"
            elif path.is_file() and path.stat().st_size <= _LARGEST_FILE_BYTES:
                with path.open("rb") as file:
                    yield f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _names(word: str) -> Iterator[str]:
    """Yield which files a word may name: `run.sql`, `run.sql@3`, `--file=run.sql` or `-frun.sql`."""
    for name in (word, word.partition("=")[2], word[2:] if word.startswith("-") else ""):
        yield from filter(None, (name, name.rpartition("@")[0]))


def _words(command: str) -> list[str]:
    """Return a command's words, and the words of those that are commands themselves, as in `sh -c`."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:  # a quote that is not closed
        return command.split()
    return words + [x for word in words if len(word.split()) > 1 for x in _words(word)]


def _is_unresolved(word: str) -> bool:
    rest = _RESULTS.sub("", word)
    is_part = _PG_VARIABLE.search(rest) and re.search("[./]", _PG_VARIABLE.sub("", rest))
    return bool(_SHELL_SYNTAX.search(rest) or is_part) or word in _CHANGES_DIRECTORY


def _listing(directory: Path) -> str:
    """Return a hash of the files of a directory, such as a server's programs: their sizes and times."""
    files = sorted(x for x in directory.iterdir() if x.is_file())[:_MOST_FILES]
    seen = [[x.name, x.stat().st_size, x.stat().st_mtime_ns] for x in files]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()
