"""JSON patch and merge patch do what their RFCs and kube-apiserver say."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import ApiError, BadRequest, InvalidObject, TooLarge
from gitkruise.wire.patch.json_patch import (
    PatchDoesNotApply,
    json_diff,
    json_patch,
    merge_diff,
    merge_patch,
    same,
)
from gitkruise.wire.primitives.gojson import RawJSON

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.text("ab/~", max_size=2), values, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def op(word: str, path: str, value: Any = ..., source: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {"op": word, "path": path}
    if value is not ...:
        out["value"] = value
    return out | ({"from": source} if source else {})


APPLIED: list[tuple[str, Any, list[dict[str, Any]], Any]] = [
    ("A.1 add member", {"a": 1}, [op("add", "/b", 2)], {"a": 1, "b": 2}),
    ("A.2 add element", {"a": [1, 3]}, [op("add", "/a/1", 2)], {"a": [1, 2, 3]}),
    ("A.3 remove member", {"a": 1, "b": 2}, [op("remove", "/b")], {"a": 1}),
    ("A.4 remove element", {"a": [1, 2, 3]}, [op("remove", "/a/1")], {"a": [1, 3]}),
    ("A.5 replace", {"a": 1}, [op("replace", "/a", 2)], {"a": 2}),
    ("replace missing", {}, [op("replace", "/a", 1)], {"a": 1}),
    (
        "A.6 move",
        {"a": {"b": 1}, "c": {}},
        [op("move", "/c/d", source="/a/b")],
        {"a": {}, "c": {"d": 1}},
    ),
    ("A.7 move element", {"a": [1, 2, 3]}, [op("move", "/a/2", source="/a/0")], {"a": [2, 3, 1]}),
    (
        "A.8 test",
        {"a": [1, {"b": None}]},
        [op("test", "/a/1", {"b": None})],
        {"a": [1, {"b": None}]},
    ),
    ("A.10 nested add", {"a": 1}, [op("add", "/c", {"d": 2})], {"a": 1, "c": {"d": 2}}),
    ("A.14 escapes", {"~1": 10, "/": 9}, [op("test", "/~01", 10), op("remove", "/~1")], {"~1": 10}),
    ("A.16 append", {"a": [1]}, [op("add", "/a/-", 2)], {"a": [1, 2]}),
    ("copy", {"a": [1]}, [op("copy", "/b", source="/a")], {"a": [1], "b": [1]}),
    ("whole document", {"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}),
    ("empty name", {"": 1}, [op("replace", "/", 2)], {"": 2}),
    ("missing is null", {"a": {}}, [op("test", "/a/b", None)], {"a": {}}),
    ("leading zero", {"a": [1, 2]}, [op("remove", "/a/01")], {"a": [1]}),
    ("sign", {"a": [1, 2]}, [op("replace", "/a/+1", 3)], {"a": [1, 3]}),
    ("from the end", {"a": [1, 2]}, [op("remove", "/a/-2")], {"a": [2]}),
    ("add at the end", {"a": [1, 2]}, [op("add", "/a/-1", 3)], {"a": [1, 2, 3]}),
    ("1 is 1.0", {"a": 1}, [op("test", "/a", 1.0)], {"a": 1}),
    ("no value is null", {"a": 1}, [op("add", "/b"), op("replace", "/a")], {"a": None, "b": None}),
    ("a missing key is copied as null", {}, [op("copy", "/a", source="/b")], {"a": None}),
    ("null is a value", {"a": 1}, [op("add", "/a", None)], {"a": None}),
]


@pytest.mark.parametrize(
    ("before", "ops", "after"), [row[1:] for row in APPLIED], ids=[r[0] for r in APPLIED]
)
def test_json_patch(before: Any, ops: list[dict[str, Any]], after: Any) -> None:
    assert same(json_patch(before, ops), after)


REFUSED: list[tuple[str, Any, Any, type[ApiError], str]] = [
    ("not a list", {}, {"op": "add"}, BadRequest, "object into Go value of type []handlers"),
    (
        "a number",
        {},
        [5],
        BadRequest,
        "unmarshal number into Go value of type handlers.jsonPatchOp",
    ),
    ("a text", {}, ["add"], BadRequest, "unmarshal string into Go value of type handlers"),
    ("a list", {}, [[]], BadRequest, "unmarshal array into Go value of type handlers"),
    ("a truth", {}, [True], BadRequest, "unmarshal bool into Go value of type handlers"),
    ("null", {}, [None], InvalidObject, "needs `op` and `path`"),
    ("unknown op", {}, [op("merge", "/a", 1)], InvalidObject, "unknown operation 'merge'"),
    ("no op", {}, [{"path": "/a"}], InvalidObject, "unknown operation None"),
    ("no path", {}, [{"op": "remove"}], InvalidObject, "needs `op` and `path`"),
    ("op of no text", {}, [{"op": 5}], BadRequest, "number into Go struct field jsonPatchOp.op of"),
    (
        "path of no text",
        {},
        [{"path": {}}],
        BadRequest,
        "object into Go struct field jsonPatchOp.p",
    ),
    ("no from", {}, [op("copy", "/a")], InvalidObject, "needs `from`"),
    ("no slash", {}, [op("add", "a", 1)], InvalidObject, "does not start with /"),
    ("copy below nothing", {}, [op("copy", "/a", source="/b/c")], InvalidObject, "path: /b/c"),
    ("too deep", {}, [op("add", "/a" * 300, 1)], BadRequest, "more than 200 tokens"),
    ("too many", {}, [op("test", "", {})] * 10_001, TooLarge, "is 10000, got 10001"),
    ("A.9 test fails", {"a": 1}, [op("test", "/a", "1")], InvalidObject, "testing value /a failed"),
    ("A.12 missing parent", {"a": 1}, [op("add", "/b/c", 2)], InvalidObject, "missing path: /b/c"),
    ("remove missing", {}, [op("remove", "/a")], InvalidObject, "missing path: /a"),
    ("replace in missing", {}, [op("replace", "/a/b", 1)], InvalidObject, "missing path: /a"),
    ("past the end", {"a": [1]}, [op("add", "/a/2", 1)], InvalidObject, "index 2 is out of bounds"),
    ("remove end", {"a": [1]}, [op("remove", "/a/-")], InvalidObject, "index - is out of bounds"),
    ("no digits", {"a": [1, 2]}, [op("remove", "/a/1_0")], InvalidObject, "is not an index"),
    ("before all", {"a": [1]}, [op("remove", "/a/-2")], InvalidObject, "out of bounds"),
    ("parent missing", {}, [op("test", "/a/b", None)], InvalidObject, "missing path: /a/b"),
    ("element missing", {"a": []}, [op("test", "/a/0", None)], InvalidObject, "out of bounds"),
    ("into itself", {"a": {}}, [op("move", "/a/b", source="/a")], InvalidObject, "into itself"),
    ("below a scalar", {"a": 1}, [op("add", "/a/b", 1)], InvalidObject, "missing path: /a/b"),
    ("below RawJSON", {"a": RawJSON(b"{}")}, [op("add", "/a/b", 1)], InvalidObject, "missing path"),
    ("remove all", {}, [op("remove", "")], InvalidObject, "cannot be removed"),
]


@pytest.mark.parametrize(
    ("before", "ops", "error", "words"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_json_patch_refuses(before: Any, ops: Any, error: type[ApiError], words: str) -> None:
    with pytest.raises(error) as caught:
        json_patch(before, ops)
    assert words in getattr(caught.value, "why", caught.value.message)


def test_the_server_keeps_to_itself_why_an_operation_does_not_apply() -> None:
    """Recorded on kube-apiserver 1.34."""
    with pytest.raises(PatchDoesNotApply) as caught:
        json_patch({}, [op("remove", "/a")])
    status = caught.value.as_status()
    assert status["message"] == "the server rejected our request due to an error in our request"
    assert (status["reason"], status["code"], status["details"]) == ("Invalid", 422, {})


def test_copies_that_double_the_document_are_stopped() -> None:
    ops = [op("copy", "/a/x", source="/a"), op("copy", "/a/y", source="/a")] * 20
    with pytest.raises(PatchDoesNotApply) as caught:
        json_patch({"a": {"text": "x" * 1000}}, ops)
    assert "more than the limit" in caught.value.why


def test_values_of_any_depth_are_compared() -> None:
    left: Any = 1
    right: Any = 1
    for _ in range(50_000):
        left, right = [left], [right]
    assert same(left, right)
    assert not same(left, [right])


MERGED: list[tuple[Any, Any, Any]] = [  # RFC 7386, appendix A
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": RawJSON(b"[1]")}, {"a": RawJSON(b"[2]")}, {"a": RawJSON(b"[2]")}),
]


@pytest.mark.parametrize(("before", "patch", "after"), MERGED)
def test_merge_patch(before: Any, patch: Any, after: Any) -> None:
    assert same(merge_patch(before, patch), after)


def test_a_merge_patch_that_changes_nothing_gives_the_same_object() -> None:
    before = {"a": {"b": [1, {"c": 2}]}, "d": True}
    assert merge_patch(before, {"a": {"b": [1, {"c": 2}], "x": None}, "d": True}) is before
    assert merge_patch(before, {"d": 1}) == {"a": before["a"], "d": 1}


def test_a_merge_patch_too_deep_is_a_bad_request() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest, match="nests deeper"):
        merge_patch({}, deep)


@given(objects, objects)
def test_law_merge_diff_leads_from_before_to_after(before: Any, after: Any) -> None:
    before, after = without_nulls(before), without_nulls(after)
    assert same(merge_patch(before, merge_diff(before, after)), after)


@given(objects)
def test_law_equal_objects_need_no_patch(obj: Any) -> None:
    assert merge_diff(obj, obj) == {}
    assert json_diff(obj, obj) == []


A, B, C = ({"name": name, "x": 1} for name in "abc")
DIFFS: dict[str, tuple[Any, Any, list[str]]] = {
    "one in front": ([A], [B, A], ["add /0"]),
    "one behind": ([A], [A, B], ["add /1"]),
    "around": ([B], [A, B, C], ["add /0", "add /2"]),
    "inside a neighbour": ([A, B], [C, {**A, "x": 2}, B], ["add /0", "replace /1/x"]),
    "moved": ([A, B], [B, A], ["remove /1", "add /0"]),
    "names twice": ([A, A], [B], ["remove /1", "replace /0/name"]),
    "no names": ([1, 2], [1, 3, 4], ["replace /1", "add /2"]),
    "null to value": ([None, 1], [2, 1], ["replace /0"]),
    "escaped": ({}, {"a/b~c": 1}, ["add /a~1b~0c"]),
}


@pytest.mark.parametrize(("before", "after", "steps"), DIFFS.values(), ids=DIFFS)
def test_json_diff_knows_elements_by_their_names(before: Any, after: Any, steps: list[str]) -> None:
    made = json_diff(before, after)
    assert sorted(f"{step['op']} {step['path']}" for step in made) == sorted(steps)
    assert same(json_patch(before, made), after)


_named = st.fixed_dictionaries({"name": st.sampled_from("abcd")}, optional={"x": st.integers(0, 2)})


@given(st.lists(_named, max_size=5), st.lists(_named, max_size=5))
def test_law_json_diff_of_named_lists(before: Any, after: Any) -> None:
    assert same(json_patch(before, json_diff(before, after)), after)


@given(values, values)
def test_law_json_diff_leads_from_before_to_after(before: Any, after: Any) -> None:
    assert same(json_patch(before, json_diff(before, after)), after)


@given(values, values)
def test_law_patching_leaves_its_input_alone(before: Any, after: Any) -> None:
    shown = repr(before)
    json_patch(before, json_diff(before, after))
    merge_patch(before, after)
    assert repr(before) == shown


@given(values, values)
def test_law_same_is_an_equivalence_finer_than_equality(left: Any, right: Any) -> None:
    assert same(left, left)
    assert same(left, right) == same(right, left)
    assert not same(left, right) or left == right


def test_what_was_copied_or_given_is_not_changed_by_later_operations() -> None:
    given: dict[str, Any] = {"x": [1]}
    obj = {"a": {"l": [1, {"m": 1}]}, "kept": {"l": [0]}}
    operations = [
        {"op": "add", "path": "/a/l/-", "value": 2},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/l/1/m", "value": 2},
        {"op": "add", "path": "/a/l/0", "value": 0},
        {"op": "add", "path": "/c", "value": given},
        {"op": "add", "path": "/d", "value": given},
        {"op": "add", "path": "/c/x/-", "value": 2},
        {"op": "move", "from": "/b/l", "path": "/e"},
        {"op": "replace", "path": "/e/0", "value": 9},
        {"op": "remove", "path": "/e/2"},
    ]
    patched = json_patch(obj, operations)
    assert patched == {
        "a": {"l": [0, 1, {"m": 1}, 2]}, "b": {}, "c": {"x": [1, 2]}, "d": {"x": [1]},
        "e": [9, {"m": 2}], "kept": {"l": [0]},
    }  # fmt: skip
    assert patched["kept"] is obj["kept"]
    assert given == {"x": [1]}
    assert obj["a"] == {"l": [1, {"m": 1}]}


@pytest.mark.slow
def test_ten_thousand_moves_cost_seconds_at_most() -> None:
    obj = {"map": {f"k{n}": n for n in range(10_000)}, "items": list(range(10_000))}
    moves = [{"op": "move", "from": f"/map/k{n}", "path": f"/map/j{n}"} for n in range(5_000)]
    moves += [{"op": "move", "from": "/items/0", "path": "/items/-"}] * 5_000
    began = process_time()
    json_patch(obj, moves)
    assert process_time() - began < 5
