"""What takes root, and this thread without one of root's rights, as root in a container is."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this")

CAP_SYS_PTRACE = 19  # linux/capability.h
_VERSION = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def without(capability: int) -> Iterator[None]:
    """Take a right away from this thread for the block."""
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    # Effective, permitted and inheritable ones below 32, then those from 32 on.
    held = (ctypes.c_uint32 * 6)()
    assert _libc.capget(header, held) == 0
    less = (ctypes.c_uint32 * 6)(*held)
    less[0] &= ~(1 << capability)
    assert _libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert _libc.capset(header, held) == 0
