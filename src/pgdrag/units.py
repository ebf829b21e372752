"""How large is "1.5GB" to a setting that counts blocks of 8 kB, and how is a number shown?

The first half reads values exactly as the server does (guc.c, `parse_int`, `parse_real`,
`parse_bool`), so that a value written can be compared with a value read back.  The second half
reads what people type on the command line, and the third writes numbers for people.
"""

from __future__ import annotations

import math
import re
import sys

from pgdrag.errors import PgdragError, SettingError, UsageError

# --- as the server reads -------------------------------------------------------------------

_BYTES = {"TB": 1024**4, "GB": 1024**3, "MB": 1024**2, "kB": 1024, "B": 1}
_MICROSECONDS = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
_BASE_UNIT = re.compile(r"(\d*)([A-Za-z]+)")
_C_SPACES = " \t\n\v\f\r"
INT_MAX = 2**31 - 1
INT_MIN = -(2**31)

# What strtol (base 0) and strtod take from the start of a text.
_C_INTEGER = re.compile(r"[ \t\n\v\f\r]*([-+]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_C_REAL = re.compile(
    r"[ \t\n\v\f\r]*([-+]?(?:"
    r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][-+]?[0-9]+)?|"
    r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|"
    r"(?:infinity|inf|nan)))",
    re.IGNORECASE | re.ASCII,
)


def parse_bool(value: str) -> bool | None:
    """Return what the server takes a word for, or None: any case, and any prefix that is unique."""
    word = value.lower()
    if word in ("1", "on") or (word and ("true".startswith(word) or "yes".startswith(word))):
        return True
    if word in ("0", "of", "off") or (word and ("false".startswith(word) or "no".startswith(word))):
        return False
    return None


def to_base_integer(value: str, unit: str | None) -> int:
    """Return an integer setting's value in its base unit, rounded half to even.

    Args:
        value: as written: decimal, hexadecimal, octal or a fraction, and a unit if it has one.
        unit: the setting's base unit as pg_settings has it (`8kB`, `ms`), None if it has none.

    Raises:
        SettingError: the server would refuse the value whatever the bounds; the hint is its own.
    """
    match = _C_INTEGER.match(value)
    number, rest = (0.0, value) if match is None else (_strtol(match), value[match.end() :])
    if math.isinf(number) or rest.startswith((".", "e", "E")):
        number, rest = _strtod(value)
    elif match is None:
        raise _refused(value)
    number = _round_half_even(_with_unit(value, number, rest, unit))
    if not INT_MIN <= number <= INT_MAX:
        raise _refused(value, hint="Value exceeds integer range.")
    return int(number)


def to_base_real(value: str, unit: str | None) -> float:
    """Return a real setting's value in its base unit; arguments and errors as above."""
    number, rest = _strtod(value)
    return _with_unit(value, number, rest, unit)


def _strtol(match: re.Match[str]) -> float:
    digits = match[2]
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    if len(digits) > 1000:
        return math.inf  # int() refuses very long numbers
    number = int(match[1] + digits, 8 if is_octal else 0)
    return float(number) if -(2**63) <= number < 2**63 else math.inf


def _strtod(value: str) -> tuple[float, str]:
    match = _C_REAL.match(value)
    if match is None:
        raise _refused(value)
    text = match[1]
    is_hex = "x" in text.lower()
    try:
        number = float.fromhex(text) if is_hex else float(text)
    except OverflowError:
        number = math.inf
    is_named = text[-1] in "fFnNyY" and not is_hex
    has_digits = bool(re.search(r"[1-9a-fA-F]", re.split(r"[pP]" if is_hex else "[eE]", text)[0]))
    is_out_of_range = not is_named and (
        math.isinf(number) or (has_digits and abs(number) < sys.float_info.min)
    )
    if math.isnan(number) or is_out_of_range:
        raise _refused(value)
    return number, value[match.end() :]


def _with_unit(value: str, number: float, rest: str, unit: str | None) -> float:
    """Return number in the base unit, after the unit that rest holds, if any."""
    rest = rest.strip(_C_SPACES)
    if not rest:
        return number
    if unit is None:
        raise _refused(value)
    match = _BASE_UNIT.fullmatch(unit)
    assert match is not None, f"pg_settings.unit is {unit!r}"
    scale = _BYTES if match[2] in _BYTES else _MICROSECONDS
    base = int(match[1] or 1) * scale[match[2]]
    units = list(scale)
    if rest not in scale:
        names = [f'"{name}"' for name in reversed(units)]
        listed = f"{', '.join(names[:-1])}, and {names[-1]}"
        raise _refused(value, hint=f"Valid units for this parameter are {listed}.")
    number *= scale[rest] / base
    if rest != units[-1]:
        # "30.1GB" is taken for a whole number of MB first, so that what is shown can be written.
        smaller = scale[units[units.index(rest) + 1]] / base
        number = _round_half_even(number / smaller) * smaller
    return number


