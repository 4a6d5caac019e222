"""Roles, bindings and priorities are stored and refused as a kube-apiserver does it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.paths import put
from tests.admission.writes import admitted, fields, refusal

GROUP: Final = "rbac.authorization.k8s.io"
PODS: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
PAGES: Final = {"nonResourceURLs": ["/x"], "verbs": ["get"]}


def rbac(kind: str, **content: Any) -> dict[str, Any]:
    meta = {"name": "x"}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": meta, **content}


def binding(kind: str = "RoleBinding", to: str = "Role", *subjects: Any) -> dict[str, Any]:
    return rbac(kind, roleRef={"kind": to, "name": "x"}, subjects=list(subjects))


def priority(value: int) -> dict[str, Any]:
    api = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**api, "metadata": {"name": "x"}, "value": value}


ACCOUNT: Final = {"kind": "ServiceAccount", "name": "robot"}
USER: Final = {"kind": "User", "name": "me"}


def test_a_binding_names_the_group_of_what_it_binds() -> None:
    stored = admitted(binding("RoleBinding", "Role", USER, ACCOUNT))
    assert stored["roleRef"] == {"apiGroup": GROUP, "kind": "Role", "name": "x"}
    assert stored["subjects"] == [{**USER, "apiGroup": GROUP}, ACCOUNT]
    assert admitted(stored, stored) == stored


@pytest.mark.parametrize(
    ("obj", "refused"),
    [
        (rbac("Role", rules=[PODS]), set()),
        (rbac("Role", rules=[PAGES]), {"rules[0].nonResourceURLs"}),
        (rbac("ClusterRole", rules=[PAGES]), set()),
        (rbac("ClusterRole", rules=[PODS | PAGES]), {"rules[0].nonResourceURLs"}),
        (rbac("ClusterRole", rules=[{}]),
         {"rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"}),
        (rbac("ClusterRole", aggregationRule={"clusterRoleSelectors": []}),
         {"aggregationRule.clusterRoleSelectors"}),
        (binding(), set()),
        (binding("ClusterRoleBinding", "ClusterRole", USER), set()),
        (binding("ClusterRoleBinding", "Role"), {"roleRef.kind"}),
        (binding("ClusterRoleBinding", "ClusterRole", ACCOUNT), {"subjects[0].namespace"}),
        (binding("RoleBinding", "Role", {"kind": "Robot", "name": "x"}), {"subjects[0].kind"}),
        (binding("RoleBinding", "Role", {"kind": "User"}), {"subjects[0].name"}),
        (binding("RoleBinding", "Role", {**USER, "apiGroup": "v1"}), {"subjects[0].apiGroup"}),
        (binding("RoleBinding", "Role", {**ACCOUNT, "apiGroup": GROUP}), {"subjects[0].apiGroup"}),
        (rbac("RoleBinding"), {"roleRef.kind", "roleRef.name"}),
        (priority(1_000_000_000), set()),
        (priority(1_000_000_001), {"value"}),
    ],
)  # fmt: skip
def test_creates(obj: dict[str, Any], refused: set[str]) -> None:
    assert fields(refusal(obj)) == refused


@pytest.mark.parametrize(
    ("old", "path", "value", "refused"),
    [
        (binding(), ("roleRef", "name"), "y", {"roleRef"}),
        (binding(), ("subjects",), [USER], set()),
        (priority(1), ("value",), 2, {"value"}),
        (priority(1), ("preemptionPolicy",), "Never", {"preemptionPolicy"}),
        (priority(1), ("description",), "low", set()),
    ],
)
def test_updates(old: dict[str, Any], path: tuple[str, ...], value: Any, refused: set[str]) -> None:
    stored = admitted(old)
    assert fields(refusal(put(stored, path, value), stored)) == refused
