"""How far is a twin like its original? Its data on a throw-away server, its load there, captured as the original was.

What is found stays with the data: trials that use it carry the warnings.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pgdrag.capture.log.source import LogRequest
from pgdrag.capture.twin import TwinCapture
from pgdrag.data_twin import clock
from pgdrag.data_twin.load.job import known_mix
from pgdrag.data_twin.sizes import at_the_beginning, scaled_settings, table_scale
from pgdrag.driver.connection_string import reach
from pgdrag.driver.contract import IntervalLine, Line, WarmingLine
from pgdrag.driver.process import Driver
from pgdrag.errors import DriverError, ServerDidNotStart, TwinError
from pgdrag.experiment.applicable import applicable
from pgdrag.experiment.formats import Configuration, Given, Place
from pgdrag.model.events import Listener, PhaseStarted, ignore
from pgdrag.model.load import Closed, LoadProfile, Open, Pacing
from pgdrag.model.recordings import Plan
from pgdrag.planning.explaining import PlanningSession
from pgdrag.planning.plan_twin import running_plan_twin
from pgdrag.provision import Provision
from pgdrag.servers.binaries import executable_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.datasets import let_in, target_for
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.servers.snapshot import SnapshotStore
from pgdrag.twins.column_fidelity import column_differences
from pgdrag.twins.ddl import quoted
from pgdrag.twins.fidelity import TwinCheck, fidelity
from pgdrag.twins.mending import GENERIC_SINCE
from pgdrag.twins.model import Twin
from pgdrag.workloads import Driving, Workload

WARM_UP_S = 3.0  # short: the data are those of the moment in which the original's window began
_SLACK_S = 120.0  # for which the load goes on beyond the window: the capture reads catalogs before and after it
_SHORTEST_S = 5.0
_LONGER = 10.0  # than asked for: so long the window lasts at most, for as many transactions as in the original
_ENOUGH = 0.95  # of those
_SEED = 1
_STATEMENTS = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": "5000"}

Plans = dict[int, tuple[Plan | None, Plan | None]]


@dataclass(frozen=True)
class CheckedTwin:
    """What to check.

    Attributes:
        workload: makes the data, and drives the load.
        scale: the data's.
        name: of the file.
    """

    twin: Twin
    workload: Workload
    scale: float
    name: str


def check_twin(
    checked: CheckedTwin,
    bench: Provision,
    *,
    for_s: float,
    sessions: int,
    settings: Mapping[str, str] | None = None,
    warm_up_s: float = WARM_UP_S,
    listen: Listener,
) -> TwinCheck:
    """Drive a twin's load on its data for a time, and compare each statement with the original.

    Args:
        bench: where its server is made; the data are made there, unless they are there.
        for_s: how long, but not longer than `longest_s`; longer until half of the original's transactions had run by the middle
            of the window.
        sessions: of the load.
        settings: of the server; None: those of the original that this machine can have, with caches scaled.

    Raises:
        TwinError: it has no statement to compare.
        DriverError: the data cannot be made, or the load not driven.
        ServerDidNotStart: the server does not start with these settings.
    """
    twin = checked.twin
    if not twin.workload.statements:
        raise TwinError(
            "the twin has no statement to compare",
            path=checked.name,
            hint="Capture it again while statements run, with pg_stat_statements in the database.",
        )
    for_s = min(for_s, longest_s(twin, warm_up_s=warm_up_s))
    snapshot = bench.snapshot(checked.workload, listen)
    notes: list[str] = []
    if settings is None:
        settings, notes = _settings(twin, checked.scale, bench.here.settings)
    listen(PhaseStarted("restore"))
    binaries = executable_binaries(bench.binaries, bench.scratch)
    with snapshot.restore(bench.scratch, binaries).cluster as cluster:
        let_in(checked.workload, cluster)
        notes += _start(cluster, settings)
        listen(PhaseStarted("plan the statements"))
        plans = _plans(twin, cluster, bench)
        driven_s = _LONGER * for_s + _SLACK_S
        pacing = pacing_of(twin, for_s, warm_up_s=warm_up_s)
        load = LoadProfile(sessions, warm_up_s, driven_s, driven_s, pacing=pacing)
        window = Window(for_s, _transactions(twin), listen)
        there = captured_under_load(
            checked.workload, cluster, bench.driver, load, window=window, listen=listen
        )
    at_scale = partial(table_scale, scale=checked.scale)
    found = fidelity(
        twin,
        there,
        table_scale=at_scale,
        plans=plans,
        columns=column_differences(twin, there, at_scale),
    )
    SnapshotStore(bench.scratch).keep_check(snapshot.key, found.warnings)
    return TwinCheck(
        twin=checked.name,
        captured_on=twin.captured_on,
        source_version=twin.source.version,
        server_version=bench.binaries.version,
        scale=checked.scale,
        for_s=there.workload.window_s,
        fidelity=found,
        notes=tuple(notes),
        hurried=(*snapshot.warnings, *window.warnings),
    )


def sessions_of(twin: Twin) -> int:
    """Return how many sessions the load of a twin has: as many as were seen at work at once, if not idle."""
    activity = twin.activity
    return max(1, round(activity.active + activity.idle_in_transaction), min(activity.most_active, 64))  # fmt: skip


def longest_s(twin: Twin, *, warm_up_s: float = 0.0) -> float:
    """Return how long a load is watched that runs as fast as the original's did, for as many transactions.

    If it ran slower, sessions would wait less for each other, and who waits for a row reads it again.
    """
    return max(twin.workload.window_s - 2 * warm_up_s, _SHORTEST_S)


def pacing_of(twin: Twin, for_s: float, *, warm_up_s: float = 0.0) -> Pacing:
    """Return the pace at which half of the original's transactions have run by the middle of so long a window, if the machine is fast enough.

    What a call does depends on how many there were before it: a page that is changed again is pruned, and logged whole no
    more; a table has grown. The data are those of the beginning of the original's window, and grow while the load warms up, too.
    """
    transactions = _transactions(twin)
    return Open(transactions / (for_s + 2 * warm_up_s)) if transactions else Closed()


def _transactions(twin: Twin) -> float:
    """Return how many there were in the original's window."""
    return sum(x.weight for x in known_mix(twin).types)