# What people write for units: "4g", "30 seconds".
_MEANT_UNITS = {
    "kB": ("k", "kb", "kib", "kilobyte", "kilobytes"),
    "MB": ("m", "mb", "mib", "megabyte", "megabytes"),
    "GB": ("g", "gb", "gib", "gigabyte", "gigabytes"),
    "TB": ("t", "tb", "tib", "terabyte", "terabytes"),
    "ms": ("ms", "msec", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours", "hr", "hrs"),
    "d": ("d", "day", "days"),
}
_WRITTEN = re.compile(r"\s*([-+]?[\d.,]+)\s*([A-Za-z]*)\s*")


def near_number(value: str, unit: str | None) -> str:
    """Return the number that a person meant by one that the server refuses: "4GB" for "4g", "1.1" for "1,1", "1000" for "1,000"; or ""."""
    found = _WRITTEN.fullmatch(value)
    if found is None:
        return ""
    is_grouped = re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+", found[1])
    number, word = found[1].replace(",", "" if is_grouped else "."), found[2].lower()
    base = (unit or "").lstrip("0123456789")
    scale = _BYTES if base in _BYTES else _MICROSECONDS if base in _MICROSECONDS else {}
    meant = next((x for x in scale if word in _MEANT_UNITS.get(x, ())), "")
    mended = f"{number}{meant}"
    if (word and not meant) or mended == value.strip():
        return ""
    try:
        to_base_real(mended, unit)
    except SettingError:
        return ""
    return mended


def _round_half_even(number: float) -> float:
    return number if math.isinf(number) else float(round(number))


def _refused(value: str, *, hint: str | None = None) -> SettingError:
    return SettingError(f'invalid value: "{value}"', hint=hint)


def with_base_unit(shown: str, unit: str | None) -> str:
    """Return a value of pg_settings with its unit: 131072kB for 16384 of 8kB.

    What is no whole number, or of no such unit, is returned as it is: -1, a fraction, `on`.
    """
    match = _BASE_UNIT.fullmatch(unit or "")
    is_known = match is not None and match[2] in {**_BYTES, **_MICROSECONDS}
    if match is None or not is_known or not (shown.isascii() and shown.isdigit()):
        return shown
    return f"{int(shown) * int(match[1] or 1)}{match[2]}"


# What an enum that has on and off takes for them without listing it in pg_settings.enumvals.
HIDDEN_SWITCHES = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}


def same_value(written: str, shown: str, *, vartype: str, unit: str | None) -> bool:
    """Tell whether a value as written is what the server shows (pg_settings.setting).

    Args:
        written: as a file or a person has it, such as `1GB` or `yes`.
        shown: pg_settings.setting, in the base unit.
        vartype: pg_settings.vartype.
        unit: pg_settings.unit; None where NULL.
    """
    try:
        if vartype == "bool":
            return parse_bool(written) is not None and parse_bool(written) == parse_bool(shown)
        if vartype == "integer":
            return to_base_integer(written, unit) == to_base_integer(shown, None)
        if vartype == "real":
            # The server shows six digits (%g).
            return f"{to_base_real(written, unit):g}" == f"{to_base_real(shown, None):g}"
    except SettingError:
        return False
    if vartype != "enum":
        return _parts(written) == _parts(shown)
    word, shown = written.lower(), shown.lower()
    switched = HIDDEN_SWITCHES.get(word, word)
    # Only wal_compression takes "on" and shows "pglz"; the levels of messages take "debug".
    return shown in (word, switched) or (switched, shown) in (("on", "pglz"), ("debug", "debug2"))


def _parts(text: str) -> list[str]:
    """Return what a string lists, in a form for comparing: "iso, dmy" is shown as "ISO, DMY"."""
    return sorted(part.strip().lower() for part in text.split(","))


# --- as people type ------------------------------------------------------------------------

_TYPED = re.compile(
    r"\s*((?:\d{1,3}(?:[,_]\d{3})+|\d+)(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*([A-Za-zµ]*)\s*"
)


def parse_bytes(text: str) -> int:
    """Return a size in bytes from `512MB`, `1.5 GB` or a plain number; kB is 1024.

    Raises:
        UsageError: it is none; the hint names the units.
    """
    return round(_parse_typed(text, _BYTES, "B", "a size"))


def parse_seconds(text: str) -> float:
    """Return seconds from `90`, `1.5min` or `250 ms`; a plain number is seconds."""
    scale = {name: us / 1_000_000 for name, us in _MICROSECONDS.items()}
    return _parse_typed(text, scale, "s", "a duration")


def size_of(value: str) -> float | None:
    """Return a value as a number, in bytes or seconds where it has a unit; None where it is none."""
    for read in (float, parse_bytes, parse_seconds):
        try:
            return float(read(value))
        except (ValueError, PgdragError):
            continue
    return None


def _parse_typed(
    text: str, scale: dict[str, int] | dict[str, float], base: str, what: str
) -> float:
    match = _TYPED.fullmatch(text)
    unit = "" if match is None else match[3]
    if match is None or (unit or base) not in scale:
        units = ", ".join(f'"{name}"' for name in reversed(scale))
        if text.startswith("-") and _TYPED.fullmatch(text[1:]):
            raise UsageError(f'"{text}" is not {what}: it is negative')
        raise UsageError(f'"{text}" is not {what}', hint=f"Valid units are {units}.")
    number = float(re.sub("[_,]", "", match[1]) + (match[2] or "")) * scale[unit or base]
    if math.isinf(number):
        raise UsageError(f'"{text}" is too large for {what}')
    return number


