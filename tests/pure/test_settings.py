from __future__ import annotations

import pytest

from pgdrag.errors import ConfError, SettingError
from pgdrag.factors import Here
from pgdrag.factors.setting import Setting as SettingFactor
from pgdrag.model import Level
from pgdrag.servers.conf import write_conf
from pgdrag.servers.settings import (
    NotInThisBuild,
    SettingsCatalog,
    UnknownSetting,
    version_text,
)

ROWS = [
    ("shared_buffers", "integer", "8kB", "16", "1073741823", None, "postmaster", "", "16384", ""),
    ("work_mem", "integer", "kB", "64", "2147483647", None, "user", "", "4096", ""),
    ("checkpoint_timeout", "integer", "s", "30", "86400", None, "sighup", "", "300", ""),
    ("max_connections", "integer", None, "1", "262143", None, "postmaster", "", "100", ""),
    ("log_file_mode", "integer", None, "0", "511", None, "sighup", "", "384", ""),
    ("random_page_cost", "real", None, "0", "1.79769e+308", None, "user", "", "4", ""),
    ("fsync", "bool", None, None, None, None, "sighup", "", "on", ""),
    (
        "wal_level",
        "enum",
        None,
        None,
        None,
        ["minimal", "replica"],
        "postmaster",
        "",
        "replica",
        "",
    ),
    ("wal_compression", "enum", None, None, None, ["pglz", "on", "off"], "user", "", "off", ""),
    (
        "client_min_messages",
        "enum",
        None,
        None,
        None,
        ["debug5", "debug2"],
        "user",
        "",
        "debug2",
        "",
    ),
    ("DateStyle", "string", None, None, None, None, "user", "", "ISO, MDY", ""),
    (
        "block_size",
        "integer",
        None,
        "8192",
        "8192",
        None,
        "internal",
        "",
        "8192",
        "A block's size.",
    ),
]
CATALOG = SettingsCatalog.from_rows(180006, ROWS)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("shared_buffers", "8MB", "1024"),
        ("SHARED_BUFFERS", "1.5GB", "196608"),
        ("sort_mem", "64MB", "65536"),  # work_mem's name before 8.0
        ("checkpoint_timeout", "1.5 min", "90"),
        ("log_file_mode", "0640", "0640"),
        ("random_page_cost", "1e300", "1e+300"),
        ("random_page_cost", "1.797693e308", "1.79769e+308"),  # above the bound as it is shown
        ("fsync", "F", "off"),
        ("wal_level", "Minimal", "minimal"),
        ("wal_level", "hot_standby", "replica"),
        ("wal_compression", "true", "pglz"),
        ("wal_compression", "no", "off"),
        ("client_min_messages", "debug", "debug2"),
        ("datestyle", "ISO, DMY", "ISO, DMY"),
        ("my_app.user_id", "any 'thing'", "any 'thing'"),
    ],
)
def test_a_value_is_shown_as_the_server_would(name, value, shown):
    assert CATALOG.canonical(name, value) == shown


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        (
            "shared_buffers",
            "64kB",
            '64kB is outside the valid range for parameter "shared_buffers" (128kB .. 8589934584kB)',
            None,
        ),
        (
            "shared_buffers",
            "10TB",
            '10TB is outside the valid range for parameter "shared_buffers" (128kB .. 8589934584kB)',
            None,
        ),
        (
            "shared_buffers",
            "8",
            '8 (64kB) is outside the valid range for parameter "shared_buffers" (128kB .. 8589934584kB)',
            None,
        ),
        (
            "max_connections",
            "0",
            '0 is outside the valid range for parameter "max_connections" (1 .. 262143)',
            None,
        ),
        (
            "random_page_cost",
            "-0.5",
            '-0.5 is outside the valid range for parameter "random_page_cost" (0 .. 1.79769e+308)',
            None,
        ),
        (
            "work_mem",
            "8mb",
            'invalid value for parameter "work_mem": "8mb"',
            'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".',
        ),
        ("max_connections", "8MB", 'invalid value for parameter "max_connections": "8MB"', None),
        (
            "wal_level",
            "maximal",
            'invalid value for parameter "wal_level": "maximal"',
            "Available values: minimal, replica.",
        ),
        ("fsync", "of course", 'parameter "fsync" requires a Boolean value, not "of course"', None),
    ],
)
def test_a_value_that_is_refused_is_refused_in_postgresqls_words(name, value, message, hint):
    with pytest.raises(SettingError) as caught:
        CATALOG.check(name, value)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_unknown_name_comes_with_the_nearest_one():
    with pytest.raises(UnknownSetting) as caught:
        CATALOG.check("shared_bufers", "8MB")
    assert caught.value.message == 'PostgreSQL 18.6 has no setting "shared_bufers"'
    assert caught.value.hint == 'The nearest name it knows is "shared_buffers".'


