"""Which other load drivers are on this machine, in which version, and how does one get the rest?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Peer:
    """A program that was found.

    Attributes:
        path: the program; BenchBase's directory.
        version: how the rows call it.
    """

    path: Path
    version: str


@dataclass(frozen=True)
class Missing:
    """A program that was not found, and what to do about it."""

    name: str
    note: str


@dataclass(frozen=True)
class Peers:
    """The peers that are not part of PostgreSQL; pgbench comes with the server."""

    sysbench: Peer | Missing
    go_tpc: Peer | Missing
    benchbase: Peer | Missing
    java: Path


def find_peers(
    *, sysbench: Path | None, go_tpc: Path | None, benchbase: Path | None, java: Path | None
) -> Peers:
    """Look for each peer where it is said to be, or on the PATH."""
    found_benchbase, used_java = _benchbase(benchbase, [java] if java else _javas())
    return Peers(_sysbench(sysbench), _go_tpc(go_tpc), found_benchbase, used_java)


def _sysbench(named: Path | None) -> Peer | Missing:
    install = "install it (Debian: apt install sysbench), or name it with --sysbench PATH"
    path = named or _on_path("sysbench")
    if path is None:
        return Missing("sysbench", f"sysbench is not installed: {install}")
    answer = _output([path, "--version"])
    found = re.search(r"sysbench (\S+)", answer)
    if found is None:
        return Missing("sysbench", f'"{path}" is not sysbench: {install}')
    return Peer(path, f"sysbench {found[1]}")


def _go_tpc(named: Path | None) -> Peer | Missing:
    install = (
        "build it (go build ./cmd/go-tpc in a checkout of github.com/pingcap/go-tpc), "
        "and name it with --go-tpc PATH"
    )
    path = named or _on_path("go-tpc")
    if path is None:
        return Missing("go-tpc", f"go-tpc is not installed: {install}")
    if "tpcc" not in _output([path, "help"]):
        return Missing("go-tpc", f'"{path}" is not go-tpc: {install}')
    release = re.search(r"Release version: (\S+)", _output([path, "version"]))
    return Peer(path, f"go-tpc {release[1]}" if release else "go-tpc")


def _benchbase(directory: Path | None, javas: list[Path]) -> tuple[Peer | Missing, Path]:
    """BenchBase with the first Java that runs it: it is compiled for a newer one than many have."""
    install = (
        "build it (mvn -P postgres package in a checkout of github.com/cmu-db/benchbase), unpack "
        "target/benchbase-postgres.tgz, and name that directory with --benchbase DIR"
    )
    if directory is None:
        return Missing("BenchBase", f"BenchBase is not installed: {install}"), javas[0]
    directory = directory.expanduser().resolve()
    jar = directory / "benchbase.jar"
    if not jar.is_file():
        return Missing(
            "BenchBase", f'there is no benchbase.jar in "{directory}": {install}'
        ), javas[0]
    for java in javas:
        if "--execute" in _output([java, "-jar", jar, "--help"], cwd=directory):
            return Peer(directory, f"BenchBase {_jar_version(jar)}"), java
    tried = ", ".join(map(str, javas))
    note = f"BenchBase is not run by this Java ({tried}): name a newer one with --java PATH"
    return Missing("BenchBase", note), javas[0]


def _jar_version(jar: Path) -> str:
    with zipfile.ZipFile(jar) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode(errors="replace")
    found = re.search(r"^Implementation-Version: (\S+)", manifest, flags=re.MULTILINE)
    return found[1] if found else "of unknown version"


def _javas() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    named = [Path(home) / "bin" / "java"] if home else []
    return [*named, Path("java"), *sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)]


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _output(argv: list[str | Path], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout + done.stderr).decode(errors="replace")
