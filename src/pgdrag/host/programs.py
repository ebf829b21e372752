"""How does pgdrag run the system's own small programs, such as mount and losetup?"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Where Debian and others keep what only root needs; a shell got by "su" does not look there.
_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
_NOT_FOUND, _TIMED_OUT = 127, 124


@dataclass(frozen=True)
class Ran:
    """How a program ended (negative: the signal), and what it wrote on both streams."""

    status: int
    output: str

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was asked for."""
        return self.status == 0

    @property
    def last_line(self) -> str:
        """The end of what it wrote, where programs say why they give up."""
        lines = self.output.strip().splitlines()
        return lines[-1].strip() if lines else f"it ended with status {self.status} without a word"


def find_program(name: str) -> Path | None:
    """Return where a program is, also one that only root's shell finds; None: it is not installed."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SYSTEM_DIRECTORIES))
    found = shutil.which(name, path=path)
    return None if found is None else Path(found)


def run_program(name: str, *arguments: str | Path, timeout_s: float = 60.0) -> Ran:
    """Run a program to its end; that it is missing or takes too long is a status, not an exception."""
    program = find_program(name)
    if program is None:
        return Ran(_NOT_FOUND, f'there is no program "{name}" here')
    try:
        finished = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            # A Ctrl-C that ends pgdrag does not end what puts the machine back.
            start_new_session=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(_TIMED_OUT, f"{name} did not end within {timeout_s:g} s")
    except OSError as error:
        return Ran(_NOT_FOUND, f'cannot execute "{program}": {error.strerror}')
    return Ran(finished.returncode, finished.stdout)
