"""When may Ctrl-C, SIGTERM or the terminal's end interrupt pgdrag?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP until the block has ended; then the first that came acts.

    Python runs handlers in the main thread alone, so that others are never interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handlers = {}
    try:
        for number in INTERRUPTS:
            handler = signal.getsignal(number)
            # What is ignored stays so (nohup); None is a handler that Python does not know.
            if handler is not None and handler is not signal.SIG_IGN:
                handlers[number] = handler
                signal.signal(number, lambda number, frame: came.append((number, frame)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            number_, frame = came[0]
            handler = handlers[signal.Signals(number_)]
            if callable(handler):
                handler(number_, frame)
            else:
                signal.raise_signal(number_)
