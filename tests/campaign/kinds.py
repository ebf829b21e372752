"""Which commands suffer, what is there to be killed while they run, and what must come of them?"""

from __future__ import annotations

import random
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from place import END_TIMEOUT_S, IS_ROOT, Command, Failed, Place, descendants, role_of, strike, wait

from pgdrag.journal import Journal
from pgdrag.model.run import RunRecord

TINY, SYSTEM = (Path(__file__).with_name(f"{name}.toml") for name in ("tiny", "system"))
FLEET = 'local = 2\nlease = "15s"\nwait = "1min"\n'
SEED = ("--seed", "5")
# What belongs to a run on throw-away servers; "both": pgdrag with its guardian, "all": whatever there is.
OF_RUN = ("pgdrag", "driver", "guardian", "server", "backend", "both", "all")
Words = tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """A kind of command.

    Attributes:
        words: of the command.
        victims: roles of processes that there are while it runs.
        resumed: options of `pgdrag resume`, where it is a run; None: it is none.
        again: what is run after it, and must work; none: nothing.
        prepare: makes what must be there before.
        meets: does something to the command as it runs.
        has_server: it works on a server that lives by itself.
        is_endless: it ends when it is told to.
        is_guarded: something clears up after it where it is killed; else the next command does.
        weight: how often it is drawn.
    """

    name: str
    words: Callable[[Place], Words]
    victims: Words
    resumed: Callable[[Place], Words] | None = None
    again: Callable[[Place], Words] | None = None
    prepare: Callable[[Place, random.Random], object] = lambda here, draw: None
    meets: Callable[[Command], object] = lambda command: None
    has_server: bool = False
    is_endless: bool = False
    is_guarded: bool = True
    weight: int = 2

    @property
    def is_on_disk(self) -> bool:
        """Whether it changes the operating system, and needs a disk of its own for that."""
        return self.name == "system"

    @property
    def is_fixed(self) -> bool:
        """Whether the same seed plans the same trials, whatever they measure."""
        return self.name in ("run", "resume", "fleet", "system")


def plan_of(record: RunRecord) -> list[tuple[int, int, int, str]]:
    """Return the trials that a run has planned: number, block, replicate and treatment."""
    return [
        (x.trial.number, x.trial.block, x.trial.replicate, x.trial.treatment.name)
        for x in record.results
    ]


def runs_of(here: Place) -> list[RunRecord]:
    """Return all runs in the journal, the newest first, read as reports read them."""
    if not (here.home / "journal.sqlite").exists():
        return []
    journal = Journal(here.home / "journal.sqlite")
    try:
        return [journal.run(x.run_id) for x in journal.summaries()]
    finally:
        journal.close()


def _run(here: Place) -> Words:
    return ("run", str(TINY), *SEED)


def _compare(here: Place) -> Words:
    arms = ("compare", "default", "work_mem=1MB", "--experiment", str(TINY))
    return (*arms, "--max-pairs", "4", "--yes", *SEED)


def _search(here: Place) -> Words:
    space = ("search", "--maximize", "--settings", "work_mem,jit", "--experiment", str(TINY))
    return (*space, "--trials", "8", "--clusters", "3", "--line-trials", "0", "--yes", *SEED)


def _fleet(here: Place) -> Words:
    return (*_run(here), *_of_fleet(here))


def _of_fleet(here: Place) -> Words:
    file = here.directory / "fleet.toml"
    file.write_text(FLEET)
    return ("--fleet", str(file))


def _existing(here: Place) -> Words:
    return (*_on_existing(here, "work_mem=8MB,random_page_cost=3"), *_on_server(here))


def _restarting(here: Place) -> Words:
    words = (*_on_existing(here, "max_locks_per_transaction=80"), *_with_restarts(here))
    return (*words, "--restart-command", here.server.restart_command)


def _on_existing(here: Place, arm: str) -> Words:
    script = here.directory / "look.sql"
    script.write_text("SELECT count(*) FROM pg_class;\n")
    load = ("-f", str(script), "--warm-up", "0", "--measure", "1", "--connections", "1")
    return ("compare", "default", arm, "--max-pairs", "4", *load, *SEED)


def _on_server(here: Place) -> Words:
    return ("--dsn", here.server.dsn, "--allow-change", "settings", "--yes")


