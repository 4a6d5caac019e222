"""Objects never go before what they depend on, whatever becomes ready when; circles are found."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.sync_round import Live
from gitkruise.planner.sync.dependencies import cycle, depends_on, strangers, too_early
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.planner.sync.build import applied, desired, key, planned, snapshot, thing

IDS: list[tuple[str, str, tuple[ObjectKey, ...] | str]] = [
    # row, annotation, keys, or the id that cannot be read
    ("core", "/namespaces/shop/ConfigMap/a", (ObjectKey("", "ConfigMap", "shop", "a"),)),
    ("group", "apps/namespaces/shop/Deployment/a.b",
     (ObjectKey("apps", "Deployment", "shop", "a.b"),)),
    ("no namespace", "/Namespace/shop", (ObjectKey("", "Namespace", "", "shop"),)),
    ("colons", "rbac.authorization.k8s.io/ClusterRole/system:x",
     (ObjectKey("rbac.authorization.k8s.io", "ClusterRole", "", "system:x"),)),
    ("two, one twice", "/Namespace/a, /Namespace/b,/Namespace/a",
     (ObjectKey("", "Namespace", "", "a"), ObjectKey("", "Namespace", "", "b"))),
    ("nothing", " ", ()),
    ("no group", "ConfigMap/a", "ConfigMap/a"),
    ("no kind", "/namespaces/shop//a", "/namespaces/shop//a"),
    ("another word", "/names/shop/ConfigMap/a", "/names/shop/ConfigMap/a"),
    ("too long", "/namespaces/shop/ConfigMap/a/b", "/namespaces/shop/ConfigMap/a/b"),
]  # fmt: skip


@pytest.mark.parametrize("row", IDS, ids=[row[0] for row in IDS])
def test_ids(row: tuple[str, str, tuple[ObjectKey, ...] | str]) -> None:
    _, text, expected = row
    obj = thing("x", notes={"gitkruise.io/depends-on": text})
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            depends_on(obj)
    else:
        assert depends_on(obj) == expected


def written(to: Obj) -> str:
    group, kind, namespace, name = key(to)
    return f"{group}/namespaces/{namespace}/{kind}/{name}"


@st.composite
def graphs(draw: st.DrawFn) -> list[Obj]:
    """Objects that depend on some made before them, in waves that allow it."""
    found: list[Obj] = []
    for number in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["ConfigMap", "CloneSet", "Ingress"]))
        on = draw(st.lists(st.sampled_from(found), max_size=3)) if found else []
        notes: dict[str, Any] = {"gitkruise.io/wave": draw(st.sampled_from(["-1", "0", "2"]))}
        if on:
            notes["gitkruise.io/depends-on"] = ",".join(map(written, on))
        found.append(thing(f"o{number}", kind, notes=notes, data={"v": "1"}))
    wanted = [desired(obj) for obj in found]
    late = {d.key for d, _ in too_early(wanted)}
    return [obj for obj in found if key(obj) not in late]


@given(graphs(), st.data())
def test_nothing_goes_before_what_it_depends_on(want: list[Obj], data: st.DataObject) -> None:
    lost = {d.key for d, _ in strangers([desired(obj) for obj in want])}
    want = [obj for obj in want if key(obj) not in lost]
    while lost := {d.key for d, _ in strangers([desired(obj) for obj in want])}:
        want = [obj for obj in want if key(obj) not in lost]
    live: dict[ObjectKey, Live] = {}
    for _ in range(60):
        plan = planned(snapshot(want, list(live.values())), load_catalog())
        for d in plan.apply:
            assert all(on in live and live[on].ready for on in d.depends_on)
            live[d.key] = applied(d.obj, ready=data.draw(st.booleans()), why="starting")
        unready = [k for k, one in live.items() if not one.ready]
        if unready:
            ripe = data.draw(st.sampled_from(unready))
            live[ripe] = replace(live[ripe], ready=True)
        elif plan.quiet:
            break
    assert live.keys() == {key(obj) for obj in want}


EDGES = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3), max_size=6
)


@given(EDGES)
def test_a_circle_is_found_exactly_where_there_is_one(edges: dict[str, list[str]]) -> None:
    found = cycle(edges)
    if found:
        assert found[0] == found[-1]
        assert all(after in edges[name] for name, after in itertools.pairwise(found))
        return
    left = set(edges)
    while left:  # there is always an object without pending dependencies
        free = {name for name in left if not left & set(edges[name])}
        assert free
        left -= free
