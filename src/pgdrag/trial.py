"""One trial, as one readable function: what happens between asking for a treatment and its result.

provision → restore the dataset → apply → read back → warm up → measure → collect → undo → check
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from pgdrag.collectors import Collector, Observer, Turns, Window, all_collectors, sampling
from pgdrag.driver.process import Driver, Target
from pgdrag.driver.progress import TrialLog, throughput
from pgdrag.errors import (
    DatasetDamaged,
    DriverError,
    PgdragError,
    ScratchDeviceError,
    ServerDidNotStart,
    ServerLost,
)
from pgdrag.factors.applying import START_TIMEOUT_S, AppliedTreatment
from pgdrag.factors.treated_workload import workload_of
from pgdrag.host.clock import CLOCK
from pgdrag.host.undo import take_warnings
from pgdrag.model import Instrument, Observation, Outcome, Result, Trial
from pgdrag.model.events import Listener, ignore
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import Recordings, together
from pgdrag.provision import Provided, Provision
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.datasets import target_for
from pgdrag.servers.scratch import full_disk
from pgdrag.servers.server_log import damage, is_full_disk
from pgdrag.servers.snapshot import CLEAN, Snapshot, shutdown_state
from pgdrag.units import format_duration
from pgdrag.workloads import Driving, Workload

CHECK_TIMEOUT_S = 60.0
# The check runs on a server with default settings: a treatment's may slow it down as much as the workload.
# Nothing of it has to survive, and the dataset stays as the trial left it.
CHECK_SETTINGS = {"autovacuum": "off", "fsync": "off"}
EXAMPLES_SEED = 1


class ServerTrialRunner(Provision):
    """Runs trials on throw-away clusters of one PostgreSQL."""

    @property
    def version(self) -> str:
        """The version of the PostgreSQL that clusters are made of."""
        return self.binaries.version

    @property
    def wanted(self) -> str | None:
        """Which PostgreSQL that is, so that it means the same from any directory; None: the embedded one."""
        return None if self.binaries.source == "embedded" else str(self.binaries.bin_dir)

    def now_s(self) -> float:
        """Return the time of this machine's steady clock, in seconds."""
        return time.monotonic()

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial; once more on a recreated dataset if its snapshot turns out to be damaged."""
        before = self.discarded
        result = run_trial(trial, self, listen)
        if self.discarded != before:
            note = f"{result.reason}; it was recreated, and the trial repeated"
            result = run_trial(trial, self, listen)
            result = replace(result, warnings=(note, *result.warnings))
        # Not before there is a result to tell them: the undo journal tells those of a trial that was broken off.
        return replace(result, warnings=(*result.warnings, *take_warnings()))


@dataclass(frozen=True)
class Evidence:
    """What collectors saw in the window."""

    observations: tuple[Observation, ...] = ()
    recordings: Recordings = field(default_factory=Recordings)


@dataclass(frozen=True)
class _Checked:
    """What is wrong with the dataset after the window, and whether its server runs with default settings now."""

    violations: tuple[str, ...] = ()
    is_restarted: bool = False


def run_trial(trial: Trial, bench: Provision, listen: Listener = ignore) -> Result:
    """Run one trial and return its result; anything that the treatment breaks is an outcome.

    Raises:
        StorageError: the disk is full or cannot be written; it is not the treatment's own.
    """
    started_unix_s = CLOCK.unix_s()
    log = TrialLog(listen)
    binaries, here = bench.server_of(trial.treatment)
    workload = workload_of(trial.workload, trial.treatment)
    provided: Provided | None = None
    treatment: AppliedTreatment | None = None
    measurement: Measurement | None = None
    evidence, checked = Evidence(), _Checked()
    try:
        with bench.cluster(trial, log) as provided:
            log.warnings.extend(_dataset_warnings(workload, provided.snapshot))
            problems = bench.check(trial.treatment.levels, trial.workload)
            treatment = AppliedTreatment(trial, provided.cluster, here, problems, log)
            try:
                cluster = provided.cluster
                driver = bench.driver
                with (
                    treatment.in_force(),
                    driving(trial, workload, driver, target_for(workload, cluster), listen) as load,
                ):
                    with log.phase("warm up", trial.load.warm_up_s):
                        load.warm_up()
                    treatment.refuse_crash()
                    collecting = Collecting(trial, workload, driver)
                    with collecting.on(cluster, log):
                        with log.phase("measure", trial.load.measure_s):
                            treatment.window_began(collecting.started_unix_s)
                            measurement = load.measure()
                        _refuse_unsound(measurement, treatment, provided)
                    evidence = collecting.evidence(measurement)
                if trial.is_checked:
                    checked = _check(measurement, workload, bench.driver, provided, log)
                outcome, reason = ending(measurement, (*checked.violations, *treatment.failures))
                is_as_loaded = not workload.changes_data and not checked.is_restarted
                if outcome is Outcome.MEASURED and is_as_loaded:
                    bench.keep(provided)
            except (ServerDidNotStart, ServerLost, DriverError) as error:
                outcome = _outcome_of(error, treatment, provided)
                reason = "; ".join((*treatment.failures, error_words(error)))
    except (ScratchDeviceError, DatasetDamaged) as error:
        if isinstance(error, DatasetDamaged):
            bench.discard(error.key)
        outcome = Outcome.INVALID
        failures = treatment.failures if treatment else ()
        reason = "; ".join((*failures, error_words(error)))
    return Result(
        trial=trial,
        outcome=outcome,
        started_unix_s=started_unix_s,
        reason=reason,
        server_version=binaries.version,
        applied=tuple(treatment.applied) if treatment else (),
        measurement=measurement,
        evidence=evidence.observations,
        violations=checked.violations,
        warnings=tuple(log.warnings),
        phases_s=log.phases_s,
        restored=provided.restored if provided else None,
        recordings=together(
            (evidence.recordings, treatment.recordings if treatment else Recordings())
        ),
    )


def _dataset_warnings(workload: Workload, snapshot: Snapshot) -> tuple[str, ...]:
    """Return what loading and a check of the dataset warn of; without a check, what its workload warns of then."""
    if snapshot.check is None:
        return (*snapshot.warnings, *filter(None, [workload.unchecked]))
    return (*snapshot.warnings, *snapshot.check)


def driving(
    trial: Trial, workload: Workload, driver: Driver, target: Target, listen: Listener
) -> AbstractContextManager[Driving]:
    """Start the load; its sessions and its stream of transactions last through the window."""
    return workload.driving(
        driver,
        target,
        trial.load,
        seed=trial.seed,
        listen=throughput(listen),
    )


class Collecting:
    """All collectors of a trial, on a connection of their own."""

    def __init__(self, trial: Trial, workload: Workload, driver: Driver) -> None:
        self.started_unix_s = self._finished_unix_s = 0.0
        self._collectors = _collectors_of(trial.instrument)
        self._turns = Turns(trial.seed) if trial.instrument.collectors == "turns" else None
        self._as_superuser = workload.needs_superuser
        # The same values in all trials, so that plans compare.
        self.examples = partial(workload.sends, driver, seed=EXAMPLES_SEED)

    @contextmanager
    def on(self, cluster: Cluster, log: TrialLog) -> Iterator[None]:
        """Let them look before and after.

        The load goes on meanwhile, so that the window does not begin with a pause.
        """
        with (
            cluster.connect(application_name="pgdrag collectors") as connection,
            self.through(
                Observer(cluster, connection, self.examples, as_superuser=self._as_superuser), log
            ),
        ):
            yield

    @contextmanager
    def through(self, observer: Observer, log: TrialLog) -> Iterator[None]:
        """Let them look before and after, through an observer of any server."""
        for collector in self._collectors:
            collector.before(observer)
        CLOCK.look()
        self.started_unix_s = CLOCK.unix_s()
        try:
            with sampling(self._collectors, observer, self._turns, log.listen):
                yield
        finally:
            self._finished_unix_s = CLOCK.unix_s()
            CLOCK.look()
            log.warnings.extend(clock_warnings(self.started_unix_s))
            with log.phase("collect"):
                for collector in self._collectors:
                    collector.after(observer)
        with log.phase("look closer"):
            for collector in sorted(self._collectors, key=lambda one: one.ends_server):
                collector.afterwards(observer)

    def evidence(self, measurement: Measurement) -> Evidence:
        """Return what they saw in the window."""
        window = Window(
            measurement.elapsed_s,
            measurement.total.committed,
            self.started_unix_s,
            self._finished_unix_s,
        )
        recordings = [one.recordings(window) for one in self._collectors]
        if self._turns is not None:
            recordings.append(self._turns.recordings(window.started_unix_s))
        return Evidence(
            tuple(seen for one in self._collectors for seen in one.observations(window)),
            together(recordings),
        )


def clock_warnings(window_unix_s: float) -> list[str]:
    """Return that the machine's clock was set since the window began, and what that means for its numbers."""
    return [
        f"the machine's clock jumped {format_duration(abs(step.by_s))} {'back' if step.by_s < 0 else 'ahead'} "
        f"within {format_duration(step.at_unix_s - window_unix_s)} of the window's begin: throughput and latency "
        "do not depend on it, but the server's time-outs and delays do"
        for step in CLOCK.steps(window_unix_s, CLOCK.unix_s())
    ]


