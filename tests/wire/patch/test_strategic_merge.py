"""Strategic merge patch merges by schema and obeys every directive."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import BadRequest
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.patch.json_patch import same
from gitkruise.wire.patch.strategic_merge import strategic_diff, strategic_patch
from gitkruise.wire.schema.structural import Node


def node(*path: str, word: str = "pod") -> Node:
    kind = load_catalog().find(word)
    assert kind
    found = kind.schema
    for step in path:
        child = found.child(step)
        assert child
        found = child
    return found


SPEC = node("spec")
META = node("metadata")
STRATEGY = node("spec", word="deployment")


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


A, B = {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}
ROWS: list[tuple[str, Node, Any, Any, Any]] = [
    ("scalar", SPEC, {"nodeName": "x"}, {"nodeName": "y"}, {"nodeName": "y"}),
    (
        "null removes",
        SPEC,
        {"nodeName": "x", "hostname": "h"},
        {"nodeName": None},
        {"hostname": "h"},
    ),
    ("null of nothing", SPEC, {}, {"nodeName": None}, {}),
    (
        "map merges",
        META,
        {"labels": {"a": "1"}},
        {"labels": {"b": "2"}},
        {"labels": {"a": "1", "b": "2"}},
    ),
    ("new map loses nulls", META, {}, {"labels": {"a": None, "b": "2"}}, {"labels": {"b": "2"}}),
    (
        "element merges",
        SPEC,
        {"containers": [A, B]},
        {"containers": [{"name": "b", "image": "b:2"}]},
        {"containers": [A, {"name": "b", "image": "b:2"}]},
    ),
    (
        "new element goes first",
        SPEC,
        {"containers": [A]},
        {"containers": [B]},
        {"containers": [B, A]},
    ),
    (
        "element is deleted",
        SPEC,
        {"containers": [A, B]},
        {"containers": [{"$patch": "delete", "name": "a"}]},
        {"containers": [B]},
    ),
    (
        "list is replaced",
        SPEC,
        {"containers": [A]},
        {"containers": [{"$patch": "replace"}, B]},
        {"containers": [B]},
    ),
    (
        "map is replaced",
        META,
        {"labels": {"a": "1"}},
        {"labels": {"$patch": "replace", "b": "2"}},
        {"labels": {"b": "2"}},
    ),
    (
        "map is emptied",
        META,
        {"labels": {"a": "1"}},
        {"labels": {"$patch": "delete"}},
        {"labels": {}},
    ),
    (
        "atomic list",
        SPEC,
        {"containers": [{**A, "args": ["x"]}]},
        {"containers": [{"name": "a", "args": ["y"]}]},
        {"containers": [{**A, "args": ["y"]}]},
    ),
    (
        "ports merge by port",
        SPEC,
        {"containers": [{**A, "ports": [{"containerPort": 80}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]},
        {"containers": [{**A, "ports": [{"containerPort": 80, "name": "http"}]}]},
    ),
    (
        "primitives unite",
        META,
        {"finalizers": ["a", "b"]},
        {"finalizers": ["c", "a"]},
        {"finalizers": ["c", "a", "b"]},
    ),
    (
        "primitives are deleted",
        META,
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["b"]},
    ),
    ("deleting from nothing", META, {}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {}),
    (
        "order",
        SPEC,
        {"containers": [A, B]},
        {"$setElementOrder/containers": named("b", "a")},
        {"containers": [B, A]},
    ),
    (
        "order with change",
        SPEC,
        {"containers": [A, B]},
        {"$setElementOrder/containers": named("b", "c", "a"), "containers": [{"name": "c"}]},
        {"containers": [B, {"name": "c"}, A]},
    ),
    (
        "the server's own element keeps its place",
        SPEC,
        {"containers": [A, {"name": "s"}, B]},
        {
            "$setElementOrder/containers": named("a", "b"),
            "containers": [{"name": "b", "image": "b:2"}],
        },
        {"containers": [A, {"name": "s"}, {"name": "b", "image": "b:2"}]},
    ),
    ("order of nothing", SPEC, {}, {"$setElementOrder/containers": named("a")}, {}),
    (
        "order of a new list",
        SPEC,
        {},
        {"$setElementOrder/containers": named("a", "b"), "containers": [A, B]},
        {"containers": [A, B]},
    ),
    (
        "primitives in order",
        META,
        {"finalizers": ["a", "b"]},
        {
            "$setElementOrder/finalizers": ["c", "a"],
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["b"],
        },
        {"finalizers": ["c", "a"]},
    ),
    (
        "retain keys",
        STRATEGY,
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    (
        "volumes retain keys",
        SPEC,
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {
            "volumes": [
                {"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}
            ]
        },
        {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
    ),
    (
        "type changes",
        SPEC,
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": "x"},
        {"nodeSelector": "x"},
    ),
    ("unknown lists are replaced", SPEC, {"foo": [1]}, {"foo": [2]}, {"foo": [2]}),
]


@pytest.mark.parametrize(
    ("schema", "before", "patch", "after"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_strategic_patch(schema: Node, before: Any, patch: Any, after: Any) -> None:
    shown = repr(before)
    assert strategic_patch(before, patch, schema) == after
    assert repr(before) == shown


BAD: list[tuple[str, Node, Any, Any, str]] = [
    ("no object", SPEC, {}, [], "is an object"),
    (
        "unknown directive",
        META,
        {"labels": {}},
        {"labels": {"$patch": "drop"}},
        "unknown patch type: 'drop' in map",
    ),
    (
        "unknown in list",
        SPEC,
        {"containers": [A]},
        {"containers": [{"$patch": "drop", "name": "a"}]},
        "in list",
    ),
    (
        "merging lists",
        SPEC,
        {"containers": [A]},
        {"containers": [{"$patch": "merge"}]},
        "cannot yet be specified",
    ),
    (
        "no merge key",
        SPEC,
        {"containers": [A]},
        {"containers": [{"image": "x"}]},
        "declared merge key: name",
    ),
    (
        "retain keys forgets one",
        STRATEGY,
        {"strategy": {}},
        {"strategy": {"$retainKeys": ["a"], "type": "x"}},
        "type",
    ),
    ("order is no list", SPEC, {}, {"$setElementOrder/containers": "a"}, "must be lists"),
    (
        "order contradicts",
        SPEC,
        {"containers": [A, B]},
        {"$setElementOrder/containers": named("b", "a"), "containers": [A, B]},
        "does not match",
    ),
    (
        "order forgets one",
        SPEC,
        {"containers": [A]},
        {"$setElementOrder/containers": named("b"), "containers": [A]},
        "does not match",
    ),
    ("deletion is no list", META, {}, {"$deleteFromPrimitiveList/finalizers": "a"}, "needs a list"),
]


@pytest.mark.parametrize(
    ("schema", "before", "patch", "words"), [r[1:] for r in BAD], ids=[r[0] for r in BAD]
)
def test_bad_strategic_patch(schema: Node, before: Any, patch: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        strategic_patch(before, patch, schema)


def test_a_patch_too_deep_is_a_bad_request() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(BadRequest, match="nests deeper than 200"):
        strategic_patch({"finalizers": [[]]}, {"finalizers": deep}, META)


DIFFS: list[tuple[str, Any, Any, Any]] = [
    (
        "SPEC-3",
        {"labels": {"k": "v"}},
        {"labels": {"k": "v", "k1": "v1"}},
        {"labels": {"k1": "v1"}},
    ),
    (
        "SPEC-5",
        {"labels": {"k2": "v2"}, "finalizers": ["fz1", "fz2"]},
        {"labels": {"k1": "v1"}, "finalizers": ["fz2"]},
        {
            "$deleteFromPrimitiveList/finalizers": ["fz1"],
            "$setElementOrder/finalizers": ["fz2"],
            "labels": {"k1": "v1", "k2": None},
        },
    ),
    ("equal", {"labels": {"a": "1"}}, {"labels": {"a": "1"}}, {}),
    ("all gone", {"annotations": {"a": "1"}}, {}, {"annotations": None}),
    (
        "finalizer added",
        {"finalizers": ["a"]},
        {"finalizers": ["a", "b"]},
        {"$setElementOrder/finalizers": ["a", "b"], "finalizers": ["b"]},
    ),
]


@pytest.mark.parametrize(
    ("before", "after", "patch"), [r[1:] for r in DIFFS], ids=[r[0] for r in DIFFS]
)
def test_strategic_diff_of_metadata(before: Any, after: Any, patch: Any) -> None:
    found = strategic_diff(before, after, META)
    assert found == patch
    assert list(found) == sorted(found)


texts = st.sampled_from(["1", "2", "3"])
container = st.fixed_dictionaries(
    {"name": st.sampled_from("abcd"), "image": texts},
    optional={
        "args": st.lists(texts, max_size=2),
        "resources": st.dictionaries(texts, texts, max_size=2),
    },
)
pods = st.fixed_dictionaries(
    {"containers": st.lists(container, max_size=4, unique_by=lambda c: str(c["name"]))},
    optional={"nodeSelector": st.dictionaries(texts, texts, max_size=2), "hostname": texts},
)


@given(pods, pods)
def test_law_strategic_diff_leads_from_before_to_after(before: Any, after: Any) -> None:
    assert same(strategic_patch(before, strategic_diff(before, after, SPEC), SPEC), after)


def read_only(pod: Any) -> Any:
    """The same pod; its containers are no plain dicts, which takes the long way."""
    shut = [MappingProxyType(one) for one in pod["spec"]["containers"]]
    return {**pod, "spec": {**pod["spec"], "containers": shut}}


@given(st.lists(st.sampled_from("abc"), max_size=4), st.lists(st.sampled_from("abcd"), max_size=4))
def test_law_plain_elements_are_merged_and_ordered_as_the_long_way_does(old: Any, new: Any) -> None:
    before = {"spec": {"containers": [{"name": name, "image": "x:1"} for name in old]}}
    patch = {"spec": {"containers": [{"name": name, "image": "x:2"} for name in new]}}
    after = strategic_patch(before, patch, node())
    assert same(after, strategic_patch(read_only(before), patch, node()))


@given(st.lists(texts, unique=True), st.lists(texts, unique=True))
def test_law_finalizers_follow_the_diff(before: Any, after: Any) -> None:
    old, new = {"finalizers": before}, {"finalizers": after}
    assert strategic_patch(old, strategic_diff(old, new, META), META) == new
