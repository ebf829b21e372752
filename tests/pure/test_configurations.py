"""Files of settings as people have them: what each sets on a throw-away server, and what is skipped and why."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgdrag.errors import ConfError, UsageError
from pgdrag.experiment.applicable import applicable, skipped_words
from pgdrag.experiment.formats import (
    Source,
    all_formats,
    read_configuration,
    read_source,
    read_text,
)
from pgdrag.servers.conf import write_conf
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.testing.conformance_formats import FormatConformance

HERE = Path(__file__).parent / "configurations"

PLACE = "pgdrag decides where its servers live and listen"
TLS = "clients connect through a local socket, without certificates"
ARCHIVE = "nothing is archived or restored here without --allow-change"
CONNECTED = "no other server is connected to here without --allow-change"
STANDBYS = "there are no standbys here"
ELSEWHERE = "no files elsewhere are written or removed without --allow-change"
KNOWN_THERE = "a name that only that server knows"
LOCALE = "pgdrag's servers have the locale C"
SESSION = "part of the session that asked"
FORMULA = "a formula of the instance class; write the number that SHOW prints there"
UNKNOWN = "PostgreSQL 18.6 has no such setting"
REPORTS = 'parameter "{}" cannot be changed'
NO_LIBRARY = "this server has no such library"
DEFAULT = "at the default there"


WAL_COMPRESSION = (
    "wal_compression",
    "enum",
    None,
    None,
    None,
    ["pglz", "on", "off"],
    "user",
    "",
    "",
    "",
)
NO_LZ4 = 'this PostgreSQL is built without "lz4" for parameter "wal_compression"'


@dataclass(frozen=True)
class Expected:
    """What a file comes to: the settings by name, and by line each name that is skipped, with the reason."""

    format: str
    settings: dict[str, str]
    skipped: dict[tuple[int, str], str] = field(default_factory=dict)


EXPECTED = {
    "debian/postgresql.conf": Expected(
        "postgresql.conf",
        {
            "max_connections": "200",
            "shared_buffers": "2GB",
            "work_mem": "64MB",
            "dynamic_shared_memory_type": "posix",
            "max_wal_size": "1GB",
            "min_wal_size": "80MB",
            "log_line_prefix": "%m [%p] %q%u@%d ",
            "log_timezone": "Europe/Berlin",
            "cluster_name": "14/main",
            "datestyle": "iso, dmy",
            "timezone": "Europe/Berlin",
            "default_text_search_config": "pg_catalog.german",
            "random_page_cost": "1.1",
            "autovacuum_naptime": "20s",
            "autovacuum_vacuum_scale_factor": "0.05",
        },
        {
            (90, "include_if_exists 'local.conf'"): "no such file",
            (15, "data_directory"): PLACE,
            (17, "hba_file"): PLACE,
            (18, "ident_file"): PLACE,
            (21, "external_pid_file"): PLACE,
            (28, "port"): PLACE,
            (31, "unix_socket_directories"): PLACE,
            (35, "ssl"): TLS,
            (37, "ssl_cert_file"): TLS,
            (38, "ssl_key_file"): TLS,
            (70, "stats_temp_directory"): ELSEWHERE,
            (78, "lc_messages"): LOCALE,
            (79, "lc_monetary"): LOCALE,
            (80, "lc_numeric"): LOCALE,
            (81, "lc_time"): LOCALE,
        },
    ),
    "operators/cloudnativepg.yaml": Expected(
        "cloudnativepg",
        {
            "max_connections": "300",
            "shared_buffers": "4GB",
            "effective_cache_size": "12GB",
            "max_slot_wal_keep_size": "10GB",
            "pg_stat_statements.max": "10000",
            "archive_timeout": "5min",
            "shared_preload_libraries": "pg_stat_statements",
        },
        {
            (17, 'library "timescaledb"'): NO_LIBRARY,
            (17, 'library "pg_cron"'): NO_LIBRARY,
            (27, "timescaledb.max_background_workers"): NO_LIBRARY,
            (28, "cron.database_name"): NO_LIBRARY,
        },
    ),
    "operators/configmap.yaml": Expected(
        "configmap",
        {
            "shared_buffers": "512MB",
            "work_mem": "24MB",
            "bgwriter_delay": "50ms",
        },
        {
            (13, "include '/mnt/other.conf'"): "a ConfigMap includes no files",
            (16, "listen_addresses"): PLACE,
        },
    ),
    "operators/crunchy.yaml": Expected(
        "crunchy",
        {
            "max_parallel_workers": "2",
            "max_worker_processes": "2",
            "shared_buffers": "1GB",
            "work_mem": "4MB",
            "synchronous_commit": "on",
        },
    ),
    "operators/zalando.yaml": Expected(
        "zalando",
        {
            "shared_buffers": "32MB",
            "max_connections": "10",
            "log_statement": "all",
        },
    ),
    "patroni/config.json": Expected(
        "patroni",
        {
            "max_connections": "100",
            "track_io_timing": "true",
            "commit_delay": "0",
        },
        {(2, "wal_compression"): NO_LZ4},
    ),
    "patroni/patroni.yml": Expected(
        "patroni",
        {
            "max_connections": "500",
            "max_wal_senders": "10",
            "wal_level": "replica",
            "hot_standby": "on",
            "shared_buffers": "8GB",
            "work_mem": "64MB",
            "checkpoint_timeout": "900",
            "wal_log_hints": "on",
            "jit": "off",
            "log_min_duration_statement": "250ms",
        },
        {
            (42, "max_connections"): "Patroni reads this from its dynamic configuration only",
            (
                40,
                "custom_conf /etc/patroni/custom.conf",
            ): "a file of that server",
            (44, "unix_socket_directories"): PLACE,
            (45, "archive_command"): ARCHIVE,
        },
    ),
    "patroni/show-config.yml": Expected(
        "patroni",
        {
            "autovacuum_max_workers": "6",
            "autovacuum_vacuum_cost_limit": "2000",
            "effective_io_concurrency": "200",
            "log_lock_waits": "on",
            "max_connections": "500",
            "random_page_cost": "1.1",
            "vacuum_cost_delay": "0.5",
        },
        {
            (11, "shared_preload_libraries"): "null, which stands for the default",
        },
    ),
    "psql/dconfig.txt": Expected(
        "pg_settings",
        {
            "default_statistics_target": "500",
            "effective_cache_size": "48GB",
            "max_parallel_workers": "16",
            "seq_page_cost": "0.5",
            "wal_sync_method": "open_datasync",
        },
        {
            (4, "config_file"): PLACE,
            (7, "lc_messages"): LOCALE,
            (10, "server_encoding"): REPORTS.format("server_encoding"),
        },
    ),
    "psql/expanded.txt": Expected(
        "pg_settings",
        {
            "effective_io_concurrency": "200",
            "work_mem": "65536kB",
        },
    ),
    "psql/pg_settings.csv": Expected(
        "pg_settings",
        {
            "bgwriter_delay": "200ms",
            "log_line_prefix": "%m [%p] %q%u@%d, ",
            "maintenance_work_mem": "1048576kB",
            "shared_buffers": "2097152kB",
            "autovacuum_work_mem": "-1",
            "vacuum_cost_delay": "0.5",
        },
        {
            (2, "allow_in_place_tablespaces"): DEFAULT,
            (3, "application_name"): SESSION,
            (5, "block_size"): DEFAULT,
            (6, "data_directory"): "set by that server itself",
            (10, "statement_timeout"): "for one database only",
        },
    ),
    "psql/pg_settings.txt": Expected(
        "pg_settings",
        {
            "autovacuum_vacuum_cost_limit": "1000",
            "checkpoint_timeout": "900s",
            "log_line_prefix": "%m|%p|",
            "max_wal_size": "16384MB",
            "shared_buffers": "8388608kB",
            "wal_buffers": "-1",
        },
        {
            (8, "server_version"): REPORTS.format("server_version"),
        },
    ),
    "psql/json_agg.json": Expected(
        "pg_settings-json",
        {"shared_buffers": "1048576kB", "jit": "off"},
        {(1, "application_name"): SESSION},
    ),
    "operators/cut-out.yaml": Expected(
        "mapping", {"max_connections": "250", "work_mem": "12MB", "jit": "off"}
    ),
    "psql/pgadmin.csv": Expected(
        "pg_settings",
        {
            "work_mem": "16384kB",
            "log_autovacuum_min_duration": "-1",
        },
        {
            (3, "vacuum_cleanup_index_scale_factor"): "removed in PostgreSQL 14",
            (5, "unknown_to_any_version"): UNKNOWN,
        },
    ),
    "rhel/old.conf": Expected(
        "postgresql.conf",
        {
            "checkpoint_completion_target": "0.9",
            "wal_buffers": "16MB",
            "wal_keep_size": "512MB",
        },
        {
            (2, "checkpoint_segments"): "removed in PostgreSQL 9.5 (see max_wal_size)",
            (5, "vacuum_defer_cleanup_age"): "removed in PostgreSQL 16",
        },
    ),
    "rhel/postgresql.conf": Expected(
        "postgresql.conf",
        {
            "max_connections": "300",
            "shared_buffers": "4GB",
            "dynamic_shared_memory_type": "posix",
            "wal_level": "replica",
            "checkpoint_timeout": "15min",
            "max_wal_size": "8GB",
            "effective_cache_size": "12GB",
            "log_destination": "stderr",
            "logging_collector": "on",
            "log_directory": "log",
            "log_filename": "postgresql-%a.log",
            "log_rotation_age": "1d",
            "log_rotation_size": "0",
            "log_truncate_on_rotation": "on",
            "log_line_prefix": "%m [%p] ",
            "log_timezone": "UTC",
            "datestyle": "iso, mdy",
            "timezone": "UTC",
            "default_text_search_config": "pg_catalog.english",
        },
        {
            (3, "listen_addresses"): PLACE,
            (5, "ssl"): TLS,
            (6, "ssl_ciphers"): TLS,
            (7, "ssl_cert_file"): TLS,
            (8, "ssl_key_file"): TLS,
            (9, "krb_server_keyfile"): TLS,
            (10, "unix_socket_directories"): PLACE,
            (14, "archive_mode"): ARCHIVE,
            (15, "archive_command"): ARCHIVE,
            (18, "synchronous_standby_names"): STANDBYS,
            (19, "primary_conninfo"): CONNECTED,
            (32, "lc_messages"): LOCALE,
            (33, "lc_monetary"): LOCALE,
            (34, "lc_numeric"): LOCALE,
            (35, "lc_time"): LOCALE,
        },
    ),
    "services/azure.json": Expected(
        "azure",
        {
            "shared_buffers": "4194304kB",
            "work_mem": "4096kB",
            "checkpoint_timeout": "600s",
            "max_connections": "859",
        },
        {
            (138, "wal_compression"): NO_LZ4,
            (66, "azure.extensions"): "specific to Azure",
            (84, "pgbouncer.enabled"): "specific to Azure",
            (102, "block_size"): REPORTS.format("block_size"),
            (120, "data_directory"): PLACE,
            (156, "require_secure_transport"): "specific to Azure",
        },
    ),
    "services/cloud-sql-flags.json": Expected(
        "cloud-sql",
        {
            "max_parallel_workers_per_gather": "0",
            "autovacuum_vacuum_scale_factor": "0.02",
        },
    ),
    "services/cloud-sql.yaml": Expected(
        "cloud-sql",
        {
            "max_connections": "500",
            "work_mem": "65536",
            "random_page_cost": "1.1",
            "log_min_duration_statement": "300",
        },
        {
            (16, "cloudsql.iam_authentication"): "specific to Google Cloud SQL",
        },
    ),
    "services/rds.json": Expected(
        "rds",
        {
            "autovacuum_naptime": "15s",
            "max_wal_size": "2048MB",
            "effective_cache_size": "8388608kB",
            "synchronous_commit": "off",
            "track_io_timing": "1",
        },
        {
            (34, "max_connections"): FORMULA,
            (66, "shared_buffers"): FORMULA,
            (110, "vacuum_cost_page_miss"): DEFAULT,
            (13, "archive_command"): ARCHIVE,
            (55, "rds.force_ssl"): "specific to Amazon RDS",
        },
    ),
    "sql/alter-system.sql": Expected(
        "postgresql.conf",
        {
            "work_mem": "128MB",
            "random_page_cost": "1.1",
        },
        {
            (5, "search_path"): KNOWN_THERE,
            (7, "ALTER SYSTEM RESET jit"): "no ALTER SYSTEM above sets it",
            (8, "ALTER ROLE reporting SET work_mem"): "for one role only",
            (9, "ALTER DATABASE shop SET statement_timeout"): "for one database only",
        },
    ),
    "sql/postgresql.auto.conf": Expected(
        "postgresql.conf",
        {
            "work_mem": "48MB",
            "max_parallel_workers_per_gather": "0",
        },
        {
            (4, "primary_conninfo"): CONNECTED,
        },
    ),
    "sql/session.txt": Expected(
        "postgresql.conf",
        {
            "shared_buffers": "1GB",
            "max_wal_size": "4GB",
        },
    ),
}


def catalog() -> SettingsCatalog:
    """A server that knows the names that the files set, and some that only report."""
    known = {name.lower(): "user" for x in EXPECTED.values() for name in x.settings}
    known |= dict.fromkeys(("block_size", "server_version", "server_encoding"), "internal")
    rows = [(name, "string", None, None, None, None, of, "", "", "") for name, of in known.items()]
    libraries = ("auto_explain", "pg_stat_statements")
    return SettingsCatalog.from_rows(180006, [*rows, WAL_COMPRESSION], libraries)


def read(file: str) -> Expected:
    configuration = read_configuration(HERE / file)
    given, skipped = applicable(configuration, catalog())
    return Expected(
        configuration.format,
        {x.name: x.value for x in given},
        {(x.place.line, x.name): x.why for x in skipped},
    )


@pytest.mark.parametrize("file", EXPECTED)
def test_a_file_is_read_as_its_people_mean_it(file):
    assert read(file) == EXPECTED[file]


class TestEveryFormat(FormatConformance):
    @pytest.fixture(params=list(all_formats().values()), ids=list(all_formats()))
    def format_class(self, request):
        return request.param


def test_every_format_has_a_file():
    assert {x.format for x in EXPECTED.values()} == set(all_formats())


def test_no_file_is_left_out():
    files = {str(path.relative_to(HERE)) for path in HERE.rglob("*") if path.is_file()}
    included = {x for x in files if x.startswith(("debian/conf.d", "debian/shared"))}
    assert files - included == set(EXPECTED)
    assert len(EXPECTED) >= 20


def test_skipped_settings_are_reported_in_one_line_for_each_reason():
    configuration = read_configuration(HERE / "debian/postgresql.conf")
    _, skipped = applicable(configuration, catalog())
    assert skipped_words(skipped) == [
        "postgresql.conf, lines 15 to 31: data_directory, hba_file, ident_file, external_pid_file, "
        f"port and unix_socket_directories are not applied: {PLACE}",
        f"postgresql.conf, lines 35 to 38: ssl, ssl_cert_file and ssl_key_file are not applied: {TLS}",
        "postgresql.conf, line 70: stats_temp_directory is not applied: no files elsewhere are written or "
        "removed without --allow-change",
        "postgresql.conf, lines 78 to 81: lc_messages, lc_monetary, lc_numeric and lc_time are not "
        f"applied: {LOCALE}",
        "postgresql.conf, line 90: include_if_exists 'local.conf' is not applied: no such file",
    ]


def test_no_value_of_what_is_skipped_is_kept():
    """It may be a password, and what is skipped is stored with the study."""
    _, skipped = applicable(read_configuration(HERE / "rhel/postgresql.conf"), catalog())
    assert "s3cr3t" in (HERE / "rhel/postgresql.conf").read_text()
    assert "s3cr3t" not in repr(skipped)


def test_what_a_service_has_otherwise_is_skipped_and_what_a_person_mistyped_is_not(tmp_path):
    (tmp_path / "a.csv").write_text("name,setting\nwal_compression,brotli\njit_provider,x\n")
    (tmp_path / "a.conf").write_text("wal_compression = brotli\nwork_memm = 1\n")
    _, skipped = applicable(read_configuration(tmp_path / "a.csv"), catalog())
    assert [x.why for x in skipped] == [
        'invalid value for parameter "wal_compression": "brotli"',
        UNKNOWN,
    ]
    given_by_person, skipped = applicable(read_configuration(tmp_path / "a.conf"), catalog())
    assert ([x.name for x in given_by_person], skipped) == (["wal_compression", "work_memm"], ())


def test_libraries_are_left_as_they_are_where_it_is_not_known_which_there_are(tmp_path):
    (tmp_path / "a.conf").write_text(
        "shared_preload_libraries = 'timescaledb, $libdir/auto_explain.so'\n"
    )
    configuration = read_configuration(tmp_path / "a.conf")
    (one,), _ = applicable(configuration, catalog())
    assert one.value == "$libdir/auto_explain.so"
    (one,), skipped = applicable(configuration, replace(catalog(), libraries=frozenset()))
    assert (one.value, skipped) == ("timescaledb, $libdir/auto_explain.so", ())


LINES = str.maketrans("|-+", "│─┼")


@pytest.mark.parametrize(
    "text",
    [
        "| name | setting | unit |\n|---|---|---|\n| work_mem | 4096 | kB |\n",
        "name|setting|unit\nwork_mem|4096|kB\n(1 row)\n",
        "name\tsetting\tunit\nwork_mem\t4096\tkB\n",
        "+----------+---------+\n| name     | setting |\n+----------+---------+\n| work_mem | 4096kB  |\n+----------+---------+\n",
        " name     | setting \n----------+---------\n work_mem | 4096kB  \n".translate(LINES),
        "-[ RECORD 1 ]-----\nname    | work_mem\nsetting | 4096kB\n".translate(LINES),
        "+-[ RECORD 1 ]-------+\n| name    | work_mem |\n| setting | 4096kB   |\n+---------+----------+\n",
        " Parameter | Value  \n-----------+--------\n work_mem  | 4096kB \n Parameter | Value  \n-----------+--------\n work_mem  | 4096kB \n",
    ],
)
def test_a_table_is_read_however_it_is_drawn(text):
    (one,) = read_source(Source(Path("x"), text)).given
    assert (one.name, one.value) == ("work_mem", "4096kB")


# --- what is wrong, where, and what to do --------------------------------------------------

CLUSTER = (
    "apiVersion: postgresql.cnpg.io/v1\nkind: Cluster\nspec:\n  postgresql:\n    parameters:\n"
)
BOMB = "apiVersion: x\na: &a [x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghijklmn")
)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("work_mem = 4MB\nshared_buffers 8GB 25%\n", 2, "cannot tell what this line sets"),
        ("\ninclude 'missing.conf'\n", 2, "there is no such file"),
        ("include '/etc/hostname'\n", 1, "it is outside"),
        ("jit = on\ninclude_dir = '..'\n", 2, "it is outside"),
        ("include ''\n", 1, '"include" names nothing'),
        ("include 'this.conf'\n", 1, "includes itself"),
        ("jit = on\nfsync = o\0f\n", 2, "is not text"),
        (
            "postgresql:\n  parameters:\n    work_mem: 4MB\n   jit: off\n",
            4,
            "did not find expected",
        ),
        ("postgresql:\n  parameters:\n  - work_mem\n", 3, "not a mapping from name to value"),
        (
            "postgresql:\n  parameters:\n    a:\n      b: 4MB\n",
            4,
            'the value of "a" is not a scalar',
        ),
        ("postgresql:\n  parameters:\n    work mem: 4MB\n", 3, '"work mem" cannot be the name'),
        ("postgresql:\n  parameters: {}\n", 1, "no setting is given"),
        ("postgresql:\n  parameters:\n    a: \udcff\n", 3, "has a character that YAML forbids"),
        (f"{CLUSTER}      jit: off\n---\n{CLUSTER}      jit: on\n", 8, "holds settings twice"),
        (
            f"{CLUSTER}      jit: off\n---\nbootstrap:\n  dcs:\n    postgresql: {{parameters: {{a: 1}}}}\n",
            1,
            "holds settings twice",
        ),
        (f"# mine\n{CLUSTER}", 2, "no setting is given"),
        ("apiVersion: v1\nkind: Service\nspec:\n  ports: []\n", 1, "in a place that pgdrag knows"),
        ("{}", 1, "in a place that pgdrag knows"),
        ('{"work_mem": "4MB",\n"a": ["x"]}', 1, "in a place that pgdrag knows"),
        (BOMB, 14, "aliases"),
        ("[" * 100_000, 1, "more than 60 levels"),
        ('{"Parameters": [\n{"ParameterName": "work_mem",', 2, "did not find expected"),
        ('{"databaseVersion": "MYSQL_8_0",\n"settings": {}}', 1, "is an instance of MYSQL_8_0"),
        ('[{"type": "Microsoft.DBforMySQL/flexibleServers/configurations"}]', 1, "DBforMySQL"),
        ("name,setting,unit\nwork_mem,4096,kB\njit,on\n", 3, "the row has 2 columns"),
        ('name,setting\nwork_mem,4096\njit,"on\n', 3, "unexpected end of data"),
        (" name | setting \n------+---------\n jit  \n", 3, "the row has 1 columns"),
        (" name | setting \n------+---------\n(0 rows)\n", 1, "the table has no rows"),
        ("name,setting\n4096,work_mem\n", 2, '"4096" is not the name of a setting'),
        ("-[ RECORD 1 ]--\nname | jit\n-[ RECORD 2 ]--\nname | a\n", 1, 'no column "setting"'),
    ],
)
def test_an_error_names_the_line_and_the_remedy(tmp_path, text, line, message):
    path = tmp_path / "this.conf"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfError, match=re.escape(message)) as caught:
        read_configuration(path)
    assert (caught.value.path, caught.value.line) == (path, line)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert caught.value.hint


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.conf")
    with pytest.raises(UsageError, match="not a regular file"):
        read_configuration(tmp_path / "pipe.conf")


def test_a_file_is_read_up_to_a_limit(tmp_path):
    path = tmp_path / "large.conf"
    path.write_bytes(b"#" * 2_000_001)
    with pytest.raises(ConfError, match="is larger than any configuration"):
        read_configuration(path)


# --- included files ------------------------------------------------------------------------


def settings_of(path: Path) -> dict[str, str]:
    return {x.name: x.value for x in read_configuration(path).given}


def test_an_included_file_stands_in_the_place_of_its_line(tmp_path):
    (tmp_path / "b.conf").write_text("x = 2\ny = 2\n")
    (tmp_path / "a.conf").write_text("x = 1\ny = 1\ninclude 'b.conf'\ny = 3\n")
    assert settings_of(tmp_path / "a.conf") == {"x": "2", "y": "3"}


def test_a_directory_is_read_as_the_server_reads_it(tmp_path):
    """Names that end in .conf, none hidden, in the order of their bytes: capitals first."""
    (tmp_path / "d/e.conf").mkdir(parents=True)
    for name in (
        "b.conf",
        "B.conf",
        "a.conf",
        "10.conf",
        "9.conf",
        ".z.conf",
        "z.conf.bak",
        "é.conf",
    ):
        (tmp_path / "d" / name).write_text(f"last = '{name}'\nx.f{name.encode().hex()} = 1\n")
    (tmp_path / "a.conf").write_text("include_dir 'd'\n")
    found = settings_of(tmp_path / "a.conf")
    assert found.pop("last") == "é.conf"
    in_order = ["10.conf", "9.conf", "B.conf", "a.conf", "b.conf", "é.conf"]
    assert list(found) == [f"x.f{name.encode().hex()}" for name in in_order]


def test_a_path_is_looked_for_beside_the_file_that_has_it(tmp_path):
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "a.conf").write_text("include 'd/b.conf'\n")
    (tmp_path / "d/b.conf").write_text("include 'e/c.conf'\ninclude '../z.conf'\n")
    (tmp_path / "d/e/c.conf").write_text(f"x = 1\ninclude_if_exists '{tmp_path}/d/no.conf'\n")
    (tmp_path / "z.conf").write_text("y = 1\n")
    found = read_configuration(tmp_path / "a.conf")
    assert {str(x.place) for x in found.given} == {
        f"{tmp_path}/d/e/c.conf:1",
        f"{tmp_path}/d/../z.conf:1",
    }
    assert [x.why for x in found.skipped] == ["no such file"]


def test_an_include_directory_that_is_missing_is_reported(tmp_path):
    (tmp_path / "a.conf").write_text("x = 1\ninclude_dir = 'conf.d'\n")
    (skipped,) = read_configuration(tmp_path / "a.conf").skipped
    assert (skipped.name, skipped.place.line) == ("include_dir 'conf.d'", 2)
    assert skipped.why == "no such directory beside a.conf"


def test_a_link_is_where_it_leads(tmp_path):
    (tmp_path / "in/real").mkdir(parents=True)
    (tmp_path / "in/real/x.conf").write_text("x = 1\n")
    (tmp_path / "in/d").symlink_to("real")
    (tmp_path / "in/a.conf").write_text("include_dir 'd'\n")
    assert settings_of(tmp_path / "in/a.conf") == {"x": "1"}
    (tmp_path / "secret.conf").write_text("x = 2\n")
    (tmp_path / "in/real/y.conf").symlink_to("../../secret.conf")
    with pytest.raises(ConfError, match="it is a link to") as caught:
        read_configuration(tmp_path / "in/a.conf")
    assert str(caught.value).startswith(f"{tmp_path}/in/a.conf:1: ")


def test_the_directory_is_that_of_the_link_that_was_named(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/main.conf").write_text("include 'b.conf'\n")
    (tmp_path / "etc/b.conf").write_text("x = 1\n")
    (tmp_path / "mine.conf").symlink_to("etc/main.conf")
    (tmp_path / "b.conf").write_text("x = 2\n")
    assert settings_of(tmp_path / "mine.conf") == {"x": "2"}


def test_a_circle_and_a_nest_are_refused_where_they_close(tmp_path):
    for here, there in ("ab", "bc", "ca"):
        (tmp_path / f"{here}.conf").write_text(f"x = 1\ninclude '{there}.conf'\n")
    with pytest.raises(ConfError, match=r"c\.conf:2: .*a\.conf\" includes itself"):
        read_configuration(tmp_path / "a.conf")
    for number in range(13):
        (tmp_path / f"{number}.conf").write_text(
            f"x = {number}\ninclude_if_exists '{number + 1}.conf'\n"
        )
    with pytest.raises(ConfError, match=r"10\.conf:2: .* more than 10 files are nested"):
        read_configuration(tmp_path / "0.conf")
    assert settings_of(tmp_path / "2.conf") == {"x": "12"}  # ten below it


def test_few_small_files_cannot_become_many(tmp_path):
    for number in range(9):
        (tmp_path / f"{number}.conf").write_text(f"include '{number + 1}.conf'\n" * 9)
    (tmp_path / "9.conf").write_text("x = 1\n")
    with pytest.raises(ConfError, match="more than 500"):
        read_configuration(tmp_path / "0.conf")


def test_a_postgresql_auto_conf_beside_the_file_is_reported(tmp_path):
    (tmp_path / "postgresql.conf").write_text("x = 1\n")
    (tmp_path / "postgresql.auto.conf").write_text("x = 2\n")
    found = read_configuration(tmp_path / "postgresql.conf")
    assert [x.value for x in found.given] == ["1"]
    assert [x.name for x in found.skipped] == ["postgresql.auto.conf"]


# --- laws ----------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z_][a-z_0-9]{0,8}(\.[a-z_][a-z0-9_]{0,5})?", fullmatch=True).filter(
    lambda name: not name.startswith(("include", "null", "true", "false"))
)
VALUES = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=12
).map(str.strip)
SETTINGS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=6)


def as_csv(settings: dict[str, str]) -> str:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
        [("name", "setting", "unit"), *((*x, "") for x in settings.items())]
    )
    return file.getvalue()


def as_aligned(settings: dict[str, str]) -> str:
    """As psql prints it, for which a wide character is as wide as any other here."""
    rows = [("name", "setting", "unit"), *((name, value, "") for name, value in settings.items())]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    lines = [
        " " + " | ".join(x.ljust(width) for x, width in zip(row, widths, strict=True))
        for row in rows
    ]
    rule = "-" + "-+-".join("-" * width for width in widths) + "-"
    return "\n".join([lines[0], rule, *lines[1:], f"({len(settings)} rows)", ""])


def as_expanded(settings: dict[str, str]) -> str:
    return "".join(
        f"-[ RECORD {number} ]----\nname    | {name}\nsetting | {value}\nunit    | \n"
        for number, (name, value) in enumerate(settings.items(), start=1)
    )


def as_patroni(settings: dict[str, str]) -> str:
    return yaml.safe_dump({"ttl": 30, "postgresql": {"parameters": settings}}, allow_unicode=True)


def as_cluster(settings: dict[str, str]) -> str:
    spec = {"postgresql": {"parameters": settings}}
    return json.dumps(
        {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "spec": spec}, indent="\t"
    )


def as_config_map(settings: dict[str, str]) -> str:
    text = write_conf(settings)
    return yaml.safe_dump({"kind": "ConfigMap", "data": {"postgresql.conf": text}})


def as_rds(settings: dict[str, str]) -> str:
    rows = [{"ParameterName": name, "ParameterValue": value} for name, value in settings.items()]
    return json.dumps({"Parameters": rows})


@pytest.mark.parametrize(
    "written",
    [as_csv, as_aligned, as_expanded, as_patroni, as_cluster, as_config_map, as_rds, json.dumps],
)
@settings(max_examples=40)
@given(settings_written=SETTINGS)
def test_what_a_format_writes_is_read_back(written, settings_written):
    # A formula for Amazon, and what psql draws or prints below a table.
    assume(not any(re.search(r"[{}(]|^[-+|:= ]*$", x) for x in settings_written.values()))
    found = read_source(Source(Path("x"), written(settings_written)))
    assert {x.name: x.value for x in found.given} == settings_written


PIECES = "name|setting|unit|,|\n|\t| |\"|'|-[ RECORD 1 ]-|---+---|parameters|postgresql|:|{|}|[|]|&a|*a|<<|- |# |apiVersion"
PIECES += "|kind: ConfigMap|data|x.conf|!!python/object:os.system|Parameters|ParameterName|value|=|work_mem|1|\udcff|(1 row)|\x07|include 'x'"
FRAGMENTS = st.lists(st.sampled_from([*PIECES.split("|"), "|", "\n  ", "\n    "]), max_size=25).map(
    "".join
)


@given(st.one_of(st.text(max_size=80), FRAGMENTS))
def test_no_text_raises_anything_but_what_is_wrong_with_it(text):
    with contextlib.suppress(ConfError):
        read_source(Source(Path("/nowhere/x"), text))


@given(FRAGMENTS, st.sampled_from(sorted(EXPECTED)), st.integers(0, 3000))
def test_a_file_that_is_damaged_raises_nothing_else(damage, file, at):
    text = read_text(HERE / file)
    with contextlib.suppress(ConfError):
        read_source(Source(Path("/nowhere/x"), text[:at] + damage + text[at:]))


def test_a_correction_in_a_config_map_names_the_line_of_the_file():
    found = read_configuration(HERE / "operators/configmap.yaml")
    assert found.mends == ("configmap.yaml, line 20: read 50 ms as 50ms",)


def test_documents_are_not_executed():
    text = (
        "postgresql:\n  parameters:\n    a: !!python/object/apply:os.system ['false']\n    b: 1\n"
    )
    with pytest.raises(ConfError, match='the value of "a" is not a scalar'):
        read_source(Source(Path("x"), text))


def test_merged_mappings_count_less_than_what_is_beside_them():
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\npostgresql:\n  parameters:\n    <<: [*x, *y]\n    a: 3\n"
    found = read_source(Source(Path("x"), text))
    assert {x.name: x.value for x in found.given} == {"a": "3", "b": "1", "c": "2"}
