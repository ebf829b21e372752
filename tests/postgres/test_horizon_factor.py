"""Trials whose horizon is held: what is read back, what becomes an event, and what spoils a trial."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from itertools import pairwise
from typing import LiteralString

import psycopg
import pytest
from living import connected
from loads import PACED
from psycopg import sql

from pgdrag.host.process_alive import wait_until
from pgdrag.model import Applied, Level, Outcome, Result, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import Event as Told
from pgdrag.model.events import Listener, PhaseStarted, ignore
from pgdrag.model.load import LoadProfile
from pgdrag.model.recordings import Event
from pgdrag.trial import ServerTrialRunner, run_trial

pytestmark = pytest.mark.postgres
LOAD = LoadProfile(
    connections=1, warm_up_s=0.2, measure_s=2, budget_s=2, min_commits=1, pacing=PACED
)
# Of a trial in which nothing need be looked at within the window.
BRIEF = replace(LOAD, measure_s=1, budget_s=1)
# Long enough to see a hold of more than a second at one of the looks, a second apart.
LONGER = replace(LOAD, measure_s=3, budget_s=3)
LONGEST = replace(LOAD, measure_s=5, budget_s=5)  # a hold of 3 s is looked at twice, once a second
SIMPLE_UPDATE = WorkloadSpec("pgbench", {"scale": 1, "scripts": ["simple-update"]})


def run(
    bench: ServerTrialRunner, load: LoadProfile = LOAD, listen: Listener = ignore, **levels: str
) -> Result:
    treatment = Treatment("T", tuple(Level("horizon", *each) for each in levels.items()))
    trial = Trial(1, 1, 1, treatment, SIMPLE_UPDATE, load, seed=5)
    return run_trial(trial, bench, listen)


def holds_of(result: Result) -> list[Event]:
    return [event for event in result.recordings.events if event.kind == "hold"]


def applied_to(result: Result, name: str) -> Applied:
    [found] = [one for one in result.applied if one.level.name == name]
    return found


@pytest.mark.parametrize("holder", ["prepared", "slot", "standby"])
def test_a_horizon_that_is_held_for_the_window_reads_back_with_its_age(
    bench: ServerTrialRunner, holder: str
) -> None:
    result = run(bench, LONGER, holder=holder)
    assert result.outcome is Outcome.MEASURED, result.reason
    found = applied_to(result, "holder")
    assert (found.effective, found.note, found.default) == (holder, "", "nobody")
    assert found.how.startswith("1 hold, ")
    assert ("max_prepared_transactions = 64" in found.how) == (holder == "prepared")
    assert ("standby ran on the same machine" in found.how) == (holder in ("slot", "standby"))
    [event] = holds_of(result)
    assert event.text.startswith(f"{holder}, ")
    assert event.end_s is None
    assert event.start_s >= 0
    [series] = [x for x in result.recordings.series if x.name == "horizon_age_transactions"]
    assert max(series.values) > 10
    assert not result.warnings


def test_a_hold_from_before_the_load_is_older_than_all_of_it(bench: ServerTrialRunner) -> None:
    result = run(bench, BRIEF, holder="transaction", begin="load")
    [event] = holds_of(result)
    assert event.start_s < -LOAD.warm_up_s / 2
    assert applied_to(result, "begin").effective == "load"


def test_a_hold_that_ends_in_the_window_is_followed_by_a_vacuum_and_a_reindex(
    bench: ServerTrialRunner,
) -> None:
    result = run(bench, LONGEST, holder="snapshot", hold="3s", after_release="vacuum and reindex")
    assert result.outcome is Outcome.MEASURED, result.reason
    [hold] = holds_of(result)
    [tidied] = [event for event in result.recordings.events if event.kind == "vacuum by pgdrag"]
    assert hold.end_s is not None
    assert hold.end_s - hold.start_s > 2.9
    assert tidied.start_s >= hold.end_s
    assert tidied.text.startswith("vacuum of 4 tables in ")
    assert tidied.text in applied_to(result, "holder").how
    assert tidied.end_s is None or "reindex of 4 tables in " in tidied.text
    # At the end nobody holds any more, and what was held within the window is still told.
    seen = {one.name: one.value for one in result.evidence}
    assert (seen["horizon_age_max_transactions"] or 0) > 10
    assert (seen["horizon_age_transactions"] or 0) < (seen["horizon_age_max_transactions"] or 0)


def test_a_shifting_horizon_is_never_free(bench: ServerTrialRunner) -> None:
    result = run(bench, holder="snapshot", hold="700ms", pattern="shifting")
    assert result.outcome is Outcome.MEASURED, result.reason
    assert applied_to(result, "pattern").effective == "shifting"
    holds = holds_of(result)
    assert len(holds) >= 3
    for before, after in pairwise(holds):
        assert before.end_s is None or after.start_s < before.end_s


def test_nobody_holds_where_no_holder_is_named(bench: ServerTrialRunner) -> None:
    result = run(bench, BRIEF, holder="nobody", hold="1s")
    assert result.outcome is Outcome.MEASURED, result.reason
    assert (applied_to(result, "holder").effective, holds_of(result)) == ("nobody", [])
    assert applied_to(result, "hold").how == "nobody holds"


def test_a_hold_that_never_began_reads_as_not_applied(bench: ServerTrialRunner) -> None:
    result = run(bench, BRIEF, holder="transaction", begin="1 min")
    assert result.outcome is Outcome.MEASURED, result.reason
    found = applied_to(result, "holder")
    assert found.effective is None
    assert "the window ended before the first hold" in found.note


def test_a_holder_that_is_lost_in_mid_trial_spoils_it(bench: ServerTrialRunner) -> None:
    result = run(bench, LONGER, when_measuring(bench, END_HOLDERS), holder="transaction")
    assert result.outcome is Outcome.INVALID
    assert "the holder of the horizon was lost" in result.reason
    assert "terminating connection due to administrator command" in result.reason
    assert applied_to(result, "holder").effective is None


def test_a_hold_that_does_not_hold_is_seen_by_the_horizons_age(bench: ServerTrialRunner) -> None:
    result = run(bench, LONGER, when_measuring(bench, END_PREPARED), holder="prepared")
    assert result.outcome is Outcome.INVALID
    assert "the horizon was not held " in result.reason
    assert applied_to(result, "holder").effective is None


def test_a_server_without_room_for_a_holder_spoils_the_trial_and_says_so(
    bench: ServerTrialRunner,
) -> None:
    crowded = Level("setting", "max_connections", "7")
    holders = (Level("horizon", "holder", "snapshot"), Level("horizon", "holders", "9"))
    treatment = Treatment("T", (crowded, *holders))
    result = run_trial(Trial(1, 1, 1, treatment, SIMPLE_UPDATE, BRIEF, seed=5), bench)
    assert result.outcome is Outcome.INVALID, result
    assert "too many clients" in result.reason or "slots are reserved" in result.reason


def test_a_server_that_crashes_takes_its_holders_with_it_and_is_the_reason_itself(
    bench: ServerTrialRunner,
) -> None:
    def kill_a_session(event: Told) -> None:
        if isinstance(event, PhaseStarted) and event.name == "measure":
            with connected(bench) as client:
                os.kill(client.info.backend_pid, signal.SIGKILL)

    result = run(bench, listen=kill_a_session, holder="cursor", begin="load")
    assert result.outcome is Outcome.CRASHED, result
    assert result.reason.startswith("the server crashed")


def test_ctrl_c_releases_what_is_held(bench: ServerTrialRunner) -> None:
    def interrupt(event: Told) -> None:
        if isinstance(event, PhaseStarted) and event.name == "measure":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(bench, listen=interrupt, holder="standby", begin="load")
    assert not [x for x in threading.enumerate() if x.name in ("pgdrag-holder", "pgdrag-horizon")]
    assert list(bench.scratch.clusters.iterdir()) == []


def when_measuring(bench: ServerTrialRunner, query: LiteralString) -> Listener:
    """Return a listener that runs a query in the measured window, until it returns true."""

    def meddle() -> None:
        with connected(bench) as client:
            client.autocommit = True
            wait_until(lambda: meddled(client), LONGER.measure_s)

    def meddled(client: psycopg.Connection) -> bool:
        row = client.execute(query).fetchone()
        if row and isinstance(row[0], str):
            client.execute(sql.SQL("ROLLBACK PREPARED {}").format(row[0]))
        return row is not None and row[0] is not None

    def listen(event: Told) -> None:
        if isinstance(event, PhaseStarted) and event.name == "measure":
            threading.Thread(target=meddle, daemon=True).start()

    return listen


END_HOLDERS: LiteralString = """
    SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity
     WHERE application_name = 'pgdrag horizon holder' AND state = 'idle in transaction'
       AND xact_start < clock_timestamp() - interval '0.5 s'
"""
END_PREPARED: LiteralString = """
    SELECT gid FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - interval '0.5 s'
"""
