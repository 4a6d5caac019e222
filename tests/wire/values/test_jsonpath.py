"""Printer columns' paths lead where kubectl shows they lead."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import BadRequest
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.values.jsonpath import parse_json_path

OBJ = {
    "a": {"b": 1, "c.d": 2, "null": None},
    "list": [{"name": "x", "n": 1}, {"name": "y", "n": 2, "deep": {"z": True}}, "text"],
    "conditions": [
        {"type": "Ready", "status": "True"},
        {"type": "Other", "status": "False"},
    ],
}

ROWS: list[tuple[str, list[Any]]] = [
    (".a.b", [1]),
    ("{.a.b}", [1]),
    ("$.a.b", [1]),
    (".a['b']", [1]),
    ('.a["c.d"]', [2]),
    (r".a.c\.d", [2]),
    (".a.null", [None]),
    (".missing.b", []),
    (".a.b.c", []),
    (".list[0].name", ["x"]),
    (".list[-1]", ["text"]),
    (".list[7]", []),
    (".list[*].name", ["x", "y"]),
    (".a[*]", [1, 2, None]),
    (".a.*", [1, 2, None]),
    ('.conditions[?(@.type=="Ready")].status', ["True"]),
    (".conditions[?(@.type=='Other')].status", ["False"]),
    (".conditions[?(@.type != 'Ready')].status", ["False"]),
    (".list[?(@.n>1)].name", ["y"]),
    (".list[?(@.n<=1)].name", ["x"]),
    (".list[?(@.deep.z==true)].name", ["y"]),
    (".list[?(@.deep)].name", ["y"]),
    (".list[?(@.n=='1')].name", []),
    (".", [OBJ]),
]


@pytest.mark.parametrize(("text", "found"), ROWS)
def test_paths(text: str, found: list[Any]) -> None:
    path = parse_json_path(text)
    assert path.find_all(OBJ) == found


@pytest.mark.parametrize("text", ["a.b", ".a[", ".a[x]", ".a[?(@.b==x)]", "..a", ".a[1:2]", ".a b"])
def test_bad_paths(text: str) -> None:
    with pytest.raises(BadRequest, match="JSON path"):
        parse_json_path(text)


def test_results_are_limited() -> None:
    many = {"a": [{"b": list(range(200))}] * 200}
    with pytest.raises(BadRequest, match="more than 10000 values"):
        parse_json_path(".a[*].b[*]").find_all(many)


def test_every_column_of_the_catalog_can_be_read() -> None:
    columns = [column for kind in load_catalog().kinds() for column in kind.columns]
    assert len(columns) > 40
    for column in columns:
        assert parse_json_path(column.json_path).steps
