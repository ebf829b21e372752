"""One trial, as one readable function: what happens between asking for a treatment and its result.

provision → restore the dataset → apply → read back → warm up → measure → collect → undo → check
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from pgdrag.collectors import Collector, Observer, Turns, Window, all_collectors, sampling
from pgdrag.driver.contract import IntervalLine, Line, PhaseLine, WarmingLine
from pgdrag.errors import (
    DriverError,
    PgdragError,
    ScratchDeviceError,
    ServerDidNotStart,
    ServerLost,
)
from pgdrag.factors import Factor, all_factors
from pgdrag.factors.instrument import is_asked, is_observed, takes_turns
from pgdrag.factors.workload import workload_of
from pgdrag.host.undo import take_warnings, uninterrupted
from pgdrag.model import (
    Applied,
    Observation,
    Outcome,
    RestoreCost,
    Result,
    Treatment,
    Trial,
)
from pgdrag.model.events import Listener, PhaseStarted, Throughput, ignore
from pgdrag.model.measurement import Example, Measurement
from pgdrag.model.recordings import Recordings, together
from pgdrag.provision import Provision
from pgdrag.servers.binaries import executable_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import full_disk
from pgdrag.servers.server_log import is_full_disk
from pgdrag.servers.snapshot import CLEAN, shutdown_state
from pgdrag.servers.storage import Storage
from pgdrag.workloads import Driving

CHECK_TIMEOUT_S = 60.0
# The check runs on a server with default settings: a treatment's may slow it down as much as the workload.
# Nothing of it has to survive, and the dataset stays as the trial left it.
CHECK_SETTINGS = {"autovacuum": "off", "fsync": "off"}
START_TIMEOUT_S = 120.0
EXAMPLES_SEED = 1


class ServerTrialRunner(Provision):
    """Runs trials on throw-away clusters of one PostgreSQL."""

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial."""
        return run_trial(trial, self, listen)


def run_trial(trial: Trial, bench: Provision, listen: Listener = ignore) -> Result:
    """Run one trial and return what came of it; whatever the treatment breaks is an outcome.

    Raises:
        StorageError: the disk is full or cannot be written; it is not the treatment's own.
    """
    notes = _Notes(trial, bench, listen)
    error: PgdragError | None = None
    try:
        with notes.provision() as cluster:
            try:
                with notes.applied_factors(cluster), notes.driving(cluster) as load:
                    notes.warm_up(load, cluster)
                    with notes.collecting(cluster):
                        notes.measure(load, cluster)
                notes.check(cluster)
                outcome = notes.outcome()
                notes.is_sound = outcome is Outcome.MEASURED
            except (ServerDidNotStart, ServerLost, DriverError) as broken:
                outcome, error = notes.outcome_of(broken, cluster), broken
    except ScratchDeviceError as spoilt:
        outcome, error = Outcome.INVALID, spoilt
    return notes.result(outcome, error)


