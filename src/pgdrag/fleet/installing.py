"""How is pgdrag installed on a host over SSH?

Into a virtual environment of its own: many distributions let pip install nothing beside their own packages (PEP 668).
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pgdrag
from pgdrag.driver.generators import SSH, WITH_USERS_PROGRAMS
from pgdrag.errors import UsageError
from pgdrag.fleet.file import SshHost

_TIMEOUT_S = 600.0
# Of a host whose fleet file does not say where the program is.
_USUAL_PROGRAM = "~/.local/share/pgdrag/venv/bin/pgdrag"


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
        version = _run(host, f"{WITH_USERS_PROGRAMS} {host.program} --version")
        if version.stdout.decode(errors="replace").strip() == f"pgdrag {pgdrag.__version__}":
            yield f"{name} has pgdrag {pgdrag.__version__}."
            continue
        try:
            there = _commands(host, wheel.name)
        except UsageError as error:
            yield f"Could not install pgdrag on {name}: {error.message}"
            continue
        ran = _run(host, f"sh -c {shlex.quote(there)}", wheel.read_bytes())
        if ran.returncode:
            yield f"Could not install pgdrag on {name}: {_reason(ran)}"
        else:
            yield f"Installed {wheel.name} on {name}."


def _commands(host: SshHost, wheel: str) -> str:
    """Return the commands of a shell there that install a wheel, which is their standard input.

    Raises:
        UsageError: its program is in no virtual environment.
    """
    has_usual = host.program == "pgdrag"
    environment, is_in_bin, _ = (_USUAL_PROGRAM if has_usual else host.program).rpartition("/bin/")
    if not is_in_bin:
        raise UsageError(f'"{host.program}" is not in a directory "bin" of a virtual environment')
    # The file has its own name, which pip reads, in a directory that only that user can see.
    lines = [
        "set -e",
        "d=$(umask 077; mktemp -d); trap 'rm -rf \"$d\"' EXIT",
        f'cat > "$d"/{shlex.quote(wheel)}',
        f"v={environment}",
        # Never into a system's own Python, such as that of /usr.
        '[ -f "$v"/pyvenv.cfg ] || [ ! -e "$v" ] || { echo "error: $v is no virtual environment" >&2; exit 1; }',
        '[ -f "$v"/pyvenv.cfg ] || python3 -m venv "$v" >&2',
        f'"$v"/bin/python -m pip install --quiet "$d"/{shlex.quote(wheel)}',
    ]
    if has_usual:
        lines += [
            "mkdir -p ~/.local/bin",
            'ln -sf "$v"/bin/pgdrag "$v"/bin/pgdrag-driver ~/.local/bin',
        ]
    return "\n".join(lines)


def _reason(ran: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first line that says that it is an error, else the last one."""
    words = ran.stderr.decode(errors="replace").strip().splitlines()
    return next(
        (x for x in words if x.lower().startswith("error:")), words[-1] if words else "ssh failed"
    )


def _run(host: SshHost, command: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [*SSH, "--", host.host, command]
    try:
        return subprocess.run(
            argv, input=content, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 255, b"", str(error).encode())