def _with_restarts(here: Place) -> Words:
    return (*_on_server(here), "--allow-change", "restart")


def _system(here: Place) -> Words:
    return ("run", str(SYSTEM), *SEED, *_of_system(here))


def _of_system(here: Place) -> Words:
    return ("--allow-change", str(here.disk))


def _file(here: Place, name: str) -> str:
    return str(here.home / "reports" / name)


def _observe(here: Place) -> Words:
    (here.home / "reports").mkdir(exist_ok=True)
    return ("observe", here.server.dsn, "--every", "1s", "--for", "3s", "-o", _file(here, "x.obs"))


def _capture(here: Place) -> Words:
    (here.home / "reports").mkdir(exist_ok=True)
    return ("capture", "twin", here.server.dsn, "--for", "1s", "-o", _file(here, "x.twin"))


def _show_twin(here: Place) -> Words:
    return ("twin", "show", _file(here, "x.twin")) if Path(_file(here, "x.twin")).exists() else ()


def _kill_run(here: Place, draw: random.Random) -> None:
    """Leave a run that was killed at some moment, with its guardian, as the end of a container would."""
    command = here.start(*_run(here))
    wait(END_TIMEOUT_S, lambda: command.has_ended() or any((here.home / "live").glob("*.jsonl")))
    wait(draw.uniform(0, 4), command.has_ended)
    _end_with_guardian(here, command)


def _leave_changes(here: Place, draw: random.Random) -> None:
    """Leave a server with settings that a killed run has changed."""
    command = here.start(*_existing(here))
    wait(
        END_TIMEOUT_S,
        lambda: command.has_ended() or (here.undo.exists() and here.undo.stat().st_size > 0),
    )
    _end_with_guardian(here, command)


def _end_with_guardian(here: Place, command: Command) -> None:
    tree = descendants(command.process.pid)
    here.note(tree)
    for process in sorted(tree, key=lambda x: role_of(x) != "guardian"):
        if role_of(process) in ("guardian", "pgdrag"):
            strike(process, 9)
    command.process.wait()


def _browse(command: Command) -> None:
    """Look at the page once, as a browser would."""
    if not wait(END_TIMEOUT_S, lambda: "http://" in command.said or command.has_ended()):
        raise Failed(f"{command} says no address:\n{command.said}")
    address = next((x for x in command.said.split() if x.startswith("http://")), "")
    # It may be killed meanwhile.
    with suppress(OSError):
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(address, timeout=20).read()


_LIVE = ("pgdrag", "backend", "server")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("run", _run, OF_RUN, resumed=lambda here: (), weight=4),
        Kind("resume", lambda here: ("resume", "last"), OF_RUN, resumed=lambda here: (), prepare=_kill_run),
        Kind("compare", _compare, OF_RUN, resumed=lambda here: ()),
        Kind("search", _search, OF_RUN, resumed=lambda here: (), weight=1),
        Kind("fleet", _fleet, (*OF_RUN, "agent", "worker"), resumed=_of_fleet),
        Kind("existing", _existing, ("pgdrag", "driver", "guardian", "backend", "server", "both", "all"),
             resumed=_on_server, has_server=True, weight=3),
        Kind("restarting", _restarting, ("pgdrag", "driver", "guardian", "backend", "server", "both", "all"),
             resumed=lambda here: (*_with_restarts(here), "--allow-run"), has_server=True),
        Kind("restore", lambda here: here.server.restoring, ("pgdrag", "backend", "server"),
             again=lambda here: here.server.restoring, prepare=_leave_changes, has_server=True, is_guarded=False, weight=1),
        Kind("doctor", lambda here: ("doctor", here.server.dsn, "--for", "2s"), _LIVE, has_server=True, weight=1),
        Kind("observe", _observe, _LIVE, again=lambda here: (*_observe(here), "--append"), has_server=True, weight=1),
        Kind("capture", _capture, _LIVE, again=_show_twin, has_server=True, weight=1),
        Kind("serve", lambda here: ("serve", "--port", "0"), ("pgdrag",), meets=_browse, is_endless=True, weight=1),
        *([Kind("system", _system, ("pgdrag", "both", "all", "driver", "server"), resumed=_of_system)] if IS_ROOT else []),
    )
}  # fmt: skip
