"""Sets of field paths obey set algebra, and survive FieldsV1 and back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.world.apply.fieldset import (
    covers,
    difference,
    from_fields_v1,
    intersection,
    keyed,
    members,
    path_set,
    printed,
    to_fields_v1,
    touches,
    union,
)

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"x"'])
PATHS = st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple)
SETS = st.frozensets(PATHS, max_size=8)


def as_set(fields: Any) -> frozenset[tuple[str, ...]]:
    return frozenset(members(fields))


@given(SETS, SETS)
def test_algebra_is_that_of_sets(left: Any, right: Any) -> None:
    one, two = path_set(left), path_set(right)
    assert as_set(one) == left
    assert as_set(union(one, two)) == left | right
    assert as_set(intersection(one, two)) == left & right
    assert as_set(difference(one, two)) == left - right


@given(SETS, SETS)
def test_written_sets_answer_without_being_read(left: Any, right: Any) -> None:
    raw = to_fields_v1(path_set(left))
    assert as_set(from_fields_v1(raw)) == left
    assert touches(raw, path_set(right)) == bool(left & right)
    assert covers(raw, path_set(right)) == (right <= left)


def test_paths_print_as_conflicts_name_them() -> None:
    path = ("f:spec", "f:ports", keyed({"port": 80, "protocol": "TCP"}), "f:name")
    assert printed(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert (
        printed(("f:metadata", "f:finalizers", 'v:"e.io/x"')) == '.metadata.finalizers[="e.io/x"]'
    )
