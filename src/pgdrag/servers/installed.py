"""Which PostgreSQL servers does this machine have of its own?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

# Debian, Red Hat, the default of a build from source.
_PATTERNS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "usr/local/pgsql/bin")


def installed_bin_dirs(
    *, root: Path = Path("/"), environment: Mapping[str, str] = os.environ
) -> list[Path]:
    """Directories that hold a server's `postgres` and `initdb`, each once, $PATH's last."""
    found: dict[Path, None] = {}
    for bin_dir in _candidates(root, environment):
        if is_server_bin_dir(bin_dir):
            found.setdefault(bin_dir.resolve())
    return list(found)


def is_server_bin_dir(directory: Path) -> bool:
    """Whether `directory` holds a server, and not only client programs."""
    try:
        return all(
            (directory / name).is_file() for name in ("postgres", "initdb", "pg_controldata")
        )
    except PermissionError:  # one that we may not even look into cannot be run either
        return False


def _candidates(root: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    for pattern in _PATTERNS:
        yield from sorted(root.glob(pattern))
    # A link on PATH points into the real directory.
    for name in ("postgres", "pg_config"):
        program = shutil.which(name, path=environment.get("PATH", ""))
        if program is not None:
            yield Path(program).resolve().parent
