"""A postgresql.conf with the files that it includes, a postgresql.auto.conf, or ALTER SYSTEM commands.

Includes are followed as the server follows them (guc-file.l, ParseConfigFile), but never out of the
directory of the named file: symbolic links are resolved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pgdrag.errors import ConfError
from pgdrag.experiment.formats import (
    LARGEST_FILE_BYTES,
    Configuration,
    Format,
    Given,
    Place,
    Said,
    Skipped,
    Source,
    read_text,
)
from pgdrag.experiment.pasted import Include, read_pasted

MOST_DEPTH = 10  # as the server: CONF_FILE_MAX_DEPTH
MOST_FILES = 500


class PostgresqlConf(Format):
    """Lines of name and value."""

    name = "postgresql.conf"
    summary = "a postgresql.conf or ALTER SYSTEM commands"
    example = "work_mem = 64MB  # min 64kB\n"
    is_fallback = True

    def recognises(self, source: Source) -> bool:
        """It is what nothing else is."""
        return True

    def read(self, source: Source) -> Configuration:
        reader = _Reader(source.path.parent.resolve())
        reader.read(source.path, source.text, above=())
        auto = source.path.with_name("postgresql.auto.conf")
        if source.path.name == self.name and auto.is_file():
            why = "its own server reads it last, pgdrag only if you name it"
            reader.found.append(Skipped(auto.name, why, Place(auto, 1)))
        return Configuration.of(self, reader.found)


@dataclass
class _Reader:
    """Collects what a file and those below its directory say, in the order of the server."""

    root: Path
    found: list[Said] = field(default_factory=list)
    files: int = 0
    characters: int = 0

    def read(self, path: Path, text: str, above: tuple[Path, ...]) -> None:
        pasted = read_pasted(text, path=path)
        self.found += [*pasted.skipped, *pasted.mended]
        for line in pasted.lines:
            if isinstance(line, Given):
                self.found.append(line)
            else:
                self._include(line, (*above, path.resolve()))

    def _include(self, line: Include, above: tuple[Path, ...]) -> None:
        place, directive = line.place, str(line)
        target = self._below_root(line)
        if line.directive == "include_dir":
            if not target.is_dir():
                why = f"no such directory beside {place.file.name}"
                self.found.append(Skipped(directive, why, place))
                return
            files = _files_of(target)
        elif target.exists() or line.directive == "include":
            files = [target]
        else:
            self.found.append(Skipped(directive, "no such file", place))
            return
        for file in files:
            self._follow(file, place, above)

    def _below_root(self, line: Include) -> Path:
        """Return the path that a directive names, where the server would look for it."""
        place = line.place
        if not line.target:
            hint = "Write the path in quotes, or remove the line."
            raise _refusal(f'"{line.directive}" names nothing', place, hint)
        target = place.file.parent / line.target
        if not target.resolve().is_relative_to(self.root):
            message = f'cannot follow {line.directive} "{line.target}": it is outside {self.root}'
            detail = (
                "pgdrag reads the file that you name, and what it includes below its directory."
            )
            hint = "Copy it below that directory, or put its lines in the place of this one."
            raise _refusal(message, place, hint, detail)
        return target

    def _follow(self, file: Path, place: Place, above: tuple[Path, ...]) -> None:
        resolved = file.resolve()
        # A link within a directory may lead out of it.
        if not resolved.is_relative_to(self.root):
            message = f'cannot include "{file}": it is a link to {resolved}, outside {self.root}'
            raise _refusal(message, place, "Put the file itself there, or remove the link.")
        if resolved in above:
            raise _refusal(f'"{file}" includes itself', place, "Remove this line, or that one.")
        if len(above) > MOST_DEPTH:
            message = f'cannot include "{file}": more than {MOST_DEPTH} files are nested'
            raise _refusal(message, place, "The server refuses that, too: include it further up.")
        self.files += 1
        if not resolved.is_file():
            message = f'cannot include "{file}": there is no such file'
            hint = f"Copy it to {resolved.parent}, or remove the line."
            raise _refusal(message, place, hint)
        text = read_text(file)
        self.characters += len(text)
        if self.files > MOST_FILES or self.characters > LARGEST_FILE_BYTES:
            message = f"the files included are more than {MOST_FILES}, or larger than 2 MB in all"
            raise _refusal(message, place, "Name a file that includes less.")
        self.read(file, text, above)


def _files_of(directory: Path) -> list[Path]:
    """Return what include_dir reads: *.conf, nothing hidden, in the order of the C locale."""
    found = [
        path
        for path in directory.iterdir()
        if path.name.endswith(".conf") and not path.name.startswith(".") and not path.is_dir()
    ]
    return sorted(found, key=lambda path: path.name.encode("utf-8", "surrogateescape"))


def _refusal(message: str, place: Place, hint: str, detail: str | None = None) -> ConfError:
    return ConfError(message, path=place.file, line=place.line, detail=detail, hint=hint)
