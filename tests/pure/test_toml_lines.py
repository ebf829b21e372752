"""Every key that tomllib reports is located on the line that has it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import pgdrag.catalog
from pgdrag.toml_lines import KeyLines, KeyPath

DOCUMENT = '''\
# a comment with [brackets] and key = 1
top = 1
"quoted key" = "a # b = c"
a.b . "c\\u0020d" = 2
many = [
  1, # one
  { x = "}", y = [ "]", ] },
  """
z = 3""", \'\'\'it''s\'\'\'\',
]

[[rungs]]
name = "first"
[rungs.setting]
work_mem = "1MB"

[[rungs]]
name = """ends with quotes: """""
setting = { work_mem = "2MB", nested.key = true }

[super.table]
text = \'\'\'
line 22
\'\'\'
[super]
late = 1979-05-27T07:32:00Z
'''


def key_paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from key_paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from key_paths(inner, (*path, index))


def test_keys_of_every_form_are_located():
    lines = KeyLines(DOCUMENT)
    assert lines.line(("a", "b", "c d")) == 4
    assert lines.line(("many", 1, "y", 0)) == 7
    assert lines.line(("many", 3)) == 9
    assert lines.line(("rungs", 0, "setting", "work_mem")) == 15
    assert lines.line(("rungs", 1, "setting", "work_mem")) == 19
    assert lines.line(("rungs", 1, "setting", "nested", "key")) == 19
    assert lines.line(("super", "late")) == 26


def test_all_that_tomllib_reports_is_found():
    lines = KeyLines(DOCUMENT)
    assert [path for path in key_paths(tomllib.loads(DOCUMENT)) if path not in lines] == []


def test_a_key_that_is_missing_is_sought_in_its_table():
    assert KeyLines(DOCUMENT).line(("rungs", 1, "setting", "absent")) == 19
    assert KeyLines(DOCUMENT).line(("absent",)) == 1


def test_pasted_text_begins_after_the_quotes_and_their_newline():
    assert KeyLines(DOCUMENT).line_of_text(("super", "table", "text")) == 23
    assert KeyLines(DOCUMENT).line_of_text(("quoted key",)) == 3


def test_the_shipped_experiments_are_located():
    for path in Path(next(iter(pgdrag.catalog.__path__))).glob("*.toml"):
        text = path.read_text()
        lines, source = KeyLines(text), text.split("\n")
        for key in key_paths(tomllib.loads(text)):
            assert key in lines
            if isinstance(key[-1], str):
                assert key[-1] in source[lines.line(key) - 1]


BARE = re.compile(r"[A-Za-z0-9_-]+")
KEYS = st.text(st.sampled_from("ab_-1 .\"'\\#=[]{},\té"), min_size=1, max_size=4)
SCALARS = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(st.sampled_from("a\"'\\#=[]{},\n\té"), max_size=6),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def written_string(draw, text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    if draw(st.booleans()):
        opening = '"""\n' if text.startswith("\n") or draw(st.booleans()) else '"""'
        return opening + escaped + '"""'
    return '"' + escaped.replace("\n", "\\n") + '"'


def written_key(draw, key):
    if BARE.fullmatch(key) and draw(st.booleans()):
        return key
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def written_value(draw, value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return written_string(draw, value)
    if isinstance(value, list):
        comma = draw(st.sampled_from([", ", ",\n", " , # ] , \n"]))
        return "[" + "".join(written_value(draw, x) + comma for x in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{written_key(draw, k)} = {written_value(draw, v)}" for k, v in value.items())
        return "{ " + ", ".join(pairs) + " }"
    return repr(value)


@st.composite
def documents(draw):
    """Text of a document whose tables, arrays of tables and dotted keys come in any form."""
    chunks = []
    for key, value in draw(st.dictionaries(KEYS, VALUES, max_size=3)).items():
        chunks.append(f"{written_key(draw, key)} = {written_value(draw, value)}\n")
    for name in draw(
        st.lists(st.sampled_from(["t1", "t2.u", "t3 . 'v'"]), max_size=3, unique=True)
    ):
        times = draw(st.integers(1, 2))
        header = f"[[{name}]]" if times > 1 or draw(st.booleans()) else f"[ {name} ]"
        for _ in range(times):
            chunks.append(f"\n{header} # [not] = a key\n")
            for key, value in draw(st.dictionaries(KEYS, VALUES, max_size=2)).items():
                chunks.append(f"k. {written_key(draw, key)}={written_value(draw, value)}\n")
            chunks.append("[" + name + ".below]\nx = 1\n")
    return "".join(chunks)


@given(documents())
def test_every_key_of_any_document_is_on_a_line_that_contains_it(text):
    lines, source = KeyLines(text), text.split("\n")
    for path in key_paths(tomllib.loads(text)):
        assert path in lines
        if isinstance(path[-1], str):
            escaped = path[-1].replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
            assert escaped in source[lines.line(path) - 1]