def test_a_name_like_no_other_has_no_hint():
    with pytest.raises(UnknownSetting) as caught:
        CATALOG.find("zzzzzz")
    assert caught.value.hint is None


@pytest.mark.parametrize("name", ["a.b.c", "a.b$c", "a$.b", ".b", "a."])
def test_a_custom_name_that_a_file_could_not_have_is_unknown(name):
    with pytest.raises(UnknownSetting):
        CATALOG.find(name)
    with pytest.raises(ConfError):
        write_conf({name: "1"})


def test_a_former_name_of_a_setting_that_this_version_lacks_is_unknown():
    with pytest.raises(UnknownSetting):
        CATALOG.find("force_parallel_mode")


def test_a_check_returns_the_setting_as_the_server_spells_it():
    assert CATALOG.check("datestyle", "ISO").name == "DateStyle"
    assert CATALOG.check("my_app.x", "1").category == "Customized Options"


@pytest.mark.parametrize(
    "ask",
    [
        lambda: CATALOG.check("block_size", "8192"),
        lambda: CATALOG.canonical("block_size", "8192"),
    ],
)
def test_what_only_reports_cannot_be_set(ask):
    with pytest.raises(SettingError, match='parameter "block_size" cannot be changed'):
        ask()


def test_a_catalogue_survives_a_cache():
    assert SettingsCatalog.from_json(CATALOG.to_json()) == CATALOG


@pytest.mark.parametrize("text", ["", "[]", "{}", CATALOG.to_json().replace('"unit"', '"units"')])
def test_a_cache_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="validation error"):
        SettingsCatalog.from_json(text)


def test_a_version_number_is_shown_as_people_say_it():
    assert (version_text(180006), version_text(150014)) == ("18.6", "15.14")


def test_a_value_of_another_build_is_no_mistake():
    with pytest.raises(NotInThisBuild, match='built without "lz4" for parameter "wal_compression"'):
        CATALOG.check("wal_compression", "LZ4")
    here = Here(CATALOG, CATALOG)
    asked = [Level("setting", "wal_compression", x) for x in ("lz4", "lz5", "on")]
    found = SettingFactor().check(asked, here)
    assert [(x.level.value, x.is_mistake) for x in found] == [("lz4", False), ("lz5", True)]
    assert found[0].hint.startswith("Available values: pglz, on, off. Choose another PostgreSQL")


def test_a_setting_that_was_removed_is_told_with_what_took_its_place():
    with pytest.raises(UnknownSetting) as caught:
        CATALOG.check("Checkpoint_Segments", "64")
    assert caught.value.hint == "Removed in PostgreSQL 9.5; see max_wal_size."
    old = SettingsCatalog.from_rows(120000, [("wal_keep_segments", *ROWS[3][1:])])
    assert (old.why_removed("wal_keep_segments"), old.check("wal_keep_segments", "64").name) == (
        "",
        "wal_keep_segments",
    )
