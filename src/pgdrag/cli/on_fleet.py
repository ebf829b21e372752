"""What does `--fleet` mean: whose hosts run the trials, and what may these do there?"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdrag.errors import UsageError

if TYPE_CHECKING:
    from pgdrag.fleet.run import Fleet


def open_fleet(path: Path | None, *, dsn: str | None = None) -> Fleet | None:
    """Return the fleet that `--fleet` names.

    Raises:
        UsageError: it cannot be used here.
        FileError: it is not a fleet file.
    """
    if path is None:
        return None
    if dsn is not None:
        raise UsageError(
            "--fleet cannot be combined with --dsn",
            detail="A fleet's hosts have throw-away servers.",
        )
    from pgdrag.cli.place import say
    from pgdrag.fleet.file import read_fleet
    from pgdrag.fleet.run import Fleet
    from pgdrag.fleet.tls import Authority
    from pgdrag.journal import home_directory

    file = read_fleet(path)
    Authority.new()  # says what is not installed before anything begins
    return Fleet(file, home_directory() / "fleet", tell=say)


def with_consent(fleet: Fleet, allowed: Collection[str], wanted: str | None) -> Fleet:
    """Return it with the consent that was given here on the command lines of agents that it starts."""
    from pgdrag.model.program import is_program

    has_programs = any(map(is_program, allowed)) or (wanted is not None and os.sep in wanted)
    changes = [x for one in sorted(allowed) if not is_program(one) for x in ("--allow-change", one)]
    return replace(fleet, join_options=(*(["--allow-run"] if has_programs else []), *changes))
