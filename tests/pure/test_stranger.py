"""An experiment file of a stranger's starts nothing, names no device and takes no consent from itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.cli.consent import agree, program_words
from pgdrag.cli.options import StudyOptions
from pgdrag.cli.run import resume, run
from pgdrag.cli.study_command import StudyCommand
from pgdrag.errors import UsageError
from pgdrag.experiment import load_experiment
from pgdrag.experiment.consent import NeededConsent, RememberedConsent, run_needs, study_programs
from pgdrag.factors import Here, Problem
from pgdrag.factors.server import Server
from pgdrag.host import block_devices
from pgdrag.journal import Journal
from pgdrag.model import Host, Level
from pgdrag.model.program import Program
from pgdrag.provision import Provision
from pgdrag.servers.settings import SettingsCatalog

HEAD = 'pgdrag = 1\nname = "stranger"\n'
RUNGS = (
    '[[rungs]]\nname = "R1"\nsetting = { work_mem = "1MB" }\n[scales.demo.load]\nmeasure_s = 1\n'
)
COMMAND = 'profile = "pgbench"\ncommand = "{}"\n'
SHELL_SCRIPT = r"""scripts = [{{ name = "s", text = '''{}''' }}]"""
# Each with what it would run: `touch MARK`, or a program of this name that does.
TRICKS = {
    "a command": '[workload]\nkind = "command"\n' + COMMAND.format("touch {mark}") + RUNGS,
    "what makes its dataset": '[workload]\nkind = "command"\nsetup = "touch {mark}"\n'
    + COMMAND.format("true")
    + RUNGS,
    "what checks it": '[workload]\nkind = "command"\ncheck = "touch {mark}"\n'
    + COMMAND.format("true")
    + RUNGS,
    "a command of a rung": '[workload]\nkind = "command"\n'
    + COMMAND.format("true")
    + RUNGS.replace(
        "setting = { work_mem", 'workload = { command = "touch {mark}" }\nsetting = { work_mem'
    ),
    "a command that a grid tries": '[workload]\nkind = "command"\n'
    + COMMAND.format("true")
    + '[design]\nkind = "grid"\nlevels = { command = ["true", "touch {mark}"] }\n'
    + RUNGS.replace('setting = { work_mem = "1MB" }', 'workload = { command = "true" }'),
    "a shell in a script": '[workload]\nkind = "pgbench"\nallow_shell = true\n'
    + SHELL_SCRIPT.format("\\shell touch {mark}")
    + "\n"
    + RUNGS,
    "a shell in disguise": '[workload]\nkind = "pgbench"\nallow_shell = true\n'
    + SHELL_SCRIPT.format("SELECT 1;\n  \\ SetShell x \\\n touch {mark}")
    + "\n"
    + RUNGS,
    "SQL of a superuser": '[workload]\nkind = "pgbench"\nsuperuser = true\n'
    + SHELL_SCRIPT.format("COPY (SELECT 1) TO PROGRAM 'touch {mark}'")
    + "\n"
    + RUNGS,
    "programs in the server's place": '[workload]\nkind = "tpcc"\n[baseline.server]\npostgres = "{evil}"\n'
    + RUNGS,
    "programs in a rung's server's place": '[workload]\nkind = "tpcc"\n'
    + RUNGS.replace(
        "setting = { work_mem", 'server = { postgres = "{evil}" }\nsetting = { work_mem'
    ),
}


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def evil(tmp_path: Path, mark: Path) -> Path:
    """A directory that looks like a server's, of programs that leave a mark."""
    (tmp_path / "evil").mkdir()
    for name in ("postgres", "initdb", "pg_controldata"):
        path = tmp_path / "evil" / name
        path.write_text(f"#!/bin/sh\ntouch {mark}\necho 'postgres (PostgreSQL) 18.6'\n")
        path.chmod(0o755)
    return tmp_path / "evil"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home, where consent is remembered; nobody is at the terminal."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    return tmp_path


@pytest.fixture(params=TRICKS)
def stranger(request: pytest.FixtureRequest, tmp_path: Path, mark: Path, evil: Path) -> Path:
    text = HEAD + TRICKS[request.param].replace("{mark}", str(mark)).replace("{evil}", str(evil))
    path = tmp_path / "stranger.toml"
    path.write_text(text)
    return path


