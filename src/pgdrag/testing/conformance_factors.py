"""What must every kind of factor do, whatever it changes? A suite for pytest.

Subclass it in a test module; it asks for two fixtures::

    class TestEveryFactor(FactorConformance):
        @pytest.fixture(params=all_examples(), ids=lambda example: example.level.kind)
        def example(self, request): ...                  # pgdrag.factors.Example
        @pytest.fixture
        def bench(self): ...                             # pgdrag.trial.ServerTrialRunner

Examples with `needs_root` are for root, and for one test at a time on a host. Nothing here needs pytest to
be installed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdrag.factors import Example, Factor, all_factors
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import UndoJournal, take_warnings
from pgdrag.model import Applied
from pgdrag.model.events import ignore
from pgdrag.servers.cluster import Cluster
from pgdrag.workloads import all_workloads

if TYPE_CHECKING:
    from pgdrag.trial import ServerTrialRunner


_AT_WORK_TIMEOUT_S = 30.0


def all_examples() -> list[Example]:
    """Return the examples of every registered kind of factor."""
    return [example for kind in all_factors().values() for example in kind.examples]


class FactorConformance:
    """Claims about one kind of factor, on a server of its own."""

    def test_it_says_what_it_is(self, example: Example) -> None:
        kind = kind_of(example)
        assert re.fullmatch(r"[a-z][a-z_]*", kind.name)
        assert kind.summary
        assert "\n" not in kind.summary

    def test_a_level_that_can_be_had_is_no_problem(
        self, example: Example, bench: ServerTrialRunner
    ) -> None:
        assert kind_of(example)().check([example.level], bench.here) == []
        assert kind_of(example)().check([], bench.here) == []

    def test_a_mistake_is_told_as_one(self, example: Example, bench: ServerTrialRunner) -> None:
        (problem,) = kind_of(example)().check([example.level, example.mistake], bench.here)
        assert problem.level == example.mistake
        assert problem.is_mistake
        assert example.mistake.name in problem.message
        assert not problem.message.endswith(".")

    def test_a_level_is_in_force_and_gone_without_it(
        self, example: Example, bench: ServerTrialRunner
    ) -> None:
        """It reads back as it should; the next trial, without it, does not find it."""
        level = example.level
        levels = {level.name: level.value}
        ((found,),) = applied(example, bench, levels, [levels])
        assert (found.level, found.effective, found.note) == (level, example.effective, "")
        nothing, (after,) = applied(example, bench, {}, [{}, levels])
        assert nothing == []
        assert after.effective != example.effective
        assert found.default in (None, after.effective)

    def test_undo_leaves_nothing_to_put_back_and_again_is_fine(
        self, example: Example, bench: ServerTrialRunner
    ) -> None:
        """Even of a trial whose server never started."""
        factor = kind_of(example)()
        with _cluster(bench) as cluster:
            try:
                factor.before_start(cluster, {example.level.name: example.level.value})
            finally:
                factor.undo(cluster)
                factor.undo(cluster)
        if factor.changes_host:
            assert UndoJournal.open().steps() == []
            assert take_warnings() == []


def kind_of(example: Example) -> type[Factor]:
    """Return the factor class of an example."""
    return all_factors()[example.level.kind]


def applied(
    example: Example,
    bench: ServerTrialRunner,
    levels: dict[str, str],
    asked: Sequence[dict[str, str]],
) -> list[list[Applied]]:
    """Apply levels to a cluster of their own, read back what is asked for, each time, and undo them."""
    factor = kind_of(example)()
    with _cluster(bench) as cluster:
        try:
            factor.before_start(cluster, levels)
            cluster.start()
            factor.after_start(cluster, levels)
            factor.window_began(cluster)
            if factor.reads_back_late:
                wait_until(lambda: _is_seen_at_work(factor, cluster, levels), _AT_WORK_TIMEOUT_S)
            return [factor.read_back(cluster, each) for each in asked]
        finally:
            factor.undo(cluster)


def _is_seen_at_work(factor: Factor, cluster: Cluster, levels: dict[str, str]) -> bool:
    """Let a transaction go by, as a window's load would, and tell whether all reads back as in force."""
    with cluster.connect() as client:
        client.execute("SELECT pg_current_xact_id()")
    return not any(x.note for x in factor.read_back(cluster, levels))


def _cluster(bench: ServerTrialRunner) -> Cluster:
    examples = (one.example() for one in all_workloads().values())
    workload = next(one for one in examples if not one.programs())
    return bench.snapshot(workload, ignore).restore(bench.scratch, bench.binaries).cluster
