"""One trial on a server that exists, as one readable function.

settings by ALTER SYSTEM → reload, or restart → read back → upkeep → warm up → measure → collect

Nothing is restored: the dataset grows, caches stay warm, and others may be at work. All arms share that alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from pgdrag.collectors import Observer
from pgdrag.driver.connection_string import Server
from pgdrag.driver.progress import TrialLog
from pgdrag.errors import DriverError, PgdragError, ServerDidNotStart, ServerLost, SettingError
from pgdrag.existing.refusals import refusal, refusals_told
from pgdrag.factors import Phase, is_of
from pgdrag.factors.treated_workload import workload_of
from pgdrag.host.clock import CLOCK
from pgdrag.live.server import ExistingServer
from pgdrag.model import Applied, Measurement, Outcome, Recordings, Result, Trial
from pgdrag.model.events import Listener
from pgdrag.trial import Collecting, Evidence, driving, ending, error_words

if TYPE_CHECKING:
    from pgdrag.existing.runner import ExistingTrialRunner


def run_trial_there(
    trial: Trial,
    bench: ExistingTrialRunner,
    change_host: Callable[[], list[Applied]],
    listen: Listener,
) -> Result:
    """Run one trial on a server that exists, and return its result.

    Args:
        change_host: puts the treatment's values of the operating system in force, and returns what the kernel shows;
            the caller takes them back.
    """
    started_unix_s = CLOCK.unix_s()
    log = TrialLog(listen)
    log.warnings.extend(bench.dataset_warnings)
    workload = workload_of(trial.workload, trial.treatment)
    problems = {x.level: x for x in bench.check(trial.treatment.levels, trial.workload)}
    applied = [Applied(x.level, None, x.message) for x in problems.values()]
    levels = [x for x in trial.treatment.levels if x not in problems]
    measurement: Measurement | None = None
    evidence = Evidence()
    life: object = None
    try:
        bench.begin(log)
        applied += change_host()
        applied += bench.apply([x for x in levels if is_of(Phase.SETTINGS, x.kind)], log)
        bench.keep_up(log)
        life = _life(bench.server)
        with driving(trial, workload, bench.driver, bench.server.target, listen) as load:
            with log.phase("warm up", trial.load.warm_up_s):
                load.warm_up()
            collecting = Collecting(trial, workload, bench.driver)
            with (
                _through(collecting, bench.server, log),
                log.phase("measure", trial.load.measure_s),
            ):
                measurement = load.measure()
            evidence = collecting.evidence(measurement)
        bench.stay_alone()
        if _life(bench.server) != life:
            raise ServerLost("the server was restarted under the load")
        outcome, reason = ending(measurement, ())
    except SettingError as error:
        outcome, reason = Outcome.UNTESTABLE, error.message
    except ServerDidNotStart as error:
        outcome, reason = Outcome.DID_NOT_START, error_words(error)
    except (ServerLost, DriverError) as error:
        outcome, reason = _outcome_of(error, bench.server, life), error_words(error)
    except psycopg.Error as error:  # a session of pgdrag's own was ended
        lost = refusal(bench.server, error)
        outcome, reason = _outcome_of(lost, bench.server, life), error_words(lost)
    return Result(
        trial=trial,
        outcome=outcome,
        started_unix_s=started_unix_s,
        reason=reason,
        server_version=bench.version,
        applied=tuple(applied),
        measurement=measurement,
        evidence=evidence.observations,
        warnings=tuple(log.warnings),
        phases_s=log.phases_s,
        recordings=evidence.recordings if measurement else Recordings(),
    )


@contextmanager
def _through(collecting: Collecting, server: Server, log: TrialLog) -> Iterator[None]:
    """Let the collectors look, through a session of their own."""
    with server.connect(application_name="pgdrag collectors") as connection:
        there = ExistingServer(server, connection)
        with collecting.through(Observer(there, connection, collecting.examples), log):
            yield


def _outcome_of(error: PgdragError, server: Server, life: object) -> Outcome:
    """Return how a trial ended that an error broke off."""
    try:
        if life is not None and _life(server) != life:
            return Outcome.CRASHED
    except ServerLost:
        return Outcome.CRASHED if life is not None and server.is_local else Outcome.INVALID
    is_refusal = isinstance(error, DriverError) and error.is_servers
    return Outcome.STALLED if is_refusal else Outcome.INVALID


def _life(server: Server) -> object:
    """Return a value that is unique to one life of a server: a crash of one process begins a new life.

    Raises:
        ServerLost: it does not answer.
    """
    with refusals_told(server), server.connect(application_name="pgdrag") as connection:
        return connection.execute(_LIFE).fetchall()


# After a crash of a session all other processes are new, but the first one is not. Some roles see no others' times.
_LIFE = """
SELECT pg_catalog.pg_postmaster_start_time(),
       (SELECT backend_start FROM pg_catalog.pg_stat_activity WHERE backend_type = 'checkpointer')
"""
