"""The core iterates over what is registered: it compares nothing with the name of a plug-in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pgdrag.collectors import all_collectors
from pgdrag.designs import all_designs
from pgdrag.experiment.formats import all_formats
from pgdrag.factors import all_factors
from pgdrag.horizon.holders import all_holders
from pgdrag.report.sections import all_sections
from pgdrag.workloads import all_workloads

SOURCE = Path(__file__).parents[2] / "src" / "pgdrag"
# Where plug-ins live. The simulated laboratory plants effects of factors that it names; what the horizon's
# census finds is of a kind that PostgreSQL has, which the holder of that kind is named after.
PLUGIN_FOLDERS = ("experiment/formats", "factors", "workloads", "collectors", "designs", "horizon", "report/sections", "testing")  # fmt: skip
# The same word for another thing: where a parameter's value comes from, a word of SQL, a mistake that pydantic
# reports, what a speed was counted in, a type of file system, the state of a server, how collectors observe.
OTHER_THINGS = {
    ("capture/log/shapes.py", "transaction"),
    ("capture/log/texts.py", "prepared"),
    ("experiment/mistakes.py", "steps"),
    ("host/control_groups.py", "cgroup"),
    ("report/trial_series.py", "statements"),
    ("servers/processes.py", "standby"),
    ("trial.py", "turns"),
}

KINDS = (
    all_collectors,
    all_designs,
    all_factors,
    all_formats,
    all_holders,
    all_sections,
    all_workloads,
)


def compared_strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each string that a value is compared with or matched against."""
    for node in ast.walk(tree):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        for side in sides:
            for one in side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.lineno, one.value


def test_nothing_outside_of_a_plugins_folder_is_compared_with_its_name() -> None:
    names = {name for kind in KINDS for name in kind()}
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(PLUGIN_FOLDERS):
            strings = compared_strings(ast.parse(path.read_text(encoding="utf-8")))
            found += [
                f"{place}:{line} {text!r}"
                for line, text in strings
                if text in names and (place, text) not in OTHER_THINGS
            ]
    assert found == []


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_the_core_imports_no_module_of_a_plugin() -> None:
    """The commands do: `pgdrag tpcc`, for one, is about one workload."""
    modules = {one.__module__ for kind in KINDS for one in kind().values()}
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith((*PLUGIN_FOLDERS, "cli", "bench.py")):
            imported = imported_modules(ast.parse(path.read_text(encoding="utf-8")))
            found += [f"{place}: {name}" for name in imported if name in modules]
    assert found == []
