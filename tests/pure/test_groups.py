"""How a set of changes falls into units and halves."""

from hypothesis import given
from hypothesis import strategies as st

from pgdrag.designs.bisect.pieces import MOST_UNITS, Node, units


def test_groups_are_the_units():
    found = units({0: "a", 1: "b", 2: "c"}, {"a": "Memory", "b": "WAL", "c": "Memory"})
    assert [node.members for node in found] == [{0, 2}, {1}]


def test_more_groups_than_can_be_looked_at_one_by_one_are_taken_together():
    names = [f"s{at}" for at in range(12)]
    groups = {name: f"Family {at % 3} / Group {at}" for at, name in enumerate(names)}
    found = units(dict(enumerate(names)), groups)
    assert [node.members for node in found] == [{0, 3, 6, 9}, {1, 4, 7, 10}, {2, 5, 8, 11}]
    assert [len(node.parts) for node in found] == [4, 4, 4]


def test_changes_without_a_group_are_divided_evenly_in_their_order():
    found = units({at: f"s{at}" for at in range(20)}, {})
    assert len(found) == MOST_UNITS
    assert {len(node.members) for node in found} <= {2, 3}
    assert sorted(found[0].members) == list(range(len(found[0].members)))


def test_halves_keep_whole_groups_together():
    parts = tuple(Node(frozenset(members)) for members in ({0, 1, 2}, {3}, {4, 5}))
    first, second = Node(frozenset(range(6)), parts).halves()
    assert (first.members, second.members) == ({0, 1, 2}, {3, 4, 5})


@given(st.integers(1, 40), st.integers(1, 12))
def test_units_and_halves_lose_nothing(count, group_count):
    names = [f"s{at}" for at in range(count)]
    groups = {name: f"F{at % 5} / G{at % group_count}" for at, name in enumerate(names) if at % 4}
    todo = list(units(dict(enumerate(names)), groups))
    assert sorted(one for node in todo for one in node.members) == list(range(count))
    while todo:
        node = todo.pop()
        if len(node.members) > 1:
            first, second = node.halves()
            assert first.members | second.members == node.members
            assert not first.members & second.members
            assert first.members
            assert second.members
            todo += [first, second]
