"""`pgdrag check` and `pgdrag list`, with servers that are made up: what is printed, and what it ends with."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from pgdrag.cli.check import check
from pgdrag.cli.list import list_, make_listing
from pgdrag.collectors import observation_names
from pgdrag.errors import ExperimentError, UsageError
from pgdrag.experiment import experiment_schema, load_experiment
from pgdrag.experiment.preflight import check_experiment, first_mistake
from pgdrag.factors import Here, Problem
from pgdrag.report.sections.ladder import LadderSection
from pgdrag.servers.settings import Setting, SettingsCatalog

TEXT = """\
pgdrag = 1
name = "small"
title = "Small"
[workload]
kind = "tpcc"
[baseline.setting]
shared_buffers = "1GB"
fsync = true
[[rungs]]
name = "A1"
setting = { shared_buffers = "8MB" }
[[rungs]]
name = "A2"
setting = { shared_buffers = "4MB", io_workers = 1 }
[scales.demo.load]
warm_up_s = 5
measure_s = 10
budget_s = 55
[scales.long]
replicates = 3
"""


def setting(name, vartype, unit, low, high, context, boot_value):
    return Setting(name, vartype, unit, low, high, (), context, "", boot_value, "")


SHARED_BUFFERS = setting(
    "shared_buffers", "integer", "8kB", "16", "1073741823", "postmaster", "16384"
)
FSYNC = setting("fsync", "bool", None, None, None, "sighup", "on")
MAX_WAL_SIZE = setting("max_wal_size", "integer", "MB", "2", "2147483647", "sighup", "1024")
IO_WORKERS = setting("io_workers", "integer", None, "1", "32", "sighup", "3")


def catalog(version, *settings):
    return SettingsCatalog(version, {x.name: x for x in settings})


CHECKPOINTS = setting("log_checkpoints", "bool", None, None, None, "sighup", "on")

OLD = catalog(150018, SHARED_BUFFERS, FSYNC, MAX_WAL_SIZE)
NEW = catalog(180006, SHARED_BUFFERS, FSYNC, MAX_WAL_SIZE, IO_WORKERS, CHECKPOINTS)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a command as the command line does, on a server of version 18 or 15."""
    monkeypatch.setenv("PGDRAG_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setattr("pgdrag.cli.place.open_scratch", RoomyScratch)
    monkeypatch.setattr("pgdrag.servers.binaries.find_binaries", lambda wanted: wanted)
    monkeypatch.setattr(
        "pgdrag.provision.look_here",
        lambda scratch, wanted, **_: Here(OLD if wanted == "15" else NEW, NEW),
    )
    app = typer.Typer()
    app.command("check")(check)
    app.command("list")(list_)
    return lambda *arguments: CliRunner().invoke(app, [str(x) for x in arguments])


class RoomyScratch:
    def free_bytes(self):
        return 10**15


def checked(path, here=NEW, *, free_bytes=10**15):
    experiment = load_experiment(str(path))
    studies = [experiment.study(scale) for scale in experiment.scales]
    return check_experiment(experiment, studies, Here(here, NEW), free_bytes=free_bytes)


def test_a_rung_needs_consent_for_the_disk_that_another_rungs_storage_stands_for(file, monkeypatch):
    """What one rung's levels may do on a device of their own, the baseline's would do to somebody's disk."""
    allowed = []

    def refuse(self, levels, here):
        allowed.append(bool(here.storage))
        return (
            [] if here.storage else [Problem(x, False, f"{x.name} needs consent") for x in levels]
        )

    monkeypatch.setattr("pgdrag.factors.storage.Storage.check", lambda self, levels, here: [])
    monkeypatch.setattr("pgdrag.factors.block_device.BlockDevice.check", refuse)
    disk = "[baseline.block_device]\nread_ahead_kb = 256\n[baseline.setting]"
    own = 'storage = { size = "1GB" }\nname = "A2"'
    file.write_text(TEXT.replace("[baseline.setting]", disk).replace('name = "A2"', own))
    found = checked(file)
    assert [x.message for x in found.problems] == ["read_ahead_kb needs consent"]
    assert set(allowed) == {False, True}


@pytest.mark.parametrize(
    "design",
    [
        'kind = "boundary"\nsetting = "shared_buffers"\nvalues = ["1MB", "10TB"]',
        'kind = "grid"\nlevels = { shared_buffers = ["1MB", "10TB"], fsync = ["on", "off"] }',
    ],
    ids=["boundary", "grid"],
)
def test_levels_that_a_design_tries_by_itself_are_checked_like_those_of_rungs(file, design):
    file.write_text(TEXT.replace("[scales.demo.load]", f"[design]\n{design}\n[scales.demo.load]"))
    found = checked(file)
    assert "1MB" in {x.value for x in found.levels}
    mistake = first_mistake(found)
    assert mistake is not None
    assert mistake.message.endswith(
        '10TB is outside the valid range for parameter "shared_buffers" (128kB .. 8589934584kB)'
    )
    assert mistake.line == TEXT[: TEXT.index("[scales.demo.load]")].count("\n") + 1


def rows(found):
    return {
        (x.line, x.name): (x.canonical, x.takes_effect, x.default, x.verdict) for x in found.levels
    }


def test_levels_are_shown_as_the_server_has_them(file):
    assert rows(checked(file)) == {
        (7, "shared_buffers"): ("1 GB", "restart", "128 MB", "ok"),
        (8, "fsync"): ("on", "reload", "on", "default"),
        (11, "shared_buffers"): ("8 MB", "restart", "128 MB", "ok"),
        (14, "io_workers"): ("1", "reload", "3", "ok"),
        (14, "shared_buffers"): ("4 MB", "restart", "128 MB", "ok"),
    }


def test_what_only_this_server_lacks_is_no_mistake(file):
    found = checked(file, OLD)
    assert rows(found)[14, "io_workers"] == ("", "", "", "untestable here")
    (problem,) = found.problems
    assert (problem.line, problem.is_mistake) == (14, False)
    assert problem.message == 'PostgreSQL 15.18 has no setting "io_workers"'
    assert first_mistake(found) is None


def test_what_no_server_has_is_a_mistake_with_its_line(file):
    file.write_text(TEXT.replace('"8MB"', '"8QB"').replace("fsync", "fsink"))
    found = checked(file, OLD)
    assert rows(found)[8, "fsink"][3] == rows(found)[11, "shared_buffers"][3] == "mistake"
    error = first_mistake(found)
    assert error.message == f'{file}:8: PostgreSQL 15.18 has no setting "fsink"'
    assert error.hint == 'The nearest name it knows is "fsync".'
    assert error.detail.startswith(
        f'{file}:11: invalid value for parameter "shared_buffers": "8QB" (Valid units'
    )


def test_a_rung_that_undoes_another_is_named(file):
    assert checked(file).notes == ("A2 sets shared_buffers to 4MB in place of A1's 8MB",)


def test_rungs_that_do_not_stand_on_each_other_undo_nothing(file):
    file.write_text(TEXT.replace("[baseline.", '[design]\nkind = "one-at-a-time"\n[baseline.'))
    assert checked(file).notes == ()


def test_a_setting_of_the_observation_channel_is_named(file):
    file.write_text(TEXT.replace("fsync = true", "log_checkpoints = false"))
    note = checked(file).notes[1]
    assert note.startswith("log_checkpoints = off is run as on: part of the observation channel")


def test_scales_say_what_they_take(file):
    demo, long = checked(file).scales
    assert (demo.trials_least, demo.load_s_least, demo.load_s_most) == (3, 3 * 15, 3 * 60)
    # Where rungs hardly commit, blocks become smaller, and up to two of nine trials are left over.
    assert (long.trials_most, long.load_s_least, long.load_s_most) == (9, 7 * 40, 9 * 160)
    dataset_bytes = 170_000_000
    assert demo.disk_bytes == 2 * dataset_bytes + 1024 * 1024**2


def test_a_disk_that_is_too_small_is_named(file):
    notes = checked(file, free_bytes=10_000_000).notes
    assert notes[1].startswith('scale "demo" needs about 1.32 GB of disk, and 9.54 MB are free')


STORED = TEXT.replace(
    "[[rungs]]\n", '[baseline.storage]\nsize = "2GB"\nfile_system = "ext4"\n[[rungs]]\n', 1
).replace('setting = { shared_buffers = "8MB" }', 'storage = { file_system = "xfs" }')


CONF = """\
shared_buffers = 1GB
port = 5433
log_checkpoints = off
include_dir 'conf.d'
fsync = on
stats_temp_directory = '/run/postgresql'
"""


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/wal.conf").write_text("max_wal_size = 4 GB\n")
    path = tmp_path / "postgresql.conf"
    path.write_text(CONF)
    return path


def test_a_file_of_settings_is_checked_like_an_experiment(run, conf):
    found = run("check", conf)
    assert found.exit_code == 0, found.output
    lines = [line.split() for line in found.output.splitlines()]
    assert ["1", "shared_buffers", "1GB", "1", "GB", "restart", "128", "MB", "ok"] in lines
    assert ["5", "fsync", "on", "on", "reload", "on", "default"] in lines
    assert "  line 2: port: pgdrag decides where its servers live and listen" in found.output
    assert (
        "  line 6: stats_temp_directory: no files elsewhere are written or removed without --allow-change"
        in found.output
    )
    assert "wal.conf:1" in found.output
    assert "  wal.conf, line 1: read 4 GB as 4GB" in found.output
    assert "log_checkpoints = off is run as on" in found.output
    assert "trials" not in found.output


def test_what_is_skipped_is_in_the_json(run, conf):
    found = json.loads(run("check", conf, "--json").output)
    assert found["skipped"] == [
        {
            "file": str(conf),
            "line": 2,
            "name": "port",
            "why": "pgdrag decides where its servers live and listen",
        },
        {
            "file": str(conf),
            "line": 6,
            "name": "stats_temp_directory",
            "why": "no files elsewhere are written or removed without --allow-change",
        },
    ]
    assert found["scales"] == []


def test_mistakes_of_a_file_and_of_what_it_includes_are_told_together(run, conf):
    (conf.parent / "conf.d/wal.conf").write_text("max_wal_size = 4QB\n")
    conf.write_text(CONF.replace("fsync", "fsink"))
    error = run("check", conf).exception
    assert isinstance(error, ExperimentError)
    assert error.message.startswith(f"{conf.parent}/conf.d/wal.conf:1: invalid value")
    assert error.detail == (
        f'{conf}:5: PostgreSQL 18.6 has no setting "fsink" (The nearest name it knows is "fsync".)'
    )


def test_a_file_of_settings_has_no_scale(run, conf):
    assert isinstance(run("check", conf, "--scale", "demo").exception, UsageError)


def test_each_treatments_dataset_is_kept_once_and_the_largest_is_copied(file):
    """Two rungs load more warehouses than the file's one: 60 MB, and 110 MB for each."""
    larger = TEXT.replace('name = "A1"', 'name = "A1"\nworkload = { warehouses = 3 }')
    file.write_text(larger.replace('name = "A2"', 'name = "A2"\nworkload = { max_tries = 1 }'))
    found = checked(file)
    assert found.scales[0].disk_bytes == (170 + 390 + 390) * 1_000_000 + 1024**3


@pytest.mark.parametrize(
    ("lacking", "taken"),
    [
        # The dataset that is copied, and each device whole.
        (None, 170_000_000 + 2 * 2 * 1024**3),
        # In the scratch directory, as without storage.
        ("only root may make and mount a file system", 2 * 170_000_000 + 1024**3),
    ],
)
def test_devices_are_taken_whole_where_they_can_be_had(file, monkeypatch, lacking, taken):
    file.write_text(STORED)
    monkeypatch.setattr("pgdrag.factors.storage._lacking_here", lambda: lacking)
    monkeypatch.setattr("pgdrag.factors.storage.find_program", lambda name: name)
    found = checked(file)
    assert first_mistake(found) is None
    assert found.scales[0].disk_bytes == taken
    assert len(found.problems) == (3 if lacking else 0)
    assert not any("needs about" in note for note in found.notes)


def test_a_device_that_is_too_small_for_the_dataset_is_named(file, monkeypatch):
    file.write_text(STORED.replace("2GB", "1GB"))
    monkeypatch.setattr("pgdrag.factors.storage._lacking_here", lambda: None)
    monkeypatch.setattr("pgdrag.factors.storage.find_program", lambda name: name)
    assert [note for note in checked(file).notes if "needs about" in note] == [
        'scale "demo" needs about 1.32 GB on ext4 on a loop device, which has 1 GB',
        # Copies share their blocks there.
        'scale "demo" needs about 1.16 GB on xfs on a loop device, which has 1 GB',
        'scale "long" needs about 1.32 GB on ext4 on a loop device, which has 1 GB',
        'scale "long" needs about 1.16 GB on xfs on a loop device, which has 1 GB',
    ]


def test_a_good_file_ends_with_0_and_prints_what_was_found(file, run):
    result = run("check", file)
    assert result.exit_code == 0
    for text in ("small: Small", "PostgreSQL 18.6", "shared_buffers", "restart", "45 s"):
        assert text in result.stdout


def test_untestable_levels_end_with_0_and_are_reported(file, run):
    result = run("check", file, "--postgres", "15", "--scale", "demo")
    assert result.exit_code == 0
    assert (
        'line 14: PostgreSQL 15.18 has no setting "io_workers". PostgreSQL 18 has it.'
        in result.stdout
    )


def test_mistakes_end_with_2_after_the_table(file, run):
    file.write_text(TEXT.replace("fsync", "fsink"))
    result = run("check", file)
    assert isinstance(result.exception, ExperimentError)
    assert result.exception.exit_status == 2
    assert "mistake" in result.stdout


def test_json_has_everything_that_is_printed(file, run):
    found = json.loads(run("check", file, "--json").stdout)
    assert found["server_version_num"] == 180006
    assert [x["line"] for x in found["levels"]] == [7, 8, 11, 14, 14]
    assert [x["name"] for x in found["scales"]] == ["demo", "long"]
    assert found["notes"] == ["A2 sets shared_buffers to 4MB in place of A1's 8MB"]


def test_corrections_of_pasted_text_are_reported(file, run):
    file.write_text(
        TEXT.replace(
            'setting = { shared_buffers = "8MB" }', "setting = '''\nshared_buffers: 8MB\n'''"
        )
    )
    result = run("check", file)
    assert result.exit_code == 0
    assert "Corrected in pasted text:\n  line 12: " in result.stdout


def test_one_scale_can_be_checked_alone(file, run):
    found = json.loads(run("check", file, "--scale", "long", "--json").stdout)
    assert [x["name"] for x in found["scales"]] == ["long"]


def test_the_schema_is_printed_without_a_file(run):
    assert json.loads(run("check", "--schema").stdout) == experiment_schema()


def test_without_a_file_there_is_nothing_to_check(run):
    assert isinstance(run("check").exception, UsageError)


def test_the_list_has_a_summary_of_everything(run):
    listing = make_listing()
    assert [x.name for x in listing.experiments] == [
        *("after-upgrade", "cache-and-read-ahead", "counters-in-production", "fastest"),
        "global-counters",
        *(
            "hot-table-readers",
            "os-io",
            "slow-42k-beliefs",
            "slow-42k",
            "slowest",
            "smallest-cache",
        ),
    ]
    printed = run("list").stdout
    for kinds in (
        listing.workloads,
        listing.designs,
        listing.factors,
        listing.collectors,
        listing.sections,
        listing.formats,
    ):
        assert kinds
        for name, summary in kinds.items():
            assert summary
            assert name in printed


def test_every_observation_is_listed_for_those_who_claim_one(run):
    printed = run("list", "--observations").stdout
    names = [one.name for one in make_listing().observations]
    assert set(names) == observation_names()
    assert all(name in printed for name in names)


def test_the_list_takes_the_summary_of_a_section_as_of_all_other_kinds():
    assert make_listing().sections["ladder"] == LadderSection.summary


def test_the_list_in_json_has_scales(run):
    found = json.loads(run("list", "--json").stdout)
    scales = {one["name"]: list(one["scales"]) for one in found["experiments"]}
    assert scales["slow-42k"] == ["demo", "standard", "paper"]
    assert "tpcc" in found["workloads"]


def test_nothing_that_a_file_names_is_started_and_what_is_not_known_is_said(run, tmp_path):
    """check asked ./evil/postgres for its version."""
    evil, mark = tmp_path / "evil", tmp_path / "mark"
    evil.mkdir()
    for name in ("postgres", "initdb", "pg_controldata"):
        (evil / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (evil / name).chmod(0o755)
    path = tmp_path / "stranger.toml"
    workload = f'kind = "command"\nprofile = "pgbench"\ncommand = "touch {mark}"\n'
    server = f'[baseline.server]\npostgres = "{evil}"\n'
    path.write_text(TEXT.replace('kind = "tpcc"\n', workload + server))
    said = " ".join(run("check", path).output.split())
    assert not mark.exists()
    assert f'the version of the server in "{evil}" is unknown, as nothing there was started' in said
    programs = said.partition("Not started, so not known to work: ")[2]
    assert programs.startswith(
        f"To be the server, runs: {evil} To put load on the server, runs in "
    )
    assert f"touch {mark}" in programs
    document = json.loads(run("check", path, "--json").output)
    assert [x["command"] for x in document["programs"]] == [str(evil), f"touch {mark}"]
