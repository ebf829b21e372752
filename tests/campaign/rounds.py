"""Rounds of the campaign: one command, one fault, and then everything must be as it must be.

What happens in a round is drawn from the campaign's seed and the round's number alone, so that any round can be
repeated: when its moment comes, a machine decides that is never twice the same.
"""

from __future__ import annotations

import fcntl
import random
import re
import shlex
import signal
import sqlite3
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from faults import MEMORY, SECOND, SIGNALS, Fault, Length, draw_fault, struck
from kinds import KINDS, Kind, plan_of, runs_of
from machine import Machine
from place import END_TIMEOUT_S, Command, Failed, Place, Server, wait

from pgdrag.errors import EXIT_INTERNAL, EXIT_MISUSE, EXIT_STATUSES
from pgdrag.model import RunRecord

HOST_LOCK = Path("/var/tmp/pgdrag-test-host.lock")
# What is run next where neither pgdrag nor its guardian cleared up; a run is then resumed in any case.
NEXT = (("restore",), ("clean",), ("resume",))
_ATTEMPTS = "SELECT run_id, number, attempt, result FROM attempt WHERE result IS NOT NULL"
_TRIES = 3


@dataclass
class Round:
    """A round, as it was drawn, and what came of it.

    Attributes:
        after: what was run next.
        found: what was not as it must be.
        is_missed: the command ended before anything could happen to it.
        kept: results that were on disk when it had happened.
    """

    number: int
    kind: Kind
    fault: Fault
    after: tuple[str, ...]
    found: list[str] = field(default_factory=list)
    is_missed: bool = False
    kept: int = 0
    took_s: float = 0.0

    def __str__(self) -> str:
        return f"round {self.number}: {self.kind.name}: {self.fault}"


def draw_round(seed: int, number: int, only: Collection[str]) -> tuple[Round, random.Random]:
    """Draw a round, and what else is drawn in it."""
    draw = random.Random(f"{seed}/{number}")
    kinds = [x for x in KINDS.values() if not only or x.name in only]
    kind = draw.choices(kinds, [x.weight for x in kinds])[0]
    return Round(number, kind, draw_fault(kind, draw), draw.choice(NEXT)), draw


def play(one: Round, draw: random.Random, here: Place) -> None:
    """Play a round in a place; what it finds stands in it."""
    began_s = time.monotonic()
    with _host_alone() if one.kind.is_on_disk else nullcontext():
        try:
            for _ in range(_TRIES):
                _measure_length(one.kind, here, draw)
                here.begin_round(one.number)
                one.found += _played(one, draw, here)
                if not one.is_missed or one.found:
                    break
        except Failed as failure:
            one.found.append(str(failure))
        except Exception as error:  # whatever it is, the next round goes on
            one.found.append("".join(traceback.format_exception(error)))
        if one.found:
            here.clear()
    one.took_s = time.monotonic() - began_s


# How long an undisturbed command takes, and what it plans, by kind: the same wherever it runs.
LENGTHS: dict[str, Length] = {}
_PLANS: dict[str, list[tuple[int, int, int, str]]] = {}
_MEASURING: defaultdict[str, Lock] = defaultdict(Lock)


def _measure_length(kind: Kind, here: Place, draw: random.Random) -> None:
    """Let a command of a kind run to its end, once in all places."""
    with _MEASURING[kind.name]:
        if kind.name in LENGTHS:
            return
        if kind.is_endless:
            LENGTHS[kind.name] = Length(2.0)
            return
        here.begin_round(0)
        kind.prepare(here, draw)
        began_s = time.monotonic()
        command = here.start(*kind.words(here))
        wait(END_TIMEOUT_S, lambda: command.changes.look() < 0 or command.has_ended())
        command.end()
        _refuse_failed(command)
        if kind.is_fixed:
            _PLANS[kind.name] = plan_of(newest_run(here, command))
        LENGTHS[kind.name] = Length(time.monotonic() - began_s, command.changes.count)