def test_it_is_refused_before_anything_is_started(
    stranger: Path, home: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "SCRATCH", "UNDO"):
        monkeypatch.setenv(f"PGDRAG_{name}", str(home / name.lower()))
    with pytest.raises(UsageError, match='"stranger" needs consent to what it does') as refused:
        run(str(stranger))
    assert refused.value.hint == "If you trust it, add --allow-run."
    assert re.search(f"{mark}|{home}/evil", refused.value.detail or "")
    assert not mark.exists()
    # Neither a journal nor a scratch directory was made.
    assert not {x.name for x in home.iterdir()} & {"home", "scratch", "undo"}


def test_every_program_is_known_before_and_refused_where_trials_begin(
    stranger: Path, home: Path, mark: Path
) -> None:
    """Whoever forgets to ask, such as a new command, still starts nothing."""
    study = load_experiment(str(stranger)).study("demo")
    assert study_programs(study)
    here = Here(SettingsCatalog(180006, {}), SettingsCatalog(180006, {}))
    bench = Provision(object(), object(), object(), here)  # type: ignore[arg-type]
    for rung in study.rungs:
        assert bench.server_of(rung.treatment) == (bench.binaries, here)
    levels = [Level("server", "postgres", str(home / "evil"))]
    (problem,) = Server().check(levels, here)
    assert "nothing there was started" in problem.message
    assert not mark.exists()


def test_a_workload_without_consent_gets_no_dataset() -> None:
    from pgdrag.workloads.command import Command

    here = Here(SettingsCatalog(180006, {}), SettingsCatalog(180006, {}))
    bench = Provision(object(), object(), object(), here)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="which nobody has allowed") as refused:
        bench.snapshot(Command.example(), lambda event: None)
    assert refused.value.hint == "If you trust it, add --allow-run."


def test_shipped_experiments_and_ordinary_scripts_need_no_consent(tmp_path: Path) -> None:
    from pgdrag.experiment import shipped_experiments

    for experiment in shipped_experiments().values():
        for scale in experiment.scales:
            assert study_programs(experiment.study(scale)) == ()
    plain = SHELL_SCRIPT.format("SELECT 1;")
    text = f'{HEAD}[workload]\nkind = "pgbench"\nallow_shell = true\n{plain}\n{RUNGS}'
    (tmp_path / "plain.toml").write_text(text)
    assert study_programs(load_experiment(str(tmp_path / "plain.toml")).study("demo")) == ()


def agreed(needed: NeededConsent, **given: object) -> frozenset[str]:
    options = {"allow_run": False, "remember": False, **given}
    return agree(needed, 'experiment "x"', **options)  # type: ignore[arg-type]


def test_the_command_line_gives_consent(tmp_path: Path) -> None:
    program = Program("put load on the server", "./load.sh 8", str(tmp_path))
    needed = NeededConsent((program,), ("vm.overcommit_memory",))
    with pytest.raises(UsageError) as refused:
        agreed(needed)
    assert refused.value.hint == (
        "If you trust it, add --allow-run --allow-change vm.overcommit_memory."
    )
    assert "./load.sh 8" in (refused.value.detail or "")
    with pytest.raises(UsageError) as refused:
        agreed(needed, allow_run=True)
    assert refused.value.hint == "If you trust it, add --allow-change vm.overcommit_memory."
    both = agreed(needed, allow_run=True, allow_change=["vm.overcommit_memory"])
    assert both == {program.key, "vm.overcommit_memory"}


def test_remembered_consent_ends_when_the_program_is_another_one(tmp_path: Path) -> None:
    script = tmp_path / "load.sh"
    script.write_text("true\n")
    needed = NeededConsent((Program("put load on the server", "./load.sh 8", str(tmp_path)),))
    agreed(needed, allow_run=True)
    with pytest.raises(UsageError):
        agreed(needed)
    agreed(needed, allow_run=True, remember=True)
    agreed(needed)
    script.write_text("false\n")
    with pytest.raises(UsageError):
        agreed(needed)


