"""What lies between two treatments."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.model import Level, Treatment
from pgdrag.model.changes import changes_between, subset_treatment, with_changes

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


NAMES = ["jit", "work_mem", "autovacuum_vacuum_insert_scale_factor", "x" * 63, "random_page_cost"]


def test_every_subset_has_a_name_of_its_own_that_fits_and_names_a_change():
    reference = Treatment("a configuration with a rather long name of its own")
    target = Treatment("other", tuple(Level("setting", name, "1") for name in NAMES))
    changes = changes_between(reference, target)
    subsets = [
        frozenset(some)
        for size in range(len(NAMES) + 1)
        for some in combinations(range(len(NAMES)), size)
    ]
    made = [subset_treatment(reference, target, changes, subset) for subset in subsets]
    assert (made[0], made[-1]) == (reference, target)
    names = [treatment.name for treatment in made[1:-1]]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 60
    assert {treatment.identity for treatment in made[1:-1]}.isdisjoint(
        {reference.identity, target.identity}
    )


@pytest.mark.parametrize(
    ("subset", "name"),
    [
        ({0}, "a configuration with a rather long name of its own with jit"),
        ({0, 1, 2, 4}, "other without " + "x" * 45 + "…"),
        ({0, 1}, "2 of 5: jit, work_mem"),
        ({0, 1, 3}, "3 of 5: jit, work_mem and 1 more ("),
    ],
)
def test_a_subset_is_named_by_what_is_in_it(subset, name):
    reference = Treatment("a configuration with a rather long name of its own")
    target = Treatment("other", tuple(Level("setting", name, "1") for name in NAMES))
    changes = changes_between(reference, target)
    assert subset_treatment(reference, target, changes, subset).name.startswith(name)
