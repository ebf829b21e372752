from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.errors import SettingError, UsageError
from pgdrag.units import (
    INT_MAX,
    format_bytes,
    format_duration,
    format_interval,
    format_number,
    format_rate,
    format_ratio,
    parse_bool,
    parse_bytes,
    parse_seconds,
    same_value,
    to_base_integer,
    to_base_real,
)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("8MB", "8kB", 1024),
        ("8 MB ", "kB", 8192),
        ("1.5GB", "8kB", 196_608),
        ("30.1GB", "MB", 30_822),  # 30.1 * 1024 = 30822.4: whole MB first
        ("1.00001GB", "kB", 1_048_576),  # 1024.01 MB is 1024 MB
        ("100B", "kB", 0),
        ("512B", "kB", 0),  # half goes to even
        ("1536B", "kB", 2),
        ("1min", "ms", 60_000),
        ("90s", "min", 2),  # 1.5 goes to even
        ("500us", "ms", 0),
        ("1d", "s", 86_400),
        ("0x10", None, 16),
        ("010", None, 8),
        ("0x10MB", "kB", 16_384),
        ("1e3", None, 1000),
        (".5e1", None, 5),
        ("2.5", None, 2),
        ("-1", "8kB", -1),
        ("  7\t", None, 7),
        ("32MB", "16MB", 2),
    ],
)
def test_an_integer_setting_is_converted_as_the_server_does(value, unit, expected):
    assert to_base_integer(value, unit) == expected


@pytest.mark.parametrize(
    ("value", "unit", "hint"),
    [
        ("8 mb", "8kB", 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".'),
        ("1 hour", "s", 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".'),
        ("3000000000", None, "Value exceeds integer range."),
        ("99999999999999999999", None, "Value exceeds integer range."),
        ("4TB", "B", "Value exceeds integer range."),
        ("8MB", None, None),
        ("08", None, None),
        ("-.5", None, None),  # strtol stops at the sign
        ("inf", None, None),
        ("1e999", None, None),
        ("", None, None),
        ("9" * 5000, None, None),
    ],
)
def test_a_value_that_is_no_integer_is_refused_with_the_servers_hint(value, unit, hint):
    with pytest.raises(SettingError) as caught:
        to_base_integer(value, unit)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [("1e300", None, 1e300), ("0x1p3", None, 8.0), ("2s", "ms", 2000.0), ("1.5us", "ms", 0.0015)],
)
def test_a_real_setting_is_converted_as_the_server_does(value, unit, expected):
    assert to_base_real(value, unit) == expected


@pytest.mark.parametrize("value", ["nan", "1e999", "1e-400", "1,5", "x", "1ms"])
def test_a_value_that_is_no_real_is_refused(value):
    with pytest.raises(SettingError, match="invalid value"):
        to_base_real(value, None)


@given(st.integers(0, INT_MAX), st.sampled_from(["8kB", "kB", "MB", "B", "ms", "s", "min", None]))
def test_a_number_without_unit_is_in_the_base_unit(number, unit):
    assert to_base_integer(str(number), unit) == number


@given(st.text(max_size=12), st.sampled_from(["8kB", "ms", None]))
def test_no_text_is_an_error_of_another_kind(text, unit):
    for convert in (to_base_integer, to_base_real):
        try:
            number = convert(text, unit)
        except SettingError:
            continue
        assert not math.isnan(number)


def test_a_boolean_is_any_unique_prefix_in_any_case():
    assert [parse_bool(word) for word in ("on", "T", "yE", "1", "true")] == [True] * 5
    assert [parse_bool(word) for word in ("of", "F", "no", "0", "OFF")] == [False] * 5
    assert [parse_bool(word) for word in ("o", "", " on", "yess", "2")] == [None] * 5


@pytest.mark.parametrize(
    ("written", "shown", "vartype", "unit", "expected"),
    [
        ("1GB", "131072", "integer", "8kB", True),
        ("1GB", "131071", "integer", "8kB", False),
        ("0600", "0600", "integer", None, True),
        ("384", "0600", "integer", None, True),
        ("yes", "on", "bool", None, True),
        ("maybe", "off", "bool", None, False),
        ("1e300", "1e+300", "real", None, True),
        ("0.1234567", "0.123457", "real", None, True),
        ("MINIMAL", "minimal", "enum", None, True),
        ("true", "on", "enum", None, True),
        ("on", "pglz", "enum", None, True),  # wal_compression
        ("off", "pglz", "enum", None, False),
        ("debug", "debug2", "enum", None, True),
        ("debug", "debug1", "enum", None, False),
        ("iso,dmy", "ISO, DMY", "string", None, True),
        ("iso, mdy", "ISO, DMY", "string", None, False),
        ("csvlog", "stderr", "string", None, False),
        ("8 lemons", "8", "integer", "8kB", False),
    ],
)
def test_a_written_value_is_compared_with_the_one_shown(written, shown, vartype, unit, expected):
    assert same_value(written, shown, vartype=vartype, unit=unit) is expected


def test_typed_quantities_have_a_default_unit():
    assert [parse_bytes(text) for text in ("512", "1.5 GB", "8kB")] == [512, 1_610_612_736, 8192]
    assert [parse_seconds(text) for text in ("90", "1.5min", "250 ms")] == [90, 90, 0.25]


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_bytes, "8mb", '"8mb" is not a size'),
        (parse_bytes, "1,5", '"1,5" is not a size'),  # neither 15 nor 1.5 for certain
        (parse_bytes, "1e999", "too large"),
        (parse_seconds, "an hour", '"an hour" is not a duration'),
        (parse_seconds, "-1", '"-1" is not a duration'),
    ],
)
def test_a_mistyped_quantity_is_refused_with_the_units(parse, text, message):
    with pytest.raises(UsageError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (8_388_608, "8 MB"),
        (1.5 * 2**30, "1.5 GB"),
        (1023.7 * 1024, "1 MB"),  # never 1,024 kB
        (-8192, "-8 kB"),
        (5000 * 2**60, "5,000 EB"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit_that_fits(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2.5e-7, "250 ns"),
        (0.00025, "250 µs"),
        (0.0123, "12.3 ms"),
        (0.99996, "1 s"),
        (1.5, "1.5 s"),
        (59.96, "1 min"),
        (80, "1 min 20 s"),
        (3599.6, "1 h"),
        (7500, "2 h 5 min"),
        (86_399, "1 d"),
        (273_600, "3 d 4 h"),
        (-80, "-1 min 20 s"),
    ],
)
def test_a_duration_is_shown_in_at_most_two_units(seconds, text):
    assert format_duration(seconds) == text


