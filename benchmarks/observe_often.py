"""`python -m benchmarks.observe_often TIMES FILE …`: a command of pgdrag whose looks at a server come TIMES as often.

Each look costs the same however often it comes, so that a cost too small to be seen beside noise is seen TIMES as large. What bounds
looks to a share of the time is eased alike. FILE has the number of queries that were sent, as eight bytes.
"""

from __future__ import annotations

import mmap
import sys
from pathlib import Path
from typing import Any

import psycopg

COUNT_BYTES = 8


def main() -> None:
    """Change the intervals, and run the command."""
    times, count, *arguments = sys.argv[1:]
    _look_often(int(times))
    _count_queries(Path(count))
    from pgdrag.cli import main as run

    sys.argv = ["pgdrag", *arguments]
    run()


def _look_often(times: int) -> None:
    from pgdrag.capture import twin
    from pgdrag.cli import observe
    from pgdrag.observations import reading, recorder

    # Constants of the program: there is no option for what nobody should do to a server.
    observe.LEAST_EVERY_S /= times
    recorder.LOOK_EVERY_S /= times
    recorder._LOOK_SHARE *= times
    reading.MOST_SHARE *= times
    twin.LOOK_EVERY_S /= times
    twin.STATEMENTS_EVERY_S /= times


def _count_queries(file: Path) -> None:
    with file.open("r+b") as opened:
        shared = mmap.mmap(opened.fileno(), COUNT_BYTES)
    execute = psycopg.Cursor.execute
    sent = 0

    def counted(self: psycopg.Cursor[Any], *given: Any, **named: Any) -> psycopg.Cursor[Any]:
        nonlocal sent
        sent += 1
        shared[:] = sent.to_bytes(COUNT_BYTES, sys.byteorder)
        return execute(self, *given, **named)

    psycopg.Cursor.execute = counted  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    main()
