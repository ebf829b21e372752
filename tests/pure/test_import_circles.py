"""No module imports itself in a circle, neither in Python nor in Rust.

In Rust a folder's `mod.rs` and the files beside it may know each other: `mod.rs` declares them. In Python
a folder's `__init__.py` and its modules may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

CRATES = Path(__file__).parents[2] / "crates"
_USE = re.compile(r"\b((?:crate|super)(?:::\w+)*(?:::\{[^;]*\})?)")


def modules(source: Path) -> dict[str, Path]:
    """The files below a crate's source, by module path; a folder's is that of its mod.rs."""
    paths = {file: file.relative_to(source).with_suffix("").parts for file in source.rglob("*.rs")}
    return {
        "::".join(parts[:-1] if parts[-1] == "mod" else parts): file
        for file, parts in paths.items()
    }


def leaves(tree: str) -> Iterator[str]:
    """The paths that a use tree names: `a::{b, c::{d, e}}` names a::b, a::c::d and a::c::e."""
    head, _, group = tree.partition("{")
    if not group:
        yield head.strip()
        return
    part, depth = "", 0
    for character in f"{group[: group.rindex('}')]},":
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            yield from (head.strip() + leaf for leaf in leaves(part) if leaf)
            part = ""
        else:
            part += character


def imports(name: str, file: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the same crate that a module imports, without those of its own folder's mod.rs."""
    code = re.sub(r"//.*", "", file.read_text()).split("#[cfg(test)]")[0]
    here = [] if name in ("lib", "main") else name.split("::")
    found = set()
    for path in (leaf for tree in _USE.findall(code) for leaf in leaves(tree)):
        first, *rest = path.split("::")
        base = [] if first == "crate" else here[:-1]
        while rest and rest[0] == "super":
            base, rest = base[:-1], rest[1:]
        target = base + rest
        while target and "::".join(target) not in known:
            target = target[:-1]
        parent = here[:-1]
        if target and target != here and target != parent and target[:-1] != here:
            found.add("::".join(target))
    return found


def refuse_circles(graph: Mapping[str, set[str]]) -> None:
    assert any(graph.values())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


@pytest.mark.parametrize("crate", ["pgwire", "pgbench-script", "pgdrag-driver"])
def test_no_rust_module_imports_itself_in_a_circle(crate: str) -> None:
    known = modules(CRATES / crate / "src")
    refuse_circles({name: imports(name, file, known) for name, file in known.items()})


def test_no_python_module_imports_itself_in_a_circle() -> None:
    graph = grimp.build_graph("pgdrag", exclude_type_checking_imports=True, cache_dir=None)
    refuse_circles({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})


def test_a_use_tree_names_its_leaves() -> None:
    assert list(leaves("crate::a::{b, c::{d, self}}")) == [
        "crate::a::b",
        "crate::a::c::d",
        "crate::a::c::self",
    ]