def test_rates_over_nine_orders_of_magnitude_are_plain_digits():
    rates = (0.0000238, 0.34, 12.345, 999.6, 1187.4, 12_345_678)
    assert [format_rate(rate) for rate in rates] == [
        "0.0000238/s",
        "0.34/s",
        "12.3/s",
        "1,000/s",
        "1,187/s",
        "12,345,700/s",
    ]


def test_a_ratio_is_never_turned_round():
    ratios = (3512, 7.2, 1.03, 1.003, 1, 0.97, 0.5, 1 / 7.2, 1 / 72, 1 / 42_000, 0, math.inf)
    assert [format_ratio(ratio) for ratio in ratios] == (
        [
            "3,510×",
            "7.2×",
            "1.03×",
            "1.003×",
            "1.00×",
            "0.97×",
            "0.5×",
            "0.139×",
            "1/72",
            "1/42,000",
            "0×",
            "∞×",
        ]
    )


def test_an_interval_shows_enough_digits_to_tell_its_ends_apart():
    assert format_interval(1.01, 1.03, 1.05) == "1.03× (1.01× to 1.05×)"
    assert format_interval(1.00011, 1.00012, 1.00013) == "1.00012× (1.00011× to 1.00013×)"
    assert format_interval(1e-62, 1.5, 1.04e62) == "1.5× (1/10^62 to 10^62×)"
    assert format_interval(0, 1 / 72, math.inf) == "1/72 (0× to ∞×)"


@given(st.floats(1e-4, 1e6))
def test_a_number_shown_is_within_half_a_percent(number):
    shown = float(format_number(number).replace(",", ""))
    assert math.isclose(shown, number, rel_tol=0.005)


@given(st.integers(0, 900 * 2**40))
def test_a_size_shown_can_be_typed_again(size):
    assert math.isclose(parse_bytes(format_bytes(size)), size, rel_tol=0.006)