def _collectors_of(instrument: Instrument) -> list[Collector]:
    """Return the collectors that observe a trial.

    Optional ones, which may take long to begin, begin first: what the others count would go on meanwhile.
    """
    wanted = [
        kind
        for name, kind in all_collectors().items()
        if instrument.includes(name, is_optional=kind.is_optional)
    ]
    return [kind() for kind in sorted(wanted, key=lambda kind: not kind.is_optional)]


def _refuse_unsound(
    measurement: Measurement, treatment: AppliedTreatment, provided: Provided
) -> None:
    """Raise what spoils a window: a full disk, a spoilt device, a damaged dataset, a crash."""
    messages = {message for _, _, message, _ in measurement.errors}
    _refuse_full_disk(provided.cluster, messages, is_crashed=treatment.is_crashed())
    provided.storage.refuse_spoilt()
    _refuse_damaged(provided, [(text, sqlstate) for _, sqlstate, text, _ in measurement.errors])
    treatment.refuse_crash()


def _refuse_damaged(provided: Provided, said: Sequence[tuple[str, str | None]]) -> None:
    """Raise where the server's words tell of missing or torn files: no treatment's doing.

    Args:
        said: errors, each with its SQLSTATE, if it has one.

    Raises:
        DatasetDamaged: they do.
    """
    if words := damage(said):
        raise DatasetDamaged(f"the dataset is damaged: {words}", key=provided.snapshot.key)