class _Notes:
    """What is known of a trial so far: kept when it breaks off."""

    def __init__(self, trial: Trial, bench: Provision, listen: Listener) -> None:
        self.trial = trial
        self.bench = bench
        self.binaries, self.here = bench.server_of(trial.treatment)
        self.listen = listen
        self.started_unix_s = time.time()
        self.workload = workload_of(trial.workload, trial.treatment)
        self.applied: list[Applied] = []
        self.factors: tuple[Factor, ...] = ()
        self.window_unix_s = 0.0
        self.checkpointer: int | None = None
        self.measurement: Measurement | None = None
        self.evidence: list[Observation] = []
        self.recordings = Recordings()
        self.violations: tuple[str, ...] = ()
        self.warnings: list[str] = []
        self.accounts: list[str] = []
        self.phases_s: dict[str, float] = {}
        self.restored: RestoreCost | None = None
        self.storage = Storage(bench.scratch)
        self.is_sound = False
        self.is_restarted = False
        self.was_crashed: bool | None = None
        self.starts_cold = bench.starts_cold(trial.treatment)

    @contextmanager
    def phase(self, name: str, expected_s: float | None = None) -> Iterator[None]:
        self.listen(PhaseStarted(name, expected_s))
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases_s[name] = round(time.monotonic() - start, 3)

    @contextmanager
    def provision(self) -> Iterator[Cluster]:
        """Provide a cluster with the dataset as it was loaded: restored, unless the last one is as good."""
        with self.bench.storage(self.trial.treatment) as self.storage:
            self.warnings += self.storage.notes
            scratch = self.storage.scratch
            snapshot = self.bench.snapshot(self.workload, self.listen, self.binaries, scratch)
            if self.starts_cold:
                self.bench.remove_kept()
            cluster = self.bench.take_kept(snapshot)
            if cluster is None:
                with self.phase("restore"):
                    # Copied for the server's user, where they must be, to where they are found again.
                    binaries = executable_binaries(self.binaries, self.bench.scratch)
                    restored = snapshot.restore(scratch, binaries)
                self.restored, cluster = restored.cost, restored.cluster
            try:
                if self.starts_cold:
                    with self.phase("empty page cache"):
                        cluster.drop_pages()
                yield cluster
            finally:
                is_as_loaded = self.is_sound and not self.workload.changes_data
                if is_as_loaded and not self.starts_cold and not self.is_restarted:
                    self.bench.keep(snapshot, cluster)
                else:
                    self.remove(cluster)

    def remove(self, cluster: Cluster) -> None:
        with self.phase("remove"):
            try:
                cluster.remove()
            except PgdragError as error:
                # What was measured stands; the next start sweeps what is left, or it goes with its device.
                cluster.abandon()
                self.warnings.append(f"the cluster was not removed: {error.message}")

    def put_in_force(self, cluster: Cluster) -> None:
        """Start the server; one that runs already is restarted only where a setting needs it."""
        if cluster.is_running():
            if not self.needs_restart(cluster.unapplied) and cluster.reload():
                return
            cluster.stop()
        cluster.start(timeout_s=START_TIMEOUT_S)

    def needs_restart(self, names: frozenset[str]) -> bool:
        """Tell whether one of these settings, or one that is not known, takes effect at a start alone."""
        known = self.here.settings.settings
        return any(name not in known or known[name].context == "postmaster" for name in names)

    @contextmanager
    def applied_factors(self, cluster: Cluster) -> Iterator[None]:
        """Apply the treatment, start the server, read every level back; undo at the end."""
        self.factors = tuple(kind() for kind in all_factors().values())
        asked = self.trial.treatment
        problems = {p.level: p for p in self.bench.check(asked.levels, self.trial.workload)}
        levels = [x for x in asked.levels if x not in problems]
        self.applied = [Applied(p.level, None, p.message) for p in problems.values()]

        def each(do: Callable[[Factor, dict[str, str]], None]) -> None:
            for factor in self.factors:
                do(factor, {x.name: x.value for x in levels if x.kind == factor.name})

        def read_back(*, late: bool) -> None:
            each(
                lambda factor, own: self.applied.extend(
                    factor.read_back(cluster, own) if factor.reads_back_late is late else ()
                )
            )

        try:
            each(lambda factor, own: factor.serve(self.trial))
            each(lambda factor, own: factor.before_start(cluster, own))
            with self.phase("start"):
                self.put_in_force(cluster)
                self.checkpointer = _checkpointer(cluster)
                each(lambda factor, own: factor.after_start(cluster, own))
                read_back(late=False)
            yield
            read_back(late=True)
            own = (factor.recordings(self.window_unix_s) for factor in self.factors)
            self.recordings = together((self.recordings, *own))
        finally:
            self.undo(cluster)

    def undo(self, cluster: Cluster) -> None:
        """Restore what outlives the cluster, the newest first; no signal and no failure spares the rest."""
        with uninterrupted():
            self.was_crashed = self.is_crashed(cluster)
            for factor in reversed(self.factors):
                try:
                    self.accounts += filter(None, [factor.account(cluster)])
                    factor.undo(cluster)
                except PgdragError as error:
                    self.warnings.append(f"{factor.name} was not undone: {error.message}")
            self.warnings += take_warnings()

    def driving(self, cluster: Cluster) -> AbstractContextManager[Driving]:
        """Start the load; its sessions and its stream of transactions last through the window."""
        return self.workload.driving(
            self.bench.driver,
            cluster.target,
            self.trial.load,
            seed=self.trial.seed,
            listen=_throughput(self.listen),
        )

    def warm_up(self, load: Driving, cluster: Cluster) -> None:
        """Let the load run without counting it."""
        with self.phase("warm up", self.trial.load.warm_up_s):
            load.warm_up()
        self.refuse_crash(cluster)

    def measure(self, load: Driving, cluster: Cluster) -> None:
        """Count what the load does in the measured window."""
        with self.phase("measure", self.trial.load.measure_s):
            for factor in self.factors:
                factor.window_began(cluster)
            self.measurement = load.measure()
        self.refuse_full_disk(cluster, {x[2] for x in self.measurement.errors})
        self.storage.refuse_spoilt()
        self.refuse_crash(cluster)

    def refuse_crash(self, cluster: Cluster) -> None:
        """Raise `ServerLost` if the server did not survive the load."""
        if self.is_crashed(cluster):
            raise ServerLost("the server crashed under load", detail=cluster.log_tail())

    def refuse_full_disk(self, cluster: Cluster, messages: set[str]) -> None:
        """Stop the run where the disk is full: no other trial would fare better.

        Raises:
            StorageError: one of the workload's errors, or the last words of a server that
                panicked for want of room for its WAL, say so.
        """
        last_words = cluster.log_tail(200).splitlines() if self.is_crashed(cluster) else []
        if any(is_full_disk(text) for text in (*messages, *last_words)):
            raise full_disk("go on with the trial", cluster.directory)

    def is_crashed(self, cluster: Cluster) -> bool:
        """Tell whether the server restarted or is gone: it has another checkpointer, or none."""
        if self.was_crashed is not None:
            return self.was_crashed  # since then, an undo may have stopped it
        return self.checkpointer is not None and _checkpointer(cluster) != self.checkpointer

    @contextmanager
    def collecting(self, cluster: Cluster) -> Iterator[None]:
        """Let every collector look before and after, on a connection of their own.

        The load goes on meanwhile, so that the window does not begin with a pause.
        """
        collectors = _collectors_for(self.trial.treatment)
        turns = Turns(self.trial.seed) if takes_turns(self.trial.treatment) else None
        with cluster.connect(application_name="pgdrag collectors") as connection:
            observer = Observer(cluster, connection, self.examples)
            for collector in collectors:
                collector.before(observer)
            self.window_unix_s = time.time()
            try:
                with sampling(collectors, observer, turns):
                    yield
            finally:
                finished_unix_s = time.time()
                with self.phase("collect"):
                    for collector in collectors:
                        collector.after(observer)
            with self.phase("look closer"):
                for collector in collectors:
                    collector.afterwards(observer)
        assert self.measurement is not None, "the measured window has ended without an exception"
        window = Window(
            self.measurement.elapsed_s,
            self.measurement.total.committed,
            self.window_unix_s,
            finished_unix_s,
        )
        self.evidence = [seen for one in collectors for seen in one.observations(window)]
        self.recordings = together(
            (
                *(one.recordings(window) for one in collectors),
                *(() if turns is None else (turns.recordings(window.started_unix_s),)),
            )
        )

    def examples(self) -> Sequence[Example]:
        """Return what the workload sends: the same values in all trials, so that plans compare."""
        return self.workload.sends(self.bench.driver, seed=EXAMPLES_SEED)

    def check(self, cluster: Cluster) -> None:
        """Check the dataset's consistency; not knowing is a warning, a violation spoils the trial."""
        if not self.trial.is_checked:
            return
        assert self.measurement is not None, "a trial is checked when it was measured"
        unknown = sum(one.unknown for one in self.measurement.sums.values())
        if unknown:
            self.warnings.append(
                f"of {unknown:,} transactions nobody knows whether they committed, as their connections "
                "broke: the check for lost updates allows for either"
            )
        with self.phase("check", CHECK_TIMEOUT_S):
            try:
                if self.workload.changes_data or not cluster.is_running():
                    self.restart(cluster)
                self.violations = self.workload.violations(
                    self.bench.driver,
                    cluster.target,
                    self.measurement,
                    timeout_s=CHECK_TIMEOUT_S,
                )
            except (DriverError, ServerDidNotStart, ServerLost) as error:
                self.warnings.append(f"the dataset's consistency was not checked: {error.message}")

    def restart(self, cluster: Cluster) -> None:
        """Restart the server with default settings, once the treatment has been undone.

        Raises:
            ServerLost: it did not stop cleanly; what it then loses (asynchronous commits, unlogged tables) is
                no violation.
            ServerDidNotStart: it does not start again.
        """
        self.is_restarted = True
        cluster.stop(fast_timeout_s=CHECK_TIMEOUT_S)
        if (state := shutdown_state(cluster)) != CLEAN:
            raise ServerLost(f"the server did not shut down cleanly, its state is: {state}")
        cluster.configure(CHECK_SETTINGS)
        cluster.start(timeout_s=START_TIMEOUT_S)

    def outcome_of(self, error: PgdragError, cluster: Cluster) -> Outcome:
        """Return how a trial ended that an error broke off.

        Raises:
            StorageError: it was for want of room, or for want of the treatment's own device.
        """
        self.storage.refuse_spoilt()
        if isinstance(error, ServerDidNotStart):
            return Outcome.DID_NOT_START
        self.refuse_full_disk(cluster, {error.message})
        if self.is_crashed(cluster):
            return Outcome.CRASHED
        # The server lives, but refuses or does not answer: nothing was committed. Else, the driver
        # failed, and nothing is known of the server.
        is_refusal = isinstance(error, ServerLost) or (
            isinstance(error, DriverError) and error.is_servers
        )
        return Outcome.STALLED if is_refusal else Outcome.INVALID

    def outcome(self) -> Outcome:
        assert self.measurement is not None
        is_spoilt = self.violations or self.accounts
        if is_spoilt or self.measurement.stopped_by == "signal":
            return Outcome.INVALID
        return Outcome.MEASURED if self.measurement.total.committed else Outcome.STALLED

    def result(self, outcome: Outcome, error: PgdragError | None = None) -> Result:
        return Result(
            trial=self.trial,
            outcome=outcome,
            started_unix_s=self.started_unix_s,
            reason="; ".join((*self.accounts, _reason(error))) if error else self._why(outcome),
            server_version=self.binaries.version,
            applied=tuple(self.applied),
            measurement=self.measurement,
            evidence=tuple(self.evidence),
            violations=self.violations,
            warnings=tuple(self.warnings),
            phases_s=self.phases_s,
            restored=self.restored,
            recordings=self.recordings,
        )

    def _why(self, outcome: Outcome) -> str:
        assert self.measurement is not None
        if outcome is Outcome.INVALID:
            spoilt = (*self.violations, *self.accounts)
            return "; ".join(spoilt) or "the driver was stopped by a signal"
        if outcome is Outcome.STALLED:
            first = next(iter(self.measurement.errors), None)
            seen = f"; first error: {first[2]} (SQLSTATE {first[1]})" if first else ""
            return f"nothing was committed in {self.measurement.elapsed_s:.0f} s{seen}"
        return ""


