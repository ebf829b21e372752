from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgdrag.errors import ConfError
from pgdrag.experiment.pasted import effective, parse_pasted
from pgdrag.experiment.said import Given, Place
from pgdrag.servers.conf import INCLUDES, LineError, fold, parse_line, quote, write_conf

IDENTIFIERS = st.from_regex(r"[A-Za-z_é][A-Za-z_0-9é]{0,8}", fullmatch=True)
NAMES = st.one_of(IDENTIFIERS, st.builds("{}.{}".format, IDENTIFIERS, IDENTIFIERS)).filter(
    lambda name: not fold(name).startswith("include")
)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=20)
# Fragments that meet in interesting ways; plain random text is nearly always an error at once.
PIECES = "work_mem|=| = |'|''|\\|8MB|1e300| |#|--|;|,|:|a.b|“|”|\u00a0|•|SET |ALTER SYSTEM SET "
PIECES += '| TO |(|)|\n|\0|1.5|\\0|\\303|–|`|include|\r|"|...|\udc80'
FRAGMENTS = st.lists(st.sampled_from(PIECES.split("|")), max_size=12).map("".join)
TEXTS = st.one_of(st.text(max_size=60), FRAGMENTS)


def said(name: str, value: str, line: int) -> Given:
    return Given(name, value, Place(Path(), line))


def parse_strictly(text: str) -> list[Given]:
    """Return every setting of a text as the server's lexer splits its lines."""
    found = ((number, parse_line(line)) for number, line in enumerate(text.split("\n"), start=1))
    return [said(*setting, number) for number, setting in found if setting is not None]


def values(text: str) -> list[tuple[str, str]]:
    return [(line.name, line.value) for line in parse_strictly(text)]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("work_mem = 64MB", "work_mem", "64MB"),
        ("work_mem 64MB # the equal sign is optional", "work_mem", "64MB"),
        ("work_mem='64MB'#no blank needed", "work_mem", "64MB"),
        ("Work_Mem = 0x1F", "Work_Mem", "0x1F"),
        ("a.b = 'it''s \\'so\\''", "a.b", "it's 'so'"),
        (r"a = '\101\n\t\q'", "a", "A\n\tq"),
        (r"a = '\303\251'", "a", "é"),
        (r"a = 'cut\0here'", "a", "cut"),
        ("a = b.c.d", "a", "b.c.d"),
        ("a = -1.5e-3", "a", "-1.5e-3"),
        ("a = ''\r", "a", ""),
    ],
)
def test_a_line_reads_as_the_server_reads_it(text, name, value):
    assert parse_strictly(text) == [said(name, value, 1)]


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("a = 1e300", 'near token "300"'),
        ("a = 1.5GB", 'near token "GB"'),
        ("a = stderr,jsonlog", 'near token ","'),
        ("a = b.c", 'near token "b.c"'),
        ("a.b.c = 1", 'near token "a.b.c"'),
        ("a = 'open", 'near token "\'"'),
        ("a =", "near end of line"),
        ("a = on;", 'near token ";"'),
    ],
)
def test_a_syntax_error_names_the_token(text, near):
    with pytest.raises(LineError, match=re.escape(f"syntax error {near}")):
        parse_strictly(text)


@pytest.mark.parametrize("directive", ["include", "INCLUDE_DIR", "include_if_exists"])
def test_an_include_is_refused_by_its_name(directive):
    with pytest.raises(ConfError, match=f'line 2: cannot follow "{directive.lower()}"'):
        parse_pasted(f"\n{directive} = 'other.conf'")


def test_only_a_newline_ends_a_line():
    assert [line.place.line for line in parse_strictly("a = 'x\u2028\x85y'\n\nb = 2")] == [1, 3]


def test_the_last_line_counts_whatever_its_case():
    lines = parse_strictly("Work_Mem = 1\nfsync = on\nwork_mem = 2\nWORK_MEM = 3")
    assert effective(lines) == {"work_mem": lines[3], "fsync": lines[1]}


@given(st.dictionaries(NAMES, VALUES, max_size=5), VALUES)
def test_what_is_written_is_read_back(settings, header):
    assume(len({fold(name) for name in settings}) == len(settings))
    assert dict(values(write_conf(settings, header=header))) == settings


def test_a_header_of_two_lines_is_two_comments():
    assert write_conf({"a": "1"}, header="one\ntwo") == "# one\n# two\na = '1'\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"a": "x\ny"}, "newline"),
        ({"a": "x\0y"}, "NUL"),
        ({"a.b.c": "1"}, "cannot be the name"),
        ({"a = 1 #": "1"}, "cannot be the name"),
        ({"a\n": "1"}, "cannot be the name"),
        ({"include": "x"}, "cannot write"),
        ({"a": "1", "A": "2"}, "the same setting"),
    ],
)
def test_what_the_server_could_not_read_back_is_not_written(settings, message):
    with pytest.raises(ConfError, match=message):
        write_conf(settings)


def test_quoting_doubles_quotes_and_backslashes():
    assert quote(r"it's C:\x") == r"'it''s C:\\x'"


@given(TEXTS)
def test_no_text_raises_anything_but_what_is_wrong_with_it(text):
    with contextlib.suppress(LineError):
        parse_strictly(text)
    with contextlib.suppress(ConfError):
        parse_pasted(text)


@given(TEXTS.filter(lambda text: not set(text) - set(map(chr, range(128)))))
def test_strict_text_is_taken_as_it_stands(text):
    try:
        strict = parse_strictly(text)
    except LineError:
        return
    assume(not any(fold(line.name) in INCLUDES for line in strict))
    assert parse_pasted(text) == (strict, [])


