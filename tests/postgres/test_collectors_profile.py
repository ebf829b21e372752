"""What processors run is seen where perf may look, and a reason is given where it may not."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from loads import PACED
from watching import run_in_session, start, watching

import pgdrag.collectors.profile as profile_module
from pgdrag.collectors import Observer, Window
from pgdrag.collectors.profile import CUT_SHORT, SAID_NOTHING, WITHOUT_KERNEL, Profile
from pgdrag.host.server_user import server_user
from pgdrag.model import Instrument, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.model.recordings import Recordings, Stack
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner, run_trial

pytestmark = pytest.mark.postgres

BUSY = "SELECT count(*) FROM generate_series(1, 2000000)"
FOREVER = Window(1.0, 1, 0.0, 4e9)
# As perf 6.1 says it to a user without rights.
REFUSAL = """\
Error:
Access to performance monitoring and observability operations is limited.
Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open
"""


@pytest.fixture
def _perf() -> None:
    """perf may look at processes of the servers' user here, or the test is skipped with its reason."""
    user = server_user()
    uid, gid = (None, None) if user is None else (user.uid, user.gid)
    with subprocess.Popen(["sleep", "60"], user=uid, group=gid, cwd="/") as sleeping:
        command = ["perf", "record", "-e", "cpu-clock", "-o", "-", "-p", str(sleeping.pid)]
        try:
            done = subprocess.run(
                [*command, "--", "true"], capture_output=True, timeout=60, check=False
            )
        except FileNotFoundError:
            pytest.skip("perf is not installed")
        finally:
            sleeping.kill()
    if done.returncode:
        pytest.skip(f"perf may not look: {done.stderr.decode(errors='replace')[:300]}")


def profile_of(cluster: Cluster, statement: str) -> Recordings:
    profile = Profile()
    with watching(profile, cluster):
        run_in_session(cluster, statement)
    return profile.recordings(FOREVER)


def recordings_with(perf: str, directory: Path, cluster: Cluster, monkeypatch) -> Recordings:
    """Return what a profile comes to where this script is all that is called perf."""
    program = directory / "perf"
    program.write_text(f"#!/bin/sh\n{perf}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    return profile_of(cluster, "SELECT 1")


@pytest.mark.usefixtures("_perf")
def test_a_busy_session_that_began_within_the_window_is_most_of_the_profile(
    any_cluster: Cluster,
) -> None:
    start(any_cluster)
    found = profile_of(any_cluster, BUSY)
    types, functions = Counter[str](), Counter[str]()
    for stack in found.of(Stack):
        types[stack.frames[0]] += stack.samples
        functions.update(dict.fromkeys(set(stack.frames[1:]), stack.samples))
    assert types.most_common(1)[0][0] == "client backend"
    # Exported, so named in a server without symbols as well.
    assert functions["standard_ExecutorRun"] > types.total() / 2
    assert found.missing.keys() <= {WITHOUT_KERNEL}


@pytest.mark.usefixtures("_perf")
def test_the_collectors_own_session_is_not_in_it(shared_cluster: Cluster) -> None:
    profile = Profile()
    with shared_cluster.connect() as connection:
        profile.before(Observer(shared_cluster, connection))
        connection.execute(BUSY.encode())
        profile.after(Observer(shared_cluster, connection))
    found = profile.recordings(FOREVER)
    assert not [x for x in found.of(Stack) if "generate_series_step_int4" in x.frames]


@pytest.mark.usefixtures("_perf")
def test_samples_outside_of_the_window_do_not_count(shared_cluster: Cluster) -> None:
    profile = Profile()
    with watching(profile, shared_cluster):
        run_in_session(shared_cluster, BUSY)
    assert profile.recordings(FOREVER).of(Stack)
    (observation,) = profile.observations(FOREVER)
    assert observation.value is not None or "perf_event_paranoid" in observation.missing
    nothing = profile.recordings(Window(1.0, 1, 0.0, 1.0))
    assert nothing.missing == {"profile": "no process of the server was seen on a processor"}


@pytest.mark.usefixtures("_perf")
def test_what_takes_too_long_to_read_is_cut_short_and_says_so(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_module, "READ_TIMEOUT_S", 0.0)
    found = profile_of(shared_cluster, BUSY)
    assert CUT_SHORT in found.missing or "profile" in found.missing


def test_without_perf_the_reason_says_where_it_is_to_be_had(
    shared_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = profile_of(shared_cluster, "SELECT 1")
    assert found.missing["profile"].startswith("perf is not installed: it is in the package")
    assert not found.of(Stack)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (f"cat >&2 <<'END'\n{REFUSAL}END\nexit 255", "this user may not profile: kernel."),
        ("echo 'WARNING: perf not found for kernel 6.1' >&2; exit 2", "perf failed: WARNING: perf"),
        ("exit 1", SAID_NOTHING),
    ],
    ids=["rights", "wrapper", "silent"],
)
def test_a_perf_that_fails_gives_its_reason(
    script: str,
    reason: str,
    shared_cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = recordings_with(
        script.replace("cat", "/bin/cat"), tmp_path, shared_cluster, monkeypatch
    )
    # Where /proc hides servers from perf, that is why it is silent.
    hidden = ("/proc hides the server's processes",) if reason == SAID_NOTHING else ()
    assert found.missing["profile"].startswith((reason, *hidden))
    assert not found.of(Stack)


def trial_of(treatment: Treatment) -> Trial:
    load = LoadProfile(
        connections=1, warm_up_s=0, measure_s=1, budget_s=4, min_commits=1, pacing=PACED
    )
    return Trial(1, 1, 1, treatment, WorkloadSpec("pgbench", {"scale": 1}), load, seed=1)


@pytest.mark.usefixtures("_perf")
def test_a_trial_has_a_profile_where_it_is_asked_for(bench: ServerTrialRunner) -> None:
    profiled = replace(trial_of(Treatment("T")), instrument=Instrument(optional=("profile",)))
    result = run_trial(profiled, bench)
    assert result.recordings.of(Stack)
    assert "profile_kernel_share" in {one.name for one in result.evidence}


def test_a_trial_has_none_where_it_is_not(bench: ServerTrialRunner) -> None:
    result = run_trial(trial_of(Treatment("T")), bench)
    assert not result.recordings.of(Stack)
    assert "profile" not in result.recordings.missing
    assert "profile_kernel_share" not in {one.name for one in result.evidence}
