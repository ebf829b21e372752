"""A configuration has no effect beyond a throw-away server, unless somebody allows it by name."""

from __future__ import annotations

import pytest

from pgdrag.errors import ConfError
from pgdrag.experiment.arms import read_arm
from pgdrag.factors import Here
from pgdrag.factors.setting import Setting as SettingFactor
from pgdrag.model import Level
from pgdrag.servers.channel import channel_settings, merge_channel
from pgdrag.servers.settings import Setting, SettingsCatalog
from pgdrag.servers.side_effects import REACHING, why_not_applied

REACHES = [
    ("archive_mode", "on"),
    ("archive_mode", "always"),
    ("archive_command", "touch /x"),
    ("Archive_Command", "aws s3 cp %p s3://prod-wal/%f"),
    ("archive_library", "basic_archive"),
    ("archive_cleanup_command", "pg_archivecleanup /wal %r"),
    ("recovery_end_command", "touch /x"),
    ("restore_command", "cp /wal/%f %p"),
    ("ssl_passphrase_command", "touch /x"),
    ("plperl.on_init", "system('touch /x')"),
    ("plperl.on_plperlu_init", "system('touch /x')"),
    ("shared_preload_libraries", "/tmp/evil"),
    ("shared_preload_libraries", "pg_stat_statements, /tmp/evil.so"),
    ("shared_preload_libraries", '"/tmp/evil"'),
    ("session_preload_libraries", "$libdir/../../tmp/evil"),
    ("local_preload_libraries", "../evil"),
    ("jit_provider", "../../tmp/evil"),
    ("oauth_validator_libraries", "/tmp/evil"),
    ("dynamic_library_path", "/tmp:$libdir"),
    ("extension_control_path", "$system:/tmp"),
    ("extension_destdir", "/tmp/evil"),
    ("basebackup_to_shell.command", "cat > /x"),
    ("pljava.libjvm_location", "/tmp/evil.so"),
    ("primary_conninfo", "host=prod user=replicator"),
    ("log_destination", "stderr, syslog"),
    ("log_destination", '"SysLog"'),
    ("log_destination", "eventlog"),
    ("promote_trigger_file", "/var/lib/prod/trigger"),
    ("stats_temp_directory", "/run/prod"),
]
HARMLESS = [
    ("archive_mode", "off"),
    ("archive_command", ""),
    ("shared_preload_libraries", ""),
    ("shared_preload_libraries", "pg_stat_statements, $libdir/auto_explain.so"),
    ("shared_preload_libraries", "'pg_stat_statements','$libdir/plugins/x'"),
    ("jit_provider", "llvmjit"),
    ("dynamic_library_path", "$libdir"),
    ("extension_control_path", "$system"),
    ("extension_destdir", ""),
    ("log_destination", "stderr,csvlog"),
    ("work_mem", "8MB"),
]
NAMES = {name for name, _ in (*REACHES, *HARMLESS)}
CATALOG = SettingsCatalog(
    180006,
    {
        name.lower(): Setting(name, "string", None, None, None, (), "sighup", "", "", "")
        for name in NAMES
    },
)


def test_every_setting_of_the_table_is_tried():
    assert set(REACHING) == {name.lower() for name, _ in REACHES}


@pytest.mark.parametrize(("name", "value"), REACHES)
def test_what_reaches_beyond_the_server_needs_its_own_consent(name, value):
    def problems(*allowed):
        here = Here(CATALOG, CATALOG, allowed=frozenset(allowed))
        return SettingFactor().check([Level("setting", name, value)], here)

    (problem,) = problems("archive_timeout")
    assert not problem.is_mistake
    assert "is not applied in the laboratory: " in problem.message
    assert problem.hint == f"To apply it, add --allow-change {name}."
    assert problems(name.lower()) == []


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_what_stays_within_it_needs_none(name, value):
    assert why_not_applied(name, value) == ""


@pytest.mark.parametrize(("name", "value"), REACHES)
def test_a_line_of_a_pasted_file_is_left_out_and_named_until_it_is_allowed(tmp_path, name, value):
    path = tmp_path / "my.conf"
    quoted = value.replace("'", "''")
    path.write_text(f"work_mem = 8MB\n{name} = '{quoted}'\n")
    arm = read_arm(str(path), CATALOG)
    assert [level.name for level in arm.levels] == ["work_mem"]
    (note,) = arm.notes
    assert note.startswith(f"my.conf, line 2: {name} is not applied: ")
    assert note.endswith(" without --allow-change")
    allowed = read_arm(str(path), CATALOG, allowed=frozenset({name.upper()}))
    assert [(x.name.lower(), x.value) for x in allowed.levels[1:]] == [(name.lower(), value)]


def test_a_file_with_nothing_else_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "my.conf"
    path.write_text("archive_command = 'touch /x'\n")
    with pytest.raises(ConfError) as refused:
        read_arm(str(path), CATALOG)
    assert "archive_command is not applied: nothing is archived" in (refused.value.detail or "")


def test_the_deciding_settings_come_last(tmp_path):
    """As in PostgreSQL's own tests: what is written later counts."""
    channel = channel_settings(tmp_path, 180006)
    asked = {"LOG_DIRECTORY": "/tmp", "work_mem": "8MB", "log_destination": "syslog"}
    merged, _ = merge_channel(asked, channel)
    assert list(merged)[-len(channel) :] == list(channel)
    assert merged["log_directory"] == str(tmp_path)


def test_the_log_has_automatic_analyzes_where_they_have_a_setting_of_their_own(tmp_path):
    name = "log_autoanalyze_min_duration"
    assert [channel_settings(tmp_path, x).get(name) for x in (180006, 190000)] == [None, "0"]