@given(TEXTS)
def test_whatever_was_mended_can_be_written(text):
    try:
        lines, _ = parse_pasted(text)
    except ConfError:
        return
    settings = {line.name: line.value for line in effective(lines).values()}
    assume(not any("\n" in value for value in settings.values()))  # '\n' in strict quotes
    assert dict(values(write_conf(settings))) == settings


@pytest.mark.parametrize(
    ("text", "value", "what"),
    [
        ("x = 1e300", "1e300", "quoted 1e300, which the server reads as a syntax error unquoted"),
        ("x = stderr,jsonlog", "stderr,jsonlog", "quoted stderr,jsonlog, which"),
        ("x = 1.5GB", "1.5GB", "quoted 1.5GB"),
        ("x = a.b", "a.b", "quoted a.b"),
        ("x = %m_[%p]", "%m_[%p]", "quoted %m_[%p]"),
        ("x = read committed", "read committed", "quoted read committed"),
        ("x: 8MB", "8MB", 'read ":" as "="'),
        ("x := 8MB", "8MB", 'read ":=" as "="'),
        ("x = 8 MB", "8MB", "read 8 MB as 8MB"),
        ("x = 1,000", "1000", "read 1,000 as 1000"),
        ("x = 8MB -- was 4MB", "8MB", 'left out "-- was 4MB" after the value'),
        ("x = 8MB (was 4MB)", "8MB", 'left out "(was 4MB)" after the value'),
        ("x = '8MB' (was 4MB)", "8MB", 'left out "(was 4MB)" after the value'),
        ("x = 8MB;", "8MB", 'left out ";" after the value'),
        ("x = '8MB',", "8MB", 'left out "," after the value'),
        ("x = 8MB, # all of it", "8MB", "omitted the comma at the end"),
        ("x = “8MB”", "8MB", "read “8MB” as '8MB'"),
        ("x = ‘8MB’", "8MB", "read ‘8MB’ as '8MB'"),
        ('x = "8MB"', "8MB", "read \"8MB\" as '8MB'"),
        ("`x` = 8MB", "8MB", 'removed the marks around "x"'),
        ("`x = 8MB`", "8MB", "removed the backticks around the line"),
        ("• x = 8MB", "8MB", 'left out the bullet "•"'),
        ("2) x = 8MB", "8MB", 'left out the bullet "2)"'),
        ("x\u00a0=\u00a08MB", "8MB", "read typographic spaces as plain ones"),
        ("\ufeffx = 8MB", "8MB", "removed invisible characters"),
        ("x = –1", "-1", "read a typographic dash as a minus sign"),
        ("x = off — no archive", "off", "read a typographic dash as --"),
        ("x = 8MB; -- small", "8MB", 'left out "; -- small" after the value'),
        ("set x to 8MB;", "8MB", "read SET as a line of postgresql"),
        ("db=# SET x TO a, b;", "a, b", 'left out the prompt "db=#"'),
    ],
)
def test_a_pasted_line_is_mended_and_says_how(text, value, what):
    lines, mends = parse_pasted("\n" + text)
    assert lines == [said("x", value, 2)]
    assert mends[0].words.startswith(f"line 2: {what}")


@pytest.mark.parametrize(
    ("text", "values_in_force"),
    [
        ("ALTER SYSTEM SET x = 'C:\\d';", {"x": "C:\\d"}),
        ("alter system set x to 'a', 'b' ;", {"x": "a, b"}),
        ("ALTER SYSTEM SET x = 1; -- for now\nALTER SYSTEM RESET x;", {}),
        ("x = 1\nALTER SYSTEM SET x = 2;\nALTER SYSTEM SET x TO DEFAULT", {"x": "1"}),
        ("ALTER SYSTEM SET x = 1;\nALTER SYSTEM SET y = 2;\nALTER SYSTEM RESET ALL;", {}),
        (
            "db=# ALTER SYSTEM SET x = 1;\nALTER SYSTEM\ndb=# SELECT pg_reload_conf();\n t",
            {"x": "1"},
        ),
    ],
)
def test_alter_system_is_read_as_the_server_would_be_left(text, values_in_force):
    lines, _ = parse_pasted(text)
    assert {name: line.value for name, line in effective(lines).items()} == values_in_force


def test_a_setting_of_one_role_or_database_is_left_out_and_says_so():
    text = "x = 1\nALTER ROLE app SET x = 's3cret';\nalter database shop reset x;"
    lines, mends = parse_pasted(text)
    assert lines == [said("x", "1", 1)]
    assert [mend.words for mend in mends] == [
        'line 2: left out "ALTER ROLE app SET x": for one role only',
        'line 3: left out "alter database shop reset x": for one database only',
    ]


@pytest.mark.parametrize("text", ["```ini", "...", "-- shared memory", "// later", "\ufeff"])
def test_a_line_that_sets_nothing_is_skipped_and_says_so(text):
    lines, mends = parse_pasted(text)
    assert (lines, len(mends)) == ([], 1)


def test_typographic_quotes_inside_plain_ones_are_the_value():
    assert parse_pasted("x = 'it’s'")[0] == [said("x", "it’s", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "x = 4MB -> 8MB",
        "x = 4MB → 8MB",
        "x = on please",
        "x = 1; y = 2",
        "x = '1', y = '2'",
        "x = %m - %p",
        "x = 8GB, 25% of RAM",
        "x =",
        "x = 'open",
        "x = “open",
        "x = == 3",
        "SET x TO DEFAULT;",
        "this is prose, not a setting",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(text):
    with pytest.raises(ConfError, match="cannot tell what this line sets") as caught:
        parse_pasted(text)
    assert caught.value.hint


def test_a_line_that_is_far_too_long_is_refused():
    with pytest.raises(ConfError, match="a line of 60000 characters"):
        parse_pasted("\\'" * 30_000)
