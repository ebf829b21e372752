"""Data from files, servers and programs is printed as it is: no markup, no escape sequences, no traceback."""

from __future__ import annotations

import pytest
from rich.text import Text

from pgdrag.cli.ending import print_error
from pgdrag.cli.place import plain_table, print_rows, stderr, stdout
from pgdrag.cli.plain_output import print_document
from pgdrag.errors import ExperimentError, UsageError
from pgdrag.experiment import load_experiment

DATA = "[user=%u] [/x] [red]a :smile: \x1b[31mb\x1b]0;c\x07 \x9b2J \u202ed \re"
SHOWN = "[user=%u] [/x] [red]a :smile: �[31mb�]0;c� �2J �d �e"


@pytest.mark.parametrize("wrapped", [str, Text], ids=["a string", "a text"])
def test_a_console_prints_what_is_there_and_nothing_else_happens(capsys, wrapped):
    for console in (stdout(piped_width=200), stderr()):
        console.print(wrapped(DATA), soft_wrap=True)
    printed = capsys.readouterr()
    # Rich takes a few of them out of its own texts.
    shown = SHOWN if wrapped is str else SHOWN.replace("c�", "c").replace("d �e", "d e")
    assert printed.out == f"{shown}\n"
    assert printed.err == f"{shown}\n"


def test_so_does_a_table_whose_columns_have_room_for_it(capsys):
    table = plain_table("name", "value")
    table.add_row("log_line_prefix", DATA)
    stdout(piped_width=200).print(table)
    assert capsys.readouterr().out.splitlines()[1].rstrip() == f"log_line_prefix  {SHOWN}"


def test_so_do_rows_documents_and_errors(capsys):
    print_rows(("run", "scale"), [("1", DATA)])
    print_document(f"# {DATA}")
    print_error(UsageError(DATA, detail=f"{DATA}\nand more", hint=DATA))
    printed = capsys.readouterr()
    assert printed.out == f"run  scale\n1    {SHOWN}\n# {SHOWN}\n"
    assert printed.err == f"error: {SHOWN}\ndetail: {SHOWN}\nand more\nhint: {SHOWN}\n"


def test_a_pasted_value_that_is_not_utf_8_is_a_mistake_with_its_line(tmp_path):
    """PostgreSQL's own escapes make such bytes of plain ASCII; the journal takes text."""
    path = tmp_path / "pasted.toml"
    path.write_text(
        'pgdrag = 1\nname = "pasted"\n[workload]\nkind = "tpcc"\n[[rungs]]\nname = "R1"\n'
        "setting = '''\nlog_line_prefix = '\\351'\n'''\n[scales.demo]\n"
    )
    with pytest.raises(ExperimentError, match=r"pasted\.toml:8: .*log_line_prefix.* must be UTF-8"):
        load_experiment(str(path))
