"""How does the load driver get its job, and what does it answer?

The only place that writes the driver's jobs (docs/reference/driver-contract.md); what it may answer
is in `contract`, and its process in `conversation`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from pgdrag.driver.contract import (
    CONTRACT,
    DoneLine,
    HelloLine,
    IntervalLine,
    Line,
    WaitsLine,
    WarmLine,
    breach,
    measurement_of,
)
from pgdrag.driver.conversation import (
    GRACE_S,
    THREADS_GIVEN_UP_S,
    Confined,
    Conversation,
    Listener,
    conversation,
    ignore,
)
from pgdrag.driver.generators import Generator, LocalGenerator, by_ssh
from pgdrag.driver.security import Security
from pgdrag.driver.together import driving_together
from pgdrag.errors import DriverError
from pgdrag.host.clock import CLOCK
from pgdrag.host.server_user import ServerUser
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Example, Measurement

# For all connections together; and for the collectors, between the warm-up and the window.
CONNECT_TIMEOUT_S = 120.0
INTERVAL_S = 1.0
WATCH_NAME = "pgdrag watch"  # in pg_stat_activity
WATCH_INTERVAL_S = 0.25
WATCH_LONGEST_S = 7 * 86_400.0
# Intervals of a watch; where there would be more, they are made longer.
MOST_INTERVALS = 4096
WATCH_ENDS_WITHIN_S = 20.0
# How much longer than its job the driver may take before it is considered hung and killed.
SLACK_S = 30.0


# Of half a dataset nothing is counted: as soon as the server has been asked to cancel, all is said.
_LOAD_CANCELLED_S = 1.0


@dataclass(frozen=True)
class Target:
    """Where the driver connects to.

    Attributes:
        host: a socket directory, or a host's name or address.
        password: written nowhere.
        bin_dir: the directory of the server's own programs, for those who run them; None where it is unknown.
        address: where the host is; None: where its name says.
        options: settings that each session begins with: "-c work_mem=1MB".
        security: what is asked of the server before it is believed.
        cluster: the data directory, where it is a throw-away cluster: its clients end with it.
        run_as: the user that programs of an experiment run as, there; None: as the user of pgdrag.
        home: the home of that user's programs.
    """

    host: str
    port: int
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    bin_dir: Path | None = None
    address: str | None = None
    options: str | None = None
    security: Security = field(default_factory=Security)
    cluster: Path | None = None
    run_as: ServerUser | None = None
    home: Path | None = None


@dataclass(frozen=True)
class Waits:
    """What a watch saw in an interval.

    Attributes:
        started_unix_s, finished_unix_s: the interval, by pgdrag's steady clock.
        looks: how often it looked; more often than not at least once.
        processes: by type of backend and wait ("IO:DataFileRead"; "": on a processor or wanting one),
            how many processes were seen so, added up over the looks.
    """

    started_unix_s: float
    finished_unix_s: float
    looks: int
    processes: Mapping[str, Mapping[str, int]]


def in_pairs(intervals: Sequence[Waits]) -> list[Waits]:
    """Return intervals half as many and twice as long; a last one without another stays as it is."""
    found = []
    for first, second in zip(intervals[::2], intervals[1::2], strict=False):
        processes = {kind: Counter(waits) for kind, waits in first.processes.items()}
        for kind, waits in second.processes.items():
            processes.setdefault(kind, Counter()).update(waits)
        looks = first.looks + second.looks
        found.append(Waits(first.started_unix_s, second.finished_unix_s, looks, processes))
    return found + list(intervals[len(found) * 2 :])


# A job names a server, also where none is needed.
_NOWHERE = Target("/nowhere", 5432, "nobody", "nothing")


@dataclass(frozen=True)
class Load:
    """What a dataset took: rows, bytes sent, and seconds by phase."""

    rows: int
    bytes: int
    elapsed_s: float
    phases_s: Mapping[str, float]


def find_driver() -> Path:
    """Return the driver's binary: $PGDRAG_DRIVER, or the one installed beside this Python.

    Raises:
        DriverError: there is none.
    """
    named = os.environ.get("PGDRAG_DRIVER")
    beside = Path(sysconfig.get_path("scripts")) / "pgdrag-driver"
    on_path = shutil.which("pgdrag-driver")
    for candidate in (named, beside, on_path):
        if candidate and Path(candidate).is_file() and os.access(candidate, os.X_OK):
            return Path(candidate)
        if candidate and candidate == named:
            raise DriverError(
                f'load driver "{named}", named by PGDRAG_DRIVER, cannot be executed',
                hint="Unset PGDRAG_DRIVER to use the one that was installed with pgdrag.",
            )
    raise DriverError(
        "load driver is not installed",
        detail=f"There is no pgdrag-driver in {beside.parent} nor on the PATH.",
        hint="Install pgdrag with pip from a wheel, or from source with cargo; or name it in PGDRAG_DRIVER.",
    )


@dataclass(frozen=True)
class Driver:
    """The load driver: one process a job, or several that divide a load between them.

    Attributes:
        reach: returns the generator on a host that a load names.

    Whatever cannot be done raises DriverError: the server refused, a script has a mistake, or the
    driver failed, broke its contract or took too long.
    """

    binary: Path
    reach: Callable[[str], Generator] = by_ssh

    def load(
        self,
        target: Target,
        workload: Mapping[str, object],
        *,
        seed: int,
        parallelism: int,
        timeout_s: float,
        listen: Listener = ignore,
    ) -> Load:
        """Make and fill the workload's tables."""
        job = driver_job("load", target, workload, seed) | {"load": {"parallelism": parallelism}}
        with conversation([self.binary], job, listen, cancelled_s=_LOAD_CANCELLED_S) as talk:
            done = talk.until(DoneLine, timeout_s)
        assert done.rows is not None, "a load's done line has rows"
        assert done.bytes is not None, "a load's done line has bytes"
        return Load(done.rows, done.bytes, done.elapsed_s or done.t_s, done.phases)

    @contextlib.contextmanager
    def driving(
        self,
        target: Target,
        workload: Mapping[str, object],
        load: LoadProfile,
        *,
        seed: int,
        listen: Listener = ignore,
    ) -> Iterator[Driving]:
        """Start driving the workload; the caller lets it warm up, looks around, and measures.

        One process for each generator, and one stream of transactions, from the first to the last. Whoever leaves
        the block earlier ends it: what runs on the server is cancelled.
        """
        job = driver_job("run", target, workload, seed) | {"run": _run(load)}
        window_s = load.budget_s + GRACE_S + THREADS_GIVEN_UP_S + SLACK_S
        timeouts_s = CONNECT_TIMEOUT_S + load.warm_up_s + SLACK_S, window_s
        # Alone it does nothing but speak with the server, and dies with this process.
        starts_programs = bool(workload.get("allow_shell"))
        confined = _confined(target) if starts_programs else None
        if load.generators:
            here = LocalGenerator(self.binary)
            with driving_together(
                [self.reach(host) if host else here for host in load.generators],
                job,
                load,
                listen,
                timeouts_s=timeouts_s,
                confined=confined,
                starts_programs=starts_programs,
            ) as driving:
                yield driving
            return
        with conversation(
            [self.binary], job, listen, confined=confined, starts_programs=starts_programs
        ) as talk:
            yield _DrivingAlone(talk, *timeouts_s)

    def run(
        self,
        target: Target,
        workload: Mapping[str, object],
        load: LoadProfile,
        *,
        seed: int,
        listen: Listener = ignore,
    ) -> Measurement:
        """Warm up, measure, and return what was counted in the window."""
        with self.driving(target, workload, load, seed=seed, listen=listen) as driving:
            driving.warm_up()
            return driving.measure()

    @contextlib.contextmanager
    def watching(self, target: Target, *, every_s: float) -> Iterator[Watching]:
        """Watch what the server's processes wait for, `every_s` on average, until it is ended."""
        job = driver_job("watch", target, None, 0)
        job |= {"watch": {"every_s": every_s, "interval_s": WATCH_INTERVAL_S}}
        job["server"]["application_name"] = WATCH_NAME
        with conversation([self.binary], job, ignore) as talk:
            yield Watching(talk)

    def examples(self, workload: Mapping[str, object], *, seed: int = 0) -> tuple[Example, ...]:
        """Compile the workload and return each statement that it sends, with values.

        Nothing is connected to.
        """
        job = driver_job("compile", _NOWHERE, workload, seed)
        with conversation([self.binary], job, ignore) as talk:
            done = talk.until(DoneLine, SLACK_S)
        if done.examples is None:
            raise breach("a compilation's done line lacks examples")
        return done.examples

    def check(
        self, target: Target, workload: Mapping[str, object], *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return a sentence for each consistency condition that the dataset violates."""
        found = self.conditions(target, workload, timeout_s=timeout_s)
        return tuple(f"{name}: {broken}" for name, broken in found.items() if broken)

    def conditions(
        self, target: Target, workload: Mapping[str, object], *, timeout_s: float
    ) -> dict[str, str]:
        """Return what violates each consistency condition, by its name; "" where it holds."""
        with conversation([self.binary], driver_job("check", target, workload, 0), ignore) as talk:
            done = talk.until(DoneLine, timeout_s)
        assert done.violations is not None, "a check's done line has violations"
        broken = {v.condition: f"{v.message} ({v.count})" for v in done.violations}
        return {name: broken.get(name, "") for name in [*done.checked, *broken]}


class Watching:
    """A running watch. Its output is read in the background, so that it never waits for a reader."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._intervals: list[Waits] = []
        self._done: DoneLine | None = None
        self._error: DriverError | None = None
        self._thread = threading.Thread(target=self._listen, name="pgdrag-watch", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process that watches."""
        return self._talk.pid

    def rest(self) -> None:
        """Keep it from looking until `look`."""
        self._talk.say({"type": "rest"})

    def look(self) -> None:
        """Let it look again; looks that it missed are not made up for."""
        self._talk.say({"type": "look"})

    def seen_since(self, unix_s: float) -> list[Waits]:
        """Return the intervals that ended after a moment, the newest first."""
        return list(takewhile(lambda x: x.finished_unix_s > unix_s, reversed(self._intervals)))

    def end(self) -> tuple[Waits, ...]:
        """End it, and return what it saw, interval by interval.

        Raises:
            DriverError: the driver could not connect, lost its session, or did not end in time.
        """
        self._talk.say({"type": "end"})
        self._thread.join(timeout=WATCH_ENDS_WITHIN_S)
        if self._error is not None:
            raise self._error
        if self._done is None:
            raise DriverError(f"load driver did not end its watch in {WATCH_ENDS_WITHIN_S:.0f} s")
        return tuple(self._intervals)

    def _listen(self) -> None:
        started_unix_s = 0.0

        def note(line: Line) -> None:
            nonlocal started_unix_s
            if isinstance(line, HelloLine):
                CLOCK.look()  # nobody may have looked yet since it was set
                started_unix_s = CLOCK.of_wall(line.started_unix_s)
            elif isinstance(line, WaitsLine):
                end_unix_s = started_unix_s + line.t_s
                begin_unix_s = end_unix_s - line.duration_s
                self._intervals.append(Waits(begin_unix_s, end_unix_s, line.looks, line.processes))
                if len(self._intervals) >= MOST_INTERVALS:
                    self._intervals = in_pairs(self._intervals)

        try:
            self._done = self._talk.until(DoneLine, WATCH_LONGEST_S, note)
        except DriverError as error:
            self._error = error
        except (OSError, ValueError):
            return  # whoever watched has left in the middle of it, and closed the pipe


class Driving(Protocol):
    """A load under way: first `warm_up`, then `measure`, each once."""

    def warm_up(self) -> None:
        """Return when the warm-up is over; the load continues."""
        ...

    def measure(self) -> Measurement:
        """Open the measured window, and return what was counted in it when it has ended."""
        ...


class _DrivingAlone:
    """One driver's load."""

    def __init__(self, talk: Conversation, warm_timeout_s: float, window_timeout_s: float) -> None:
        self._talk = talk
        self._warm_timeout_s, self._window_timeout_s = warm_timeout_s, window_timeout_s

    def warm_up(self) -> None:
        self._talk.until(WarmLine, self._warm_timeout_s)

    def measure(self) -> Measurement:
        lines: list[Line] = []
        self._talk.say({"type": "measure"})
        done = self._talk.until(DoneLine, self._window_timeout_s, lines.append)
        return measurement_of(done, [line for line in lines if isinstance(line, IntervalLine)])


def driver_job(
    action: str,
    target: Target,
    workload: Mapping[str, object] | None,
    seed: int,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
) -> dict[str, Any]:
    """Return a job of the contract, which lacks only what `run`, `load` or `watch` needs of its own."""
    return {
        "contract": CONTRACT,
        "action": action,
        "server": {
            "host": target.host,
            "port": target.port,
            "user": target.user,
            "database": target.database,
            "password": target.password,
            "application_name": "pgdrag",
            "connect_timeout_s": connect_timeout_s,
            **({"address": target.address} if target.address else {}),
            **({"options": target.options} if target.options else {}),
            **target.security.job(),
        },
        "die_with_parent": True,
        "seed": seed,
        "workload": workload and dict(workload),
        "run": None,
        "load": None,
    }


def _confined(target: Target) -> Confined | None:
    return None if target.cluster is None else Confined(target.cluster, target.run_as)


def _run(load: LoadProfile) -> dict[str, Any]:
    run = asdict(load) | {"threads": load.threads or 1}
    run["duration_s"] = run.pop("measure_s")
    del run["generators"]
    return run | {"handshake": True, "interval_s": INTERVAL_S, "grace_s": GRACE_S}
