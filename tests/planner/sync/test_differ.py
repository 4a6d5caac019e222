"""A difference is one that matters: by the meaning of values, on the fields git names."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.change import MISSING, FieldChange
from gitkruise.planner.report.summary import summarize
from gitkruise.planner.sync.annotations import digest_of
from gitkruise.planner.sync.diff import all_differences, owned_differences

CATALOG = load_catalog()
Path = tuple[str | int, ...]


def paths(want: Any, live: Any, kind: str = "") -> list[str]:
    group, _, name = kind.rpartition("/")
    found = CATALOG.preferred(group, name) if kind else None
    changes = owned_differences(want, live, found.schema if found else None)
    return [".".join(map(str, change.path)) for change in changes]


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "app", **container}]}}


def limits(cpu: Any) -> dict[str, Any]:
    return pod(resources={"limits": {"cpu": cpu}})


INJECTED = {"spec": {"containers": [{"name": "proxy"}, {"name": "app", "image": "a"}]}}
PORTS = [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]
ROWS: list[tuple[str, Any, Any, str, list[str]]] = [
    ("equal", {"a": {"b": 1}}, {"a": {"b": 1}}, "", []),
    ("extra keys are others'", {"a": 1}, {"a": 1, "b": 2}, "", []),
    ("another value", {"a": {"b": 1}}, {"a": {"b": 2}}, "", ["a.b"]),
    ("absent", {"a": {"b": 1}}, {"a": {}}, "", ["a.b"]),
    ("null names nothing", {"a": None}, {"a": 1}, "", []),
    ("null for absent", {"a": None}, {}, "", []),
    ("empty for absent", {"a": {}, "b": [], "c": ""}, {}, "", []),
    ("an empty list that Go shows as null", {"rules": []}, {"rules": None}, "", []),
    ("false is not absent", {"a": False}, {}, "", ["a"]),
    ("0 is not absent", {"a": 0}, {}, "", ["a"]),
    ("false that Go omits", pod(tty=False, volumeMounts=[]), pod(), "Pod", []),
    (
        "false that Go keeps",
        {"automountServiceAccountToken": False},
        {},
        "",
        ["automountServiceAccountToken"],
    ),
    ("0 that Go omits", {"spec": {"minReadySeconds": 0}}, {"spec": {}}, "", []),
    ("not paused", {"spec": {"paused": False}}, {"spec": {}}, "", []),
    (
        "paused by another",
        {"spec": {"paused": False}},
        {"spec": {"paused": True}},
        "",
        ["spec.paused"],
    ),
    ("true is not 1", {"a": True}, {"a": 1}, "", ["a"]),
    ("1 is 1.0", {"a": 1}, {"a": 1.0}, "", []),
    ("text is not a number", {"a": "1"}, {"a": 1}, "", ["a"]),
    ("server's fields", {"status": {"x": 1}, "metadata": {"uid": "u"}}, {"metadata": {}}, "", []),
    ("versions are for reading", {"apiVersion": "apps/v1"}, {"apiVersion": "apps/v2"}, "", []),
    ("500m is 0.5", limits("500m"), limits("0.5"), "Pod", []),
    ("1 is 1000m", limits(1), limits("1000m"), "Pod", []),
    (
        "1Gi is not 1G",
        limits("1Gi"),
        limits("1G"),
        "Pod",
        ["spec.containers.0.resources.limits.cpu"],
    ),
    (
        "not a quantity elsewhere",
        {"data": {"cpu": "1"}},
        {"data": {"cpu": "1000m"}},
        "",
        ["data.cpu"],
    ),
    ("injected containers", pod(image="a"), INJECTED, "Pod", []),
    ("injected, without a schema", pod(image="a"), INJECTED, "", []),
    (
        "names that are no texts identify nothing",
        {"x": [{"name": ["a"]}]},
        {"x": [{"name": {"b": 1}}]},
        "",
        ["x.0.name"],
    ),
    ("keyed by name", pod(image="b"), INJECTED, "Pod", ["spec.containers.0.image"]),
    (
        "a keyed item is missing",
        pod(image="a"),
        {"spec": {"containers": []}},
        "Pod",
        ["spec.containers.0"],
    ),
    (
        "default of a key",
        {"spec": {"ports": [{"port": 80, "name": "x"}]}},
        {"spec": {"ports": [{**p, "name": "x"} for p in PORTS]}},
        "Service",
        [],
    ),
    (
        "a set in another order",
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["c", "b", "a"]}},
        "ConfigMap",
        [],
    ),
    (
        "a set lacks one",
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["c"]}},
        "ConfigMap",
        ["metadata.finalizers"],
    ),
    (
        "atomic lists count whole",
        pod(command=["a"]),
        pod(command=["a", "b"]),
        "Pod",
        ["spec.containers.0.command"],
    ),
    (
        "items of atomic lists",
        pod(args=["a", "b"]),
        pod(args=["b", "a"]),
        "Pod",
        ["spec.containers.0.args.0", "spec.containers.0.args.1"],
    ),
]


@pytest.mark.parametrize(
    ("want", "live", "kind", "changed"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_rows(want: Any, live: Any, kind: str, changed: list[str]) -> None:
    assert sorted(paths(want, live, kind)) == sorted(changed)


def test_between_two_commits_removals_count_too() -> None:
    before = {"spec": {"partition": 3, "replicas": 2}, "kind": "X"}
    after = {"spec": {"replicas": 4}, "kind": "X"}
    assert all_differences(before, after, None) == (
        FieldChange(path=("spec", "partition"), before=3, after=MISSING),
        FieldChange(path=("spec", "replicas"), before=2, after=4),
    )


def test_layout_is_no_content() -> None:
    one, two = {"a": 1, "b": {"c": [1, 2], "d": "x"}}, {"b": {"d": "x", "c": [1, 2]}, "a": 1}
    assert digest_of(one) == digest_of(two)
    assert digest_of(one) != digest_of({**one, "a": 2})


OBJ = pod(image="shop/web:v2")
IMAGE: Path = ("spec", "containers", 0, "image")
WORDS: list[tuple[list[tuple[Path, Any, Any]], str]] = [
    ([], ""),
    ([(IMAGE, "shop/web:v1", "shop/web:v2")], "app v1 → v2"),
    ([(IMAGE, "web@sha256:" + "a" * 64, "web")], "app sha256:aaaaaaaa → web"),
    (
        [(("spec", "partition"), 3, MISSING), (("spec", "replicas"), 2, 4)],
        "partition 3 → 0, replicas 2 → 4",
    ),
    ([(("spec", "paused"), MISSING, True)], "paused false → true"),
    ([(("spec", "x"), 1, 2)], "spec.x"),
    ([(("spec", "x"), 1, 2), (("spec", "y"), 1, 2)], "spec.x and 1 more"),
    ([(("spec", "replicas"), 1, 2), (("spec", "y"), 1, 2)], "replicas 1 → 2, 1 more field"),
]


@pytest.mark.parametrize(("changes", "text"), WORDS, ids=[row[1] or "nothing" for row in WORDS])
def test_a_change_in_a_few_words(changes: list[tuple[Path, Any, Any]], text: str) -> None:
    fields = [FieldChange(path=p, before=b, after=a) for p, b, a in changes]
    assert summarize(fields, OBJ) == text
