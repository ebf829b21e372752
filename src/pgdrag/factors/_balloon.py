"""Holds memory until its standard input ends: a program of its own, with nothing of pgdrag's in it.

It takes memory until a given number of bytes is left to all others, reports that, and waits. The kernel ends it
before any other process when memory runs out, and at once when its parent dies.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

STEP_BYTES = 64 << 20
_PAGE = mmap.PAGESIZE


def available_bytes() -> int:
    """Return what programs can have without swapping, by the kernel's estimate.

    Raises:
        OSError: this host has no /proc/meminfo.
        StopIteration: its kernel is older than 3.14.
    """
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def fill(leave_bytes: int) -> list[mmap.mmap]:
    """Take memory, and lock it, until `leave_bytes` are available.

    Raises:
        OSError: no more can be locked.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    held = []
    while (room := available_bytes() - leave_bytes) >= _PAGE:
        size = min(room, STEP_BYTES) // _PAGE * _PAGE
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        # It makes the kernel find a page for each, too.
        if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size)) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        held.append(block)
    return held


def main() -> None:
    """Fill, say "held BYTES AVAILABLE" or "refused REASON", and wait."""
    Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        held = fill(int(sys.argv[1]))
    except OSError as error:
        print("refused", (error.strerror or str(error)).lower(), flush=True)
        return
    print("held", sum(len(block) for block in held), available_bytes(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
