"""Waits for the end of the pgdrag that started it, and then starts a pgdrag that cleans up.

This is a script, not a module of the package: `python -I -S _guardian_process.py PID` imports nothing but
what every Python has loaded, so that waiting for days costs a few MB of memory and no processor time.

Standard input is a pipe whose other end only that pgdrag has. Each word ends with a zero byte::

    +KIND=PLACE     what is at stake from now on: see `guardian`
    -KIND=PLACE     what is not any more
    =TEXT           a line for the process that cleans up, on its standard input: no argument shows it
    end             pgdrag is about to end, and has cleared up itself

The pipe's end without the last word is pgdrag's, however it came.
"""

import os
import signal
import sys
import time

# From the end of the pipe, which the kernel closes first, to the end of the process.
_DEATH_TIMEOUT_S = 10.0
_CLEAR_UP = (
    "import sys; sys.path.append(sys.argv.pop(1)); from pgdrag.cli.aftermath import main; main()"
)


def main() -> None:
    """Read what there is to clean up, and have that done if pgdrag dies; never returns."""
    # It is the last one to go: what ends a terminal or a group of processes must not end it, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # they were held back until here
    parent = int(sys.argv[1])
    stakes: dict[bytes, None] = {}
    secrets: list[bytes] = []
    held = b""
    while chunk := os.read(0, 1 << 16):
        *words, held = (held + chunk).split(b"\0")
        for word in words:
            if word == b"end":
                os._exit(0)
            if word.startswith(b"+"):
                stakes[word[1:]] = None
            elif word.startswith(b"="):
                secrets.append(word[1:])
            else:
                stakes.pop(word[1:], None)
    deadline = time.monotonic() + _DEATH_TIMEOUT_S
    while os.getppid() == parent:
        if time.monotonic() > deadline:
            os._exit(0)  # it has lost the pipe, but not its life
        time.sleep(0.005)
    # In memory, however much it is; this process's own input has ended.
    memory = os.memfd_create("pgdrag")
    os.write(memory, b"".join(secret + b"\n" for secret in secrets))
    os.lseek(memory, 0, os.SEEK_SET)
    os.dup2(memory, 0)
    # Not from the current directory, which may be anybody's; at last, from where this file is.
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    words = [os.fsencode(package), os.fsencode(sys.argv[1]), *stakes]
    os.execv(
        sys.executable, [os.fsencode(sys.executable), b"-P", b"-c", _CLEAR_UP.encode(), *words]
    )


main()
