"""Points of a search's space: what does nothing stays as it was."""

from pgdrag.designs.search.parameters import Dimension
from pgdrag.designs.search.space import Space
from pgdrag.model import Treatment

DELAY = Dimension(name="delay", values=("0", "1", "10"), start="0", rule="0")
SIBLINGS = Dimension(
    name="siblings",
    values=("1", "5", "50"),
    start="5",
    rule="50",
    needs="delay",
    needs_values=("1", "10"),
)
SPACE = Space((DELAY, SIBLINGS), Treatment("default"))


def test_a_dimension_that_needs_another_one_is_changed_with_it_alone() -> None:
    assert SPACE.effective((0, 2)) == (0, 1)
    assert SPACE.effective((1, 2)) == (1, 2)
    assert SPACE.only((1, 2), [1]) == SPACE.start
    assert SPACE.only((1, 2), [0]) == (1, 1)


def test_a_rule_of_thumb_that_does_nothing_is_none() -> None:
    assert SPACE.rule == SPACE.start
