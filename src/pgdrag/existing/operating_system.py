"""How does the operating system under a server that exists get a treatment's values, and its own back?

By the same kinds of factors as under a throw-away server: of the server itself they need to know where its data are.
What else a kind of factor changes (storage, mounts, control groups) needs a server of pgdrag's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgdrag.existing.standing import Standing
from pgdrag.factors import Here, Problem, all_factors
from pgdrag.factors.kernel_files import KernelFiles
from pgdrag.host.interrupts import uninterrupted
from pgdrag.model import Applied, Level


def host_kinds() -> dict[str, type[KernelFiles]]:
    """Return the kinds of factors that a server which runs already can have, by name."""
    return {
        name: kind
        for name, kind in all_factors().items()
        if issubclass(kind, KernelFiles) and not kind.not_while_running
    }


def host_problems(
    kind: type[KernelFiles],
    levels: Sequence[Level],
    here: Here,
    standing: Standing,
    *,
    is_allowed: bool,
) -> list[Problem]:
    """Return which levels of this kind cannot be applied under an existing server, and why.

    Args:
        here: with the server's data directory in place of the scratch directory, where that is known.
    """
    if kind.not_while_running:
        return [_refused(x, kind.not_while_running) for x in levels]
    if standing.elsewhere:
        hint = "Run pgdrag on the server's own machine, as root."
        return [_refused(x, standing.elsewhere, hint) for x in levels]
    problems = {problem.level: problem for problem in kind().check(levels, here)}
    if is_allowed:
        return list(problems.values())
    hint = "To allow it, add --allow-change os. It affects everything on this machine."
    mistakes = {x: problem for x, problem in problems.items() if problem.is_mistake}
    return [mistakes.get(x) or _refused(x, "that needs consent", hint) for x in levels]


@contextmanager
def host_in_force(data_directory: str, levels: Sequence[Level]) -> Iterator[list[Applied]]:
    """Have values of the operating system in force within the block; yields what the kernel shows of them."""
    directory, kinds = Path(data_directory), host_kinds()
    wanted = {
        kind(): {level.name: level.value for level in levels if level.kind == name}
        for name, kind in kinds.items()
    }
    try:
        for factor, own in wanted.items():
            if own:
                factor.write(directory, own)
        yield [x for factor, own in wanted.items() if own for x in factor.shown(directory, own)]
    finally:
        with uninterrupted():
            for factor in reversed(wanted):
                factor.take_back()


def host_line(level: Level, values: Sequence[str], here: Here) -> str:
    """Return what is changed of the operating system, as a line: with the value that it has now."""
    now = host_kinds()[level.kind]().value_now(level.name, here)
    return f"{level.kind} {level.name}: {now or 'unknown'} (of this machine) -> {', '.join(values)}"


def _refused(level: Level, why: str, hint: str = "") -> Problem:
    what = f"{level.kind} {level.name}"
    return Problem(level, False, f"{what} is not changed on an existing server: {why}", hint)
