"""Is anything lost or left, whatever happens to pgdrag, and whenever?

    python tests/campaign --rounds 100 --seed 1

Each round starts a command in a place of its own, kills, stops, starves or fills up something of it at a moment
drawn by lot, and then compares: the journal and its finished trials, a resumed run with an undisturbed one, an
existing server's settings, the operating system's, and processes, mounts, devices, control groups, shared memory
and files that would be left. It ends only processes that it has started.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[1] / x) for x in (".", "postgres", ".."))

from kinds import KINDS
from place import Place, place
from rich.console import Console
from rich.table import Table
from rounds import Round, draw_round, play, repeat_command


@dataclass
class Campaign:
    """Rounds side by side, until they are done, their time is over, or somebody interrupts them."""

    seed: int
    only: tuple[str, ...]
    numbers: Iterator[int]
    record: Path | None = None
    ends_s: float = float("inf")
    rounds: list[Round] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _disk: Place | None = None

    def work(self, stack: ExitStack) -> None:
        """Play rounds in a place of this thread's own, and in one for all where one of them plays at a time.

        Args:
            stack: takes the places away, once all threads have ended.
        """
        own: Place | None = None
        while (number := self._next()) is not None:
            one, draw = draw_round(self.seed, number, self.only)
            if one.kind.is_on_disk:
                with self._lock:
                    self._disk = self._disk or stack.enter_context(place(on_disk=True))
                play(one, draw, self._disk)
            else:
                own = own or stack.enter_context(place(on_disk=False))
                play(one, draw, own)
            self._end(one)

    def _next(self) -> int | None:
        with self._lock:
            return None if time.monotonic() >= self.ends_s else next(self.numbers, None)

    def _end(self, one: Round) -> None:
        with self._lock:
            self.rounds.append(one)
            outcome = "; ".join(one.found) or ("too late" if one.is_missed else "as it must be")
            print(f"{one}: {outcome}", flush=True)
            if one.found:
                print(f"  again: {repeat_command(self.seed, one, self.only)}", flush=True)
            if self.record is not None:
                with self.record.open("a") as file:
                    print(json.dumps(self._written(one)), file=file)

    def _written(self, one: Round) -> dict[str, object]:
        return {
            "seed": self.seed,
            "round": one.number,
            "command": one.kind.name,
            "fault": one.fault.name,
            "victim": one.fault.victim,
            "moment": "change" if one.fault.is_by_change else "time",
            "missed": one.is_missed,
            "took_s": round(one.took_s, 1),
            "found": one.found,
        }


def print_summary(rounds: list[dict[str, object]], console: Console) -> None:
    """Print how many rounds there were by fault, victim and command, and how many of them found something."""
    hit = [x for x in rounds if not x["missed"]]
    commands = [name for name in KINDS if any(x["command"] == name for x in hit)]
    table = Table("fault", "victim", *commands, "all", "after a change", box=None)
    for fault, victim in sorted({(str(x["fault"]), str(x["victim"])) for x in hit}):
        of_row = [x for x in hit if (x["fault"], x["victim"]) == (fault, victim)]
        by = Counter(str(x["command"]) for x in of_row)
        bad = Counter(str(x["command"]) for x in of_row if x["found"])
        cells = [
            f"{by[x]}{f' ({bad[x]} bad)' if bad[x] else ''}" if by[x] else "" for x in commands
        ]
        changes = sum(x.get("moment") == "change" for x in of_row)
        table.add_row(fault, victim, *cells, str(len(of_row)), str(changes))
    console.print(table)
    bad = sum(bool(x["found"]) for x in rounds)
    late = len(rounds) - len(hit)
    console.print(
        f"{len(hit)} rounds, {bad} found something; in {late} more the command had ended before"
    )


def options_of(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="campaign", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, help="how many (default: 20, or as many as there is time for)")  # fmt: skip
    parser.add_argument(
        "--hours", type=float, help="how long (default: as long as the rounds take)"
    )
    parser.add_argument("--seed", type=int, help="of what is drawn (default: drawn, and shown)")
    parser.add_argument("--round", type=int, help="play this one alone")
    parser.add_argument("--only", default="", help=f"commands, of {', '.join(KINDS)}")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="rounds at the same time (default: two for each processor)")  # fmt: skip
    parser.add_argument("--record", type=Path, help="add a line of JSON a round to this file")
    parser.add_argument("--summary", type=Path, help="print the summary of such a file, and play nothing")  # fmt: skip
    found = parser.parse_args(argv)
    found.only = tuple(x for x in found.only.split(",") if x)
    if unknown := set(found.only) - set(KINDS):
        parser.error(f"no such command here: {', '.join(sorted(unknown))}")
    return found


def main() -> int:
    """Play as many rounds as asked for; 1: one found something."""
    options = options_of()
    # COLUMNS decides where there is no terminal.
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.summary is not None:
        lines = options.summary.read_text().splitlines()
        print_summary([json.loads(x) for x in lines], console)
        return 0
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    if options.round is not None:
        numbers = iter([options.round])
    else:
        most = options.rounds or (20 if options.hours is None else sys.maxsize)
        numbers = iter(range(1, most + 1))
    campaign = Campaign(seed, options.only, numbers, options.record)
    if options.hours is not None:
        campaign.ends_s = time.monotonic() + 3600 * options.hours
    print(f"seed {seed}", flush=True)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # No more rounds are begun; what a command under test is sent is not ignored by it.
        signal.signal(number, lambda *_: setattr(campaign, "ends_s", 0.0))
    failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    jobs = 1 if options.round is not None else options.jobs
    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(campaign.work, stack) for _ in range(jobs)]:
            if (error := done.exception()) is not None:
                failures.put(error)
    print_summary([campaign._written(x) for x in campaign.rounds], console)
    if not failures.empty():
        raise failures.get()
    return int(any(x.found for x in campaign.rounds))


if __name__ == "__main__":
    sys.exit(main())
