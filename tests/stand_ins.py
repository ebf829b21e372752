"""Code for other processes of a test, to begin with, and what a test does to them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from pgdrag.host.process_alive import parent_pid
from pgdrag.host.process_sight import all_pids

# Takes any file for one of the kernel's: see the fixture `any_value`.
ANY_VALUE = 'import pgdrag.host.undo.written_value as _values; _values.PLACES = ("/",)\n'
# As if whatever ended the process had ended its guardian, too.
NO_GUARDIAN = "import pgdrag.host.guardian as _guardian; _guardian._start = lambda: None\n"


def guardians_of(pid: int) -> list[int]:
    """Return the guardian of a process, where it has one.

    Not from that process's own directory: under hidepid there may be none of a process that has had other ids.
    """
    return [
        each
        for each in all_pids()
        if parent_pid(each) == pid
        and b"_guardian_process" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


def kill_with_guardian(process: subprocess.Popen[str]) -> None:
    """End a process as the kernel's end would: nobody is left to clear up after it."""
    for guardian in guardians_of(process.pid):
        os.kill(guardian, signal.SIGKILL)
    process.kill()
