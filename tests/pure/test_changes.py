"""What lies between two treatments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgdrag.changes import changes_between, with_changes
from pgdrag.plan import Level, Treatment

levels = st.lists(
    st.builds(Level, st.just("setting"), st.sampled_from("abcd"), st.sampled_from(["1", "2"])),
    unique_by=lambda level: level.factor,
)
treatments = st.builds(lambda found: Treatment("any", tuple(found)), levels)


@given(treatments, treatments)
def test_all_changes_lead_from_the_reference_to_the_target(reference, target):
    changes = changes_between(reference, target)
    assert with_changes(reference, changes, "there").identity == target.identity
    assert with_changes(reference, (), "here").identity == reference.identity


def test_a_setting_that_only_the_reference_has_is_taken_away():
    reference = Treatment(
        "old", (Level("setting", "jit", "off"), Level("setting", "work_mem", "8MB"))
    )
    (change,) = changes_between(reference, Treatment("new", (Level("setting", "work_mem", "8MB"),)))
    assert (change.name, change.after) == ("jit", None)
    assert with_changes(reference, [change], "n").of_kind("setting") == {"work_mem": "8MB"}