def _collectors_for(treatment: Treatment) -> list[Collector]:
    """Return those that look at the treatment's trials.

    Optional ones, which may take long to begin, begin first: what the others count would go on meanwhile.
    """
    kinds = all_collectors() if is_observed(treatment) else {}
    wanted = [
        kind for name, kind in kinds.items() if not kind.is_optional or is_asked(treatment, name)
    ]
    return [kind() for kind in sorted(wanted, key=lambda kind: not kind.is_optional)]


def _checkpointer(cluster: Cluster) -> int | None:
    found = (x.pid for x in cluster.server_pids() if x.backend_type == "checkpointer")
    return next(found, None)


def _reason(error: PgdragError) -> str:
    last = error.detail.strip().splitlines()[-1].strip() if error.detail else ""
    return f"{error.message}: {last}" if last and last not in error.message else error.message


def _throughput(listen: Listener) -> Callable[[Line], None]:
    committed = 0
    elapsed_s = 0.0

    def note(line: Line) -> None:
        nonlocal committed, elapsed_s
        if isinstance(line, PhaseLine) and line.name == "run":
            committed, elapsed_s = 0, 0.0
        if isinstance(line, IntervalLine | WarmingLine):
            committed += line.committed
            elapsed_s += line.duration_s
            last_per_s = line.committed / line.duration_s if line.duration_s else 0.0
            mean_per_s = committed / elapsed_s if elapsed_s else 0.0
            listen(Throughput(elapsed_s, committed, last_per_s, mean_per_s))

    return note
