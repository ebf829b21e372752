"""The manual: a page of roff for pgdrag and for each of its commands, from what docs/reference/commands.md is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from documentation.reference import argument_name, meaning, option_names, parameters, synopsis
from pgdrag import __version__
from pgdrag.cli import COMMANDS, app, load_command
from pgdrag.errors import EXIT_STATUSES


def manual_pages(made_unix_s: int) -> dict[str, str]:
    """Return the pages by the names of their files, dated."""
    pages = {"pgdrag.1": _overview()} | {
        f"pgdrag-{name}.1": _of_command(name, summary) for name, (_, summary) in COMMANDS.items()
    }
    day = datetime.fromtimestamp(made_unix_s, UTC).date()
    return {
        file: "\n".join(
            [f'.TH {file.removesuffix(".1").upper()} 1 {day} "pgdrag {__version__}"', *lines, ""]
        )
        for file, lines in pages.items()
    }


def _overview() -> Iterator[str]:
    about = app.info.help or ""
    yield from _section("NAME", rf"pgdrag \- {_text(about.removesuffix('.'))}")
    yield from _section("SYNOPSIS", _bold("pgdrag COMMAND [OPTIONS] [ARGUMENTS]"))
    yield from _section("DESCRIPTION", _text(about))
    yield ".SH COMMANDS"
    for name, (_, summary) in COMMANDS.items():
        yield from _item(_bold(f"pgdrag-{name}") + "(1)", summary)
    yield from _exit_status()
    yield from _section("FILES", _text((app.info.epilog or "").partition(". ")[2]))


def _of_command(name: str, summary: str) -> Iterator[str]:
    command = load_command(name)
    yield from _section("NAME", rf"pgdrag-{name} \- {_text(summary)}")
    its_commands = getattr(command, "commands", None)
    if its_commands is None:
        yield from _section("SYNOPSIS", _bold(synopsis(f"pgdrag {name}", command)))
        yield from _section("DESCRIPTION", *_paragraphs(command.help))
        yield from _parameters(command)
    else:
        yield from _section("DESCRIPTION", *_paragraphs(command.help))
        for key, one in its_commands.items():
            yield from _section(
                f"pgdrag {name} {key}", _bold(synopsis(f"pgdrag {name} {key}", one))
            )
            yield from (line for text in _paragraphs(one.help) for line in (".PP", text))
            yield from _parameters(one, heading=".SS")
    yield from _exit_status()
    yield from _section("SEE ALSO", _bold("pgdrag") + "(1)")


def _parameters(command: Any, heading: str = ".SH") -> Iterator[str]:
    arguments, options = parameters(command)
    for title, items in (
        ("ARGUMENTS", [(argument_name(x), meaning(x)) for x in arguments]),
        ("OPTIONS", [(", ".join(option_names(x)), meaning(x)) for x in options]),
    ):
        if items:
            yield f"{heading} {title}"
        for name, text in items:
            yield from _item(_bold(name), text)


def _exit_status() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for status, words in EXIT_STATUSES.items():
        yield from _item(str(status), words)


def _section(title: str, *paragraphs: str) -> Iterator[str]:
    yield f".SH {_text(title)}"
    for number, text in enumerate(paragraphs):
        yield from ([".PP"] if number else [])
        yield text


def _item(term: str, text: str) -> Iterable[str]:
    return (".TP", term, _text(text))


def _paragraphs(text: str | None) -> list[str]:
    return [_text(x) for x in re.split(r"\n\s*\n", text or "") if x.strip()]


def _bold(text: str) -> str:
    return rf"\fB{_text(text)}\fR"


def _text(words: str) -> str:
    """Plain words as one line of roff, in which nothing is a request."""
    line = " ".join(words.split()).replace("\\", "\\e").replace("-", r"\-")
    return rf"\&{line}" if line[:1] in {".", "'"} else line
