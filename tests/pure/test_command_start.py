"""The command line starts quickly, and says in one line each what its commands do."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pgdrag.cli import COMMANDS, app, load_command
from pgdrag.cli.completions import completion_script
from pgdrag.host import guardian

SCIPY = {"scipy", "scipy.special"}
HEAVY = SCIPY | {
    "scipy.stats",
    "scipy.optimize",
    "scipy.linalg",
    "jinja2",
    "numpy",
    "psycopg",
    "pydantic",
    "rich",
    "pgdrag.model",
}
FOUND = SCIPY | {"numpy", "pydantic", "rich", "pgdrag.model"}


# Typer itself takes pydantic to read some commands' arguments.
@pytest.mark.parametrize(
    ("arguments", "imported"),
    [
        (["--help"], set()),
        (["compare", "--help"], {"pydantic"}),
        (["check", "--help"], {"pydantic"}),
        (["completions", "bash"], {"pydantic", "pgdrag.model"}),
        (["runs"], {"pydantic", "rich"}),
        (["show", "compare"], FOUND),
        (["report", "old-ladder", "--output", os.devnull], FOUND | {"jinja2"}),
    ],
)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(
    arguments: list[str], imported: set[str], old_home: Path
) -> None:
    run = f"import sys\nfrom pgdrag.cli import app\napp({arguments!r}, standalone_mode=False)\nprint(*sys.modules)"
    assert heavy_after(run, PGDRAG_HOME=str(old_home)) == imported


def heavy_after(program: str, **environment: str) -> set[str]:
    """Return which heavy modules a program has imported, whose last line has all modules."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return HEAVY & set(done.stdout.splitlines()[-1].split())


def test_what_clears_up_for_the_guardian_imports_little() -> None:
    run = "import sys, pgdrag.cli.aftermath; print(*sys.modules)"
    assert heavy_after(run) == {"pydantic"}


def test_the_guardian_imports_next_to_nothing() -> None:
    nodes = list(ast.walk(ast.parse(guardian._SCRIPT.read_text())))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert found == {"os", "signal", "sys", "time"}
    assert not [node for node in nodes if isinstance(node, ast.ImportFrom)]


def test_each_summary_is_whole_in_80_columns() -> None:
    # Click leaves two columns of a terminal free, but not of a runner's.
    shown = CliRunner().invoke(app, ["--help"], terminal_width=78).stdout
    width = max(map(len, COMMANDS))
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name:<{width}}  {summary}\n" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_summary(name: str) -> None:
    command = load_command(name)
    if not hasattr(command, "commands"):
        assert command.help.splitlines()[0].startswith(COMMANDS[name][1])
    shown = CliRunner().invoke(app, [name, "--help"], terminal_width=78).stdout
    assert not re.search(r"[a-z]\.\.\.\n", shown)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["pgdrag", "comp"], "compare completions"),
        (["pgdrag", "compare", "a", "--meas"], "--measure"),
        (["pgdrag", "bench", "--protocol", "p"], "prepared"),
        (["pgdrag", "tpcc", "l"], "load"),
        (["pgdrag", "tpcc", "run", "--stat"], "--statements"),
        (["pgdrag", "completions", "f"], "fish"),
    ],
)
def test_bash_completes_commands_options_and_choices(words: list[str], found: str) -> None:
    typed = " ".join(f"'{word}'" for word in words)
    script = (
        f"{completion_script('bash')}\nCOMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}\n"
        '_pgdrag; echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found


def test_zsh_and_fish_complete_the_same_words() -> None:
    assert completion_script("zsh").endswith(completion_script("bash"))
    assert "-a compare" in completion_script("fish")
