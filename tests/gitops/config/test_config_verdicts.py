"""The quick check of our own documents passes nothing that the published schema refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema
import pytest

from gitkruise.gitops.config.fast_validate import sound
from gitkruise.kube.system.package_data import read_json
from gitkruise.model.gitops.config import SPECS
from gitkruise.wire.primitives.names import OWN_API, OWN_GROUP
from gitkruise.wire.primitives.paths import drop, put

VALUES: Final[tuple[Any, ...]] = (
    1, -1, 10**9, 1.5, "", "word", True, None, [], [1], ["word"], {}, {"strange": 1}, {"name": ""},
)  # fmt: skip
LEAST: Final[dict[str, dict[str, Any]]] = {
    "GitSource": {"url": "."},
    "Unit": {"sourceRef": {"name": "src"}},
    "Sink": {"git": {"sourceRef": {"name": "src"}}},
    "Receiver": {"type": "github", "secretRef": {"name": "key"}},
}


def paths(schema: Mapping[str, Any], at: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field the schema names, elements of lists by their first."""
    for name, inner in (schema.get("properties") or {}).items():
        yield (*at, name)
        yield from paths(inner, (*at, name))
        if "items" in inner:
            yield (*at, name, 0)
            yield from paths(inner["items"], (*at, name, 0))


def documents(kind: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    least = {
        "apiVersion": OWN_API, "kind": kind, "metadata": {"name": "x"}, "spec": LEAST[kind],
    }  # fmt: skip
    yield least
    for path in (*paths(schema), ("metadata", "name"), ("metadata", "labels"), ("strange",)):
        if path[0] in {"apiVersion", "kind"}:
            continue  # judged before either
        whole = drop(least, path)
        yield whole
        for value in VALUES:
            yield _with(least, path, value)


def _with(obj: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """`put` that makes the lists on the way, too."""
    for end in range(1, len(path)):
        if path[end] == 0:
            inner = _with({}, path[end + 1 :], value) if path[end + 1 :] else value
            return put(obj, path[:end], [inner])
    return put(obj, path, value)


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_what_stands_is_valid(kind: str) -> None:
    schema = read_json("json", f"{kind}-{OWN_GROUP}-v1alpha1.json")
    oracle = jsonschema.Draft202012Validator(schema)
    seen = {True: 0, False: 0}
    for document in documents(kind, schema):
        stands = sound(schema, document)
        seen[stands] += 1
        if stands:
            assert oracle.is_valid(document), document
    assert min(seen.values()) > 20