@pytest.mark.parametrize(
    "command",
    [
        "psql --file=run.sql",
        "psql -frun.sql",
        "pgbench -f run.sql@3 -c $PGDRAG_CONNECTIONS > $PGDRAG_RESULTS/out.json",
        'bash -c "./run.sql 8"',
        "bash -c 'sh -c \"exec ./run.sql\"'",
        "true;./run.sql",
        "./run.sql#",
    ],
)
def test_consent_ends_with_the_content_however_a_file_is_named(
    command: str, tmp_path: Path
) -> None:
    files = [tmp_path / "run.sql", tmp_path / "run.sql#"]
    for file in files:
        file.write_text("true\n")
    needed = NeededConsent((Program("put load on the server", command, str(tmp_path)),))
    agreed(needed, allow_run=True, remember=True)
    agreed(needed)
    for file in files:
        file.write_text("false\n")
    with pytest.raises(UsageError):
        agreed(needed)


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("sh ~/run.sh", "~/run.sh"),
        ('sh "$HOME/run.sh"', "$HOME/run.sh"),
        ("sh ./run*.sh", "./run*.sh"),
        ("sh -c 'sh ./run?.sh'", "sh ./run?.sh"),
        ("sh $(cat which)", "$"),
        ("pgbench -f load-$PGDRAG_CONNECTIONS.sql", "load-$PGDRAG_CONNECTIONS.sql"),
        ("cd below && ./run.sh", "cd"),
    ],
)
def test_consent_to_files_that_nobody_knows_before_is_not_remembered(
    command: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = NeededConsent((Program("put load on the server", command),))
    agreed(needed, allow_run=True, remember=True)
    said = capsys.readouterr().err
    assert said.startswith(
        f'Consent was not remembered: with "{word}" in the command, pgdrag cannot'
    )
    assert not RememberedConsent().path.exists()
    RememberedConsent().add(needed)  # as an older pgdrag did
    with pytest.raises(UsageError):
        agreed(needed)
    RememberedConsent().add(needed, "X")
    assert RememberedConsent().includes(needed, "X"), "a run goes on"


def test_what_well_known_programs_are_called_with_can_be_remembered() -> None:
    from pgdrag.workloads._reading import PROFILES

    for profile in PROFILES.values():
        for command in (profile.call, profile.setup):
            assert not NeededConsent((Program("put load on the server", command),)).unresolved_word


def test_a_server_in_a_directory_with_a_space_is_looked_at(tmp_path: Path) -> None:
    programs = tmp_path / "my server"
    programs.mkdir()
    needed = NeededConsent((Program("be the server", str(programs)),))
    agreed(needed, allow_run=True, remember=True)
    (programs / "postgres").write_text("evil")
    with pytest.raises(UsageError):
        agreed(needed)


def test_consent_to_a_disk_ends_when_another_one_has_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = NeededConsent(changes=("/dev/sdb", "vm.overcommit_memory"))
    serials = {"/dev/sdb": "naa.1"}
    monkeypatch.setattr(
        "pgdrag.experiment.consent.disk_identity", lambda path: (serials.get(str(path), ""),)
    )
    RememberedConsent().add(needed, "X")
    assert RememberedConsent().includes(needed, "X")
    serials["/dev/sdb"] = "naa.2"
    assert not RememberedConsent().includes(needed, "X")


def test_a_disk_is_known_by_its_serial_number_and_a_partition_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "devices" / "sdb"
    for name, text in {
        "device/wwid": "naa.5000c500a1b2c3d4\n",
        "size": "2048\n",
        "sdb1/partition": "1\n",
        "sdb1/start": "64\n",
        "sdb1/size": "100\n",
    }.items():
        (disk / name).parent.mkdir(parents=True, exist_ok=True)
        (disk / name).write_text(text)
    (tmp_path / "8:16").symlink_to(disk)
    (tmp_path / "8:17").symlink_to(disk / "sdb1")
    monkeypatch.setattr(block_devices, "_BY_NUMBER", tmp_path)
    monkeypatch.setattr(block_devices, "number_of", {"/dev/sdb": "8:16", "/dev/sdb1": "8:17"}.get)
    assert block_devices.disk_identity("/dev/sdb") == ("naa.5000c500a1b2c3d4", "2048")
    assert block_devices.disk_identity("/dev/sdb1") == ("naa.5000c500a1b2c3d4", "64", "100")
    assert block_devices.disk_identity("vm.overcommit_memory") == ()


def test_remembered_consent_of_others_counts_nothing(home: Path) -> None:
    needed = NeededConsent((Program("put load on the server", "true"),))
    agreed(needed, allow_run=True, remember=True)
    path = RememberedConsent().path
    assert path.is_relative_to(home / "config")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    assert not RememberedConsent().includes(needed)
    path.unlink()
    os.mkfifo(path, 0o600)  # as in the home of another user, whom root looks after
    assert not RememberedConsent().includes(needed)


def test_a_journal_brings_no_consent_of_its_own(stranger: Path, evil: Path) -> None:
    """PGDRAG_HOME may be a stranger's: what was agreed to is known to this user, by run and content."""
    study = load_experiment(str(stranger)).study("demo")
    needed = run_needs(study, str(evil))
    assert str(evil) in {x.command for x in needed.programs}
    with pytest.raises(UsageError, match="run X needs consent"):
        agree(needed, "run X", allow_run=False, remember=False, run_id="X")
    RememberedConsent().add(needed, "X")
    assert agree(needed, "run X", allow_run=False, remember=False, run_id="X") == needed.keys
    with pytest.raises(UsageError):
        agree(needed, "run Y", allow_run=False, remember=False, run_id="Y")


def test_resume_asks_before_anything_of_a_journal_is_started(
    stranger: Path, home: Path, evil: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDRAG_HOME", str(home / "theirs"))
    study = load_experiment(str(stranger)).study("demo")
    study = replace(study, allowed=("/dev/sdb",))
    run_id = Journal(home / "theirs" / "journal.sqlite").begin_run(
        study,
        Host("", 1, 1, "", ""),
        server_wanted=str(evil),
        server_version="18.6",
        pgdrag_version="0",
        seed=1,
    )
    with pytest.raises(UsageError, match=f"run {run_id} needs consent") as refused:
        resume(run_id)
    assert refused.value.hint == "If you trust it, add --allow-run --allow-change /dev/sdb."
    assert str(evil) in (refused.value.detail or "")
    assert not mark.exists()


@pytest.mark.parametrize("is_agreed", [True, False])
def test_on_a_terminal_the_commands_are_shown_and_asked_about(
    is_agreed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pgdrag.cli.consent.can_answer", lambda: True)
    asked: list[str] = []
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text) or is_agreed)
    needed = NeededConsent((Program("put load on the server", "./load.sh", "/home/me"),))
    if is_agreed:
        assert agreed(needed) == needed.keys
    else:
        with pytest.raises(UsageError, match="cancelled; nothing was run"):
            agreed(needed)
    assert asked == ["Allow this?"]
    shown = "To put load on the server, runs in /home/me:\n    ./load.sh\n"
    assert capsys.readouterr().err == shown


class Runner:
    """Where a question's trials would run: it says what was allowed before levels are looked at."""

    def __init__(self) -> None:
        catalog = SettingsCatalog(180006, {})
        self.here, self.looked = Here(catalog, catalog), False

    def allow(self, names: Iterable[str]) -> None:
        self.here = replace(self.here, allowed=self.here.allowed.union(names))

    def check(self, levels: object) -> list[Problem]:
        self.looked = True
        return []


def test_an_arm_of_a_strangers_experiment_is_asked_about_and_a_directory_that_i_name_is_not(
    home: Path, evil: Path, mark: Path
) -> None:
    text = HEAD + TRICKS["programs in the server's place"].replace("{evil}", str(evil))
    (home / "stranger.toml").write_text(text)
    runner = Runner()
    command = StudyCommand(StudyOptions(), runner, 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match='"stranger" needs consent'):
        command.arms("default", f"{home}/stranger.toml:R1")
    assert (runner.looked, mark.exists()) == (True, False)  # at the levels of `default`
    command.arms(str(evil))
    assert runner.here.allowed == {f"run: {evil}"}
    assert not mark.exists()


def test_changes_that_a_journal_claims_to_be_allowed_need_consent_too() -> None:
    needed = NeededConsent(changes=("/dev/sdb",))
    with pytest.raises(UsageError) as refused:
        agree(needed, "run X", allow_run=False, remember=False, run_id="X")
    assert refused.value.hint == "If you trust it, add --allow-change /dev/sdb."


def test_a_command_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor escape sequences nor marks of direction hide a part of it."""
    from pgdrag.cli.place import stdout

    program = Program("put load on the server", "true \x1b[8m; [/x][red]rm\u202e -r /\x9b2K")
    stdout().print(program_words(program))
    assert capsys.readouterr().out.splitlines()[1] == "    true �[8m; [/x][red]rm� -r /�2K"
