"""Do memory, files and threads of what runs for long stay bounded?

    python tests/soak --hours 8

Side by side, on a server with a light load: `pgdrag observe` with a sample a second into the smallest file there can
be, `pgdrag serve` with somebody who reads its pages and leaves streams in the middle, and a run of as many trials as
there is time for. What grows faster than allowed, with the whole interval of its trend, fails.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import json
import os
import re
import signal
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

sys.path.extend(str(Path(__file__).parents[1] / x) for x in (".", "campaign", "postgres", ".."))

import psutil
import psycopg
from growth import CONFIDENCE, Growth, growth
from kinds import TINY
from place import Command, Failed, Place, place, wait
from rich.console import Console
from rich.table import Table
from rounds import newest_run

LOOK_S = 5.0
LEAST_S = 300.0
MB = 1e6
# Growth in the unit of each quantity per hour; of a run also so much memory for each trial, which it knows until its end.
ALLOWED = {"memory, MB": 1.0, "files": 1.0, "threads": 1.0, "files on disk": 2.0}
MB_PER_TRIAL = 0.1
# What may grow at first, but not beyond: observations of --size 1MB, with what their last transactions take beside them.
MOST = {"on disk, MB": 1.2}
# More trials than there is time for.
RUNGS, REPLICATES = 20, 1000
# A trial takes 42 kB of the journal, and an hour has some 3,400 of them: enough for half a day.
HOME_MB = 2_000
PAGES = ("", "start")


@dataclass
class Soak:
    """What was seen of each subject's quantities.

    Attributes:
        looks: times and values, by subject and quantity.
    """

    record: Path | None
    began_s: float = field(default_factory=time.monotonic)
    looks: dict[tuple[str, str], tuple[list[float], list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: ([], []))
    )

    def note(self, subject: str, values: dict[str, float]) -> None:
        """Note what a look has shown."""
        at_s = time.monotonic() - self.began_s
        for name, value in values.items():
            times_s, seen = self.looks[subject, name]
            times_s.append(at_s)
            seen.append(value)
        if self.record is not None:
            with self.record.open("a") as file:
                line = {"at_s": round(at_s, 1), "subject": subject, **values}
                print(json.dumps(line), file=file)

    def trials(self) -> list[float]:
        """Return how many trials had ended at each look at the run."""
        return self.looks["run", "trials"][1]


def print_summary(soak: Soak, console: Console) -> bool:
    """Print each quantity's trend with its interval; whether none grows beyond what is allowed."""
    table = Table(
        "of", "what", "first", "last", "most", "growth an hour", f"{CONFIDENCE:.0%} interval", "allowed", box=None
    )  # fmt: skip
    bad = False
    per_trial_h = _trials_per_h(soak) * MB_PER_TRIAL
    for (subject, name), (times_s, values) in soak.looks.items():
        if name in MOST:
            is_bad, limit = max(values) > MOST[name], f"{MOST[name]:.1f} at most"
        elif name in ALLOWED:
            found = growth(times_s, values)
            allowed = ALLOWED[name] + (
                per_trial_h if (subject, name) == ("run", "memory, MB") else 0
            )
            is_bad, limit = found is not None and found.is_beyond(allowed), f"{allowed:.1f} an hour"
        else:
            continue
        bad |= is_bad
        table.add_row(
            subject, name, *(f"{x:.1f}" for x in (values[0], values[-1], max(values))),
            *_words(growth(times_s, values)), f"{limit}{' EXCEEDED' if is_bad else ''}",
        )  # fmt: skip
    console.print(table)
    length_s = time.monotonic() - soak.began_s
    trials = soak.trials()
    console.print(f"{length_s / 60:.0f} minutes, {trials[-1] if trials else 0:.0f} trials")
    return not bad


def _words(found: Growth | None) -> tuple[str, str]:
    if found is None:
        return "too few looks", ""
    return f"{found.per_h:+.2f}", f"{found.low:+.2f} to {found.high:+.2f}"


def _trials_per_h(soak: Soak) -> float:
    times_s, trials = soak.looks["run", "trials"]
    found = growth(times_s, trials)
    return 0.0 if found is None else max(found.per_h, 0.0)


def look_at(pid: int) -> dict[str, float]:
    """Return what a process takes now; nothing: it has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        with process.oneshot():
            return {
                # Not the pages that are its alone: they are its child's, too, while it forks.
                "memory, MB": process.memory_info().rss / MB,
                "files": float(process.num_fds()),
                "threads": float(process.num_threads()),
            }
    return {}


def files_of(here: Place) -> int:
    """Return how many files and directories there are of all commands; those of the trial's cluster come and go."""
    count, clusters = 0, str(here.scratch / "clusters")
    for top in (here.home, here.scratch, here.undo.parent):
        for directory, inner, files in os.walk(top):
            inner[:] = [x for x in inner if directory != clusters]
            count += len(inner) + len(files)
    return count