def _played(one: Round, draw: random.Random, here: Place) -> list[str]:
    kind, fault = one.kind, one.fault
    # A restore gives back what was before that which it is prepared for.
    before, server = here.look(), here.server.state() if kind.has_server else {}
    kind.prepare(here, draw)
    prepared = here.left_now(before, is_last=False)
    began_s = time.monotonic()
    # Of two that begin at once either may be the one that waits.
    patience = ("--wait=2min",) if fault.name == SECOND else ()
    command = here.start(*kind.words(here), *patience)
    kind.meets(command)
    second = here.start(*kind.words(here), *patience) if patience else None
    with struck(fault, kind, here, command, LENGTHS[kind.name]) as was_hit:
        one.is_missed = not was_hit
        if kind.is_endless and not fault.ends_pgdrag and was_hit:
            wait(1.0, command.has_ended)
            command.process.send_signal(signal.SIGINT)
        if kind.has_server and fault.victim == "server" and was_hit:
            _watch_over(here.server, command)
        status = command.end()
    is_second_bad = second is not None and second.end() != 0
    if one.is_missed:
        _refuse_failed(command)
        # The first one may have taken longer, as it made what later ones find.
        changes = command.changes.count or LENGTHS[kind.name].changes
        LENGTHS[kind.name] = Length(time.monotonic() - began_s, changes)
        return []
    found = _ended_badly(fault, command, status)
    if second is not None and is_second_bad:
        found.append(f"the second pgdrag ended with {second.process.returncode}:\n{second.said}")
    found += _recovered(one, here, before, prepared, was_killed=status < 0)
    return found + (_changed(here, server) if kind.has_server else [])


def _watch_over(server: Server, command: Command) -> None:
    """Start a server whenever it has ended: a trial of pgdrag waits for that for two minutes, an undo for one."""

    def is_over() -> bool:
        server.start()
        return command.has_ended()

    wait(END_TIMEOUT_S, is_over, poll_s=1.0)


def _recovered(
    one: Round, here: Place, before: Machine, prepared: list[str], *, was_killed: bool
) -> list[str]:
    """Let pgdrag recover from what has happened, and return what is lost, or left.

    Args:
        prepared: what was left on purpose, for a command that may have ended before it saw that.
    """
    kind, fault, found, has_run = one.kind, one.fault, [], False
    kept = _finished_attempts(here)
    one.kept = len(kept)
    is_servers = kind.has_server and fault.victim == "server"
    if is_servers and kind.name == "restore":
        pass  # it waits for no server
    elif not was_killed or (fault.spares_guardian and kind.is_guarded):
        # It, or its guardian, has cleared up, without a further command.
        left = here.left(before, is_last=False, but=prepared)
        found += [f"after it, without a further command: {x}" for x in left]
    elif one.after != ("resume",):
        here.run(*one.after, expected=(0, 1))
    if is_servers:
        # Where it could not be reached nothing could be given back.
        here.run(*here.server.restoring)
    if kind.resumed is not None:
        lost, has_run = _resumed(kind, here, kept)
        found += lost
    if kind.again is not None and (again := kind.again(here)):
        here.run(*again, expected=(0, 1))
    if was_killed or is_servers:
        here.run(*(here.server.restoring if kind.has_server else ("restore",)))
    left = here.left(before, is_last=has_run)
    return [*found, *(f"in the end: {x}" for x in left)]


def _ended_badly(fault: Fault, command: Command, status: int) -> list[str]:
    """Return what is wrong with how a command ended that something had happened to."""
    allowed = set(EXIT_STATUSES) - {EXIT_INTERNAL}
    if fault.ends_pgdrag or fault.name in (SECOND, MEMORY):
        allowed.add(-signal.SIGKILL)
    said, found = command.said, []
    if fault.name in SIGNALS and fault.victim == "pgdrag" and not said:
        allowed.add(-signal.Signals[f"SIG{fault.name}"])  # Python had not begun with it
    if status not in allowed:
        found.append(f"{command} ended with {status}")
    if status == EXIT_MISUSE and not re.search("^error: ", said, re.M):
        found.append(f"{command} ended with {status} and no error")
    if "Traceback" in said or "internal error" in said:
        found.append("it wrote a traceback")
    return [*found, f"it wrote:\n{said}"] if found else []


