"""What does the guardian of a pgdrag that died do? It clears up as the next start would: `host.guardian`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from pgdrag.english import without_controls
from pgdrag.host.guardian import end_session
from pgdrag.host.logins import take_entrusted
from pgdrag.host.process_alive import GUARDIAN
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import end_servers, sweep, sweep_devices


def main() -> None:
    """Clear up after the process that the first argument names; the others are what was at stake."""
    with contextlib.suppress(OSError):
        # By this name others know that it acts for a dead process, and wait for it: see `take_over`.
        Path("/proc/self/comm").write_text(GUARDIAN)
    pid, *stakes = sys.argv[1:]
    take_entrusted(sys.stdin)
    for sentence in clear_up_after(stakes):
        with contextlib.suppress(OSError):  # the terminal has gone
            words = f"pgdrag: process {pid} was killed. {without_controls(sentence)}\n"
            os.write(2, words.encode(errors="replace"))


def clear_up_after(stakes: Iterable[str]) -> Iterator[str]:
    """Clear up after a dead process, one thing at a time, and yield a sentence for each.

    What cannot be undone stays for the next pgdrag, which tells of it again.

    Args:
        stakes: "KIND=PLACE" each, as its guardian was given them.
    """
    places: dict[str, list[str]] = {"session": [], "scratch": [], "undo": []}
    for stake in stakes:
        kind, _, place = stake.partition("=")
        places[kind].append(place)
    roots = [Path(root) for root in places["scratch"]]
    # What lies on a scratch device goes with it.
    outer = [x for x in roots if not any(x != y and x.is_relative_to(y) for y in roots)]
    steps: list[Callable[[], Iterable[str]]] = [
        *(partial(_end_session, place) for place in places["session"]),
        *(partial(_in_scratch, end_servers, root) for root in outer),
        *(partial(_restore, Path(directory)) for directory in places["undo"]),
        *(partial(_in_scratch, sweep, root) for root in outer),
        *(partial(_in_scratch, sweep_devices, root) for root in outer),
    ]
    for step in steps:
        try:
            yield from step()
        except Exception as error:
            yield f"Could not clean up: {error}."


def _end_session(place: str) -> list[str]:
    count = end_session(place)
    return [f"Ended {count} processes of a workload."] if count else []


def _in_scratch(act: Callable[[Scratch], Iterable[str]], root: Path) -> Iterable[str]:
    return act(Scratch.open(root)) if root.is_dir() else []


def _restore(directory: Path) -> list[str]:
    journal = UndoJournal.with_leftovers(directory)
    if journal is None:
        return []
    sentences = [result.sentence for result in journal.restore_all()]
    journal.release()
    return sentences