@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do something in a thread until the block has ended."""
    has_ended = threading.Event()
    thread = threading.Thread(target=work, args=[has_ended], daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join(60)


def load_of(dsn: str) -> Callable[[threading.Event], None]:
    """Return a light load: statements of a few kinds, some of which are new, and sessions that come and go."""

    def work(has_ended: threading.Event) -> None:
        number = 0
        while not has_ended.is_set():
            with suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True) as session:
                for _ in range(200):
                    number += 1
                    session.execute("SELECT count(*) FROM pg_catalog.pg_class")
                    session.execute(f"SELECT {number} AS new_{number % 500}".encode())
                    if has_ended.wait(0.02):
                        return

    return work


class Reader:
    """Reads the pages of `pgdrag serve` as a browser does, one after the other, and leaves streams half read."""

    def __init__(self, url: str) -> None:
        self.root, _, token = url.partition("#")
        split = urllib.parse.urlsplit(self.root)
        self._origin = f"{split.scheme}://{split.netloc}"
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        )
        self.pages = 0
        self._open("enter", urllib.parse.urlencode({"token": token}).encode()).close()

    def work(self, running: str, ended: str) -> Callable[[threading.Event], None]:
        """Return the reading of all pages there are of two runs."""
        # A report of the one that goes on takes memory with each of its trials: nobody reads one every few seconds.
        paths = (*PAGES, f"report/{ended}", f"run/{running}", "events", f"run/{running}/events")

        def read(has_ended: threading.Event) -> None:
            while not has_ended.is_set():
                for path in paths:
                    with suppress(OSError), self._open(path) as answer:
                        # Of a stream only its beginning.
                        answer.read(2_000 if path.endswith("events") else -1)
                        self.pages += 1
                    if has_ended.wait(1.0):
                        return

        return read

    def _open(self, path: str, body: bytes | None = None) -> IO[bytes]:
        request = urllib.request.Request(
            f"{self.root}{path}", body, {"Origin": self._origin} if body is not None else {}
        )
        found: IO[bytes] = self._opener.open(request, timeout=30)
        return found


def _long_experiment(here: Place) -> Path:
    file = here.directory / "long.toml"
    rungs = "".join(
        f'[[rungs]]\nname = "L{x}"\nsetting = {{ work_mem = "{x}MB" }}\n'
        for x in range(1, RUNGS + 1)
    )
    file.write_text(TINY.read_text().replace("[scales.test]", f"{rungs}[scales.test]", 1))
    return file


def _said(command: Command, words: str) -> str:
    """Return the first word of what a command writes that begins so."""

    def found() -> str:
        return next((x for x in command.said.split() if x.startswith(words)), "")

    if not wait(120, lambda: bool(found()) or command.has_ended()) or not found():
        raise Failed(f"{command} did not say {words}…:\n{command.said}")
    return found()


def soak(here: Place, length_s: float, record: Path | None) -> Soak:
    """Let all run side by side, and look at them.

    Raises:
        Failed: one of them ended, or did not end when it was told to.
    """
    here.begin_round(0)
    server = here.server
    observed = here.home / "x.obs"
    with ExitStack() as stack:
        ended = newest_run(here, here.run("run", str(TINY))).run_id
        stack.enter_context(in_background(load_of(server.dsn)))
        observe = here.start(
            "observe", server.dsn, "--every", "1s", "--size", "1MB", "--out", str(observed)
        )
        stack.callback(_end, observe)
        long = str(_long_experiment(here))
        run = here.start("run", long, "--replicates", str(REPLICATES), "--yes")
        stack.callback(_end, run)
        serve = here.start("serve", "--port", "0")
        stack.callback(_end, serve)
        live = here.home / "live"
        if not wait(120, lambda: any(live.glob("*.jsonl")) or run.has_ended()) or run.has_ended():
            raise Failed(f"{run} did not begin:\n{run.said}")
        (run_id,) = (x.stem for x in live.glob("*.jsonl"))
        reader = Reader(_said(serve, "http://"))
        stack.enter_context(in_background(reader.work(run_id, ended)))
        found, has_enough = Soak(record), threading.Event()
        # Ctrl-C and SIGTERM end it early, with what was seen until then.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: has_enough.set())
        while (left_s := length_s - (time.monotonic() - found.began_s)) > 0:
            if has_enough.wait(min(LOOK_S, left_s)):
                break
            for subject, command in (("observe", observe), ("serve", serve), ("run", run)):
                if command.has_ended():
                    raise Failed(f"{command} has ended:\n{command.said[-4_000:]}")
                found.note(subject, look_at(command.process.pid))
            found.note("observe", {"on disk, MB": observed.stat().st_size / MB})
            found.note("run", {"trials": float(_trials(run))})
            found.note("all", {"files on disk": float(files_of(here))})
        print(f"{reader.pages:,} pages were read", flush=True)
    return found


def _trials(run: Command) -> int:
    """Return how many trials have ended: each has a line with its number."""
    return max(map(int, re.findall(r"^ *(\d+)/\d", run.said, re.M)), default=0)


def _end(command: Command) -> None:
    if not command.has_ended():
        command.process.send_signal(signal.SIGINT)
    command.end()


def main() -> int:
    """Soak for as long as asked for; 1: something grows."""
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=8.0, help="how long (default: 8)")
    parser.add_argument("--record", type=Path, help="add a line of JSON a look to this file")
    options = parser.parse_args()
    if (length_s := 3600 * options.hours) < LEAST_S:
        parser.error(f"no trend is to be seen in less than {LEAST_S / 60:.0f} minutes")
    with place(on_disk=False, home_mb=HOME_MB) as here:
        found = soak(here, length_s, options.record)
    console = Console(width=None if sys.stdout.isatty() else 140)
    return int(not print_summary(found, console))


if __name__ == "__main__":
    sys.exit(main())