def _refuse_failed(command: Command) -> None:
    """Fail where a command that nothing had happened to has not ended well."""
    status = command.process.returncode
    if status not in (0, 1, 3):
        raise Failed(f"undisturbed, {command} ended with {status}:\n{command.said}")


def _finished_attempts(here: Place) -> list[tuple[object, ...]]:
    """Return all results in the journal, which must be sound, as they are on disk."""
    path = here.home / "journal.sqlite"
    if not path.exists():
        return []
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        for pragma, sound in (("integrity_check", [("ok",)]), ("foreign_key_check", [])):
            if (said := db.execute(f"PRAGMA {pragma}").fetchall()) != sound:
                raise Failed(f"the journal: {pragma}: {said}")
        with suppress(sqlite3.OperationalError):  # killed before it had tables
            return db.execute(_ATTEMPTS).fetchall()
    return []


def _resumed(kind: Kind, here: Place, kept: list[tuple[object, ...]]) -> tuple[list[str], bool]:
    """Resume what was not ended, or begin where nothing was, and compare with what a run must come to.

    Returns what is wrong, and whether anything was run: not where it was killed after its last trial.
    """
    assert kind.resumed is not None
    found = []
    unfinished = [x for x in runs_of(here) if x.status != "done"]
    command: Command | None = None
    for record in unfinished:
        command = here.run("resume", record.run_id, *kind.resumed(here), expected=(0, 1, 3))
    if not runs_of(here):
        words = _begun(kind)(here)
        command = here.run(*words, expected=(0, 1, 3))
    lost = set(kept) - set(_finished_attempts(here))
    if lost:
        found.append(f"lost results: {sorted(x[:3] for x in lost)}")
    for record in runs_of(here):
        if record.status != "done":
            found.append(f"run {record.run_id} is {record.status} after resume")
        twice = [n for n, times in Counter(x.trial.number for x in record.results).items() if times > 1]  # fmt: skip
        if twice:
            found.append(f"trials {twice} of run {record.run_id} have two results")
        if kind.is_fixed and plan_of(record) != _PLANS.get(kind.name, plan_of(record)):
            found.append(f"run {record.run_id} has other trials: {plan_of(record)}")
    if found and command is not None:
        found.append(f"{command} wrote:\n{command.said}")
    return found, command is not None


def _begun(kind: Kind) -> Callable[[Place], tuple[str, ...]]:
    return KINDS["run"].words if kind.name == "resume" else kind.words


def newest_run(here: Place, command: Command) -> RunRecord:
    """Return the run that a command has left in the journal."""
    runs = runs_of(here)
    if not runs:
        raise Failed(f"{command} left no run in the journal:\n{command.said}")
    return runs[0]


def _changed(here: Place, before: dict[str, object]) -> list[str]:
    """Return what of a server is otherwise than before, once sessions have had time to end."""
    found: list[str] = []

    def is_same() -> bool:
        now = here.server.state()
        found[:] = [
            f"{name} of the server: {_difference(before[name], now[name])}"
            for name in before
            if now[name] != before[name]
        ]
        return not found

    wait(20, is_same, poll_s=0.5)
    return found


def _difference(before: object, now: object) -> str:
    if not isinstance(before, list) or not isinstance(now, list):
        return f"{before} before, {now} now"
    return f"{sorted(set(before) - set(now))} before, {sorted(set(now) - set(before))} now"


@contextmanager
def _host_alone() -> Iterator[None]:
    """Hold what tests that change the operating system hold, too."""
    with HOST_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def repeat_command(seed: int, one: Round, only: Collection[str]) -> str:
    """Return the command that plays a round again."""
    words = ["make", "campaign", f"SEED={seed}", f"ROUND={one.number}"]
    return shlex.join([*words, *([f"ONLY={','.join(sorted(only))}"] if only else [])])
