"""Whose value a field has, by managedFields of the version of git or of another one."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.gitops.change import FieldChange
from gitkruise.planner.sync.annotations import MANAGER
from gitkruise.planner.sync.field_owners import field_owners, set_by_server
from gitkruise.wire.primitives.names import Obj

GIT: Obj = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "CloneSet",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "updateStrategy": {"partition": 2},
        "template": {"spec": {"containers": [{"name": "main", "image": "app:v1"}]}},
    },
}
IMAGE = ("spec", "template", "spec", "containers", 0, "image")
REPLICAS = ("spec", "replicas")
PARTITION = ("spec", "updateStrategy", "partition")


def entry(manager: str, operation: str, version: str, spec: Any) -> Obj:
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": spec},
            "apiVersion": f"apps.kruise.io/{version}"}  # fmt: skip


def ours(version: str, **strategy: Any) -> Obj:
    spec = {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {}}},
            "f:updateStrategy": strategy}  # fmt: skip
    return entry(MANAGER, "Apply", version, spec)


TYPE: Obj = {"f:type": {}}
ALPHA: Obj = {"f:partition": {}}
BETA: Obj = {"f:rollingUpdate": ALPHA}
PERSON = entry("kubectl", "Update", "v1beta1", {"f:updateStrategy": BETA})


@pytest.mark.parametrize(
    ("entries", "path", "webhook"),
    [
        ([ours("v1alpha1", **ALPHA)], REPLICAS, True),
        ([ours("v1beta1", **BETA)], REPLICAS, True),
        ([ours("v1beta1", **BETA)], IMAGE, True),
        ([ours("v1beta1", **TYPE), PERSON], IMAGE, True),
        ([ours("v1beta1", **TYPE), PERSON], PARTITION, False),
        ([ours("v1alpha1", **ALPHA)], PARTITION, True),
        (
            [ours("v1beta1", **BETA), entry("hpa", "Update", "v1", {"f:replicas": {}})],
            REPLICAS,
            False,
        ),
        ([PERSON], REPLICAS, False),
        (
            [ours("v1beta1", **TYPE), entry("kubectl", "Update", "v1alpha1", ALPHA)],
            PARTITION,
            False,
        ),
        ([{**ours("v1beta1", **BETA), "subresource": "scale"}], REPLICAS, False),
    ],
)
def test_a_webhook_sets_what_has_no_other_owner(
    entries: list[Obj], path: Any, webhook: bool
) -> None:
    owners = field_owners(entries, GIT, path)
    change = FieldChange(path=path, before="theirs", after="git's", owners=owners)
    assert set_by_server(entries, GIT, change) is webhook
