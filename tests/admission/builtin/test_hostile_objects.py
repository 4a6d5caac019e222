"""Admission answers malformed objects with an API error or an object, never with a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.primitives.paths import put
from tests.admission.writes import refusal, stored

ORACLE = Path(__file__).parents[2] / "oracle"
CLONESET: dict[str, Any] = json.loads((ORACLE / "revisions.jsonl").read_text().split("\n")[0])[
    "manifest"
]
POD: dict[str, Any] = json.loads((ORACLE / "pods.jsonl").read_text().split("\n")[0])["pod"]
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {"selector": CLONESET["spec"]["selector"], "template": CLONESET["spec"]["template"]},
}
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 2**40, 1.5, "", "x", "1Gi", "50%", [], [None], ["x"], [{}], {}, {"x": None},
     {"x": {}}, [[]], "\ud800", "1e99"]
)  # fmt: skip
Position = tuple[str | int, ...]


def positions(value: Any, at: Position = ()) -> Iterator[Position]:
    if at:
        yield at
    pairs = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, item in pairs:
        yield from positions(item, (*at, step))


def below(kind: str, top: Position) -> list[Position]:
    obj = {"CloneSet": CLONESET, "Pod": POD, "Deployment": DEPLOYMENT}[kind]
    node: Any = obj
    for step in top:
        node = node[step]
    return [(*top, *position) for position in positions(node)]


@pytest.mark.slow
@given(st.sampled_from(below("CloneSet", ("spec",))), JUNK)
def test_clonesets(position: Position, junk: Any) -> None:
    broken = put(CLONESET, position, junk)
    error = refusal(broken)
    assert error is None or error.status in (400, 422)
    if error is None:
        once = stored(broken)
        assert stored(once, once) == once


@given(st.sampled_from(below("Pod", ("spec",))), JUNK)
def test_pods(position: Position, junk: Any) -> None:
    error = refusal(put(POD, position, junk))
    assert error is None or error.status in (400, 403, 422)


@given(st.sampled_from(below("Deployment", ("spec", "template"))), JUNK)
def test_deployments(position: Position, junk: Any) -> None:
    error = refusal(put(DEPLOYMENT, position, junk))
    assert error is None or error.status in (400, 422)


@pytest.mark.parametrize("spec", [None, {}, {"selector": None}, {"template": {"spec": {}}}])
def test_specs_with_nothing_in_them(spec: dict[str, Any] | None) -> None:
    error = refusal({**CLONESET, "spec": spec})
    assert error
    assert error.status == 422
