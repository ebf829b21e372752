"""pgdrag as a person runs it: in a process of its own, on a machine that no other test measures."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from in_process import OURS, libpq_variables
from pgdrag.servers.cluster import Cluster
from printed import hold_to_schema

TIMEOUT_S = 300


def dsn(cluster: Cluster, user: str = "pgdrag", *, database: str = "pgdrag") -> str:
    """Name a cluster as a person names a server."""
    return f"host={cluster.socket_directory} port={cluster.port} user={user} dbname={database}"


def start(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start a command; what libpq would read from the environment is left out."""
    kept = {name: value for name, value in os.environ.items() if name not in libpq_variables()}
    return subprocess.Popen(
        [sys.executable, "-m", "pgdrag", *map(str, arguments)],
        env=kept | OURS | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def heard(process: subprocess.Popen[str], words: str) -> str:
    """Wait until a command has written some words on stderr; return what it wrote so far.

    What comes after them is left to `outcome`.
    """
    assert process.stderr is not None
    read, deadline = b"", time.monotonic() + TIMEOUT_S
    while words.encode() not in read:
        left_s = max(deadline - time.monotonic(), 0)
        is_ready, _, _ = select.select([process.stderr], [], [], left_s)
        # A byte at a time: a buffer would keep from `outcome` what it holds.
        byte = os.read(process.stderr.fileno(), 1) if is_ready else b""
        assert byte, f'never wrote "{words}": {read.decode(errors="replace")}'
        read += byte
    return read.decode()


def outcome(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a command; return its exit status and what it wrote, which is never a traceback."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert "Traceback" not in err, err
    arguments: Any = process.args
    hold_to_schema(arguments[3:], out)
    return process.returncode, out, err


def pgdrag(*arguments: str | Path, **environment: str) -> tuple[int, str, str]:
    """Run a command to its end; return its exit status and what it wrote."""
    return outcome(start(*arguments, **environment))
