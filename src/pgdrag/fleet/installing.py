"""How does pgdrag come to a host that is reached by SSH?"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pgdrag
from pgdrag.errors import UsageError
from pgdrag.fleet.file import SshHost

_TIMEOUT_S = 600.0


def install_wheel(hosts: Sequence[SshHost], wheel: Path) -> Iterator[str]:
    """Install a wheel for the user on each host that has another version of pgdrag or none; yield what became of it.

    Raises:
        UsageError: there is no such wheel.
    """
    if not wheel.name.startswith("pgdrag-") or wheel.suffix != ".whl" or not wheel.is_file():
        raise UsageError(
            f'"{wheel}" is not a wheel of pgdrag', hint="Build one: pip wheel --no-deps ."
        )
    for host in hosts:
        name = host.known_as
        version = _run(host, f"{host.program} --version")
        if version.stdout.decode(errors="replace").strip() == f"pgdrag {pgdrag.__version__}":
            yield f"{name} has pgdrag {pgdrag.__version__}."
            continue
        # By its own name, which pip reads, in a directory that only that user can see.
        there = (
            "set -e; umask 077; d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; "
            f'cat > "$d"/{shlex.quote(wheel.name)}; '
            f'python3 -m pip install --user --quiet "$d"/{shlex.quote(wheel.name)}'
        )
        ran = _run(host, there, wheel.read_bytes())
        words = ran.stderr.decode(errors="replace").strip().splitlines()
        if ran.returncode:
            yield f"Could not install pgdrag on {name}: {words[-1] if words else 'ssh failed'}"
        else:
            yield f"Installed {wheel.name} on {name}."


def _run(host: SshHost, command: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = ["ssh", "-T", "-oBatchMode=yes", "--", host.host, command]
    try:
        return subprocess.run(
            argv, input=content, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 255, b"", str(error).encode())
