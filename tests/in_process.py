"""pgdrag's commands without a process of their own: Python's start and imports take most of a short command's time.

For what a command answers. What a process does (signals, its end, what outlives it) is tested on a real one.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from pgdrag.cli import run_command
from pgdrag.cli.ending import status_of
from printed import hold_to_schema

# Test runs side by side are no measurements that could disturb each other.
OURS = {"PGDRAG_MACHINE": f"tests-{os.getpid()}", "COLUMNS": "120"}


def pgdrag(*arguments: str | Path, **environment: str) -> tuple[int, str, str]:
    """Run a command to its end; return its exit status and what it wrote, which is never a traceback.

    It has no terminal, and nothing of what libpq would read from the environment.
    """
    with (
        pytest.MonkeyPatch.context() as patches,
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        for name in libpq_variables():
            patches.delenv(name)
        for name, value in (OURS | environment).items():
            patches.setenv(name, value)
        patches.setattr(sys, "argv", ["pgdrag", *map(str, arguments)])
        patches.setattr(sys, "stdin", StringIO())
        status = status_of(run_command)
    assert "Traceback" not in err.getvalue(), err.getvalue()
    hold_to_schema([str(x) for x in arguments], out.getvalue())
    return status, out.getvalue(), err.getvalue()


def libpq_variables() -> list[str]:
    """Return the names of what libpq would read from this environment."""
    return [x for x in os.environ if x.startswith("PG") and not x.startswith("PGDRAG_")]