# --- for people to read --------------------------------------------------------------------

LAST_UNIX_S = (
    253_402_300_799  # of the year 9999, datetime's last: beyond it no moment can be written
)


def significant(number: float, digits: int = 6) -> float:
    """Return a number rounded to significant digits; files keep six of what was measured."""
    return float(f"{number:.{digits}g}")


def format_number(number: float, *, significant: int = 3) -> str:
    """Return a number in plain digits: `1,187`, `0.34`, `0.0000238`; integers lose no digit < 10^6.

    A fraction keeps `significant` digits, without zeros at the end.
    """
    if not math.isfinite(number):
        return "unknown" if math.isnan(number) else ("∞" if number > 0 else "-∞")
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(abs(number)))
    decimals = significant - 1 - exponent
    if decimals <= 0:
        # Above three digits people want the whole number, but no false millionths.
        return f"{round(number, min(0, 5 - exponent)):,.0f}"
    text = f"{number:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_bytes(size: float) -> str:
    """Return a size as `8 MB` or `1.5 GB`; kB is 1024, as in PostgreSQL."""
    return _largest_unit(size, (("B", 1), *((f"{p}B", 1024**i) for i, p in _PREFIXES)))


_PREFIXES = tuple(enumerate("kMGTPE", start=1))


def _largest_unit(number: float, scale: tuple[tuple[str, float], ...]) -> str:
    """Return number in the largest unit of which it has at least one, after rounding."""
    if not math.isfinite(number) or number == 0:
        return f"{format_number(number)} {scale[0][0]}"
    text = ""
    for at, (unit, size) in enumerate(scale):
        shown = float(f"{number / size:.3g}")
        if abs(shown) >= 1000:
            shown = round(number / size)
        text = f"{format_number(shown)} {unit}"
        if at + 1 < len(scale) and abs(shown) < scale[at + 1][1] / size:
            break
    return text


def format_duration(seconds: float) -> str:
    """Return a duration as `250 µs`, `12.3 ms`, `1.5 s`, `1 min 20 s`, `2 h 5 min` or `3 d 4 h`."""
    if not math.isfinite(seconds):
        return f"{format_number(seconds)} s"
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds == 0:
        return "0 s"
    if seconds < 59.95:
        scale = (("ns", 0.001), ("µs", 1.0), ("ms", 1_000.0), ("s", 1_000_000.0))
        return _largest_unit(seconds * 1_000_000, scale)
    if round(seconds) < 3_600:
        (large, small), units = divmod(round(seconds), 60), ("min", "s")
    elif round(seconds / 60) < 1_440:
        (large, small), units = divmod(round(seconds / 60), 60), ("h", "min")
    else:
        (large, small), units = divmod(round(seconds / 3_600), 24), ("d", "h")
    return f"{large:,} {units[0]}" + (f" {small} {units[1]}" if small else "")


def format_rate(per_s: float) -> str:
    """Return a rate as `0.34/s` or `1,187/s`; always per second, so that two can be compared."""
    return f"{format_number(per_s)}/s"


_BEYOND = 1e9  # nobody reads the digits of such a ratio


def format_ratio(ratio: float, *, significant: int = 3) -> str:
    """Return a ratio as `3,500×`, `1.03×`, `0.46×` or, when below a tenth, as `1/72`.

    It is never turned round: over 1 is more than the baseline, whatever is counted.  Within 1 %
    of no change a digit is added (`1.003×`), and what rounds to 1 is `1.00×`.  What few pairs leave
    open is a power of ten (`10^62×`).
    """
    if not math.isfinite(ratio) or ratio <= 0:
        return f"{format_number(ratio)}×"
    if ratio < 0.1:
        return f"1/{_ratio_digits(1 / ratio, significant)}"
    if abs(ratio - 1) < 0.01:
        return f"{ratio:.{significant}f}×" if round(ratio, significant) != 1 else "1.00×"
    return f"{_ratio_digits(ratio, significant)}×"


def _ratio_digits(ratio: float, significant: int) -> str:
    if _BEYOND <= ratio < math.inf:
        return f"10^{math.log10(ratio):.0f}"
    return format_number(float(f"{ratio:.{significant}g}"), significant=significant)


def format_interval(low: float, center: float, high: float) -> str:
    """Return a ratio with its interval, `1.03× (1.01× to 1.05×)`; the ends may be 0 and infinite.

    It has as many digits (3 to 6) as it takes to tell the three apart.
    """
    texts: list[str] = []
    for significant in range(3, 7):
        texts = [format_ratio(value, significant=significant) for value in (low, center, high)]
        if len(set(texts)) == len({low, center, high}):
            break
    return f"{texts[1]} ({texts[0]} to {texts[2]})"
