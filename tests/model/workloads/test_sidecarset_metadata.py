"""patchPodMetadata: three policies, and JSON merged to the byte (SIDE-91 and SIDE-92)."""

from __future__ import annotations

from typing import Final

import pytest

from gitkruise.model.workloads.sidecarset_metadata import patched_annotations

MERGES: Final[dict[str, tuple[str, str, str]]] = {
    "SIDE-92: two members": ('{"log-agent":1}', '{"envoy":2}', '{"envoy":2,"log-agent":1}'),
    "SIDE-92: an equal patch": ('{"log-agent":1}', '{"log-agent":1}', '{"log-agent":1}'),
    "SIDE-92: without annotation": ("", '{ "a" : 1 }', '{ "a" : 1 }'),
    "INJ-73": ('{"app": 0}', '{"mesh":1}', '{"app":0,"mesh":1}'),
    "null deletes": ('{"a":1,"b":2}', '{"a":null,"c":null}', '{"b":2}'),
    "nested objects merge": (
        '{"a":{"z":1,"b":2}}',
        '{"a":{"c":3,"b":null}}',
        '{"a":{"c":3,"z":1}}',
    ),
    "a list in place of an object": ('{"a":{}}', '{"a":[{"b":null}]}', '{"a":[{"b":null}]}'),
    "what is untouched keeps its spelling": (
        '{"n":{"z": 1.0, "a": "<\\u0041>"}}',
        '{"m":{"z":1,"a":null}}',
        '{"m":{"z":1},"n":{"z":1.0,"a":"\\u003c\\u0041\\u003e"}}',
    ),
    "lists are replaced": ('{"a":[1,2]}', '{"a":[{"x":null,"y":1e2}]}', '{"a":[{"y":1e2}]}'),
    "an object in place of a scalar": ('{"a":1}', '{"a":{"b":null,"c":1}}', '{"a":{"c":1}}'),
    "a value that is no object": ("[1]", '{"b":1,"a":null}', '{"b":1}'),
    "a patch that is a scalar": ('{"a":1}', "7", "7"),
    "a patch that is a list": ('{"a":1}', '[{"a":null}, null]', "[{},null]"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "patch", "after"), MERGES.values(), ids=MERGES)
def test_merge(before: str, patch: str, after: str) -> None:
    notes = {"oom": before} if before else {}
    policy = {"annotations": {"oom": patch}, "patchPolicy": "MergePatchJson"}
    assert patched_annotations(notes, [policy]) == {"oom": after}


@pytest.mark.parametrize(
    ("before", "patch"),
    [("{", "{}"), ("{}", "nope"), ("null", "{}"), ("{}", "null"), ("[" * 10**5, "{}")],
)
def test_what_is_no_json_is_named(before: str, patch: str) -> None:
    policy = {"annotations": {"oom": patch}, "patchPolicy": "MergePatchJson"}
    with pytest.raises(ValueError, match="annotation oom: "):
        patched_annotations({"oom": before}, [policy])


@pytest.mark.parametrize(
    ("policy", "present", "result"),
    [
        pytest.param("Retain", None, "new", id="SIDE-91: Retain, absent"),
        pytest.param("", None, "new", id="no policy, absent"),
        pytest.param("Overwrite", None, "new", id="SIDE-91: Overwrite, absent"),
        pytest.param("Retain", "old", "old", id="SIDE-91: Retain, present"),
        pytest.param("Retain", "", "", id="Retain, present and empty"),
        pytest.param("Overwrite", "old", "new", id="SIDE-91: Overwrite, present"),
        pytest.param("Sometimes", None, None, id="an unknown policy"),
    ],
)
def test_policies(policy: str, present: str | None, result: str | None) -> None:
    notes = {} if present is None else {"key": present}
    found = patched_annotations(notes, [{"annotations": {"key": "new"}, "patchPolicy": policy}])
    assert found.get("key") == result


def test_elements_apply_in_order() -> None:
    both = [{"annotations": {"k": v}, "patchPolicy": "MergePatchJson"} for v in ('{"a":1}', "{}")]
    assert patched_annotations({}, [*both, {"annotations": {"k": "x"}}]) == {"k": '{"a":1}'}