def _refuse_full_disk(cluster: Cluster, messages: set[str], *, is_crashed: bool) -> None:
    """Stop the run if the disk is full: no other trial would do better.

    Raises:
        StorageError: one of the workload's errors, or the last words of a server that
            panicked for want of room for its WAL, say so.
    """
    last_words = cluster.log_tail(200).splitlines() if is_crashed else []
    if any(is_full_disk(text) for text in (*messages, *last_words)):
        raise full_disk("go on with the trial", cluster.directory)


def _check(
    measurement: Measurement, workload: Workload, driver: Driver, provided: Provided, log: TrialLog
) -> _Checked:
    """Check the dataset's consistency; not knowing is a warning, a violation spoils the trial.

    Raises:
        DatasetDamaged: files of it are missing or torn.
    """
    cluster = provided.cluster
    if measurement.unknown:
        log.warnings.append(
            f"of {measurement.unknown:,} transactions nobody knows whether they committed, as their "
            "connections broke: the check for lost updates allows for either"
        )
    needs_restart = workload.changes_data or not cluster.is_running()
    violations: tuple[str, ...] = ()
    with log.phase("check", CHECK_TIMEOUT_S):
        try:
            if needs_restart:
                _restart(cluster)
            violations = workload.violations(
                driver, target_for(workload, cluster), measurement, timeout_s=CHECK_TIMEOUT_S
            )
        except (DriverError, ServerDidNotStart, ServerLost) as error:
            _refuse_damaged(provided, _said(error))
            log.warnings.append(f"the dataset's consistency was not checked: {error.message}")
    return _Checked(violations, needs_restart)


def _restart(cluster: Cluster) -> None:
    """Restart the server with default settings, once the treatment has been undone.

    Raises:
        ServerLost: it did not stop cleanly; what it then loses (asynchronous commits, unlogged tables) is
            no violation.
        ServerDidNotStart: it does not start again.
    """
    cluster.configure(CHECK_SETTINGS)
    with suppress(ServerLost):
        cluster.reload()  # so that the shutdown's checkpoint does not wait for the disk
    cluster.stop(fast_timeout_s=CHECK_TIMEOUT_S)
    if (state := shutdown_state(cluster)) != CLEAN:
        raise ServerLost(f"the server did not shut down cleanly, its state is: {state}")
    cluster.start(timeout_s=START_TIMEOUT_S)


def ending(measurement: Measurement, spoilt: tuple[str, ...]) -> tuple[Outcome, str]:
    """Return how a trial ended whose window ran, and why it was not simply measured."""
    if spoilt:
        return Outcome.INVALID, "; ".join(spoilt)
    if measurement.stopped_by == "signal":
        return Outcome.INVALID, "the driver was stopped by a signal"
    if measurement.total.committed:
        return Outcome.MEASURED, ""
    first = next(iter(measurement.errors), None)
    seen = f"; first error: {first[2]} (SQLSTATE {first[1]})" if first else ""
    return Outcome.STALLED, f"nothing was committed in {measurement.elapsed_s:.0f} s{seen}"


def _outcome_of(error: PgdragError, treatment: AppliedTreatment, provided: Provided) -> Outcome:
    """Return how a trial ended that an error broke off.

    Raises:
        StorageError: it was for want of room, or for want of the treatment's own device.
        DatasetDamaged: it was for files of the dataset.
    """
    provided.storage.refuse_spoilt()
    _refuse_damaged(provided, _said(error))
    if isinstance(error, ServerDidNotStart):
        return Outcome.DID_NOT_START
    is_crashed = treatment.is_crashed()
    _refuse_full_disk(provided.cluster, {error.message}, is_crashed=is_crashed)
    if is_crashed:
        return Outcome.CRASHED
    # The server lives, but refuses or does not answer: nothing was committed. Else, the driver
    # failed, and nothing is known of the server.
    is_refusal = isinstance(error, ServerLost) or (
        isinstance(error, DriverError) and error.is_servers
    )
    return Outcome.STALLED if is_refusal else Outcome.INVALID


def _said(error: PgdragError) -> list[tuple[str, str | None]]:
    sqlstate = error.sqlstate if isinstance(error, DriverError) else None
    return [(f"{error.message}\n{error.detail or ''}", sqlstate)]


def error_words(error: PgdragError) -> str:
    """Return what an error says, with the last line of what it says further."""
    last = error.detail.strip().splitlines()[-1].strip() if error.detail else ""
    return f"{error.message}: {last}" if last and last not in error.message else error.message
