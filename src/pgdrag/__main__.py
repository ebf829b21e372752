"""`pgdrag` and `python -m pgdrag` begin here: from now on, Ctrl-C ends them without a traceback.

What the commands need is imported only then: that is most of the time that a short command takes.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from pgdrag.errors import EXIT_INTERNAL, EXIT_INTERRUPTED


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    # One that is ignored stays so, as in a job that a shell runs in the background.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)
    try:
        from pgdrag.cli import main as run
    except Exception:
        sys.excepthook(*sys.exc_info())
        print("error: pgdrag cannot be loaded", "hint: Reinstall it.", sep="\n", file=sys.stderr)
        sys.exit(EXIT_INTERNAL)
    run()


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    # Nothing has been made yet that would have to be removed.
    os.write(2, b"pgdrag: interrupted\n")
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
