"""How is an existing server restarted with the command that a person gave, and does it run afterwards?"""

from __future__ import annotations

import os
import subprocess
import tempfile

from pgdrag.host.programs import Ran

_NOT_FOUND, _TIMED_OUT = 127, 124
_SHOWN_BYTES = 4000


def run_restart(command: str, *, timeout_s: float) -> Ran:
    """Run a command with a shell, to its end; what it starts outlives this process.

    A Ctrl-C that ends pgdrag does not end it, and neither does pgdrag's own end: half a restart is a server that is down.
    """
    # A file: a server that the command starts may keep the other end of a pipe for as long as it runs.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            return Ran(_NOT_FOUND, error.strerror or str(error))
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = _TIMED_OUT
        output.seek(0)
        return Ran(status, output.read(_SHOWN_BYTES).decode(errors="replace"))
