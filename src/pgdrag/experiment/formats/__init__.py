"""Which settings does a file hold, in any of the forms in which people have them?

One module a format. Being in the folder registers it; which format a file has, its content says, never its
name or an option. What a file says besides, and what pgdrag cannot take from it, is *skipped*, each with
the reason. Which of the settings a throw-away server can have is asked later: `pgdrag.experiment.applicable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from pgdrag import registry
from pgdrag.errors import ConfError, UsageError
from pgdrag.experiment.formats._documents import Entry, documents_in, looks_like_document
from pgdrag.experiment.said import Given as Given
from pgdrag.experiment.said import Mended as Mended
from pgdrag.experiment.said import Place as Place
from pgdrag.experiment.said import Skipped as Skipped
from pgdrag.host.foreign_files import read_named
from pgdrag.servers.conf import fold

# A managed service's export of its 400 settings has a quarter of that.
LARGEST_FILE_BYTES = 2_000_000


Said = Given | Skipped | Mended


@dataclass(frozen=True)
class Configuration:
    """What a file contains.

    Attributes:
        format: how the format is called in messages.
        given: each setting once, as it counts in the end; in the order of the file.
        mends: what had to be mended in pasted text: see `Mended.words`.
        overridden: what does not count, since a later line sets the same again.
        is_exported: a program wrote it, all that its server has: a name may be unknown here.
    """

    format: str
    given: tuple[Given, ...]
    skipped: tuple[Skipped, ...] = ()
    mends: tuple[str, ...] = ()
    is_exported: bool = False
    overridden: tuple[Given, ...] = ()

    @classmethod
    def of(cls, format_: Format, found: Iterable[Said], *, is_exported: bool = False) -> Self:
        """Return the effective settings of a file with these lines: the last value of a setting counts."""
        said = list(found)
        given = [x for x in said if isinstance(x, Given)]
        last = {fold(x.name): x for x in given}
        return cls(
            format_.name,
            tuple(last.values()),
            tuple(x for x in said if isinstance(x, Skipped)),
            tuple(x.words for x in said if isinstance(x, Mended)),
            is_exported,
            tuple(x for x in given if last[fold(x.name)] is not x),
        )


@dataclass(frozen=True)
class Source:
    """A file that a person named, and its text."""

    path: Path
    text: str

    @cached_property
    def documents(self) -> tuple[Entry, ...]:
        """The documents of YAML or JSON; none where the text looks like neither.

        Raises:
            ConfError: it cannot be parsed, or is made to grow when it is.
        """
        return documents_in(self.text, self.path) if looks_like_document(self.text) else ()


class Format(ABC):
    """A form in which people have settings.

    Class attributes:
        name: unique.
        summary: how messages and the documentation call it.
        example: a small text that sets work_mem to 64MB, for its conformance suite.
        is_fallback: what a text is taken for that no other format recognises.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    example: ClassVar[str]
    is_fallback: ClassVar[bool] = False

    @abstractmethod
    def recognises(self, source: Source) -> bool:
        """Tell whether this is its format, however broken the rest of the text may be."""

    @abstractmethod
    def read(self, source: Source) -> Configuration:
        """Return what the file says.

        Raises:
            ConfError: it says nothing that makes sense; with file, line and what to do.
        """


def all_formats() -> dict[str, type[Format]]:
    """Return every registered format, by name."""
    return registry.registered("pgdrag.experiment.formats", Format)  # type: ignore[type-abstract]


def read_configuration(path: Path) -> Configuration:
    """Return what a file says, in whichever format it is.

    Only this file is read, and what it includes below its own directory.

    Raises:
        UsageError: the file cannot be read.
        ConfError: it is in no known format, or wrong.
    """
    return read_source(Source(path, read_text(path)))


def read_source(source: Source) -> Configuration:
    """Return what a text says: see `read_configuration`."""
    formats = [kind() for kind in all_formats().values()]
    found = [x for x in formats if not x.is_fallback and x.recognises(source)]
    if len(found) > 1:
        names = " and ".join(f"{x.summary}" for x in found)
        hint = "Write the part that you mean to a file of its own."
        raise ConfError(f"holds settings twice: {names}", path=source.path, line=1, hint=hint)
    if not found and source.documents:
        known = "; ".join(sorted(x.summary for x in formats))
        raise ConfError(
            "holds no PostgreSQL settings in a place that pgdrag knows",
            path=source.path,
            line=source.documents[0].line,
            detail=f"Known are: {known}.",
            hint="Write the settings as lines of a postgresql.conf: name = 'value'.",
        )
    reader = found[0] if found else next(x for x in formats if x.is_fallback)
    return reader.read(source)


def read_text(path: Path) -> str:
    """Return a text file's content: UTF-8, or UTF-16 as PowerShell writes it; lines end in newlines.

    Raises:
        UsageError: it cannot be read, or is not a regular file.
        ConfError: it is too large, or not text.
    """
    try:
        content = read_named(path, LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f'could not read "{path}": {error.strerror}') from None
    if len(content) > LARGEST_FILE_BYTES:
        raise ConfError("is larger than any configuration, 2 MB", path=path)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", errors="replace")
    else:
        # No byte is lost: the server takes each of them.
        text = content.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        hint = "Name the text file that the server reads, not an archive or a dump."
        raise ConfError("is not text: it has a NUL character", path=path, line=line, hint=hint)
    return text.replace("\r\n", "\n").replace("\r", "\n")