class Window:
    """How long a load is watched: for a time, and until half of a number of transactions had run by its middle.

    But not for far longer than the time.

    Attributes:
        for_s: the time.
    """

    def __init__(
        self,
        for_s: float,
        transactions: float = 0.0,
        listen: Listener = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.for_s, self._wanted = for_s, transactions
        self._listen, self._clock = listen, clock
        self._warmed, self._ran, self._end_s = 0, 0, math.inf

    def note(self, line: Line) -> None:
        """Count the transactions of the driver's line."""
        if isinstance(line, WarmingLine):
            self._warmed += line.committed + line.failed
        if isinstance(line, IntervalLine):
            self._ran += sum(x.committed + x.rolled_back + x.failed for x in line.transactions.values())  # fmt: skip

    def is_enough(self) -> bool:
        """Return whether the load need not be watched any longer, after the time."""
        if not self._is_met and self._end_s == math.inf:
            longest_s = (_LONGER - 1) * self.for_s
            self._end_s = self._clock() + longest_s
            self._listen(PhaseStarted("watch the load until it has run enough transactions", longest_s))  # fmt: skip
        return self._is_met or self._clock() > self._end_s

    @property
    def _is_met(self) -> bool:
        return 2 * self._warmed + self._ran >= _ENOUGH * self._wanted

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be said of it afterwards, in clauses."""
        if self._is_met:
            return ()
        return (
            f"the load ran {(2 * self._warmed + self._ran) / self._wanted:.2f} times as many transactions as in the original's window, though it was watched "
            f"{_LONGER:g} times as long as asked for; what a call does depends on how many there were before it: check with a larger --for, or on a less busy machine",
        )


def _settings(
    twin: Twin, scale: float, catalog: SettingsCatalog
) -> tuple[dict[str, str], list[str]]:
    """Return the original's settings that a server here can have, and a clause on each that it cannot."""
    place = Path()
    given = tuple(
        Given(one.name, one.value, Place(place, at))
        for at, one in enumerate(twin.source.settings, start=1)
        if one.value is not None
    )
    kept, skipped = applicable(Configuration("twin", given, is_exported=True), catalog)
    found = {x.name: x.value for x in kept} | scaled_settings(twin.source.settings, scale)
    return found, [f"setting {x.name}: {x.why}" for x in skipped]


def _start(cluster: Cluster, settings: Mapping[str, str]) -> Iterator[str]:
    """Start it with these settings, or else with the memory's alone; yield what that means."""
    loaded = {*settings.get("shared_preload_libraries", "").replace('"', "").split(",")} - {""}
    libraries = sorted({x.strip() for x in loaded} | {"pg_stat_statements"})
    wanted = {**settings, **_STATEMENTS, "shared_preload_libraries": ", ".join(libraries)}
    cluster.configure(wanted)
    try:
        cluster.start()
    except ServerDidNotStart as error:
        few: dict[str, str] = {
            x: wanted[x] for x in ("shared_buffers", "effective_cache_size") if x in wanted
        }
        cluster.configure({**few, **_STATEMENTS})
        cluster.start()
        yield f"the server does not start with the original's settings: {error.message}"
    with cluster.connect(application_name="pgdrag twin check") as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")


def _plans(twin: Twin, cluster: Cluster, bench: Provision) -> Plans:
    """Return each statement's plan by the original's statistics, and on the data twin; None where there is none.

    Both as tables were when the window began: sessions keep plans, and a small table may be twice as large when it ends.
    """
    statements = [x for x in twin.workload.statements if x.is_plannable]
    is_generic = bench.binaries.version_num >= GENERIC_SINCE
    path = (clock.PATH, *map(quoted, dict.fromkeys(("public", *twin.schema.schemas))))
    settings = {"search_path": ", ".join(path)}
    found: Plans = {}
    with (
        running_plan_twin(at_the_beginning(twin), bench.binaries, bench.scratch) as plan_twin,
        plan_twin.session(is_generic=is_generic) as before,
        cluster.connect(application_name="pgdrag twin check", role=cluster.load_role) as connection,
    ):
        after = PlanningSession(connection, is_generic=is_generic)
        # Those of the data twin's server: what ALTER ROLE set in the original is not there.
        own = {
            str(name): str(value)
            for name, value in connection.execute(
                "SELECT name, setting FROM pg_catalog.pg_settings WHERE source = 'configuration file'"
            )
        }
        for_both = {x: own[x] for x in own.keys() & after.settings} | settings
        for one in statements:
            plans = before.plan(one, for_both), after.plan(one, for_both)
            found[one.number] = tuple(None if isinstance(x, str) else x for x in plans)  # type: ignore[assignment]
    with cluster.connect(application_name="pgdrag twin check") as connection:
        # A statement is kept with the text that it first came with: PREPARE pgdrag_statement AS …
        connection.execute("SELECT public.pg_stat_statements_reset()")
    return found


def captured_under_load(
    workload: Workload,
    cluster: Cluster,
    driver: Driver,
    load: LoadProfile,
    *,
    window: Window,
    role: str = Cluster.superuser,
    log: LogRequest | None = None,
    listen: Listener,
) -> Twin:
    """Return a capture of a server while a workload's load runs there.

    Args:
        load: goes on for longer than the window.
        role: that captures.
        log: of the server, where its transactions are to be captured, too.

    Raises:
        DriverError: the load ended early.
    """
    listen(PhaseStarted("warm up", load.warm_up_s))
    target = target_for(workload, cluster)
    with workload.driving(driver, target, load, seed=_SEED, listen=window.note) as driving:
        driving.warm_up()
        early: list[Exception] = []
        thread = threading.Thread(target=_measure, args=(driving, early), daemon=True)
        thread.start()
        listen(PhaseStarted("watch the load", window.for_s))
        found = TwinCapture(reach(cluster.conninfo(role=role)), log=log).run(window.for_s, is_enough=window.is_enough)  # fmt: skip
        if early:
            raise early[0]
    return found


def _measure(driving: Driving, early: list[Exception]) -> None:
    """Drive the load; whoever ends it in the middle closes what this reads from."""
    try:
        driving.measure()
    except (DriverError, OSError, ValueError) as error:
        early.append(error)
